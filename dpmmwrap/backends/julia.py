"""The reference sampler, DPMMSubClusters.jl, through juliacall. The only importer of juliacall."""

from __future__ import annotations

import functools
import os
import re
import threading
import types
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator, Philox, SeedSequence
from scipy.sparse import issparse

from dpmmwrap.arrays import Float32Array, IntArray
from dpmmwrap.backends import Result, Settings, check_julia_can, julia_setup
from dpmmwrap.families.base import Points, Prior
from dpmmwrap.families.gaussian import NIW
from dpmmwrap.families.multinomial import Dirichlet
from dpmmwrap.files import InputError
from dpmmwrap.interrupt import Interrupt
from dpmmwrap.starts.random import RandomStart
from dpmmwrap.trace import Iteration, Trace, nmi_of_table

MOST_COUNTED = 1 << 24
"""The package counts points, and adds up counts, in float32, which knows no odd number beyond this."""
GO_ON, STOP, GIVE_UP = 0, 1, 2
"""What a callback may write into the chain's control word; the bridge knows the same numbers."""


class JuliaError(RuntimeError):
    """Something went wrong in Julia. One sentence says what."""


def is_set_up() -> bool:
    """Can the Julia backend run here? Found out without starting Julia."""
    try:
        return julia_setup.find().missing is None
    except ValueError:
        return False


class JuliaBackend:
    """DPMMSubClusters.jl, with our starts of subclusters. Making one starts Julia."""

    name = "julia"

    def __init__(self) -> None:
        self.bridge = start_julia()

    def fit(self, X: Points, settings: Settings) -> Result:
        check_julia_can(settings.checkpoint, settings.acceptance_ratio, sparse=issparse(X))
        # Julia reads whole rows, one after the other; counts may have come column by column.
        X = np.ascontiguousarray(X, dtype=np.float32)
        counted = X.sum(dtype=np.float64) if settings.prior.family == "multinomial" else len(X)
        if counted > MOST_COUNTED:
            things = "counts" if settings.prior.family == "multinomial" else "points"
            warnings.warn(
                f"DPMMSubClusters.jl counts in single precision, which rounds beyond {MOST_COUNTED:,} {things}",
                stacklevel=2,
            )
        settings.bind(X, full_ratio=False)
        with workers(self.bridge, settings), translated():
            return run(self.bridge, X, settings)


def start_julia() -> Any:
    """The bridge, a Julia module. The first call starts Julia, which takes some seconds."""
    if threading.current_thread() is not threading.main_thread():
        # Julia belongs to the thread that started it, and signals such as Ctrl-C reach the main thread only.
        raise JuliaError("the Julia backend works in the main thread only; in other threads use backend native")
    missing = julia_setup.find().missing
    if missing is not None:
        raise InputError(f"the Julia backend cannot run: {missing}")
    return load_bridge()


@functools.cache
def load_bridge() -> Any:
    # With one Julia thread no signal handlers of Julia's are needed, and Ctrl-C stays with Python. With more,
    # Julia's garbage collector stops the other threads by signals.
    threads = os.environ.get("PYTHON_JULIACALL_THREADS", os.environ.get("JULIA_NUM_THREADS", "1"))
    os.environ.setdefault("PYTHON_JULIACALL_HANDLE_SIGNALS", "no" if threads == "1" else "yes")
    with warnings.catch_warnings():
        # juliacall fears that torch, imported first, may bring another C++ library than Julia's.
        warnings.filterwarnings("ignore", message="torch was imported before juliacall")
        from juliacall import Main
    load = Main.seval("folder -> (folder in LOAD_PATH || push!(LOAD_PATH, folder); nothing)")
    load(str(julia_setup.bridge_folder()))
    return Main.seval("import DPMMWrapBridge; DPMMWrapBridge")


@contextmanager
def translated() -> Iterator[None]:
    """Julia's errors as ours: the message in one line, without Julia's own stack."""
    import juliacall

    try:
        yield
    except juliacall.JuliaError as error:
        message = str(juliacall.Base.sprint(juliacall.Base.showerror, error.exception))
        if message.startswith("InterruptException"):
            raise KeyboardInterrupt from None
        raise JuliaError(" ".join(message.split())) from None


@contextmanager
def workers(bridge: Any, settings: Settings) -> Iterator[None]:
    """Worker processes for the time of a fit."""
    hosts, counts = ([], []) if settings.machines is None else read_machines(settings.machines)
    if not settings.workers and not hosts:
        yield
        return
    with translated():
        added = bridge.start_workers(settings.workers, hosts, counts)
    try:
        yield
    finally:
        bridge.stop_workers(added)


def read_machines(path: Path) -> tuple[list[str], list[int]]:
    """Hosts and the number of processes on each, from a file with one `user@host*n` per line."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} should be a text file of machines, but it cannot be read") from error
    hosts, counts = [], []
    for number, line in enumerate(lines, start=1):
        entry = line.split("#")[0].strip()
        if not entry:
            continue
        # No more than a name and a port: these words become arguments of ssh.
        found = re.fullmatch(r"((?:\w[\w.-]*@)?[A-Za-z0-9][\w.-]*(?::\d+)?)(?:\*([1-9]\d*))?", entry)
        if found is None:
            raise InputError(f"{path}, line {number}: a machine should be written user@host*n, not {entry!r}")
        hosts.append(found.group(1))
        counts.append(int(found.group(2) or 1))
    if not hosts:
        raise InputError(f"{path} should name machines, one user@host*n per line, but it names none")
    return hosts, counts


def run(bridge: Any, X: Float32Array, settings: Settings) -> Result:
    """One fit, with the worker processes that are there."""
    truth = None if settings.truth is None else settings.truth + 1
    # Julia reads X where it lies: rows of D numbers here are columns of a D×N matrix there.
    points = bridge.points(X.ctypes.data, X.shape[1], X.shape[0])
    chain = bridge.Chain(julia_settings(bridge, settings), points, first_labels(settings, len(X)), truth)
    try:
        with Interrupt() as interrupt:
            callbacks = Callbacks(chain, settings, interrupt)
            # Workers toss the coin themselves, as the package has them do.
            elsewhere = settings.workers > 0 or settings.machines is not None
            tossed = elsewhere and isinstance(settings.initializer, RandomStart)
            outcome = call(bridge.fit, chain, None if tossed else callbacks.start, callbacks.report)
        if callbacks.error is not None:
            raise callbacks.error
        outliers = int(settings.outlier_weight > 0)
        labels = np.asarray(bridge.labels(chain)) - (1 + outliers)
        sublabels = np.asarray(bridge.sublabels(chain)) - 1
        return Result(labels.astype(np.int32), sublabels.astype(np.uint8), callbacks.trace, str(outcome) == "stopped")
    finally:
        bridge.release(chain)


def call(function: Any, *arguments: Any) -> Any:
    """Call into Julia without holding Python's lock; callables of ours among the arguments take it for themselves."""
    ours = (types.FunctionType, types.MethodType)
    return function._jl_call_nogil(*(with_lock()(value) if isinstance(value, ours) else value for value in arguments))


@functools.cache
def with_lock() -> Any:
    """Makes a Julia function of a Python callable; kept, because Julia would compile each new one afresh."""
    import juliacall

    return juliacall.PythonCall.seval("f -> (arguments...) -> GIL.@lock f(arguments...)")


def julia_settings(bridge: Any, settings: Settings) -> Any:
    named = {
        "α": settings.alpha,
        "prior": julia_prior(bridge, settings.prior),
        "iterations": settings.max_iter,
        "burnout": settings.min_cluster_age,
        "seed": settings.seed,
        "outlier_weight": settings.outlier_weight,
        "fresh_start_after": settings.restart_after or 0,
    }
    if settings.max_clusters is not None:
        named["max_clusters"] = settings.max_clusters
    if settings.outlier_prior is not None:
        named["outlier_prior"] = julia_prior(bridge, settings.outlier_prior)
    return bridge.Settings(**named)


def julia_prior(bridge: Any, prior: Prior) -> Any:
    if isinstance(prior, NIW):
        return bridge.niw(prior.mean_strength, prior.mean, prior.degrees_of_freedom, prior.scale)
    if isinstance(prior, Dirichlet):
        return bridge.dirichlet(prior.concentration)
    raise ValueError(f"the prior {type(prior).__name__} needs the built-in sampler: backend should be native")


def first_labels(settings: Settings, count: int) -> IntArray:
    """Labels to begin with, from 1 without gaps."""
    if isinstance(settings.init_clusters, (int, np.integer)):
        labels: IntArray = generator(settings).integers(0, int(settings.init_clusters), count)
    else:
        labels = settings.init_clusters
    return np.unique(labels, return_inverse=True)[1].astype(np.int64) + 1


def generator(settings: Settings) -> Generator:
    return Generator(Philox(SeedSequence([settings.seed, 0])))


class Callbacks:
    """What Julia calls: a start for a new cluster, and a report after each iteration.

    Julia is between two iterations or in the middle of one when these run, so they never raise: an exception
    is kept, Julia is asked to give up, and `run` raises it when Julia has tidied up.
    """

    def __init__(self, chain: Any, settings: Settings, interrupt: Interrupt) -> None:
        self.settings = settings
        self.interrupt = interrupt
        self.rng = generator(settings)
        self.trace = Trace()
        self.error: BaseException | None = None
        self.control: IntArray = np.asarray(chain.control)

    @contextmanager
    def guarded(self) -> Iterator[None]:
        try:
            yield
        except BaseException as error:
            self.error = error
            self.control[0] = GIVE_UP

    def start(self, rows: Any, counts: Any, sides: Any) -> None:
        """Divide clusters: `rows` are their row numbers, one cluster after the other, the answer goes into `sides`."""
        with self.guarded():
            # Views of Julia's own memory: nothing is copied on the way.
            rows, counts, sides = np.asarray(rows), np.asarray(counts), np.asarray(sides)
            ends = np.cumsum(counts)
            places = [slice(end - count, end) for end, count in zip(ends, counts, strict=True) if count > 1]
            proposed = self.settings.initializer([rows[place] for place in places], self.rng) if places else []
            for place, side in zip(places, proposed, strict=True):
                sides[place] = side

    def report(
        self,
        number: int,
        clusters: int,
        log_posterior: float,
        seconds: float,
        splits: int,
        splits_proposed: int,
        merges: int,
        merges_proposed: int,
        table: Any,
    ) -> None:
        """What the iteration of that number did; `table` counts points by true and found cluster."""
        with self.guarded():
            moves = splits, splits_proposed, merges, merges_proposed
            iteration = Iteration(clusters, log_posterior, seconds, *moves, nmi=nmi(table))
            self.trace.append(iteration)
            if self.settings.progress is not None:
                self.settings.progress(number, iteration)
            if self.interrupt.requested:
                self.control[0] = STOP


def nmi(table: Any) -> float:
    return float("nan") if table is None else nmi_of_table(np.asarray(table))
