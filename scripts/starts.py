"""Whole fits from SplitNet's starts beside those from 2-means: what a start is worth, and what it costs.

    python scripts/starts.py                           all tables
    python scripts/starts.py crowded search            some of them
    python scripts/starts.py search --points 1000000   with a million points

crowded     NMI and clusters of fits to crowded data sets of `dpmmwrap generate`, by iterations
search      iterations and seconds until the log posterior is within 0.1% of the best end of both
dimensions  round and other clusters in 32 to 512 dimensions
cost        milliseconds of a start, for 1,000 points of a cluster

Medians of five data sets. One chain from one cluster, one thread; both starts in turn.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.metrics import normalized_mutual_info_score
from threadpoolctl import threadpool_limits

from dpmmwrap.backends import Native
from dpmmwrap.datasets import generate
from dpmmwrap.estimator import DPMM
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.starts import SplitCriterion, make_initializer

STARTS = ("kmeans", "splitnet")
CROWDED = ((2, 20, 50.0), (2, 40, 50.0), (2, 40, 200.0), (3, 40, 20.0), (5, 40, 10.0), (10, 20, 10.0))
SEARCHED = ((2, 40, 50.0), (10, 40, 10.0))
CLOSE = 0.001
"""A log posterior within this share of the final one counts as equal to it."""


def fit(X: Any, start: str, seed: int, **settings: Any) -> DPMM:
    options: dict[str, Any] = {"covariance_type": "full", "max_iter": 60, "init_clusters": 1, "n_chains": 1, **settings}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return DPMM(init=start, backend=Native(n_jobs=1), random_state=seed, **options).fit(X)


def medians(rows: Sequence[Sequence[float]]) -> list[float]:
    return [float(value) for value in np.median(np.asarray(rows, dtype=np.float64), axis=0)]


def crowded(sets: int, points: int) -> None:
    print(
        "| dimension, clusters, spread | start | NMI (clusters) after 10 | 30 | 60 iterations |\n|---|---|---|---|---|"
    )
    for dim, clusters, spread in CROWDED:
        found: dict[str, list[list[float]]] = {start: [] for start in STARTS}
        for seed in range(sets):
            data = generate(dim, clusters, min(points, 20_000), spread, seed)
            for start in STARTS:
                models = [fit(data.X, start, seed, max_iter=iterations) for iterations in (10, 30, 60)]
                scores = [normalized_mutual_info_score(data.y, model.labels_) for model in models]
                found[start].append([*scores, *(model.n_clusters_ for model in models)])
        for start, rows in found.items():
            middle = medians(rows)
            cells = " | ".join(f"{middle[i]:.3f} ({middle[3 + i]:.0f})" for i in range(3))
            print(f"| {dim}, {clusters}, {spread:g} | {start} | {cells} |", flush=True)


def search(sets: int, points: int) -> None:
    print("| dimension, clusters, spread | start | iterations | seconds | end |\n|---|---|---|---|---|")
    for dim, clusters, spread in SEARCHED:
        found: dict[str, list[list[float]]] = {start: [] for start in STARTS}
        for seed in range(sets):
            X = generate(dim, clusters, points, spread, seed).X
            # Not learned, so that log posteriors compare.
            traces = {start: fit(X, start, seed, prior=NIW.from_data(X), alpha=10.0).trace_ for start in STARTS}
            end = max(float(trace.log_posterior.max()) for trace in traces.values())
            for start, trace in traces.items():
                there = trace.log_posterior >= end - CLOSE * abs(end)
                iterations = int(there.argmax()) + 1 if there.any() else len(trace)
                seconds = float(trace.seconds[:iterations].sum())
                found[start].append([iterations, seconds, float(trace.log_posterior.max()) - end])
        for start, rows in found.items():
            iterations, seconds, below = medians(rows)
            cells = f"{iterations:.0f} | {seconds:.1f} | {below:,.0f}"
            print(f"| {dim}, {clusters}, {spread:g}; {points:,} points | {start} | {cells} |", flush=True)


def dimensions(sets: int, points: int) -> None:
    print("| data | covariances | start | clusters | NMI | log posterior | seconds |\n|---|---|---|---|---|---|---|")
    kinds = [("round", "spherical", dim) for dim in (32, 128, 512)]
    kinds += [("round", "diag", dim) for dim in (32, 128)]
    kinds += [("any covariance", "full", dim) for dim in (32, 64)]
    for name, covariance, dim in kinds:
        found: dict[str, list[list[float]]] = {start: [] for start in STARTS}
        for seed in range(sets):
            data = generate(dim, 20, min(points, 4000), 4.0, seed, round=name == "round")
            for start in STARTS:
                begun = time.perf_counter()
                model = fit(data.X, start, seed, covariance_type=covariance)
                nmi = normalized_mutual_info_score(data.y, model.labels_)
                seconds = time.perf_counter() - begun
                found[start].append([model.n_clusters_, nmi, float(model.log_posterior_), seconds])
        for start, rows in found.items():
            clusters, nmi, log_posterior, seconds = medians(rows)
            cells = f"{clusters:.0f} | {nmi:.3f} | {log_posterior:,.0f} | {seconds:.1f}"
            print(f"| {name}, D = {dim} | {covariance} | {start} | {cells} |", flush=True)


def cost(sets: int, points: int) -> None:
    print("| D | start | one cluster, ms | of ten clusters at once, ms each |\n|---|---|---|---|")
    for dim in (2, 5, 10, 20):
        rng = np.random.default_rng(dim)
        X = rng.standard_normal((10_000, dim)).astype(np.float32)
        group = rng.random(10_000) < 0.4
        X[group] = 0.5 * X[group] + 1
        members = list(np.arange(10_000).reshape(10, 1000))
        starts = {name: make_initializer(name) for name in STARTS}
        times: dict[str, list[list[float]]] = {name: [] for name in STARTS}
        for start in starts.values():
            start.bind(X, SplitCriterion(NIW.reference(dim), DirichletProcess(10.0)))
            start(members, rng)
        for repetition in range(10 * sets):
            for name, start in starts.items():
                # Of the processor: others may be at work on it.
                moments = [time.process_time()]
                for chosen in ([members[repetition % 10]], members):
                    start(chosen, rng)
                    moments.append(time.process_time())
                one, ten = np.diff(moments) * 1e3
                times[name].append([one, ten / 10])
        for name, rows in times.items():
            one, ten = medians(rows)
            print(f"| {dim} | {name} | {one:.2f} | {ten:.2f} |", flush=True)


TABLES = {"crowded": crowded, "search": search, "dimensions": dimensions, "cost": cost}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(TABLES))
    parser.add_argument("--sets", type=int, default=5)
    parser.add_argument("--points", type=int, default=100_000)
    chosen = parser.parse_args()
    if unknown := set(chosen.tables) - set(TABLES):
        parser.error(f"there is no table {', '.join(sorted(unknown))}")
    with threadpool_limits(1):
        for name in chosen.tables or TABLES:
            TABLES[name](chosen.sets, chosen.points)
            print(flush=True)


if __name__ == "__main__":
    main()
