"""The reference sampler, DPMMSubClusters.jl, through juliacall. The only importer of juliacall."""

from __future__ import annotations

import functools
import os
import threading
import time
import types
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.random import Generator, Philox, SeedSequence
from scipy.sparse import issparse

from dpmmwrap.backends.choosing import Needs, refused_by_julia
from dpmmwrap.backends.julia import setup as julia_setup
from dpmmwrap.backends.julia import workers as julia_workers
from dpmmwrap.backends.julia.rescaling import Rescaling, rescaling_of
from dpmmwrap.families.base import Points, Prior
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.multinomial.prior import Dirichlet
from dpmmwrap.files import InputError
from dpmmwrap.model.warning import warn_caller
from dpmmwrap.numerics.arrays import Float32Array, IntArray
from dpmmwrap.numerics.interrupt import Interrupt, postponed
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.sampler.settings import Result, Settings
from dpmmwrap.sampler.stopping import is_flat
from dpmmwrap.sampler.trace import Iteration, Trace
from dpmmwrap.starts.random import RandomStart

MOST_COUNTED = 1 << 24
"""The package counts points, and sums counts, in float32, which has no odd numbers beyond this."""
GO_ON, STOP, GIVE_UP, SETTLE = 0, 1, 2, 3
"""What a callback may write into the chain's control word; chain.jl has the same numbers."""


class JuliaError(RuntimeError):
    """Something went wrong in Julia. One sentence says what."""


def is_set_up() -> bool:
    """Whether the Julia backend can run here; does not start Julia."""
    return julia_setup.missing() is None


class JuliaBackend:
    """DPMMSubClusters.jl, with our starts of subclusters. Making one starts Julia; `tell` gets a few words about
    each wait."""

    def __init__(
        self, tell: Callable[[str], None] | None = None, workers: int = 0, machines: Path | None = None
    ) -> None:
        self.tell = tell
        self.team = julia_workers.team_of(workers, machines)
        begun = time.perf_counter()
        self.bridge = start_julia(tell)
        self.startup_seconds = time.perf_counter() - begun

    def fit(self, X: Points, settings: Settings) -> Result:
        refused = refused_by_julia(Needs(sparse=issparse(X)), settings.acceptance_ratio)
        if refused is not None:
            raise ValueError(f"{refused}: backend should be native, without workers")
        # Julia reads whole rows, one after the other; counts may have come column by column.
        X = np.ascontiguousarray(X, dtype=np.float32)
        warn_of_rounding(X, settings.prior)
        settings.bind(X, settings.full_ratio)
        begun = time.perf_counter()
        with julia_workers.for_a_fit(self.bridge, self.team, len(X), self.tell) as workers, translated():
            waited = time.perf_counter() - begun
            if self.tell is not None and not self.bridge.has_run():
                self.tell("compiling")
            before = self.bridge.compiled_seconds()
            result = run(self.bridge, X, settings, workers)
            compiling = self.bridge.compiled_seconds() - before
        result.startup_seconds = self.startup_seconds + waited + compiling
        return result


def warn_of_rounding(X: Float32Array, prior: Prior) -> None:
    counted, things = (X.sum(dtype=np.float64), "counts") if isinstance(prior, Dirichlet) else (len(X), "points")
    if counted > MOST_COUNTED:
        warn_caller(f"DPMMSubClusters.jl counts in single precision, which rounds beyond {MOST_COUNTED:,} {things}")


def start_julia(tell: Callable[[str], None] | None = None) -> Any:
    """The bridge, a Julia module. The first call starts Julia, which takes some seconds."""
    if threading.current_thread() is not threading.main_thread():
        # Julia belongs to the thread that started it, and signals such as Ctrl-C reach the main thread only.
        raise JuliaError("the Julia backend works in the main thread only; in other threads use backend native")
    missing = julia_setup.find().missing
    if missing is not None:
        raise InputError(f"the Julia backend cannot run: {missing}")
    if tell is not None and not load_bridge.cache_info().currsize:
        tell("starting Julia")
    # A start that Ctrl-C cuts short can neither be finished nor repeated in this process.
    with postponed():
        return load_bridge()


FIND_BRIDGE = """
function (folder)
    folder in LOAD_PATH || push!(LOAD_PATH, folder)
    Base.JLOptions().use_compiled_modules == 0 && return
    Base.isprecompiled(Base.identify_package("DPMMWrapBridge")) && return
    # Not here: Julia would compile with no more optimisation than this process has. If it fails, so does the import,
    # which says why.
    compile = "push!(LOAD_PATH, ARGS[1]); import DPMMWrapBridge"
    command = `$(Base.julia_cmd()) -O2 --startup-file=no --project=$(Base.active_project()) -e $compile $folder`
    run(ignorestatus(command))
    return
end
"""
"""Makes the bridge known to Julia, compiled."""


@functools.cache
def load_bridge() -> Any:
    # With one Julia thread no signal handlers of Julia's are needed, and Ctrl-C stays with Python. With more,
    # Julia's garbage collector stops the other threads by signals.
    threads = os.environ.get("PYTHON_JULIACALL_THREADS", os.environ.get("JULIA_NUM_THREADS", "1"))
    os.environ.setdefault("PYTHON_JULIACALL_HANDLE_SIGNALS", "no" if threads == "1" else "yes")
    # Code that is compiled while packages load runs once: optimising it takes longer than running it. The sampler
    # itself is compiled beforehand, with all optimisation, unless compiled code is not to be kept.
    if os.environ.get("PYTHON_JULIACALL_COMPILED_MODULES") != "no":
        os.environ.setdefault("PYTHON_JULIACALL_OPTIMIZE", "1")
    with warnings.catch_warnings():
        # juliacall fears that torch, imported first, may bring another C++ library than Julia's.
        warnings.filterwarnings("ignore", message="torch was imported before juliacall")
        from juliacall import Main
    find_bridge = Main.seval(FIND_BRIDGE)
    find_bridge(str(julia_setup.bridge_folder()))
    return Main.seval("import DPMMWrapBridge; DPMMWrapBridge")


def prepare() -> None:
    """Start Julia, which compiles the rest, and check that a fit works."""
    from dpmmwrap.starts import make_initializer

    X = np.random.default_rng(0).standard_normal((200, 2)).astype(np.float32)
    JuliaBackend().fit(X, Settings(DirichletProcess(1.0), NIW.reference(2), make_initializer("kmeans"), 10, 3, 0))


@contextmanager
def translated() -> Iterator[None]:
    """Raise Julia's errors as ours: the message in one line, without Julia's stack."""
    import juliacall

    try:
        yield
    except juliacall.JuliaError as error:
        message = str(juliacall.Base.sprint(juliacall.Base.showerror, error.exception))
        if message.startswith("InterruptException"):
            raise KeyboardInterrupt from None
        raise JuliaError(" ".join(message.split())) from None


def run(bridge: Any, X: Float32Array, settings: Settings, workers: int) -> Result:
    """One fit, on the present worker processes."""
    rescaling = rescaling_of(X, settings.prior)
    rescaled = rescaling.points(X)
    truth = None if settings.truth is None else integers(bridge, settings.truth + 1)
    # Julia reads the points in place: rows of D numbers here are columns of a D×N matrix there.
    points = bridge.points(rescaled.ctypes.data, rescaled.shape[1], rescaled.shape[0])
    labels = integers(bridge, first_labels(settings, len(X)))
    chain = bridge.Chain(julia_settings(bridge, settings, rescaling), points, labels, truth)
    try:
        with Interrupt() as interrupt:
            callbacks = Callbacks(chain, settings, interrupt, rescaling.log_volume(len(X)))
            start = None if tosses_itself(settings, workers) else callbacks.start
            outcome = call(bridge.fit, chain, start, callbacks.report)
        if callbacks.error is not None:
            raise callbacks.error
        outliers = int(settings.outlier_weight > 0)
        found = np.asarray(bridge.labels(chain)) - (1 + outliers)
        sublabels = np.asarray(bridge.sublabels(chain)) - 1
        return Result(
            found.astype(np.int32),
            sublabels.astype(np.uint8),
            callbacks.trace,
            str(outcome) == "stopped",
            partition_prior=settings.partition_prior.at((callbacks.trace.iterations[-1].alpha,)),
        )
    finally:
        bridge.release(chain)


def tosses_itself(settings: Settings, workers: int) -> bool:
    """Whether the package itself makes the random starts: workers do, and so does the plain reference, which never
    restarts, so that it equals the package label for label."""
    plain = not settings.full_ratio and settings.restart_after is None
    return isinstance(settings.initializer, RandomStart) and (workers > 0 or plain)


def call(function: Any, *arguments: Any) -> Any:
    """Call into Julia without holding Python's lock; callables of ours among the arguments take it for themselves."""
    ours = (types.FunctionType, types.MethodType)
    return function._jl_call_nogil(*(with_lock()(value) if isinstance(value, ours) else value for value in arguments))


@functools.cache
def with_lock() -> Any:
    """Makes a Julia function of a Python callable; cached, because Julia would compile each new one."""
    import juliacall

    return juliacall.PythonCall.seval("f -> (arguments...) -> GIL.@lock f(arguments...)")


def julia_settings(bridge: Any, settings: Settings, rescaling: Rescaling) -> Any:
    process: Any = settings.partition_prior
    named = {
        "α": process.now,
        "prior": julia_prior(bridge, rescaling.prior(settings.prior)),
        "iterations": settings.max_iter,
        "burnout": settings.min_cluster_age,
        "seed": settings.seed,
        "outlier_weight": settings.outlier_weight,
        "fresh_start_after": settings.restart_after or 0,
        "full_ratio": settings.full_ratio,
    }
    if process.learned:
        named["α_shape"], named["α_rate"] = process.prior
    if settings.max_clusters is not None:
        named["max_clusters"] = settings.max_clusters
    if settings.outlier_prior is not None:
        named["outlier_prior"] = julia_prior(bridge, rescaling.prior(settings.outlier_prior))
    return bridge.Settings(**named)


def julia_prior(bridge: Any, prior: Prior) -> Any:
    if isinstance(prior, NIW):
        mean, scale = doubles(bridge, prior.mean), doubles(bridge, prior.scale)
        return bridge.niw(float(prior.mean_strength), mean, float(prior.degrees_of_freedom), scale)
    if isinstance(prior, Dirichlet):
        return bridge.dirichlet(doubles(bridge, prior.concentration))
    raise ValueError(f"the prior {type(prior).__name__} needs the built-in sampler: backend should be native")


def doubles(bridge: Any, numbers: Any) -> Any:
    """Numbers copied into a Julia array; a matrix has to be symmetric."""
    numbers = np.ascontiguousarray(numbers, dtype=np.float64)
    return bridge.doubles(numbers.ctypes.data, *numbers.shape)


def integers(bridge: Any, numbers: Any) -> Any:
    """Integers copied into a Julia vector."""
    numbers = np.ascontiguousarray(numbers, dtype=np.int64)
    return bridge.integers(numbers.ctypes.data, len(numbers))


def first_labels(settings: Settings, count: int) -> IntArray:
    """Initial labels, from 1 without gaps."""
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

    def __init__(self, chain: Any, settings: Settings, interrupt: Interrupt, log_volume: float = 0.0) -> None:
        """`log_volume` is added to Julia's log posteriors, which are of rescaled data."""
        self.settings, self.log_volume = settings, log_volume
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
        nmi: float,
        alpha: float,
    ) -> None:
        """What the iteration of that number did."""
        with self.guarded():
            moves = splits, splits_proposed, merges, merges_proposed
            iteration = Iteration(clusters, log_posterior + self.log_volume, seconds, *moves, nmi=nmi, alpha=alpha)
            self.trace.append(iteration)
            if self.settings.progress is not None:
                self.settings.progress(number, iteration)
            if self.interrupt.requested:
                self.control[0] = STOP
            elif self.settings.stop_when_flat and is_flat(self.trace):
                self.control[0] = SETTLE
