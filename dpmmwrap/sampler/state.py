"""Everything that a chain changes, in one object. A checkpoint saves it whole."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.random import SFC64, Generator

from dpmmwrap.families.base import ClusterPosteriors, Model, Prior, Statistics, concatenate, put, take
from dpmmwrap.numerics.arrays import Float64Array, IntArray, UInt8Array
from dpmmwrap.numerics.labels import LabelOrder
from dpmmwrap.partitions import PartitionPrior
from dpmmwrap.sampler.proposals import NO_CLUSTER_SEEDS, ClusterSeeds, Near
from dpmmwrap.sampler.record import Record
from dpmmwrap.sampler.trace import Trace

RECORD = np.dtype(
    [
        ("born_at", np.int64),
        ("subclusters_born_at", np.int64),
        ("improved_at", np.int64),
        ("best_ratio", np.float64),
        ("failed_restarts", np.int64),
        ("proposal_log_prob", np.float64),
    ]
)


class LabelStore(Protocol):
    """The labels of some rows, as the loops over points take them: those of a chain or of a part of its rows."""

    labels: IntArray
    by_label: LabelOrder | None
    before: IntArray | None

    @property
    def n_clusters(self) -> int: ...


class SublabelStore(LabelStore, Protocol):
    """Labels with sublabels."""

    sublabels: UInt8Array


class Best(NamedTuple):
    """The clustering with the highest log posterior that a search has found."""

    log_posterior: float
    labels: IntArray
    sublabels: UInt8Array
    partition_prior: PartitionPrior
    prior: Prior
    kept_labels: IntArray | None = None
    kept_sides: UInt8Array | None = None
    """The cluster and subcluster of each kept cluster (`sampler.kept`), if any."""


NO_LABELS = np.empty(0, np.int32)


@dataclass
class State:
    """The current state of a chain, first of its search, then of its draws."""

    model: Model
    """With the current prior."""
    partition_prior: PartitionPrior
    """With its current parameters."""
    labels: IntArray
    sublabels: UInt8Array
    subclusters: Statistics
    """The statistics of the left and right subcluster of each cluster in turn."""
    records: Any
    """One per cluster. born_at: the iteration in which it was formed. subclusters_born_at: the iteration in which its
    subclusters were formed. improved_at: the iteration in which the log Hastings ratio of its split last exceeded
    best_ratio. failed_restarts: number of consecutive starts without success. proposal_log_prob: log probability with
    which its sublabels were drawn, 0 after a start."""
    rng: Generator = field(default_factory=lambda: Generator(SFC64(0)))
    n_clusters: int = field(init=False)
    iteration: int = 0
    """The last iteration of the search that was started."""
    last: int = 0
    """The last iteration of the search, brought forward when it is flat."""
    exact_due: int = 0
    exact_wait: int = 1
    """The iteration of the next exact moves of the search, and the wait before them."""
    trace: Trace = field(default_factory=Trace)
    best: Best | None = None
    best_of_size: dict[int, Best] = field(default_factory=dict)
    """The best clustering for each number of clusters, if they are compared at the end."""
    collapsed: Any = None
    """The clusters with integrated parameters (`families.collapsed`) and some empty ones, which exact moves change. The
    search creates them for these moves only."""
    cluster_seeds: ClusterSeeds = NO_CLUSTER_SEEDS
    """Rows that single-point moves choose more often, fixed before the first draw."""
    sampled: int = 0
    """Iterations since the end of the search."""
    record: Record = field(default_factory=Record)
    """The draws."""
    kept_labels: IntArray = field(default_factory=NO_LABELS.copy)
    kept_sides: UInt8Array = field(default_factory=lambda: np.empty(0, np.uint8))
    """The cluster and subcluster of each kept cluster (`sampler.kept`), in runs without checkpoints."""
    # The fields below follow from the others and are never saved.
    posteriors: ClusterPosteriors | None = None
    """Posteriors given the statistics, recomputed whenever these or the prior change."""
    tables: Any = None
    """The parameters drawn by the last sweep, in the kernels' layout, until splits and merges have been tried."""
    by_label: LabelOrder | None = None
    """The rows ordered by label, computed on demand and discarded when labels change."""
    before: IntArray | None = None
    """Labels that later changes are compared with (`Data.remember`)."""
    kept_before: IntArray = field(default_factory=NO_LABELS.copy)
    """The same for kept clusters."""
    scratches: SimpleQueue[Any] | None = None
    """Bundles of three clusters for exact moves, one per thread; they depend on the prior."""
    near: Near | None = None
    """Near pairs used by the draws."""

    def __post_init__(self) -> None:
        self.n_clusters = len(self.records)

    @property
    def alpha(self) -> float:
        """The first parameter of the prior over partitions."""
        return self.partition_prior.alpha

    @property
    def known(self) -> ClusterPosteriors:
        """The posteriors, which exist as soon as there are subclusters."""
        assert self.posteriors is not None
        return self.posteriors

    @property
    def counts(self) -> Float64Array:
        """Number (or weight) of the points of each cluster."""
        if self.collapsed is None:
            counts: Float64Array = self.known.clusters.counts
        else:
            counts = self.collapsed.counts[: self.n_clusters]
        return counts

    def use_prior(self, prior: Prior) -> None:
        """Switch to another prior and discard what depends on the old one."""
        self.model = replace(self.model, prior=prior)
        self.posteriors = self.scratches = None

    @property
    def new_record(self) -> tuple[int, int, int, float, int, float]:
        """The record of a cluster formed in this iteration."""
        return self.iteration, self.iteration, self.iteration, -np.inf, 0, 0.0

    def new_records(self, count: int) -> Any:
        records = np.empty(count, RECORD)
        records[:] = self.new_record
        return records

    def begin_subclusters(self, clusters: IntArray, subclusters: Statistics, may_split: bool = False) -> None:
        """Replace stalled subclusters. With `may_split` the new ones count as old as those they replace."""
        self.replace(clusters, subclusters)
        fresh = self.new_records(len(clusters))
        fresh["born_at"] = self.records["born_at"][clusters]
        if may_split:
            fresh["subclusters_born_at"] = self.records["subclusters_born_at"][clusters]
        fresh["failed_restarts"] = self.records["failed_restarts"][clusters] + 1
        self.records[clusters] = fresh

    def replace(self, clusters: IntArray, subclusters: Statistics) -> None:
        """Overwrite the statistics of both subclusters of these clusters."""
        rows = np.repeat(2 * clusters, 2)
        rows[1::2] += 1
        put(self.subclusters, rows, subclusters)

    def merge(self, clusters: IntArray, left: Statistics, right: Statistics) -> None:
        """Replace these clusters by merged ones with these subclusters."""
        in_turn = np.arange(2 * len(clusters)).reshape(2, -1).T.ravel()
        self.replace(clusters, take(concatenate([left, right]), in_turn))
        self.records[clusters] = self.new_record

    def split(self, clusters: IntArray, subclusters: Statistics) -> None:
        """Replace these clusters by their left halves, and append as many clusters with the right halves.

        `subclusters` holds the subclusters of the left halves, then those of the right halves.
        """
        count = len(clusters)
        self.replace(clusters, take(subclusters, slice(0, 2 * count)))
        self.subclusters = concatenate([self.subclusters, take(subclusters, slice(2 * count, None))])
        records = self.new_records(self.n_clusters + count)
        records[: self.n_clusters] = self.records
        records[clusters] = self.new_record
        self.records, self.n_clusters = records, len(records)

    def keep(self, which: Any) -> None:
        """Remove the clusters that are not marked."""
        self.records = self.records[which]
        self.n_clusters = len(self.records)
        self.subclusters = take(self.subclusters, np.repeat(which, 2))


def next_key(rng: Generator) -> Any:
    """A key for the random numbers of one step."""
    return np.uint64(rng.bit_generator.random_raw())


def generator(key: Any) -> Generator:
    """A NumPy generator for steps in Python, from the key of a step."""
    return Generator(SFC64(int(key)))
