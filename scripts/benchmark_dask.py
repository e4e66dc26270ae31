"""The built-in sampler on Dask's workers against threads of one process: time, bytes and start-up.

The same chain runs in one process with two threads, on two workers and on four, in turn for one iteration each, so that
other work on the machine affects all alike.
"""

from __future__ import annotations

import contextlib
import statistics
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from distributed import Client, LocalCluster

from dpmmwrap import DPMM, NIW
from dpmmwrap.backends.dask import on_workers
from dpmmwrap.backends.dask.files import open_lazily
from dpmmwrap.datasets import generate
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.sampler.chain import Chain
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.starts import make_initializer

DIM, CLUSTERS, SPREAD = 10, 20, 10
ROWS = (20_000, 1_000_000, 10_000_000)
WORKERS = (2, 4)
CALLED = (1, 2, 4, 8)
LONGEST = 60.0
"""Seconds of iterations of each kind at most."""

Row = dict[str, Any]


def rows() -> list[Row]:
    """One for each number of points."""
    with tempfile.TemporaryDirectory() as folder:
        return [row_of(count, Path(folder)) for count in ROWS]


def row_of(count: int, folder: Path) -> Row:
    data = generate(DIM, CLUSTERS, count, SPREAD, 0)
    path = folder / "points.npy"
    np.save(path, data.X)
    prior = NIW.from_data(data.X)
    with contextlib.ExitStack() as stack:
        kinds = {"two threads": chain_of(data.X, data.y, prior, 2)}
        remote = {}
        for workers in WORKERS:
            remote[workers] = stack.enter_context(remote_chain(path, data.y, prior, workers))
            kinds[f"{workers} workers"] = remote[workers].chain
        times = in_turn(kinds)
        row: Row = {"N": count, **{f"{kind} ms": 1e3 * median for kind, median in times.items()}}
        for workers in WORKERS:
            row[f"{workers} workers / threads"] = times[f"{workers} workers"] / times["two threads"]
        sweep = remote[2].points.cluster.traffic["sweep"]
        row["bytes out"], row["bytes in"] = sweep.sent // sweep.calls, sweep.received // sweep.calls
    row["start-up s"] = start_up(path, data.y)
    return row


def calls() -> list[Row]:
    """One for each number of workers: the bytes of a sweep are sent, and nothing is computed."""
    found = []
    with tempfile.TemporaryDirectory() as folder:
        data = generate(DIM, CLUSTERS, 100_000, SPREAD, 0)
        path, prior = Path(folder) / "points.npy", NIW.from_data(data.X)
        np.save(path, data.X)
        for workers in CALLED:
            with remote_chain(path, data.y, prior, workers) as remote:
                cluster, sent = remote.points.cluster, np.zeros(3 * CLUSTERS * (DIM * DIM + DIM + 1))
                times = []
                for _ in range(150):
                    begun = time.perf_counter()
                    cluster.ask(0, query=("labels_at", (sent.view(np.int64) - 1,)))
                    times.append(time.perf_counter() - begun)
                found.append({"workers": len(cluster.owner), "ms": 1e3 * statistics.median(times)})
    return found


def settings_of(prior: Any, labels: Any, n_jobs: int) -> Settings:
    return Settings(
        DirichletProcess(), prior, make_initializer("kmeans"), max_iter=10**6, min_cluster_age=3, seed=0,
        init_clusters=labels, restart_after=10, n_jobs=n_jobs,
    )  # fmt: skip


def chain_of(X: Any, labels: Any, prior: Any, n_jobs: int) -> Chain:
    settings = settings_of(prior, labels, n_jobs)
    settings.bind(X, settings.full_ratio)
    chain = Chain(X, settings)
    chain.begin()
    return chain


@contextlib.contextmanager
def remote_chain(path: Path, labels: Any, prior: Any, workers: int) -> Any:
    with LocalCluster(n_workers=workers, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster):
        estimator: Any = SimpleNamespace(family="gaussian", prior=prior, covariance_type="full")
        with on_workers(estimator, open_lazily([path]).X) as read:
            read.points.use_family(prior)
            yield SimpleNamespace(chain=chain_of(read.points, labels, prior, 1), points=read.points)


def in_turn(chains: dict[str, Chain]) -> dict[str, float]:
    """The median time of an iteration of each."""
    times: dict[str, list[float]] = {kind: [] for kind in chains}
    begun = time.perf_counter()
    while time.perf_counter() - begun < LONGEST * len(chains) and len(times["two threads"]) < 200:
        for kind, chain in chains.items():
            start = time.perf_counter()
            chain.iterate()
            times[kind].append(time.perf_counter() - start)
    # The first ones load compiled loops.
    return {kind: statistics.median(own[2:]) for kind, own in times.items()}


def start_up(path: Path, labels: Any) -> float:
    """Seconds to the first iteration of a fit, on two running workers."""
    with LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=":0") as cluster, Client(cluster):
        lazy, heard = open_lazily([path]).X, []
        model = DPMM(covariance_type="full", init="kmeans", max_iter=1, random_state=0)
        begun = time.perf_counter()
        model.fit(lazy, progress=lambda *_: heard.append(time.perf_counter()))
        return heard[0] - begun
