"""Runs of the built-in sampler beside the reference package's, on the same data under the same settings.

The reference's 40 runs on each data set are in tests/data/reference_runs.json; this prints both, side by side.

    python scripts/compare_reference.py [--runs 40]
"""

from __future__ import annotations

import argparse
import json
from collections import Counter
from pathlib import Path

import numpy as np

from dpmmwrap.backends import Native
from dpmmwrap.estimator import DPMM

DATA = Path(__file__).parents[1] / "tests" / "data"


def ours(X: np.ndarray, y: np.ndarray, seed: int) -> tuple[int, float, float]:
    """The reference's settings: one first cluster, random starts, its prior, no fresh starts."""
    model = DPMM(
        init="random", init_clusters=1, max_iter=100, prior="reference", random_state=seed,
        backend=Native(ratio="reference", restart_after=None, min_cluster_age=5),
    ).fit(X, truth=y)  # fmt: skip
    return model.n_clusters_, model.log_posterior_, float(model.trace_.nmi[-1])


def describe(name: str, clusters: list[int], log_posterior: list[float], nmi: list[float]) -> str:
    counts = ", ".join(f"{k}: {n}" for k, n in sorted(Counter(clusters).items()))
    low, middle, high = np.quantile(log_posterior, [0.1, 0.5, 0.9])
    return (
        f"  {name:10s} log posterior {np.mean(log_posterior):9.1f} (10% {low:.1f}, 50% {middle:.1f}, 90% {high:.1f})"
        f"  NMI {np.mean(nmi):.3f}  clusters {{{counts}}}"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=40)
    runs = parser.parse_args().runs
    data = np.load(DATA / "reference_data.npz")
    for name, reference in json.loads((DATA / "reference_runs.json").read_text())["runs"].items():
        X, y = data[f"X_{name}"], data[f"y_{name}"]
        print(f"{name}: {len(X)} points, {X.shape[1]} dimensions, {reference['true_clusters']} true clusters")
        print(describe("reference", reference["n_clusters"], reference["log_posterior"], reference["nmi"]))
        clusters, log_posterior, nmi = zip(*(ours(X, y, seed) for seed in range(runs)), strict=True)
        print(describe("built in", list(clusters), list(log_posterior), list(nmi)))


if __name__ == "__main__":
    main()
