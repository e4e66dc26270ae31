"""The input and the output of a sampler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from dpmmwrap.families.base import Points, Prior, Statistics
from dpmmwrap.families.learned.base import LearnedPrior
from dpmmwrap.numerics.arrays import Float64Array, IntArray, UInt8Array
from dpmmwrap.partitions import PartitionPrior
from dpmmwrap.sampler.draws import Draws
from dpmmwrap.sampler.proposals import NearPairs
from dpmmwrap.sampler.stopping import GREEDY_STEPS, WINDOW
from dpmmwrap.sampler.trace import Iteration, Trace
from dpmmwrap.starts import Initializer, SplitCriterion

Progress = Callable[[int, Iteration], None]
"""Called after each iteration of the first chain with the iteration's number (from 1) and an `Iteration`. It may have
methods: `of_chain` returns the callable for a chain, given its index (from 0); `ended` is called with the index of each
chain that has ended; `waits_for` is called with a few words about what the fit is waiting for before its first
iteration."""

AcceptanceRatio = Literal["auto", "jain-neal", "reference", "printed"]
ACCEPTANCE_RATIOS: tuple[str, ...] = get_args(AcceptanceRatio)
FULL_RATIOS = ("auto", "jain-neal")
"""The acceptance ratios that include the probability of the proposal."""
NO_LIMIT = 1 << 60
SEVERAL, FEW_POINTS, FEW_NUMBERS = 4, 10_000, 1_000_000
"""The default number of chains for draws, and for data of up to this many points and numbers: several chains show
whether they agree. For texts, which are wide, one chain already takes minutes."""
LONGEST_SEARCH = 500
"""Most iterations of a search that stops when it is flat."""
WARM_UP, LEAST_WARM_UP = 0.1, 50
"""Warm-up iterations before the first draw, as a share of the sampling iterations, and at least."""


@dataclass(frozen=True)
class Settings:
    """Everything that determines a fit apart from the data."""

    partition_prior: PartitionPrior
    """The prior over partitions; parameters to be learned have their initial values."""
    prior: Prior
    """The prior, or its initial value if it is learned."""
    initializer: Initializer
    max_iter: int
    """Number of iterations of the search, or the maximum."""
    min_cluster_age: int
    """Number of iterations before a new cluster may split or merge."""
    seed: int
    init_clusters: int | IntArray = 1
    """An initial number of clusters or a label per point ("auto" and "many" have been resolved)."""
    other_starts: tuple[IntArray, ...] = ()
    """Initial labels of every other chain, in turn: starting from one cluster may be a trap, and so may many."""
    max_clusters: int | None = None
    outlier_weight: float = 0.0
    outlier_prior: Prior | None = None
    acceptance_ratio: AcceptanceRatio = "auto"
    """How splits and merges are accepted (see docs/splits-and-merges.md); "auto" is "jain-neal"."""
    restart_after: int | None = None
    """Iterations for which subclusters may stall in a rejected split before they are restarted; None for no limit."""
    hyperprior: LearnedPrior | None = None
    """The distribution of the prior if it is learned; None if it is fixed."""
    stop_when_flat: bool = False
    """Whether the search stops when its log posterior has been flat for a while."""
    exact_moves: bool = True
    """Whether the search of the built-in sampler makes exact moves, too."""
    n_chains: int = 1
    """Number of independent chains, with seeds derived from `seed`."""
    n_draws: int = 0
    """Number of draws from the posterior per chain, after the search."""
    thin: int = 1
    """Number of iterations between draws."""
    keep_labels: bool = True
    """Whether the labels of draws are kept."""
    weights: Float64Array | None = None
    """Row weights (`numerics.weights`); None if all are 1."""
    kept: Any = None
    """Kept clusters of rows that are gone (`sampler.kept.Kept`), if any."""
    flat_window: int = WINDOW
    """Length of the windows of iterations whose log posteriors are compared to see whether the search is flat."""
    last_steps: int = GREEDY_STEPS
    """Iterations at the end of the search that take the most likely labels, unless draws follow."""
    near_pairs: bool = True
    """Whether half of the split-merge proposals grow from pairs of nearby points."""
    near: NearPairs = field(default_factory=NearPairs)
    """The near pairs, shared by the chains over the same points."""
    n_jobs: int = 1
    truth: IntArray | None = None
    progress: Progress | None = None
    checkpoint: Path | None = None
    checkpoint_every: int = 50

    @property
    def full_ratio(self) -> bool:
        """Whether the acceptance ratio includes the probability of proposing a split."""
        return self.acceptance_ratio in FULL_RATIOS

    @property
    def refine(self) -> bool:
        """Whether iterated local search follows, that is, after several chains that stop when they are flat."""
        several = self.stop_when_flat and self.n_chains > 1 and self.kept is None
        return several and not self.n_draws and not self.outlier_weight

    @property
    def greedy_steps(self) -> int:
        """Iterations at the end of the search that take the most likely labels."""
        return 0 if self.n_draws else self.last_steps

    @property
    def warm_up(self) -> int:
        """Sampling iterations before the first draw: the search ends near the posterior, but not in equilibrium."""
        return max(int(WARM_UP * self.n_draws * self.thin), LEAST_WARM_UP) if self.n_draws else 0

    @property
    def total_iterations(self) -> int:
        """Number of iterations of a chain: search, warm-up and draws."""
        return self.max_iter + self.warm_up + self.n_draws * self.thin

    @property
    def cluster_limit(self) -> int:
        """Most clusters allowed."""
        return NO_LIMIT if self.max_clusters is None else self.max_clusters

    def bind(self, X: Points, full_ratio: bool) -> None:
        """Pass the data and the split criterion to the initializer."""
        self.initializer.bind(X, SplitCriterion(self.prior, self.partition_prior, full_ratio))


@dataclass
class Result:
    """The result of a backend. Labels start at 0; outliers, if enabled, are -1."""

    labels: IntArray
    sublabels: UInt8Array
    trace: Trace = field(default_factory=Trace)
    interrupted: bool = False
    log_posterior: float = float("nan")
    """The log posterior of the labels; NaN if the backend does not report it."""
    partition_prior: PartitionPrior | None = None
    """The prior over partitions with the parameters that belong to this clustering."""
    chain: int = 0
    """The index of the chain that found it."""
    prior: Prior | None = None
    """The prior that belongs to it, if the prior was learned."""
    traces: list[Trace] = field(default_factory=list)
    """The traces of all chains."""
    draws: Draws | None = None
    draw_priors: tuple[Prior, ...] = ()
    """The prior of each draw, chain by chain."""
    startup_seconds: float = 0.0
    """Seconds spent on starting and compiling Julia and its workers."""
    agreement: tuple[float, ...] = ()
    """Adjusted Rand indices between it and the best clusterings of the other chains."""
    candidates: list[Any] = field(default_factory=list)
    """Clusterings to compare it with."""
    kept_labels: IntArray | None = None
    kept_sides: UInt8Array | None = None
    """Label and sublabel of each kept cluster, if any."""
    statistics: Statistics = None
    """The statistics of the clusters, outliers last, from a backend with remote points."""


def search_length(asked: int | str) -> dict[str, Any]:
    """The settings for a search of this length; "auto" stops when it is flat."""
    if isinstance(asked, str):
        return {"max_iter": LONGEST_SEARCH, "stop_when_flat": True}
    return {"max_iter": int(asked)}


def chain_count(asked: int | str, draws: int, rows: int, columns: int = 1) -> int:
    """The number of chains; "auto" is several with draws, or if they cost little."""
    if isinstance(asked, str):
        cheap = rows <= FEW_POINTS and rows * columns <= FEW_NUMBERS
        return SEVERAL if draws or cheap else 1
    return int(asked)


def has_few_numbers(X: Points) -> bool:
    """Whether the data are small enough for steps that compute all cluster-by-point scores at once."""
    return bool(X.shape[0] * X.shape[1] <= FEW_NUMBERS)
