"""Crowded clusters, from one first cluster: Julia by both ratios beside the built-in sampler, with each start.

    python scripts/crowded.py                             five data sets of each size, 20,000 points, 200 iterations
    python scripts/crowded.py --points 4000 --sets 2      less of it
    python scripts/crowded.py --results crowded.csv       keep every fit; what is in the file already is not run again
    python scripts/crowded.py --results crowded.csv --show median     the table of what the file has, nothing is run

Every sampler has the same prior, concentration and number of iterations. NMI and clusters are means (or medians) over
the data sets. Seconds are medians, of processor time, so that it does not matter what else the machine does; starting
and compiling are not in them. Rows are printed as they are done; without Julia its columns are missing.
"""

from __future__ import annotations

import argparse
import csv
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.metrics import normalized_mutual_info_score

from dpmmwrap import DPMM, NIW, Julia
from dpmmwrap.backends import julia
from dpmmwrap.datasets import generate

SIZES = (
    (2, 40, 50),
    (2, 40, 200),
    (3, 40, 20),
    (10, 20, 10),
    (2, 20, 50),
    (2, 10, 50),
    (20, 20, 10),
    (5, 20, 10),
)
STARTS = ("random", "kmeans", "splitnet")
SAMPLERS = {
    "Julia, jain-neal": {"backend": Julia(ratio="jain-neal")},
    "Julia, reference": {"backend": Julia(ratio="reference")},
    "built in": {"backend": "native", "n_jobs": 1},
}
AVERAGES = {"mean": np.mean, "median": np.median}


class Case(NamedTuple):
    """One fit: what a row of the results begins with."""

    dim: int
    clusters: int
    spread: int
    points: int
    iterations: int
    number: int
    start: str
    sampler: str


class Outcome(NamedTuple):
    """What came of it: the rest of the row."""

    nmi: float
    found: int
    log_posterior: float
    seconds: float


Results = dict[Case, Outcome]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--points", type=int, default=20_000)
    parser.add_argument("--iterations", type=int, default=200)
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--results", type=Path, help="a CSV file, made or gone on with")
    parser.add_argument("--show", choices=AVERAGES, help="only show what the results have, by this average")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    results = read(arguments.results)
    names = samplers_here(results, arguments)
    print("| D, clusters, spread | start | " + " | ".join(f"{name}: NMI (clusters), s" for name in names) + " |")
    print("|---|---|" + "---|" * len(names), flush=True)
    if not arguments.show:
        compile_all(names)
    for size in SIZES:
        for start in STARTS:
            if not arguments.show:
                run(results, cases(size, start, names, arguments), arguments.results)
            cells = [cell(results, cases(size, start, [name], arguments), arguments.show or "mean") for name in names]
            print(f"| {', '.join(map(str, size))} | {start} | " + " | ".join(cells) + " |", flush=True)


def samplers_here(results: Results, arguments: argparse.Namespace) -> list[str]:
    if arguments.show:
        return [name for name in SAMPLERS if any(case.sampler == name for case in results)]
    if julia.is_set_up():
        # Before torch is imported.
        julia.start_julia()
        return list(SAMPLERS)
    return [name for name in SAMPLERS if not name.startswith("Julia")]


def cases(size: tuple[int, int, int], start: str, names: list[str], arguments: argparse.Namespace) -> list[Case]:
    """The fits of a row, all samplers of a data set in turn, so that a busy machine is busy for all."""
    return [
        Case(*size, arguments.points, arguments.iterations, number, start, name)
        for number in range(arguments.sets)
        for name in names
    ]


def run(results: Results, wanted: list[Case], path: Path | None) -> None:
    """Those of these fits that have no results yet."""
    for case in wanted:
        if case not in results:
            results[case] = measured(case)
            keep(path, case, results[case])


def compile_all(names: list[str]) -> None:
    """Small fits, so that those that are measured have nothing to compile or to load."""
    for start in STARTS:
        for name in names:
            measured(Case(2, 10, 50, 1000, 30, 0, start, name))


def measured(case: Case) -> Outcome:
    data = generate(case.dim, case.clusters, case.points, case.spread, case.number)
    options = {"covariance_type": "full", "alpha": 10.0, "n_chains": 1, "init_clusters": 1, "random_state": 0}
    prior = NIW.from_data(data.X)
    model = DPMM(prior=prior, init=case.start, max_iter=case.iterations, **options, **SAMPLERS[case.sampler])
    begun = time.process_time()
    model.fit(data.X)
    seconds = time.process_time() - begun
    nmi = normalized_mutual_info_score(data.y, model.labels_)
    return Outcome(float(nmi), model.n_clusters_, float(model.trace_.log_posterior[-1]), seconds)


def read(path: Path | None) -> Results:
    if path is None or not path.exists():
        return {}
    with path.open(newline="", encoding="utf-8") as file:
        return dict(map(understood, csv.DictReader(file)))


def understood(row: dict[str, str]) -> tuple[Case, Outcome]:
    numbers = (int(row[name]) for name in Case._fields[:-2])
    outcome = Outcome(float(row["nmi"]), int(row["found"]), float(row["log_posterior"]), float(row["seconds"]))
    return Case(*numbers, row["start"], row["sampler"]), outcome


def keep(path: Path | None, case: Case, outcome: Outcome) -> None:
    if path is None:
        return
    new = not path.exists()
    with path.open("a", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        if new:
            writer.writerow([*Case._fields, *Outcome._fields])
        writer.writerow([*case, *outcome])


def cell(results: Results, wanted: list[Case], average: str) -> str:
    found = [results[case] for case in wanted if case in results]
    if not found:
        return ""
    middle = AVERAGES[average]
    nmi, clusters = middle([one.nmi for one in found]), middle([one.found for one in found])
    short = "" if len(found) == len(wanted) else f" ({len(found)} of {len(wanted)} sets)"
    return f"{nmi:.3f} ({clusters:.1f}), {np.median([one.seconds for one in found]):.1f}{short}"


if __name__ == "__main__":
    main()
