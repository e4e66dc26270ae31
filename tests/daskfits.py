"""Fits on Dask that several tests compare with fits on one machine, and workers that are killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import numpy as np
from distributed import LocalCluster
from processes import running
from scipy.sparse import csr_array

import dpmmwrap
from dpmmwrap import DPMM

ROWS = 40_000
"""Four chunks, so that up to four workers have something to do."""
BLOCK = 7_000
"""Rows of a block: not those of chunks."""
OTHER = {"partition_prior": "pitman-yor"}


def points(rows: int = ROWS, dim: int = 3, clusters: int = 5, dtype: Any = np.float32) -> tuple[Any, Any]:
    rng = np.random.default_rng(0)
    means, widths = 5 * rng.normal(size=(clusters, dim)), rng.uniform(0.5, 1.5, (clusters, dim))
    labels = rng.integers(0, clusters, rows)
    return (means[labels] + rng.normal(size=(rows, dim)) * widths[labels]).astype(dtype), labels


def counts(rows: int = ROWS) -> Any:
    rng = np.random.default_rng(1)
    return rng.poisson(rng.gamma(0.3, 3, (4, 30))[rng.integers(0, 4, rows)]).astype(np.float32)


def events(rows: int = ROWS) -> Any:
    """Counts of six kinds of events, and for how long they were counted."""
    rng = np.random.default_rng(2)
    months = rng.integers(1, 25, rows)
    rates = rng.gamma(1.0, 1.0, (4, 6))[rng.integers(0, 4, rows)]
    return np.column_stack([rng.poisson(rates * months[:, None]), months]).astype(np.float32)


def lazy(X: Any) -> Any:
    """A Dask array of blocks, sparse ones if X is sparse."""
    if not hasattr(X, "indptr"):
        return da.from_array(X, chunks=(BLOCK, -1))
    blocks = [X[begin : begin + BLOCK] for begin in range(0, X.shape[0], BLOCK)]
    return da.concatenate(
        [da.from_delayed(dask.delayed(block), block.shape, dtype=X.dtype, meta=X[:0]) for block in blocks]
    )


def case(kind: str) -> tuple[Any, dict[str, Any]]:
    """Data and settings of each kind of fit."""
    X, labels = points()
    gaps = X.copy()
    gaps[::17, 1] = np.nan
    wide = points(dtype=np.float64)[0] + 1e3
    cases: dict[str, tuple[Any, dict[str, Any]]] = {
        "full": (X, {"covariance_type": "full"}),
        "diag": (X, {"covariance_type": "diag", "init": "kmeans"}),
        "spherical": (X, {"covariance_type": "spherical", "init": "random"}),
        "missing values": (gaps, {"init": "kmeans", "covariance_type": "diag"}),
        "useless columns": (np.column_stack([wide, np.full(ROWS, 3.0), 2 * wide[:, 0]]), {"covariance_type": "full"}),
        "few values": (np.column_stack([X, X[:, 0] > 0]).astype(np.float32), {"covariance_type": "diag"}),
        "outliers": (X, {"covariance_type": "full", "outlier_weight": 0.02}),
        "first labels": (X, {"covariance_type": "full", "init_clusters": labels}),
        "many first clusters": (X, {"covariance_type": "diag", "init_clusters": "many", "init": "kmeans"}),
        "random first clusters": (X, {"covariance_type": "full", "init_clusters": 7}),
        "several chains": (X, {"covariance_type": "full", "n_chains": 2}),
        "draws": (X, {"covariance_type": "full", "n_draws": 4, "thin": 1, "loss": None, "n_chains": 1} | OTHER),
        # So few that the sweep over all points would empty clusters.
        "draws of few points": (X[:300], {"covariance_type": "full", "n_draws": 20, "loss": None, "n_chains": 2}),
        "counts": (counts(), {"family": "multinomial"}),
        "sparse counts": (csr_array(counts()), {"family": "multinomial", "partition_prior": "finite"}),
        "events": (events(), {"family": "poisson", "exposure": 6}),
        "few points": (X[:2000], {"init": "kmeans", "max_iter": "auto"}),
    }
    found, settings = cases[kind]
    return found, {"random_state": 0, "max_iter": 15, **settings}


KINDS = (
    *("full", "diag", "spherical", "missing values", "useless columns", "few values", "outliers", "first labels"),
    *("many first clusters", "random first clusters", "several chains", "draws", "counts", "sparse counts"),
    *("events", "few points", "draws of few points"),
)

SOME = ("full", "missing values", "draws", "sparse counts", "events")


def assert_same(found: DPMM, expected: DPMM) -> None:
    """Bit for bit."""
    assert isinstance(found.labels_, da.Array)
    np.testing.assert_array_equal(found.labels_.compute(), expected.labels_)
    np.testing.assert_array_equal(found.sublabels_.compute(), expected.sublabels_)
    assert found.log_posterior_ == expected.log_posterior_ and found.alpha_ == expected.alpha_
    assert found.trace_.log_posterior.tolist() == expected.trace_.log_posterior.tolist()
    assert found.notes_ == expected.notes_ and found.n_missing_ == expected.n_missing_


@contextlib.contextmanager
def scheduler_process(folder: Path, host: str = "127.0.0.1", **environment: str) -> Iterator[tuple[Any, str]]:
    """A scheduler as a program of its own, and its address."""
    place = folder / "scheduler.json"
    place.unlink(missing_ok=True)
    command = [sys.executable, "-m", "distributed.cli.dask_scheduler", "--host", host, "--port", "0", "--no-dashboard"]
    with running([*command, "--scheduler-file", place], **quietly(environment)) as process:
        yield process, address_in(place)


def address_in(place: Path) -> str:
    """The address that a scheduler writes to a file when it is there."""
    for _ in range(300):
        with contextlib.suppress(OSError, ValueError):
            return str(json.loads(place.read_text())["address"])
        time.sleep(0.1)
    raise AssertionError("the scheduler did not start")


def worker_process(address: str, folder: Path, prefix: Sequence[str] = (), host: str = "127.0.0.1") -> Any:
    """A worker as a program of its own."""
    command = [*prefix, sys.executable, "-m", "distributed.cli.dask_worker", address, "--nthreads", "1", "--no-nanny"]
    return running([*command, "--no-dashboard", "--host", host, "--local-directory", folder], **quietly({}))


def quietly(environment: dict[str, str]) -> dict[str, Any]:
    path = os.pathsep.join([str(Path(dpmmwrap.__file__).parent.parent), os.environ.get("PYTHONPATH", "")])
    return {
        "env": os.environ | {"PYTHONPATH": path} | environment,
        "stdout": subprocess.DEVNULL,
        "stderr": subprocess.DEVNULL,
    }


def kill(cluster: LocalCluster, number: int = 0) -> None:
    """End a worker's process at once; its nanny starts another."""
    workers = list(cluster.workers.values())
    process = workers[number % len(workers)].process
    if process is not None and process.pid is not None:
        os.kill(process.pid, signal.SIGKILL)
