"""Crowded clusters, from one first cluster: Julia by both ratios beside the built-in sampler, with each start.

    python scripts/crowded.py                          five data sets of each size, 20,000 points, 200 iterations
    python scripts/crowded.py --points 4000 --sets 2   less of it

Every sampler has the same prior, concentration and number of iterations. NMI and clusters are means over the data sets,
seconds are medians, of the sampling alone. Rows are printed as they are done; without Julia its columns are missing.
"""

from __future__ import annotations

import argparse
import time
import warnings

import numpy as np
from sklearn.metrics import normalized_mutual_info_score

from dpmmwrap import DPMM, NIW
from dpmmwrap.backends import julia
from dpmmwrap.datasets import generate

SIZES = ((2, 10, 50), (2, 20, 50), (2, 40, 50), (3, 40, 20), (5, 20, 10), (10, 20, 10), (20, 20, 10))
STARTS = ("random", "kmeans", "splitnet")
SAMPLERS = {
    "Julia, jain-neal": {"backend": "julia", "acceptance_ratio": "jain-neal"},
    "Julia, reference": {"backend": "julia", "acceptance_ratio": "reference"},
    "built in": {"backend": "native", "n_jobs": 1},
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--sets", type=int, default=5)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if julia.is_set_up():
        # Before torch is imported.
        julia.start_julia()
    names = [name for name in SAMPLERS if not name.startswith("Julia") or julia.is_set_up()]
    print("| D, clusters, spread | start | " + " | ".join(f"{name}: NMI (clusters), s" for name in names) + " |")
    print("|---|---|" + "---|" * len(names), flush=True)
    for size in SIZES:
        sets = [generate(size[0], size[1], arguments.points, size[2], seed) for seed in range(arguments.sets)]
        for start in STARTS:
            # In turn, so that a busy machine is busy for all.
            found: dict[str, list[tuple[float, int, float]]] = {name: [] for name in names}
            for data in sets:
                for name in names:
                    found[name].append(measured(data, SAMPLERS[name], start, arguments.iterations))
            cells = [cell(found[name]) for name in names]
            print(f"| {', '.join(map(str, size))} | {start} | " + " | ".join(cells) + " |", flush=True)


def measured(data, sampler, start: str, iterations: int) -> tuple[float, int, float]:
    options = {"covariance_type": "full", "alpha": 10.0, "n_chains": 1, "init_clusters": 1, "random_state": 0}
    model = DPMM(prior=NIW.from_data(data.X), init=start, max_iter=iterations, **options, **sampler)
    begun = time.perf_counter()
    model.fit(data.X)
    seconds = time.perf_counter() - begun - model.startup_seconds_
    return normalized_mutual_info_score(data.y, model.labels_), model.n_clusters_, seconds


def cell(found: list[tuple[float, int, float]]) -> str:
    nmi, clusters, seconds = zip(*found, strict=True)
    return f"{np.mean(nmi):.3f} ({np.mean(clusters):.1f}), {np.median(seconds):.1f}"


if __name__ == "__main__":
    main()
