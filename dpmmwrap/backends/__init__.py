"""The Backend protocol: what a sampler is given and what it gives back, and the choice "auto"."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from dpmmwrap.arrays import IntArray, UInt8Array
from dpmmwrap.draws import Draws
from dpmmwrap.families.base import Points, Prior, Statistics
from dpmmwrap.families.hyperprior import Hyperprior, Place
from dpmmwrap.starts import Initializer, SplitCriterion
from dpmmwrap.trace import Iteration, Trace

Progress = Callable[[int, Iteration], None]
"""Called after each iteration with its number (from 1) and what happened in it. Of several chains it hears of the
first; of all, if it has a method `of_chain` from a chain's number (from 0) to a callable for it. A method `ended` is
told the number of each chain that has come to its end."""

AcceptanceRatio = Literal["auto", "jain-neal", "reference", "printed"]
ACCEPTANCE_RATIOS: tuple[str, ...] = get_args(AcceptanceRatio)
JULIA_RATIOS, FULL_RATIOS = ("auto", "reference"), ("auto", "jain-neal")
"""What the reference package can do; what the built-in sampler takes for counting the probability of a proposal."""
NO_LIMIT = 1 << 60
SEVERAL, FEW_POINTS, FEW_NUMBERS = 4, 10_000, 2_000_000
"""Chains where nothing is said, of so many points or fewer with no more numbers in all, and of draws: they tell whether
they agree. Of texts, which are wide, one chain takes minutes."""
LONGEST_SEARCH = 500
"""Iterations, where nothing is said."""
WARM_UP, LEAST_WARM_UP = 0.1, 50
"""Iterations of sampling before the first draw, as a share of those that follow, and at least."""
JULIA_FAMILIES = ("gaussian", "multinomial")


@dataclass(frozen=True)
class Settings:
    """Everything that decides a fit, apart from the data."""

    alpha: float
    """The concentration, or where it begins if it is learned."""
    prior: Prior
    """The prior, or where it begins if it is learned."""
    initializer: Initializer
    max_iter: int
    """Iterations of the search, or the most of them."""
    min_cluster_age: int
    """Iterations before a new cluster may split or merge."""
    seed: int
    init_clusters: int | IntArray = 1
    """A number of clusters to begin with, or a label per point ("auto" and "many" have been resolved)."""
    other_start: IntArray | None = None
    """Labels that every other chain begins with instead: one cluster may be a trap, and so may many be."""
    max_clusters: int | None = None
    outlier_weight: float = 0.0
    outlier_prior: Prior | None = None
    acceptance_ratio: AcceptanceRatio = "auto"
    """How splits and merges are accepted (see docs/splits-and-merges.md); "auto" is what suits the backend."""
    restart_after: int | None = None
    """Iterations that subclusters may sit in a rejected split before they begin anew; None: for ever."""
    alpha_prior: tuple[float, float] | None = None
    """Shape and rate of the concentration's Gamma prior; None where it is fixed."""
    hyperprior: Hyperprior | None = None
    """The grid of priors on which the prior is learned; None where it is fixed."""
    stop_when_flat: bool = False
    """Whether the search ends when its log posterior has been flat for a while."""
    exact_moves: bool = True
    """Whether the built-in sampler's search also makes exact moves."""
    n_chains: int = 1
    """Independent chains, with seeds derived from the one."""
    n_draws: int = 0
    """Draws from the posterior that each chain makes after the search."""
    thin: int = 1
    """Iterations from one draw to the next."""
    keep_labels: bool = True
    """Whether the labels of draws are kept."""
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

    @property
    def refine(self) -> bool:
        """Whether the end of the search is shaken: where several chains decide for themselves how long they go on."""
        return self.stop_when_flat and self.n_chains > 1 and not self.n_draws and not self.outlier_weight

    @property
    def warm_up(self) -> int:
        """Iterations of sampling before the first draw: the search ends near the posterior, not in it."""
        return max(int(WARM_UP * self.n_draws * self.thin), LEAST_WARM_UP) if self.n_draws else 0

    @property
    def total_iterations(self) -> int:
        """Of a chain: search, warm-up and draws."""
        return self.max_iter + self.warm_up + self.n_draws * self.thin

    @property
    def cluster_limit(self) -> int:
        """No more clusters than this."""
        return NO_LIMIT if self.max_clusters is None else self.max_clusters

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
    log_posterior: float = float("nan")
    """Of the labels; not a number where the backend does not say."""
    alpha: float = float("nan")
    """The concentration that goes with it."""
    chain: int = 0
    """The number of the chain that has found it."""
    place: Place | None = None
    """The prior that goes with it, where it was learned."""
    traces: list[Trace] = field(default_factory=list)
    """Of all chains."""
    draws: Draws | None = None
    agreement: tuple[float, ...] = ()
    """How alike the other chains' best clusterings are to it: their adjusted Rand indices."""
    statistics: Statistics = None
    """Of the clusters, outliers last, from a backend whose points are elsewhere."""


def search_length(asked: int | str) -> dict[str, Any]:
    """The settings of a search of so many iterations; "auto" is until it is flat."""
    if isinstance(asked, str):
        return {"max_iter": LONGEST_SEARCH, "stop_when_flat": True}
    return {"max_iter": int(asked)}


def chain_count(asked: int | str, draws: int, rows: int, columns: int = 1) -> int:
    """How many chains there are to be; "auto" is several where they cost little, or draws are asked for."""
    if isinstance(asked, str):
        cheap = rows <= FEW_POINTS and rows * columns <= FEW_NUMBERS
        return SEVERAL if draws or cheap else 1
    return int(asked)


def has_few_numbers(X: Points) -> bool:
    """Whether data are small enough for steps that look at all clusters for all points at once."""
    return bool(X.shape[0] * X.shape[1] <= FEW_NUMBERS)


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
    sampling: bool = False,
) -> Backend:
    """The backend of that name; "auto" is Julia where it is set up and can do what is asked, else the built-in sampler.

    To be called before anything imports torch: a Julia that is started after torch may not find its own libraries.
    """
    if name == "dask":
        from dpmmwrap.backends.dask import DaskBackend

        return DaskBackend()
    if name not in ("auto", "native", "julia"):
        raise ValueError(f"backend should be auto, native, julia or dask, not {name!r}")
    if name == "native" and workers:
        raise ValueError("worker processes need the Julia backend: backend should be julia")
    if name == "julia" or workers:
        check_julia_can(checkpoint, acceptance_ratio, family, sparse, sampling)
    wanted = (checkpoint, acceptance_ratio, family, sparse, sampling)
    if name == "julia" or workers or (name == "auto" and _julia_serves(*wanted)):
        from dpmmwrap.backends.julia import JuliaBackend

        return JuliaBackend()
    from dpmmwrap.backends.native import NativeBackend

    return NativeBackend()


def check_julia_can(
    checkpoint: Path | None,
    acceptance_ratio: str,
    family: str = "gaussian",
    sparse: bool = False,
    sampling: bool = False,
) -> None:
    """Refuse what only the built-in sampler can do."""
    if sampling:
        raise ValueError(
            "draws and several chains need the built-in sampler: backend should be native, without workers"
        )
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


def _julia_serves(checkpoint: Path | None, acceptance_ratio: str, family: str, sparse: bool, sampling: bool) -> bool:
    """For "auto": can Julia do what is asked, here and now? It works in the main thread only.

    Counts it can do, too, but leaves more clusters than there are where the built-in sampler does not.
    """
    if family != "gaussian":
        return False
    try:
        check_julia_can(checkpoint, acceptance_ratio, family, sparse, sampling)
    except ValueError:
        return False
    from dpmmwrap.backends import julia

    return threading.current_thread() is threading.main_thread() and julia.is_set_up()
