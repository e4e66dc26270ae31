"""What a sampler is given, and what it gives back."""

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
"""Called after each iteration of the first chain with the iteration's number (from 1) and what happened in it. It may
have methods: `of_chain`, from a chain's number (from 0) to a callable for that chain; `ended`, called with the number
of each chain that has ended; `waits_for`, called with a few words about what the fit waits for before the first
iteration."""

AcceptanceRatio = Literal["auto", "jain-neal", "reference", "printed"]
ACCEPTANCE_RATIOS: tuple[str, ...] = get_args(AcceptanceRatio)
FULL_RATIOS = ("auto", "jain-neal")
"""The ratios that count the probability of a proposal."""
NO_LIMIT = 1 << 60
SEVERAL, FEW_POINTS, FEW_NUMBERS = 4, 10_000, 1_000_000
"""The default number of chains with draws, and up to this many points and numbers: several chains show whether they
agree. On texts, which are wide, one chain takes minutes."""
LONGEST_SEARCH = 500
"""Iterations of a search that ends when it is flat, at most."""
WARM_UP, LEAST_WARM_UP = 0.1, 50
"""Iterations of sampling before the first draw, as a share of those that follow, and at least."""


@dataclass(frozen=True)
class Settings:
    """Everything that decides a fit, apart from the data."""

    partition_prior: PartitionPrior
    """Over partitions, with its parameters where they begin if they are learned."""
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
    other_starts: tuple[IntArray, ...] = ()
    """Labels that every other chain begins with instead, in turn: one cluster may be a trap, and so may many be."""
    max_clusters: int | None = None
    outlier_weight: float = 0.0
    outlier_prior: Prior | None = None
    acceptance_ratio: AcceptanceRatio = "auto"
    """How splits and merges are accepted (see docs/splits-and-merges.md); "auto" is "jain-neal"."""
    restart_after: int | None = None
    """Iterations that subclusters may sit in a rejected split before they begin anew; None: for ever."""
    hyperprior: LearnedPrior | None = None
    """The distribution of the prior where it is learned; None where it is fixed."""
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
    weights: Float64Array | None = None
    """Of the rows (`numerics.weights`); None where all weigh 1."""
    kept: Any = None
    """Clusters of rows that are gone (`sampler.kept.Kept`); None where there are none."""
    flat_window: int = WINDOW
    """Iterations whose log posteriors are compared with those of as many before them, to see whether they are flat."""
    near_pairs: bool = True
    """Whether half of the split-merge proposals grow from points that are near each other."""
    near: NearPairs = field(default_factory=NearPairs)
    """Those that chains of the same points share."""
    n_jobs: int = 1
    truth: IntArray | None = None
    progress: Progress | None = None
    checkpoint: Path | None = None
    checkpoint_every: int = 50

    @property
    def full_ratio(self) -> bool:
        """Whether the probability of proposing a split is counted."""
        return self.acceptance_ratio in FULL_RATIOS

    @property
    def refine(self) -> bool:
        """Whether iterated local search follows: after several chains that end when they are flat."""
        several = self.stop_when_flat and self.n_chains > 1 and self.kept is None
        return several and not self.n_draws and not self.outlier_weight

    @property
    def greedy_steps(self) -> int:
        """Iterations at the end of the search that take the most likely labels; none before draws."""
        return 0 if self.n_draws else GREEDY_STEPS

    @property
    def warm_up(self) -> int:
        """Iterations of sampling before the first draw: the search ends near the posterior, not in it."""
        return max(int(WARM_UP * self.n_draws * self.thin), LEAST_WARM_UP) if self.n_draws else 0

    @property
    def total_iterations(self) -> int:
        """All iterations of a chain: search, warm-up and draws."""
        return self.max_iter + self.warm_up + self.n_draws * self.thin

    @property
    def cluster_limit(self) -> int:
        """No more clusters than this."""
        return NO_LIMIT if self.max_clusters is None else self.max_clusters

    def bind(self, X: Points, full_ratio: bool) -> None:
        """Show the initializer the data, and by what its splits will be accepted."""
        self.initializer.bind(X, SplitCriterion(self.prior, self.partition_prior, full_ratio))


@dataclass
class Result:
    """What a backend gives back. Labels run from 0; outliers, if asked for, carry -1."""

    labels: IntArray
    sublabels: UInt8Array
    trace: Trace = field(default_factory=Trace)
    interrupted: bool = False
    log_posterior: float = float("nan")
    """The log posterior of the labels; not a number where the backend does not say."""
    partition_prior: PartitionPrior | None = None
    """The prior over partitions, with the parameters that go with it."""
    chain: int = 0
    """The number of the chain that it is from."""
    prior: Prior | None = None
    """The prior that goes with it, where it was learned."""
    traces: list[Trace] = field(default_factory=list)
    """The traces of all chains."""
    draws: Draws | None = None
    draw_priors: tuple[Prior, ...] = ()
    """The prior of each draw, one chain after the other."""
    startup_seconds: float = 0.0
    """What starting and compiling the sampler took, of Julia and its workers."""
    agreement: tuple[float, ...] = ()
    """How alike the other chains' best clusterings are to it: their adjusted Rand indices."""
    candidates: list[Any] = field(default_factory=list)
    """Clusterings to compare with it."""
    kept_labels: IntArray | None = None
    kept_sides: UInt8Array | None = None
    """The label and sublabel of each kept cluster, if there are any."""
    statistics: Statistics = None
    """The statistics of the clusters, outliers last, from a backend whose points are elsewhere."""


def search_length(asked: int | str) -> dict[str, Any]:
    """The settings of a search of this length; "auto" ends when it is flat."""
    if isinstance(asked, str):
        return {"max_iter": LONGEST_SEARCH, "stop_when_flat": True}
    return {"max_iter": int(asked)}


def chain_count(asked: int | str, draws: int, rows: int, columns: int = 1) -> int:
    """The number of chains; "auto" is several where they cost little, or with draws."""
    if isinstance(asked, str):
        cheap = rows <= FEW_POINTS and rows * columns <= FEW_NUMBERS
        return SEVERAL if draws or cheap else 1
    return int(asked)


def has_few_numbers(X: Points) -> bool:
    """Whether data are small enough for steps that look at all clusters for all points at once."""
    return bool(X.shape[0] * X.shape[1] <= FEW_NUMBERS)
