"""The points in fixed chunks, and the threads that go over them: what is the same for every family.

A family's loops over points are in a class of their own that builds on `Data`: `whitened` for full covariances,
`linear` for all others. Chunks depend on the data's shape alone and sums run in their order, so that no result depends
on the number of threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from dpmmwrap.arrays import Float64Array, IntArray, UInt8Array
from dpmmwrap.families.base import Points, Statistics
from dpmmwrap.sampler.kernels import labels as label_loops
from dpmmwrap.sampler.kernels.labels import LabelOrder
from dpmmwrap.sampler.kernels.pairs import MoveCandidates, Rules
from dpmmwrap.sampler.partition import Partition
from dpmmwrap.sampler.state import ClusterPosteriors, Model, State

CHUNK_BYTES = 1 << 20
"""A chunk of points is to stay in a core's second-level cache while it is looked at three times."""


class Data:
    """The points of a fit, and everything that loops over them."""

    def __init__(self, n_rows: int, bytes_per_row: int, n_jobs: int) -> None:
        self.n_rows = n_rows
        self.bounds = chunk_bounds(n_rows, bytes_per_row)
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

    def sweep(self, state: State, tables: Any, key: Any, greedy: bool) -> tuple[Statistics, Float64Array]:
        """Draw all labels and sublabels; the subclusters' new statistics, and the log probability with which each
        cluster's sublabels came up."""
        raise NotImplementedError

    def add_reverse_proposal_log_prob(
        self, state: State, tables: Any, one: IntArray, other: IntArray, margins: Float64Array
    ) -> Float64Array:
        """`margins` plus the log probability of the last sweep's labels within pairs of its clusters; what is below
        zero is only known to be so."""
        raise NotImplementedError

    def set_sublabels(self, state: State, members: list[IntArray], sides: list[UInt8Array]) -> Statistics:
        """Write the sublabels of whole clusters and return the statistics of their subclusters."""
        raise NotImplementedError

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

    def sweep_labels(self, partition: Partition, tables: Any, key: Any) -> Statistics:
        """Draw all labels; the clusters' new statistics."""
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

    def run(self, task: Callable[[int, int], None], length: int, parts: int) -> None:
        """Do task(begin, end) for so many parts of a length, on all threads; with one thread, all of it at once."""
        if self.pool is None or length < 2:
            task(0, length)
        else:
            edges = even_edges(length, min(parts, length)).tolist()
            for _ in self.pool.map(task, edges[:-1], edges[1:]):
                pass

    def groups(self, numbers: int) -> IntArray:
        """First chunk of each group: chunks whose statistics, so many numbers, are summed one after the other.

        As many groups as memory allows, up to 64; no more depends on them than which threads can work at once.
        """
        most = max(4, (32 << 20) // (8 * numbers))
        chunks = len(self.bounds) - 1
        return even_edges(chunks, min(chunks, 64, most))

    def sort(self, state: State | Partition) -> LabelOrder:
        """Each chunk's rows in order of their labels; the last sweep may have left them."""
        if state.by_label is None:
            chunks = len(self.bounds) - 1
            starts = np.empty((chunks, state.n_clusters + 1), np.int64)
            rows = np.empty(self.n_rows, np.int32)

            def sort_part(begin: int, end: int) -> None:
                label_loops.sort_chunks(state.labels, self.bounds[begin : end + 1], starts[begin:end], rows)

            self.run(sort_part, chunks, 4 * self.n_jobs)
            state.by_label = LabelOrder(rows, starts)
        return state.by_label

    def relabel(self, state: State, to_label: IntArray, to_sublabel: UInt8Array) -> None:
        """Give each point the label and sublabel that its old pair maps to."""
        label_loops.relabel(state.labels, state.sublabels, to_label, to_sublabel)
        state.by_label = None

    def members(self, state: State, clusters: IntArray, counts: Float64Array) -> list[IntArray]:
        """The row numbers of each of these clusters, in order; counts are all clusters'."""
        by_label = self.sort(state)
        rows: IntArray = np.empty(int(counts[clusters].sum()), np.int32 if self.n_rows < 2**31 else np.int64)
        ends = np.zeros(len(clusters) + 1, np.int64)
        label_loops.collect_members(by_label.rows, by_label.starts, self.bounds, clusters, ends[1:], rows)
        return [rows[begin:end] for begin, end in itertools.pairwise(ends.tolist())]

    def halves(self, state: State, members: list[IntArray]) -> list[IntArray]:
        """The row numbers of all left subclusters of whole clusters, then of all right ones."""
        sides = [state.sublabels[rows] > 0 for rows in members]
        left = [rows[~side] for rows, side in zip(members, sides, strict=True)]
        return left + [rows[side] for rows, side in zip(members, sides, strict=True)]


def chunk_bounds(rows: int, bytes_per_row: int) -> IntArray:
    """Edges of the chunks: a function of the data's shape alone, so that sums do not depend on the threads."""
    largest = min(max(CHUNK_BYTES // bytes_per_row, 4096), 32768)
    # Not too small either: in each chunk the last block of a cluster's points is only partly filled.
    chunks = max(-(-rows // largest), min(8, rows // 10_000), 1)
    return even_edges(rows, chunks)


def even_edges(length: int, parts: int) -> IntArray:
    """Where each of so many nearly equal parts begins, and where the last one ends."""
    return np.arange(parts + 1) * length // parts
