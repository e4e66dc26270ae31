"""The fits of the ledger: one at a time, side by side in processes of their own, and those that are kept."""

from __future__ import annotations

import hashlib
import json
import math
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from ledger_mixtures import ari
from ledger_sets import Entry
from scipy.sparse import issparse
from sklearn.metrics import normalized_mutual_info_score

import dpmmwrap
from dpmmwrap import DPMM, Native
from dpmmwrap.evaluation.fits import classes_in
from dpmmwrap.evaluation.samplers import TRUTH, timed_fit
from dpmmwrap.families import compiled_kinds
from dpmmwrap.sampler import compiling

THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")
OF_NO_EFFECT = ("cli", "evaluation", "plotting", "report")
"""Folders of the package that do not bear on what a fit finds."""
Record = dict[str, Any]


def source_digest(package: Path | None = None) -> str:
    """Of the package's sources and the network's weights: another program may find something else."""
    package = package or Path(dpmmwrap.__file__).parent
    found = hashlib.sha256()
    for path in sorted(path for path in package.rglob("*") if path.suffix in (".py", ".safetensors")):
        if path.relative_to(package).parts[0] not in OF_NO_EFFECT:
            found.update(str(path.relative_to(package)).encode() + b"\0" + path.read_bytes())
    return found.hexdigest()[:12]


@dataclass(frozen=True)
class Fit:
    """A fit that is wanted."""

    entry: Entry
    seed: int
    options: dict[str, Any] = field(default_factory=dict)
    """What differs from default settings; init_clusters="truth" begins with the classes."""

    def identity(self, digest: str) -> Record:
        settings = ",".join(f"{name}={self.options[name]}" for name in sorted(self.options))
        return {
            "name": self.entry.name,
            "spec": self.entry.spec,
            "seed": self.seed,
            "options": settings,
            "program": digest,
        }


IDENTITY = ("name", "spec", "seed", "options", "program")


def measured(fit: Fit) -> Record:
    """Draw the data, fit, and compare with the classes."""
    X, y, oracle = fit.entry.draw()
    options = dict(fit.options)
    if options.get("init_clusters") == TRUTH:
        # What has no class is a class to begin with.
        options["init_clusters"] = y - y.min()
    if issparse(X):
        options["family"] = "multinomial"
    model = DPMM(**options, backend=Native(n_jobs=1), random_state=fit.seed)
    clock = timed_fit(model, X)
    labels, groups, known = np.asarray(model.labels_), model.groups_, y >= 0
    return {
        "rows": X.shape[0],
        "dim": X.shape[1],
        "classes": classes_in(y),
        "family": "multinomial" if issparse(X) else options.get("family", "gaussian"),
        "clusters": int(model.n_clusters_),
        "ari": ari(y, labels),
        "nmi": float(normalized_mutual_info_score(y[known], labels[known])),
        "groups_ari": ari(y, groups),
        "oracle": oracle,
        "log_evidence": float(model.log_evidence_),
        "log_posterior": float(model.log_posterior_),
        "cpu_seconds": clock.cpu_seconds,
        "covariance_type": str(model.covariance_type_),
        "notes": len(model.notes_),
        "problem": "",
    }


class Cache:
    """A line of JSON for each fit, written as soon as it is done; later lines replace earlier ones."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.records: dict[tuple[Any, ...], Record] = {}
        for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else ():
            try:
                record = json.loads(line)
            except json.JSONDecodeError:
                # The last line of a run that was killed.
                continue
            self.records[key(record)] = record

    def add(self, record: Record) -> None:
        self.records[key(record)] = record
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")

    def get(self, fit: Fit, digest: str) -> Record | None:
        """What is known of a fit. One that failed is tried again, one that took too long is not."""
        found = self.records.get(key(fit.identity(digest)))
        return None if found is None or found["problem"] not in ("", TOO_LONG) else found

    def best_evidence(self, entry: Entry) -> float:
        """The highest that any fit to these data has reached, with whatever settings, start and program."""
        found = [r["log_evidence"] for r in self.records.values() if (r["name"], r["spec"]) == (entry.name, entry.spec)]
        return max((value for value in found if value is not None and not math.isnan(value)), default=math.nan)


def key(record: Record) -> tuple[Any, ...]:
    return tuple(record[name] for name in IDENTITY)


TOO_LONG, BUSY = "too long", 5
"""What a fit may take on the wall, in the processor time that it may take."""
MEASURES = ("clusters", "ari", "nmi", "groups_ari", "oracle", "log_evidence", "cpu_seconds", "notes")


def failed(problem: str) -> Record:
    unknown = {"rows": 0, "dim": 0, "classes": 0, "family": "", "covariance_type": "", "log_posterior": math.nan}
    return {**unknown, **dict.fromkeys(MEASURES, math.nan), "problem": problem}


class Worker:
    """A process that fits one set after the other, so that it compiles once; replaced if it hangs or dies."""

    def __init__(self) -> None:
        self.begin()

    def begin(self) -> None:
        # Fresh, because threads of numba and torch do not survive a fork.
        context = multiprocessing.get_context("spawn")
        self.pipe, other = context.Pipe()
        self.process = context.Process(target=serve, args=(other,), daemon=True)
        self.process.start()
        other.close()
        if not self.pipe.poll(600) or self.pipe.recv() != "ready":
            raise RuntimeError("a process of the ledger could not begin")

    def run(self, fit: Fit, timeout: float) -> Record:
        """What comes of a fit that may take so many seconds of processor time, and some more on the wall."""
        self.pipe.send((fit, timeout))
        try:
            if self.pipe.poll(BUSY * timeout):
                record: Record = self.pipe.recv()
                return record
            record = failed(TOO_LONG)
        except EOFError:
            self.process.join()
            limit = getattr(signal, "SIGXCPU", None)
            record = failed(TOO_LONG if limit and self.process.exitcode == -limit else "the process died")
        self.end()
        self.begin()
        return record

    def end(self) -> None:
        self.process.kill()
        self.process.join()


def serve(pipe: Any) -> None:
    """What a worker does: get its loops compiled before any clock runs, then fit what it is sent."""
    # A terminal sends Ctrl-C to all processes; the first one decides what becomes of the others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    compiling.prepare(compiled_kinds(), draws=False)
    pipe.send("ready")
    while True:
        try:
            fit, timeout = pipe.recv()
        except EOFError:
            return
        limit_time(timeout)
        try:
            pipe.send(measured(fit))
        except Exception as error:
            pipe.send(failed(f"{type(error).__name__}: {error}"))


def limit_time(seconds: float) -> None:
    """End this process after so many seconds more: of its own, so that a busy machine makes no fit too long."""
    try:
        import resource
    except ImportError:
        # Windows has no such limits; the clock on the wall has to do.
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    hard = resource.getrlimit(resource.RLIMIT_CPU)[1]
    resource.setrlimit(resource.RLIMIT_CPU, (math.ceil(time.process_time() + seconds), hard))


def run_all(fits: Iterable[Fit], jobs: int, timeout: float) -> Iterator[tuple[Fit, Record]]:
    """Each fit and what came of it, in order of completion."""
    os.environ.update(dict.fromkeys(THREADS, "1"))
    local, workers = threading.local(), []

    def run(fit: Fit) -> Record:
        if not hasattr(local, "worker"):
            local.worker = Worker()
            workers.append(local.worker)
        found: Record = local.worker.run(fit, timeout)
        return found

    executor = ThreadPoolExecutor(jobs)
    try:
        waiting = {executor.submit(run, fit): fit for fit in fits}
        for future in as_completed(waiting):
            yield waiting[future], future.result()
    finally:
        executor.shutdown(wait=False, cancel_futures=True)
        for worker in workers:
            worker.process.kill()


Finished = Callable[[Fit, Record], None]


def complete(fits: list[Fit], cache: Cache, jobs: int, timeout: float, digest: str, finished: Finished) -> None:
    """Do what is not in the cache yet, and keep it there."""
    missing = [fit for fit in fits if cache.get(fit, digest) is None]
    if not missing:
        return
    for fit, record in run_all(missing, min(jobs, len(missing)), timeout):
        cache.add(fit.identity(digest) | record)
        finished(fit, record)
