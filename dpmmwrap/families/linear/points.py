"""Linear families: a cluster's log density at a point is a sum over columns, O(D) per point and cluster.

A part is one kind of columns: numeric, counts (dense or sparse), or categorical. Each part has loops that add to the
log densities of a chunk's points and to the statistics. Drawing labels is common to all.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.base import ClusterPosteriors, Model, Points, take, with_outlier_weight
from dpmmwrap.families.collapsed import bundles_of, joined, joined_rows
from dpmmwrap.families.linear import kernels
from dpmmwrap.families.linear.parts import Part
from dpmmwrap.families.linear.prior import LinearPrior
from dpmmwrap.families.linear.statistics import LinearStatistics
from dpmmwrap.families.points import NO_WEIGHTS, FamilyPoints, Merges
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, FloatArray, IntArray, UInt8Array
from dpmmwrap.numerics.cells import thread_pools
from dpmmwrap.numerics.chunks import Chunks, Stretch
from dpmmwrap.numerics.labels import LabelOrder, sort_by_label
from dpmmwrap.numerics.ordered_sums import Nodes, reduce_groups
from dpmmwrap.numerics.variates import derived_key
from dpmmwrap.partitions.gibbs_type import GibbsType, draw_weights
from dpmmwrap.partitions.hastings import MergeRule, merge_ratios

PAIRS_PER_CLUSTER = 8
"""With many clusters, merges are proposed only with this many nearest neighbours of each."""
ALL_PAIRS = 40
"""Up to this many clusters, merges of all pairs are proposed."""
MOST_FEATURES = 1024
ROWS_AT_ONCE = 1 << 12
WEIGHTS_KEY = 1 << 48


class Tables(NamedTuple):
    """Drawn parameters of a sweep."""

    log_peaks: Float32Array
    """Log weight plus log density at the mode of each cluster (K,)."""
    subcluster_log_peaks: Float32Array
    """The same for the subclusters (2K,)."""
    parts: tuple[Any, ...]
    """The tables of each part."""


class LinearPoints(FamilyPoints):
    """Points of a linear family, with one or several parts."""

    def __init__(
        self, X: Points, parts: list[Part], n_jobs: int, stretch: Stretch | None = None, weights: Any = None
    ) -> None:
        self.X = X
        self.weights = NO_WEIGHTS if weights is None else weights
        self.parts = parts
        bytes_per_row = sum(part.bytes_per_row for part in self.parts)
        self.chunks = Chunks(stretch or Stretch.whole(X.shape[0], bytes_per_row), n_jobs)
        edges = [0, *itertools.accumulate(part.width for part in self.parts)]
        self.slices = [slice(begin, end) for begin, end in itertools.pairwise(edges)]
        self.width = edges[-1]
        self.exact = all(part.exact for part in self.parts)
        self.sum_type = np.result_type(*(part.sum_type for part in parts))
        self.any_order = self.sum_type == np.float32 and self.chunks.pool is None
        """Whether sums of features are exact in any order, so that all groups can share one array."""

    def digest(self) -> str:
        return " ".join([*(part.digest() for part in self.parts), *self.weights_digest()])

    @property
    def plain_points(self) -> Any:
        return joined_rows([part.points for part in self.parts])

    def zeros(self, groups: int, clusters: int) -> FloatArray:
        """Zero sums of features."""
        return np.zeros((groups, clusters, self.width), self.sum_type)

    def likely_merges(
        self,
        model: Model,
        known: ClusterPosteriors,
        candidates: IntArray,
        rule: MergeRule,
        neg_log_uniform: Float64Array,
    ) -> Merges:
        one, other = pairs_to_try(known.clusters, candidates)
        gains = prior_of(model).union_log_marginals(known.clusters, one, other)
        gains -= known.log_marginal[one] + known.log_marginal[other]
        margins = merge_ratios(rule, known.clusters.counts, one, other, gains)
        margins += neg_log_uniform[: len(one)]
        likely = margins > 0
        return Merges(one[likely], other[likely], margins[likely], len(one))

    def draw_parameters(self, model: Model, weights: GibbsType, known: ClusterPosteriors, key: Any) -> Tables:
        counts = known.clusters.counts[model.outliers :]
        log_weights, log_subweights = draw_weights(derived_key(key, WEIGHTS_KEY), weights, counts, known.sides)
        log_weights = with_outlier_weight(model, log_weights)
        constants = np.zeros(3 * known.n_clusters)
        tables = []
        for number, (part, posterior) in enumerate(zip(self.parts, known.posterior.parts, strict=True)):
            found, its_constants = part.search_tables(posterior, derived_key(key, number << 46), known.n_clusters)
            tables.append(found)
            constants += its_constants
        log_peaks = (np.concatenate([log_weights, log_subweights.ravel()]) + constants).astype(np.float32)
        return Tables(log_peaks[: known.n_clusters], log_peaks[known.n_clusters :], tuple(tables))

    def tables_for_merges(self, tables: Tables) -> Tables:
        left = (part.tables_for_merges(its_tables) for part, its_tables in zip(self.parts, tables.parts, strict=True))
        return tables._replace(parts=tuple(left))

    def draw_clusters(self, model: Model, weights: GibbsType, bundle: Any, count: int, key: Any) -> Tables:
        clusters = self.statistics_of(model, bundle, count)
        posterior = model.prior.posterior(clusters)
        if model.outlier_prior is not None:
            special = model.outlier_prior.posterior(take(clusters, slice(0, 1)))
            posterior = posterior.replaced(np.array([0]), special)
        counts, no_sides = clusters.counts[model.outliers :], np.empty((0, 2))
        log_weights, _ = draw_weights(derived_key(key, WEIGHTS_KEY), weights, counts, no_sides)
        constants, tables = np.zeros(count), []
        for number, (part, its_posterior) in enumerate(zip(self.parts, posterior.parts, strict=True)):
            found, its_constants = part.draw_tables(its_posterior, derived_key(key, number << 46), count)
            tables.append(found)
            constants += its_constants
        log_peaks = (with_outlier_weight(model, log_weights) + constants).astype(np.float32)
        return Tables(log_peaks, np.empty(0, np.float32), tuple(tables))

    def sweep_groups(
        self, labels: IntArray, sublabels: UInt8Array, by_label: LabelOrder, tables: Tables, key: Any, greedy: bool
    ) -> Nodes:
        count, groups = len(tables.log_peaks), self.chunks.stretch.groups
        its_key = derived_key(key, self.chunks.stretch.first_row)

        def sweep_part(first: int, last: int) -> tuple[Any, ...]:
            work, n = Workspace.of(self.chunks.bounds, count), last - first
            counts, log_probs = np.zeros((n, 2 * count)), np.zeros((n, count))
            sums = self.zeros(1 if self.any_order else n, 2 * count)
            for group in range(n):
                own = counts[group], sums[group % len(sums)], log_probs[group]
                for chunk in range(groups[first + group], groups[first + group + 1]):
                    self._sweep_chunk(labels, sublabels, by_label, tables, its_key, greedy, chunk, work, *own)
            return counts, sums, log_probs

        if self.any_order:
            counts, sums, log_probs = sweep_part(0, len(groups) - 1)
            ((counts, log_probs),) = reduce_groups(0, (counts, log_probs)).values()
            return {(0, 0): (counts, sums[0], log_probs)}
        return self.chunks.sum_groups(sweep_part, 2 * count * (self.width + 1))

    def finish_sweep(self, total: tuple[Any, ...], tables: Tables) -> tuple[LinearStatistics, Float64Array]:
        return LinearStatistics(*total[:2]), total[2]

    def _sweep_chunk(
        self, labels: IntArray, sublabels: UInt8Array, by_label: LabelOrder, tables: Tables, key: Any, greedy: bool,
        chunk: int, work: Workspace, counts: Float64Array, sums: Float64Array, log_probs: Float64Array,
    ) -> None:  # fmt: skip
        begin, end = self.chunks.bounds[chunk], self.chunks.bounds[chunk + 1]
        labels, sublabels = labels[begin:end], sublabels[begin:end]
        rows, starts = by_label.rows[begin:end], by_label.starts[chunk]
        its_key = derived_key(key, int(begin))
        logs = work.logs[: end - begin]
        self._draw_chunk_labels(labels, tables, its_key, greedy, chunk, work)
        sort_by_label(labels, starts, rows)
        logs[:] = 0.0
        for part, its_tables in zip(self.parts, tables.parts, strict=True):
            part.add_subcluster_scores(begin, end, rows, starts, its_tables, logs)
        weights = self.weights[begin:end]
        kernels.draw_sublabels(
            logs, rows, starts, tables.subcluster_log_peaks, weights, its_key, greedy, sublabels, log_probs
        )
        kernels.sort_by_side(labels, sublabels, rows, starts, work.rows, work.side_starts)
        counts += sizes_of(work.side_starts, work.rows, weights)
        for part, columns in zip(self.parts, self.slices, strict=True):
            part.add_statistics(begin, end, work.rows, work.side_starts, weights, sums[:, columns])

    def _draw_chunk_labels(
        self, labels: IntArray, tables: Tables, its_key: Any, greedy: bool, chunk: int, work: Workspace
    ) -> None:
        begin, end = self.chunks.bounds[chunk], self.chunks.bounds[chunk + 1]
        scores = work.scores[: end - begin]
        scores[:] = tables.log_peaks
        for part, its_tables in zip(self.parts, tables.parts, strict=True):
            part.add_scores(begin, end, its_tables, scores)
        if len(self.weights):
            scores *= self.weights[begin:end, None]
        kernels.draw_labels(scores, its_key, greedy, labels)

    def label_groups(self, labels: IntArray, by_label: LabelOrder, tables: Tables, key: Any) -> Nodes:
        count, groups, bounds = len(tables.log_peaks), self.chunks.stretch.groups, self.chunks.bounds
        its_key = derived_key(key, self.chunks.stretch.first_row)

        def sweep_part(first: int, last: int) -> tuple[Any, ...]:
            work = Workspace.of(bounds, count)
            counts, sums = np.zeros((last - first, count)), self.zeros(last - first, count)
            for group in range(last - first):
                for chunk in range(groups[first + group], groups[first + group + 1]):
                    begin, end = bounds[chunk], bounds[chunk + 1]
                    rows, starts = by_label.rows[begin:end], by_label.starts[chunk]
                    chunk_key = derived_key(its_key, int(begin))
                    self._draw_chunk_labels(labels[begin:end], tables, chunk_key, False, chunk, work)
                    sort_by_label(labels[begin:end], starts, rows)
                    weights = self.weights[begin:end]
                    counts[group] += sizes_of(starts, rows, weights)
                    for part, columns in zip(self.parts, self.slices, strict=True):
                        part.add_statistics(begin, end, rows, starts, weights, sums[group][:, columns])
            return counts, sums

        return self.chunks.sum_groups(sweep_part, count * (self.width + 1))

    def finish_labels(self, total: tuple[Any, ...], tables: Tables) -> LinearStatistics:
        return LinearStatistics(*total)

    def pair_groups(
        self, by_label: LabelOrder, tables: Tables, one: IntArray, other: IntArray, margins: Float64Array
    ) -> Nodes:
        found = np.zeros((len(self.chunks.stretch.groups) - 1, len(one)))

        def look_at(begin: int, end: int) -> None:
            for pair in range(begin, end):
                both = self.chunks.members(by_label, np.array([one[pair], other[pair]]))
                found[:, pair] = self._pair_log_probs(both, tables, int(one[pair]), int(other[pair]), margins[pair])

        self.chunks.run(look_at, len(one), len(one))
        return reduce_groups(self.chunks.stretch.first_group, (found,))

    def _pair_log_probs(
        self, members: list[IntArray], tables: Tables, one: int, other: int, margin: float
    ) -> Float64Array:
        """For each group, the log probability that its points of two clusters draw the labels they have when only these
        two are available. Once the sum is certain to end below -margin it is set to minus infinity and the rest is
        skipped."""
        edges = self.chunks.group_rows()
        found, least, before = np.zeros(len(edges) - 1), -margin - 1e-6 * (1.0 + abs(margin)), 0.0
        odds = float(tables.log_peaks[other]) - float(tables.log_peaks[one])
        both = [(rows, np.searchsorted(rows, edges)) for rows in members]
        for group in range(len(found)):
            for number, (rows, at) in enumerate(both):
                for begin in range(at[group], at[group + 1], ROWS_AT_ONCE):
                    if before + found[group] < least:
                        found[group] = -np.inf
                        return found
                    some = rows[begin : min(begin + ROWS_AT_ONCE, at[group + 1])]
                    logs = np.zeros((len(some), 2), np.float32)
                    for part, its_tables in zip(self.parts, tables.parts, strict=True):
                        part.add_pair_scores(some, one, other, its_tables, logs)
                    weights = self.weights[some] if len(self.weights) else self.weights
                    found[group] += kernels.pair_log_prob(logs, weights, len(some) if number == 0 else 0, odds)
            before += found[group]
        return found

    def side_groups(
        self, sublabels: UInt8Array, members: Sequence[IntArray], sides: Sequence[UInt8Array], origins: Any
    ) -> Nodes:
        edges = self.chunks.group_rows()

        def start(cluster: int, begin: int, end: int) -> tuple[Any, ...]:
            counts, sums = np.zeros((end - begin, 2)), self.zeros(end - begin, 2)
            at = np.searchsorted(members[cluster], edges[begin : end + 1])
            for group, (low, high) in enumerate(itertools.pairwise(at.tolist())):
                rows, its_sides = members[cluster][low:high], sides[cluster][low:high]
                sublabels[rows] = its_sides
                in_order = np.concatenate([rows[its_sides == 0], rows[its_sides != 0]], dtype=self.chunks.row_type)
                left = int(np.count_nonzero(its_sides == 0))
                starts = np.array([0, left, len(rows)])
                counts[group] = sizes_of(starts, in_order, self.weights)
                for part, columns in zip(self.parts, self.slices, strict=True):
                    part.add_statistics(0, self.chunks.n_rows, in_order, starts, self.weights, sums[group][:, columns])
            return counts, sums

        return self.chunks.sum_clusters(len(members), start, 2 * (self.width + 1))

    def finish_sides(self, total: tuple[Any, ...], origins: Any) -> LinearStatistics:
        return LinearStatistics(*total)

    def empty_clusters(self, model: Model, capacity: int) -> Any:
        return self.collapsed(model, LinearStatistics(np.zeros(0), np.zeros((0, self.width))), capacity)

    def collapsed(self, model: Model, clusters: LinearStatistics, capacity: int) -> Any:
        counts = np.zeros(capacity + 1)
        counts[: len(clusters.counts)] = clusters.counts
        sums = self.zeros(1, capacity + 1)[0]
        sums[: len(clusters.counts)] = clusters.sums
        bundles = [
            part.bundle(prior, counts, np.ascontiguousarray(sums[:, columns]))
            for part, prior, columns in zip(self.parts, prior_of(model).parts, self.slices, strict=True)
        ]
        return joined(counts, bundles)

    def statistics_of(self, model: Model, bundle: Any, count: int) -> LinearStatistics:
        sums = [part.sums_of(own, count) for part, own in zip(self.parts, bundles_of(bundle), strict=True)]
        return LinearStatistics(bundle.counts[:count].copy(), sums[0] if len(sums) == 1 else np.hstack(sums))

    def add_to_statistics(self, statistics: LinearStatistics, k: int, row: int, sign: int) -> None:
        features, rows = np.zeros((1, self.width)), np.array([row])
        for part, columns in zip(self.parts, self.slices, strict=True):
            part.add_statistics(0, self.chunks.n_rows, rows, np.array([0, 1]), self.weights, features[:, columns])
        statistics.counts[k] += sign * self.weight_of(row)
        statistics.sums[k] += sign * features[0]


class Workspace(NamedTuple):
    """Arrays that are overwritten for every chunk."""

    scores: Float32Array
    logs: Float32Array
    rows: IntArray
    side_starts: IntArray

    @classmethod
    def of(cls, bounds: IntArray, count: int) -> Workspace:
        most = int(np.diff(bounds).max())
        return cls(
            np.empty((most, count), np.float32), np.empty((most, 2), np.float32), np.empty(most, np.int32),
            np.empty(2 * count + 1, np.int64),
        )  # fmt: skip


def sizes_of(starts: Any, rows: Any, weights: Float64Array) -> Any:
    """Number, or total weight, of the rows in each group; group g has the rows starts[g] to starts[g + 1]."""
    if not len(weights):
        return np.diff(starts)
    # Weights are rounded so that their sums are exact in any order (`numerics.weights`).
    return np.diff(np.append(0.0, np.cumsum(weights[rows[: starts[-1]]]))[starts])


def prior_of(model: Model) -> LinearPrior:
    assert isinstance(model.prior, LinearPrior)
    return model.prior


def pairs_to_try(clusters: LinearStatistics, candidates: IntArray) -> tuple[IntArray, IntArray]:
    """The pairs of clusters for which merges are proposed: all pairs, or pairs of near neighbours if there are many
    clusters."""
    if len(candidates) < 2:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    if len(candidates) <= ALL_PAIRS:
        i, j = np.triu_indices(len(candidates), 1)
        return candidates[i], candidates[j]
    every: Any = clusters.sums
    columns: Any = slice(None)
    if every.shape[1] > MOST_FEATURES:
        # With thousands of words the most common ones suffice to find the nearest clusters.
        totals = sum((np.abs(every[k]) for k in candidates), np.zeros(every.shape[1]))
        columns = np.argpartition(-totals, MOST_FEATURES)[:MOST_FEATURES]
    sums = every[:, columns][candidates].astype(np.float64)
    counts = clusters.counts[candidates]
    means = sums / np.where(counts > 0, counts, 1.0)[:, None]
    scale = means.std(axis=0)
    means = (means / np.where(scale > 0, scale, 1.0)).astype(np.float32)
    squares = (means * means).sum(axis=1)
    # With more threads than idle cores, threads wait for each other.
    with thread_pools().limit(limits=1):
        distances = squares[:, None] + squares - 2 * means @ means.T
    np.fill_diagonal(distances, np.inf)
    near = np.argpartition(distances, PAIRS_PER_CLUSTER, axis=1)[:, :PAIRS_PER_CLUSTER]
    i = np.repeat(np.arange(len(candidates)), PAIRS_PER_CLUSTER)
    both = np.unique(np.sort(np.stack([i, near.ravel()], axis=1), axis=1), axis=0)
    return candidates[both[:, 0]], candidates[both[:, 1]]
