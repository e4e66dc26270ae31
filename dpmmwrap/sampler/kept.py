"""Clusters of rows that are gone: their statistics stay, and each moves as a whole.

The posterior is that of all rows, those that are gone and those that are here, given that the rows of each kept cluster
stay together. Rows join a kept cluster or leave it as they do any other. Kept clusters merge, and part again, when the
clusters that they are in do. With `apart` they never share a cluster: then it is as if their rows had known labels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.base import Model, Points, Prior, Statistics, concatenate, nothing_like, put, take
from dpmmwrap.families.points import FamilyPoints
from dpmmwrap.numerics.arrays import Float64Array, IntArray, UInt8Array
from dpmmwrap.numerics.labels import refuse_to_empty
from dpmmwrap.numerics.rules import GivenSides, Rule
from dpmmwrap.sampler.data import Data
from dpmmwrap.sampler.kernels.splits import MoveCandidates, Rules
from dpmmwrap.sampler.state import Best, LabelStore, State, SublabelStore


class Kept(NamedTuple):
    """Kept clusters."""

    statistics: Statistics
    labels: IntArray
    """The cluster that each begins in."""
    sides: UInt8Array
    """And the subcluster."""
    apart: bool = False
    """Whether no two of them may be in one cluster."""
    counts_observed: bool = False
    """Whether the statistics count observed values (`Prior.counting_observed`), so that those of the rows should."""


def kept_beside(
    points: Points, prior: Prior, statistics: Statistics, labels: IntArray, apart: bool, sides: Any = None
) -> Kept:
    """Kept clusters beside these points; if either has gaps, the statistics of both count observed values."""
    counts_observed = False
    if not prior.correlated:
        of_rows = prior.statistics(points, np.full(points.shape[0], -1, np.int32), 1)
        counts_observed = any(one.shape[1:] != other.shape[1:] for one, other in zip(of_rows, statistics, strict=True))
    statistics = prior.counting_observed(statistics) if counts_observed else statistics
    sides = np.zeros(len(labels), np.uint8) if sides is None else sides
    return Kept(statistics, labels.astype(np.int32), sides, apart, counts_observed)


class KeptInUnion(NamedTuple):
    """The kept clusters in the union of two clusters, and the sides that they are on or are drawn to."""

    numbers: IntArray
    sides: IntArray


class KeptData(Data):
    """Points beside kept clusters: all statistics are those of both."""

    def __init__(self, points: FamilyPoints, kept: Kept) -> None:
        super().__init__(points)
        self.kept = kept
        self._bundle: tuple[Prior | None, Any] = (None, None)

    def bundle(self, model: Model) -> Any:
        """The kept clusters with their parameters integrated out; made once for each prior."""
        if self._bundle[0] is not model.prior:
            statistics = self.kept.statistics
            self._bundle = (model.prior, self.points.collapsed(model, statistics, len(statistics.counts)))
        return self._bundle[1]

    def in_union(self, state: State, one: int, other: int) -> KeptInUnion:
        """The kept clusters in two clusters, in order: on side 1 those in the second."""
        labels = state.kept_labels
        numbers = np.flatnonzero((labels == one) | (labels == other))
        return KeptInUnion(numbers, (labels[numbers] == other).astype(np.int64))

    def holds_kept(self, state: State, clusters: IntArray) -> Any:
        """Which clusters have a kept one in them."""
        return np.isin(clusters, state.kept_labels)

    # What loops over the points have found, with the kept clusters.

    def begin_labels(self, state: LabelStore, first: Any, key: Any) -> IntArray:
        assert isinstance(state, State)
        state.kept_labels = self.kept.labels.astype(np.int32)
        state.kept_sides = self.kept.sides.copy()
        counts = super().begin_labels(state, first, key)
        own = np.bincount(state.kept_labels, minlength=len(counts))
        own[: len(counts)] += counts
        return own

    def sweep(self, state: State, tables: Any, key: Any, greedy: bool) -> tuple[Statistics, Float64Array]:
        subclusters, log_probs = super().sweep(state, tables, key, greedy)
        places = 2 * state.kept_labels.astype(np.int64) + state.kept_sides
        return with_kept(state.model.prior, subclusters, self.kept.statistics, places), log_probs

    def sweep_labels(self, state: State, tables: Any, key: Any) -> Statistics:
        clusters = super().sweep_labels(state, tables, key)
        return with_kept(state.model.prior, clusters, self.kept.statistics, state.kept_labels)

    def divide(
        self, state: State, clusters: IntArray, members: Sequence[IntArray], rules: Sequence[Rule]
    ) -> Statistics:
        begun = self.begun_by_kept(state, clusters)
        own = [
            self._nearer_kept(state, int(cluster), rows) if by_kept else rule
            for cluster, rows, rule, by_kept in zip(clusters, members, rules, begun, strict=True)
        ]
        subclusters = super().divide(state, clusters, members, own)
        for place, cluster in enumerate(clusters.tolist()):
            numbers = np.flatnonzero(state.kept_labels == cluster)
            if begun[place]:
                places = 2 * place + state.kept_sides[numbers].astype(np.int64)
                subclusters = with_kept(state.model.prior, subclusters, take(self.kept.statistics, numbers), places)
                continue
            for number in numbers.tolist():
                subclusters = self._put_on_better_side(state, subclusters, place, number)
        return subclusters

    def begun_by_kept(self, state: State, clusters: IntArray) -> Any:
        # Later starts are to be others.
        if state.iteration:
            return super().begun_by_kept(state, clusters)
        both = (np.isin(clusters, state.kept_labels[state.kept_sides == side]) for side in (0, 1))
        return np.logical_and(*both)

    def _nearer_kept(self, state: State, cluster: int, rows: IntArray) -> Rule:
        """The sides of rows by the kept clusters that are the subclusters of their cluster."""
        prior, numbers = state.model.prior, np.flatnonzero(state.kept_labels == cluster)
        halves = grouped_kept(prior, take(self.kept.statistics, numbers), state.kept_sides[numbers].astype(np.int64), 2)
        if not len(rows):
            return GivenSides(np.zeros(0, np.uint8))
        logs = prior.posterior(halves).log_predictive(self.take(rows)) + np.log(halves.counts)[:, None]
        return GivenSides((logs[1] > logs[0]).astype(np.uint8))

    def _put_on_better_side(self, state: State, subclusters: Statistics, place: int, number: int) -> Statistics:
        """Add a kept cluster to the side of a cluster that makes it more probable."""
        prior, own = state.model.prior, take(self.kept.statistics, slice(number, number + 1))
        halves = take(subclusters, slice(2 * place, 2 * place + 2))
        with_it = union(prior, halves, concatenate([own, own]))
        gains = prior.log_marginal_likelihood(with_it) - prior.log_marginal_likelihood(halves)
        side = int(gains[1] > gains[0])
        state.kept_sides[number] = side
        put(subclusters, slice(2 * place + side, 2 * place + side + 1), take(with_it, slice(side, side + 1)))
        return subclusters

    def relabel(self, state: SublabelStore, to_label: IntArray, to_sublabel: UInt8Array) -> None:
        assert isinstance(state, State)
        super().relabel(state, to_label, to_sublabel)
        pairs = (state.kept_labels, state.kept_sides)
        state.kept_labels, state.kept_sides = to_label[pairs].astype(np.int32), to_sublabel[pairs]

    def map_labels(self, state: LabelStore, to_label: IntArray) -> None:
        assert isinstance(state, State)
        super().map_labels(state, to_label)
        state.kept_labels = to_label[state.kept_labels].astype(np.int32)

    def remember(self, state: LabelStore) -> None:
        assert isinstance(state, State)
        super().remember(state)
        state.kept_before = state.kept_labels.copy()

    def changes(self, state: LabelStore, were: int, are: int) -> IntArray:
        assert isinstance(state, State)
        table = super().changes(state, were, are)
        sizes = np.ceil(self.kept.statistics.counts).astype(np.int64)
        np.add.at(table, (state.kept_before, state.kept_labels), sizes)
        return table

    def refuse_to_empty(self, state: State) -> Any:
        # A kept cluster stays where it is, so that its cluster never empties.
        rows, before = self.n_rows, state.before
        assert before is not None
        every = np.concatenate([state.labels, state.kept_labels])
        were = np.concatenate([before, state.kept_labels])
        refused = refuse_to_empty(were, every, state.n_clusters, state.model.outliers)
        if len(refused):
            state.labels[:], state.by_label = every[:rows], None
        return [(int(row), int(before[row]), int(wanted)) for row, wanted in refused]

    def best_of(self, state: State, log_posterior: float) -> Best:
        return (
            super()
            .best_of(state, log_posterior)
            ._replace(kept_labels=state.kept_labels.copy(), kept_sides=state.kept_sides.copy())
        )

    def sizes(self, state: State) -> Float64Array:
        return np.bincount(state.labels, minlength=state.n_clusters).astype(np.float64)

    def evaluate_moves(self, rules: Rules, state: State, neg_log_uniform: Float64Array) -> MoveCandidates:
        found = super().evaluate_moves(rules, state, neg_log_uniform)
        if not self.kept.apart:
            return found
        allowed = ~(self.holds_kept(state, found.one) & self.holds_kept(state, found.other))
        return found._replace(one=found.one[allowed], other=found.other[allowed], margins=found.margins[allowed])


def union(prior: Prior, one: Statistics, other: Statistics) -> Statistics:
    """The statistics of the unions, pair by pair."""
    count = len(one.counts)
    in_turn = take(concatenate([one, other]), np.arange(2 * count).reshape(2, -1).T.ravel())
    return take(prior.with_unions(in_turn), slice(0, count))


def with_kept(prior: Prior, clusters: Statistics, kept: Statistics, labels: IntArray) -> Statistics:
    """The statistics of clusters together with those of kept ones that have these labels."""
    left = np.arange(len(labels))
    while len(left):
        # Each cluster once in a round.
        _, first = np.unique(labels[left], return_index=True)
        now = left[first]
        put(clusters, labels[now], union(prior, take(clusters, labels[now]), take(kept, now)))
        left = np.delete(left, first)
    return clusters


def grouped_kept(prior: Prior, kept: Statistics, labels: IntArray, count: int) -> Statistics:
    """The statistics of so many clusters of kept ones that have these labels."""
    return with_kept(prior, nothing_like(kept, count), kept, labels)
