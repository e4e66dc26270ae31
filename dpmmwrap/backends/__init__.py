"""The Backend protocol: what a sampler is given and what it gives back, and the choice "auto"."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol, get_args

from dpmmwrap.arrays import IntArray, UInt8Array
from dpmmwrap.families.base import Points, Prior
from dpmmwrap.starts import Initializer, SplitCriterion
from dpmmwrap.trace import Iteration, Trace

Progress = Callable[[int, Iteration], None]
"""Called after each iteration with its number (from 1) and what happened in it."""

AcceptanceRatio = Literal["auto", "jain-neal", "reference", "printed"]
ACCEPTANCE_RATIOS: tuple[str, ...] = get_args(AcceptanceRatio)
JULIA_RATIOS, FULL_RATIOS = ("auto", "reference"), ("auto", "jain-neal")
"""What the reference package can do; what the built-in sampler takes for counting the probability of a proposal."""
JULIA_FAMILIES = ("gaussian", "multinomial")


@dataclass(frozen=True)
class Settings:
    """Everything that decides a fit, apart from the data."""

    alpha: float
    """The concentration, or where it begins if it is learned."""
    prior: Prior
    initializer: Initializer
    max_iter: int
    min_cluster_age: int
    """Iterations before a new cluster may split or merge."""
    seed: int
    init_clusters: int | IntArray = 1
    """A number of clusters to begin with, or a label per point ("auto" and "many" have been resolved)."""
    max_clusters: int | None = None
    outlier_weight: float = 0.0
    outlier_prior: Prior | None = None
    acceptance_ratio: AcceptanceRatio = "auto"
    """How splits and merges are accepted (see the README); "auto" is what suits the backend."""
    restart_after: int | None = None
    """Iterations that subclusters may sit in a rejected split before they begin anew; None: for ever."""
    alpha_prior: tuple[float, float] | None = None
    """Shape and rate of the concentration's Gamma prior; None where it is fixed."""
    exact_moves: bool = True
    """Whether the built-in sampler's search also makes exact moves."""
    n_jobs: int = 1
    truth: IntArray | None = None
    progress: Progress | None = None
    checkpoint: Path | None = None
    checkpoint_every: int = 50
    workers: int = 0
    """Worker processes of the Julia backend."""
    machines: Path | None = None
    """One user@host*n per line, for the Julia backend."""

    @property
    def full_ratio(self) -> bool:
        """Whether the built-in sampler counts the chance of proposing a split."""
        return self.acceptance_ratio in FULL_RATIOS

    def bind(self, X: Points, full_ratio: bool) -> None:
        """Show the initializer the data, and by what its splits will be accepted."""
        self.initializer.bind(X, SplitCriterion(self.prior, self.alpha, full_ratio))


@dataclass
class Result:
    """What a backend gives back. Labels run from 0; outliers, if asked for, carry -1."""

    labels: IntArray
    sublabels: UInt8Array
    trace: Trace = field(default_factory=Trace)
    interrupted: bool = False


class Backend(Protocol):
    """A sampler: the data as their family stores them and the settings in, labels and a trace out."""

    name: str

    def fit(self, X: Points, settings: Settings) -> Result: ...


def make_backend(
    name: str,
    *,
    checkpoint: Path | None = None,
    acceptance_ratio: str = "auto",
    workers: bool = False,
    family: str = "gaussian",
    sparse: bool = False,
) -> Backend:
    """The backend of that name; "auto" is Julia where it is set up and can do what is asked, else the built-in sampler.

    To be called before anything imports torch: a Julia that is started after torch may not find its own libraries.
    """
    if name not in ("auto", "native", "julia"):
        raise ValueError(f"backend should be auto, native or julia, not {name!r}")
    if name == "native" and workers:
        raise ValueError("worker processes need the Julia backend: backend should be julia")
    if name == "julia" or workers:
        check_julia_can(checkpoint, acceptance_ratio, family, sparse)
    if name == "julia" or workers or (name == "auto" and _julia_serves(checkpoint, acceptance_ratio, family, sparse)):
        from dpmmwrap.backends.julia import JuliaBackend

        return JuliaBackend()
    from dpmmwrap.backends.native import NativeBackend

    return NativeBackend()


def check_julia_can(
    checkpoint: Path | None, acceptance_ratio: str, family: str = "gaussian", sparse: bool = False
) -> None:
    """Refuse what only the built-in sampler can do."""
    if checkpoint is not None:
        raise ValueError("a checkpoint needs the built-in sampler: backend should be native, without workers")
    if acceptance_ratio not in JULIA_RATIOS:
        raise ValueError(
            f"acceptance_ratio {acceptance_ratio} needs the built-in sampler: backend should be native, without workers"
        )
    if family not in JULIA_FAMILIES:
        raise ValueError(f"the family {family} needs the built-in sampler: backend should be native, without workers")
    if sparse:
        raise ValueError(
            "sparse counts need the built-in sampler: backend should be native, without workers, or X a dense array"
        )


def _julia_serves(checkpoint: Path | None, acceptance_ratio: str, family: str, sparse: bool) -> bool:
    """For "auto": can Julia do what is asked, here and now? It works in the main thread only.

    Counts it can do, too, but leaves more clusters than there are where the built-in sampler does not.
    """
    if family != "gaussian":
        return False
    try:
        check_julia_can(checkpoint, acceptance_ratio, family, sparse)
    except ValueError:
        return False
    from dpmmwrap.backends import julia

    return threading.current_thread() is threading.main_thread() and julia.is_set_up()
