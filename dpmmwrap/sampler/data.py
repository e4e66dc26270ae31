"""The points in fixed chunks, and the threads that go over them: what is the same for every family.

A family's loops over points are in a class of their own that builds on `Data`: `whitened` for full covariances,
`linear` for all others. Chunks depend on the data's shape alone and sums run in a fixed order (`ordered_sums`), so that
no result depends on the number of threads.

The chain knows no more of points and labels than what is here. Where they are on several machines, each has a `Data`
of its own over a `Stretch` of the rows, and `backends.dask` puts together what they find.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.base import Points, Prior, Statistics
from dpmmwrap.families.full.pairs import MoveCandidates, Rules
from dpmmwrap.numerics import labels as label_loops
from dpmmwrap.numerics.arrays import Float64Array, IntArray, UInt8Array
from dpmmwrap.numerics.labels import LabelOrder
from dpmmwrap.numerics.ordered_sums import Nodes, block_edges, group_edges, power_of_two, reduce_groups, total_of
from dpmmwrap.numerics.rules import Rows, Rule, sides_by
from dpmmwrap.sampler.kernels.exact import collect_unions, refuse_to_empty
from dpmmwrap.sampler.partition import Partition
from dpmmwrap.sampler.state import Best, ClusterPosteriors, LabelStore, Model, State, SublabelStore

CHUNK_BYTES = 1 << 20
"""A chunk of points is to stay in a core's second-level cache while it is looked at three times."""
SUMS_AT_ONCE = 32 << 20
"""Bytes of sums of groups that are kept at once, on all threads."""


class Stretch(NamedTuple):
    """Which part of all rows some data are: whole groups of chunks."""

    first_row: int
    bounds: IntArray
    """Edges of its chunks, the first of them 0."""
    first_group: int
    groups: IntArray
    """First chunk of each of its groups, the first of them 0, and the end of the last."""

    @classmethod
    def whole(cls, n_rows: int, bytes_per_row: int) -> Stretch:
        """All rows."""
        bounds = chunk_bounds(n_rows, bytes_per_row)
        return cls(0, bounds, 0, group_edges(len(bounds) - 1))

    def part(self, first: int, last: int) -> Stretch:
        """The groups first to last of all rows."""
        chunks = self.groups[first : last + 1]
        bounds = self.bounds[chunks[0] : chunks[-1] + 1]
        return Stretch(int(bounds[0]), bounds - bounds[0], first, chunks - chunks[0])

    @property
    def n_rows(self) -> int:
        return int(self.bounds[-1])


class SomeRows(NamedTuple):
    """Points and labels of some rows, as compiled loops take them."""

    points: Any
    labels: IntArray
    rows: IntArray
    """Where they are in points and labels."""
    numbers: IntArray
    """Their numbers in the data."""


class Unions(NamedTuple):
    """The points of several unions of clusters, one union after the other."""

    starts: IntArray
    rows: IntArray
    """Where they are in points and labels."""
    points: Any
    labels: IntArray
    pairs: IntArray
    """Where the two points are that each union is of."""
    numbers: IntArray | None = None
    """The rows' numbers in the data, if they are not the rows themselves."""


class Data:
    """The points of a fit, and everything that loops over them."""

    X: Points

    def __init__(self, stretch: Stretch, n_jobs: int) -> None:
        self.n_rows = stretch.n_rows
        self.stretch = stretch
        self.bounds = stretch.bounds
        self.n_jobs = n_jobs
        self.pool = ThreadPoolExecutor(n_jobs) if n_jobs > 1 else None

    # What a family's own loops have to do.

    def compute_posteriors(self, model: Model, subclusters: Statistics) -> ClusterPosteriors:
        """Posteriors and marginal likelihoods from the subclusters' statistics."""
        raise NotImplementedError

    def evaluate_moves(
        self, model: Model, rules: Rules, state: State, neg_log_uniform: Float64Array
    ) -> tuple[ClusterPosteriors, MoveCandidates]:
        """What the statistics say, and which splits and merges they accept."""
        raise NotImplementedError

    def draw_parameters(self, model: Model, state: State, key: Any) -> Any:
        """Weights and parameters of clusters and subclusters drawn from their posteriors, as the kernels take them."""
        raise NotImplementedError

    def sweep_groups(self, state: SublabelStore, tables: Any, key: Any, greedy: bool) -> Nodes:
        """Draw all labels and sublabels; what is summed over the points."""
        raise NotImplementedError

    def finish_sweep(self, total: tuple[Any, ...], tables: Any) -> tuple[Statistics, Float64Array]:
        """From all sums of a sweep: the subclusters' statistics, and the log probability with which each cluster's
        sublabels came up."""
        raise NotImplementedError

    def pair_groups(
        self, state: LabelStore, tables: Any, one: IntArray, other: IntArray, margins: Float64Array
    ) -> Nodes:
        """log probability of the last sweep's labels within pairs of its clusters; sums that are surely below -margin
        are not gone on with, and minus infinity."""
        raise NotImplementedError

    def side_groups(
        self, state: SublabelStore, members: list[IntArray], sides: list[UInt8Array], origins: Any
    ) -> Nodes:
        """Write the sublabels of whole clusters; sums of their subclusters about the clusters' origins."""
        raise NotImplementedError

    def finish_sides(self, total: tuple[Any, ...], origins: Any) -> Statistics:
        """The subclusters' statistics, from these sums."""
        raise NotImplementedError

    def origins_of(self, members: Sequence[IntArray]) -> Any:
        """A point of each cluster (any will do), about which sums are taken; None where none is needed."""
        return None

    @property
    def exact(self) -> bool:
        """Whether exact moves can be made."""
        return True

    @property
    def loop_points(self) -> Any:
        """The points as compiled loops take them."""
        raise NotImplementedError

    def take(self, rows: IntArray) -> Points:
        """Some points as the family stores them."""
        raise NotImplementedError

    def empty_clusters(self, model: Model, places: int) -> Any:
        """So many empty clusters with their parameters integrated out (`kernels.collapsed`)."""
        raise NotImplementedError

    def collapsed(self, model: Model, clusters: Statistics, places: int) -> Any:
        """Clusters with their parameters integrated out, from their statistics, and empty ones up to so many."""
        raise NotImplementedError

    def statistics_of(self, model: Model, partition: Partition) -> Statistics:
        """The statistics of a partition's clusters."""
        raise NotImplementedError

    def log_marginals(self, model: Model, partition: Partition) -> Float64Array:
        """log marginal likelihood of each cluster."""
        raise NotImplementedError

    def draw_clusters(self, model: Model, partition: Partition, key: Any) -> Any:
        """Weights and parameters of clusters drawn from their posteriors, as the kernels take them."""
        raise NotImplementedError

    def label_groups(self, partition: LabelStore, tables: Any, key: Any) -> Nodes:
        """Draw all labels; what is summed over the points."""
        raise NotImplementedError

    def finish_labels(self, total: tuple[Any, ...], tables: Any) -> Statistics:
        """The clusters' statistics, from these sums."""
        raise NotImplementedError

    def add_to_statistics(self, statistics: Statistics, k: int, row: int, sign: int) -> None:
        """Add a point to the statistics in row k, or take it out."""
        raise NotImplementedError

    def digest(self) -> str:
        """A word that no other data have."""
        raise NotImplementedError

    # What is the same for all.

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown()

    def flush(self) -> None:
        """Have everything done that may wait: nothing here."""

    def end_iteration(self, iteration: int) -> None:
        """An iteration is over: nothing to do here."""

    def nothing(self, model: Model) -> Statistics:
        """The statistics of no cluster at all."""
        return model.prior.statistics(self.X[:0], np.zeros(0, np.int32), 0)

    def sweep(self, state: State, tables: Any, key: Any, greedy: bool) -> tuple[Statistics, Float64Array]:
        """Draw all labels and sublabels; the subclusters' new statistics, and the log probability with which each
        cluster's sublabels came up."""
        return self.finish_sweep(total_of(self.sweep_groups(state, tables, key, greedy)), tables)

    def sweep_labels(self, partition: Partition, tables: Any, key: Any) -> Statistics:
        """Draw all labels; the clusters' new statistics."""
        return self.finish_labels(total_of(self.label_groups(partition, tables, key)), tables)

    def add_reverse_proposal_log_prob(
        self, state: State, tables: Any, one: IntArray, other: IntArray, margins: Float64Array
    ) -> Float64Array:
        """`margins` plus the log probability of the last sweep's labels within pairs of its clusters; what is below
        zero is only known to be so."""
        (found,) = total_of(self.pair_groups(state, tables, one, other, margins))
        return np.asarray(margins + found)

    def set_sublabels(self, state: State, members: list[IntArray], sides: list[UInt8Array]) -> Statistics:
        """Write the sublabels of whole clusters and return the statistics of their subclusters."""
        origins = self.origins_of(members)
        return self.finish_sides(total_of(self.side_groups(state, members, sides, origins)), origins)

    def divide(
        self, state: State, clusters: IntArray, members: Sequence[IntArray], rules: Sequence[Rule]
    ) -> Statistics:
        """Divide clusters, whose members these are, by a rule each; the statistics of their subclusters."""
        sides = [sides_by(rule, self.rows_of(state, rows)) for rule, rows in zip(rules, members, strict=True)]
        return self.set_sublabels(state, list(members), sides)

    def rows_of(self, state: SublabelStore, rows: IntArray) -> Rows:
        """Some rows as rules look at them."""
        return Rows(self.X, rows, self.stretch.first_row, state.sublabels, state.before)

    def run(self, task: Callable[[int, int], None], length: int, parts: int) -> None:
        """Do task(begin, end) for so many parts of a length, on all threads; with one thread, all of it at once."""
        if self.pool is None or length < 2:
            task(0, length)
        else:
            edges = even_edges(length, min(parts, length)).tolist()
            for _ in self.pool.map(task, edges[:-1], edges[1:]):
                pass

    def sum_groups(self, task: Callable[[int, int], tuple[Any, ...]], numbers: int) -> Nodes:
        """What task(begin, end) sums for the groups begin to end (arrays with a leading axis, so many numbers a group),
        on all threads."""
        nodes: Nodes = {}
        for found in self.each_block(lambda begin, end: self._reduced(begin, task(begin, end)), numbers):
            nodes.update(found)
        return nodes

    def _reduced(self, begin: int, sums: tuple[Any, ...]) -> Nodes:
        return reduce_groups(self.stretch.first_group + begin, sums)

    def each_block(self, task: Callable[[int, int], Any], numbers: int) -> list[Any]:
        """What task(begin, end) finds for blocks of groups, on all threads."""
        edges = self.blocks(numbers)
        if self.pool is None or len(edges) < 3:
            return [task(begin, end) for begin, end in itertools.pairwise(edges)]
        return list(self.pool.map(task, edges[:-1], edges[1:]))

    def blocks(self, numbers: int) -> list[int]:
        """Edges of blocks of groups whose sums, so many numbers a group, can be kept at once."""
        first, count = self.stretch.first_group, len(self.stretch.groups) - 1
        most = min(
            SUMS_AT_ONCE // (8 * numbers * self.n_jobs), count if self.pool is None else count // (4 * self.n_jobs)
        )
        return [edge - first for edge in block_edges(first, first + count, power_of_two(most))]

    def group_rows(self) -> IntArray:
        """First row of each group, and the end of the last."""
        edges: IntArray = self.bounds[self.stretch.groups]
        return edges

    def sort(self, state: LabelStore, count: int | None = None) -> LabelOrder:
        """Each chunk's rows in order of their labels, of which there are `count`; the last sweep may have left them."""
        if state.by_label is None:
            chunks = len(self.bounds) - 1
            starts = np.empty((chunks, (state.n_clusters if count is None else count) + 1), np.int64)
            rows = np.empty(self.n_rows, np.int32)

            def sort_part(begin: int, end: int) -> None:
                label_loops.sort_chunks(state.labels, self.bounds[begin : end + 1], starts[begin:end], rows)

            self.run(sort_part, chunks, 4 * self.n_jobs)
            state.by_label = LabelOrder(rows, starts)
        order: LabelOrder = state.by_label
        return order

    def begin_labels(self, state: LabelStore, first: Any, key: Any) -> IntArray:
        """First labels: a number of clusters to draw from, labels, or a rule that gives them; how often each occurs."""
        if isinstance(first, (int, np.integer)):
            label_loops.random_labels(key, self.stretch.first_row, int(first), state.labels)
        else:
            state.labels[:] = first(self.X) if callable(first) else first
        state.by_label = None
        return np.bincount(state.labels)

    def relabel(self, state: SublabelStore, to_label: IntArray, to_sublabel: UInt8Array) -> None:
        """Give each point the label and sublabel that its old pair maps to."""
        label_loops.relabel(state.labels, state.sublabels, to_label, to_sublabel)
        state.by_label = None

    def map_labels(self, state: LabelStore, to_label: IntArray) -> None:
        """Give each point the label that its old one maps to, unless all stay."""
        state.by_label = None
        if not np.array_equal(to_label, np.arange(len(to_label))):
            np.take(to_label.astype(np.int32), state.labels, out=state.labels)

    @property
    def row_type(self) -> Any:
        """Of row numbers: loops over them are compiled once."""
        return np.int32 if self.n_rows < 2**31 else np.int64

    def members(self, state: LabelStore, clusters: IntArray, count: int | None = None) -> list[IntArray]:
        """The row numbers of each of these clusters, in order; `count` is the number of all clusters, if the state's is
        another."""
        by_label = self.sort(state, count)
        sizes = (by_label.starts[:, clusters + 1] - by_label.starts[:, clusters]).sum()
        rows: IntArray = np.empty(int(sizes), self.row_type)
        ends = np.zeros(len(clusters) + 1, np.int64)
        label_loops.collect_members(by_label.rows, by_label.starts, self.bounds, clusters, ends[1:], rows)
        return [rows[begin:end] for begin, end in itertools.pairwise(ends.tolist())]

    def remember(self, state: LabelStore) -> None:
        """Keep the labels as they are, to be compared with what becomes of them."""
        state.before = state.labels.copy()

    def changes(self, state: LabelStore, were: int, are: int) -> IntArray:
        """How many points had each label when they were remembered, and have each now."""
        table = np.zeros((were, are), np.int64)
        label_loops.contingency(state.before, state.labels, table)
        return table

    def refuse_to_empty(self, partition: Partition, outliers: int) -> Any:
        """Undo steps, since labels were remembered, that would take a cluster's last point away: rows, where each stays
        and where it would have gone."""
        before = partition.before
        found = refuse_to_empty(before, partition.labels, partition.n_clusters, outliers)
        if len(found):
            partition.by_label = None
        return [(int(row), int(before[row]), int(wanted)) for row, wanted in found]  # type: ignore[index]

    def table_with(self, state: State, truth: IntArray) -> IntArray:
        """How many points have each pair of true label and label."""
        table = np.zeros((int(truth.max()) + 1, state.n_clusters), np.int64)
        label_loops.contingency(truth, state.labels, table)
        return table

    def best_of(self, state: State, log_posterior: float, prior: Prior) -> Best:
        """A copy of the present clustering."""
        return Best(log_posterior, state.labels.copy(), state.sublabels.copy(), state.alpha, prior)

    def saved_labels(self, state: State, best: Best | None, path: Path) -> dict[str, Any]:
        """What a checkpoint with that path is to hold of labels."""
        arrays: dict[str, Any] = {"labels": state.labels, "sublabels": state.sublabels}
        if best is not None:
            arrays |= {"best_labels": best.labels, "best_sublabels": best.sublabels}
        return arrays

    def have_saved(self, path: Path) -> None:
        """The checkpoint is there."""

    def restored_labels(self, state: State, arrays: dict[str, Any]) -> tuple[Any, Any]:
        """Put labels back as a checkpoint has them; the best labels and sublabels, if it has any."""
        state.labels[:] = arrays["labels"]
        state.sublabels[:] = arrays["sublabels"]
        return arrays.get("best_labels"), arrays.get("best_sublabels")

    def some_rows(self, rows: IntArray, partition: Partition | None = None) -> SomeRows:
        """Points, and labels if there is a partition, of some rows."""
        labels = np.empty(0, np.int32) if partition is None else partition.labels
        return SomeRows(self.loop_points, labels, rows, rows)

    def labels_at(self, partition: Partition, rows: IntArray) -> IntArray:
        """The labels of some rows."""
        found: IntArray = partition.labels[rows]
        return found

    def unions(self, partition: Partition, pairs: IntArray, one: IntArray, other: IntArray, wanted: Any) -> Unions:
        """The points of the wanted unions of the clusters of two points each."""
        starts, rows = collect_unions(partition.labels, partition.counts, one, other, wanted)
        return Unions(starts, rows, self.loop_points, partition.labels, pairs[wanted])

    def put_labels(self, partition: Partition, changed: SomeRows | Unions) -> None:
        """Take over labels that loops have written."""
        partition.by_label = None


def chunk_bounds(rows: int, bytes_per_row: int) -> IntArray:
    """Edges of the chunks: a function of the data's shape alone, so that sums do not depend on the threads."""
    largest = min(max(CHUNK_BYTES // bytes_per_row, 4096), 32768)
    # Not too small either: in each chunk the last block of a cluster's points is only partly filled.
    chunks = max(-(-rows // largest), min(8, rows // 10_000), 1)
    return even_edges(rows, chunks)


def even_edges(length: int, parts: int) -> IntArray:
    """Where each of so many nearly equal parts begins, and where the last one ends."""
    return np.arange(parts + 1) * length // parts
