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
from dpmmwrap.families.collapsed import ClusterRows
from dpmmwrap.families.points import FamilyPoints
from dpmmwrap.numerics.arrays import Float64Array, IntArray, UInt8Array
from dpmmwrap.numerics.labels import refuse_to_empty
from dpmmwrap.numerics.rules import GivenSides, Rule
from dpmmwrap.sampler.data import Data, SomeRows
from dpmmwrap.sampler.kernels import exact
from dpmmwrap.sampler.kernels.splits import MoveCandidates, Rules
from dpmmwrap.sampler.state import Best, LabelStore, State, SublabelStore

VISITS = 32
"""So many choose their cluster anew in a round, if nothing else is said."""


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
    visits: int = VISITS
    """How many of them choose their cluster anew in each round of exact moves."""


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


class Joined(NamedTuple):
    """Kept clusters joined by their labels, each of which is there once."""

    labels: IntArray
    statistics: Statistics


class KeptInUnion(NamedTuple):
    """The kept clusters in the union of two clusters, and the sides that they are on or are drawn to."""

    numbers: IntArray
    sides: IntArray


class KeptData(Data):
    """Points beside kept clusters: all statistics are those of both."""

    def __init__(self, points: FamilyPoints, kept: Kept) -> None:
        super().__init__(points)
        self.kept, self.n_kept = kept, len(kept.labels)
        self._bundle: tuple[Prior | None, Any] = (None, None)
        self._joined: tuple[IntArray, Joined] | None = None

    def bundle(self, model: Model) -> Any:
        """The kept clusters with their parameters integrated out; made once for each prior."""
        if self._bundle[0] is not model.prior:
            statistics = self.kept.statistics
            self._bundle = (model.prior, self.points.collapsed(model, statistics, len(statistics.counts)))
        return self._bundle[1]

    def some_kept(self, state: State, numbers: IntArray) -> SomeRows:
        """Kept clusters as rows."""
        rows = ClusterRows(self.bundle(state.model), self.points.empty_clusters(state.model, 1))
        return SomeRows(rows, state.kept_labels, numbers, numbers)

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
        return self._with_all(state, subclusters, 2 * state.kept_labels.astype(np.int64) + state.kept_sides), log_probs

    def sweep_labels(self, state: State, tables: Any, key: Any) -> Statistics:
        clusters = super().sweep_labels(state, tables, key)
        return self._with_all(state, clusters, state.kept_labels)

    def _with_all(self, state: State, clusters: Statistics, labels: IntArray) -> Statistics:
        """With all kept clusters, which are joined again only where they have moved."""
        prior = state.model.prior
        if self._joined is None or not np.array_equal(self._joined[0], labels):
            self._joined = labels.copy(), joined_kept(prior, self.kept.statistics, labels)
        return with_joined(prior, clusters, self._joined[1])

    def divide(
        self, state: State, clusters: IntArray, members: Sequence[IntArray], rules: Sequence[Rule]
    ) -> Statistics:
        place_of = np.full(int(max(clusters.max(), state.kept_labels.max(initial=0))) + 1, -1)
        place_of[clusters] = np.arange(len(clusters))
        places, begun = place_of[state.kept_labels], self.begun_by_kept(state, clusters)
        if begun.any():
            rules = self._nearer_kept(state, members, rules, begun, places)
        subclusters = super().divide(state, clusters, members, rules)
        here = np.flatnonzero(places >= 0)
        if not len(here):
            return subclusters
        prior, kept, places = state.model.prior, take(self.kept.statistics, here), places[here]
        known, sides = begun[places], state.kept_sides[here].astype(np.int64)
        halves = with_kept(prior, copied(subclusters), take(kept, known), 2 * places[known] + sides[known])
        bundle = self.points.collapsed(state.model, halves, 2 * len(clusters))
        exact.better_sides(bundle, self.some_kept(state, here).points, here, places, known, sides)
        state.kept_sides[here] = sides
        return with_kept(prior, subclusters, kept, 2 * places + sides)

    def begun_by_kept(self, state: State, clusters: IntArray) -> Any:
        # Later starts are to be others.
        if state.iteration:
            return super().begun_by_kept(state, clusters)
        both = (np.isin(clusters, state.kept_labels[state.kept_sides == side]) for side in (0, 1))
        return np.logical_and(*both)

    def _nearer_kept(
        self, state: State, members: Sequence[IntArray], rules: Sequence[Rule], begun: Any, places: IntArray
    ) -> list[Rule]:
        """The sides of rows by the kept clusters that are the subclusters of their cluster, where these are begun."""
        here = np.flatnonzero(np.append(begun, False)[places])
        kept = take(self.kept.statistics, here)
        halves = grouped_kept(state.model.prior, kept, 2 * places[here] + state.kept_sides[here], 2 * len(members))
        bundle = self.points.collapsed(state.model, halves, 2 * len(members))
        found = list(rules)
        for place in np.flatnonzero(begun).tolist():
            sides = np.empty(len(members[place]), np.uint8)
            exact.nearer_sides(bundle, 2 * place, self.points.loop_points, members[place].astype(np.int64), sides)
            found[place] = GivenSides(sides)
        return found

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
    return with_joined(prior, clusters, joined_kept(prior, kept, labels))


def joined_kept(prior: Prior, kept: Statistics, labels: IntArray) -> Joined:
    """Kept clusters of one label as one."""
    order = np.argsort(labels, kind="stable")
    kept, labels = take(kept, order), labels[order]
    while len(labels):
        # Neighbours of one label are joined until each label is there once.
        number = np.arange(len(labels)) - np.searchsorted(labels, labels)
        second, first = np.flatnonzero(number % 2), np.flatnonzero(number % 2 == 0)
        if not len(second):
            break
        put(kept, second - 1, union(prior, take(kept, second - 1), take(kept, second)))
        kept, labels = take(kept, first), labels[first]
    return Joined(labels, kept)


def copied(statistics: Statistics) -> Statistics:
    return take(statistics, np.arange(len(statistics.counts)))


def with_joined(prior: Prior, clusters: Statistics, joined: Joined) -> Statistics:
    put(clusters, joined.labels, union(prior, take(clusters, joined.labels), joined.statistics))
    return clusters


def grouped_kept(prior: Prior, kept: Statistics, labels: IntArray, count: int) -> Statistics:
    """The statistics of so many clusters of kept ones that have these labels."""
    return with_kept(prior, nothing_like(kept, count), kept, labels)
