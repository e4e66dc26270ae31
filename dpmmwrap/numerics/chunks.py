"""Fixed chunks of rows, and the threads that process them.

Chunks depend only on the shape of the data and sums run in a fixed order (`ordered_sums`), so that no result depends on
the number of threads.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics import labels as label_loops
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.numerics.labels import LabelOrder
from dpmmwrap.numerics.ordered_sums import Nodes, block_edges, group_edges, merge_nodes, power_of_two, reduce_groups

CHUNK_BYTES = 1 << 20
"""Size of a chunk of points, which should stay in a core's second-level cache while it is visited three times."""
SUMS_AT_ONCE = 32 << 20
"""Bytes of sums of groups that are kept at a time, over all threads."""


class Stretch(NamedTuple):
    """The part of all rows that some data hold: a range of whole groups of chunks."""

    first_row: int
    bounds: IntArray
    """Edges of its chunks, starting at 0."""
    first_group: int
    groups: IntArray
    """First chunk of each of its groups, starting at 0, and the end of the last one."""

    @classmethod
    def whole(cls, n_rows: int, bytes_per_row: int) -> Stretch:
        """The stretch of all rows."""
        bounds = chunk_bounds(n_rows, bytes_per_row)
        return cls(0, bounds, 0, group_edges(len(bounds) - 1))

    def part(self, first: int, last: int) -> Stretch:
        """The groups `first` to `last - 1` of all rows."""
        chunks = self.groups[first : last + 1]
        bounds = self.bounds[chunks[0] : chunks[-1] + 1]
        return Stretch(int(bounds[0]), bounds - bounds[0], first, chunks - chunks[0])

    @property
    def n_rows(self) -> int:
        return int(self.bounds[-1])


class Chunks:
    """The chunks of some rows, and a pool of threads."""

    def __init__(self, stretch: Stretch, n_jobs: int) -> None:
        self.stretch = stretch
        self.bounds = stretch.bounds
        self.n_rows = stretch.n_rows
        self.n_jobs = n_jobs
        self.pool = ThreadPoolExecutor(n_jobs) if n_jobs > 1 else None

    def close(self) -> None:
        if self.pool is not None:
            self.pool.shutdown()

    def run(self, task: Callable[[int, int], None], length: int, parts: int) -> None:
        """Call task(begin, end) for parts of a range on all threads; with one thread, once for the whole range."""
        if self.pool is None or length < 2:
            task(0, length)
        else:
            edges = even_edges(length, min(parts, length)).tolist()
            for _ in self.pool.map(task, edges[:-1], edges[1:]):
                pass

    def in_groups(self, begin: int, end: int) -> Iterator[tuple[int, int, slice]]:
        """The chunks of the groups begin to end: number of the group, counted from `begin`, of the chunk, and rows."""
        for group in range(begin, end):
            for chunk in range(self.stretch.groups[group], self.stretch.groups[group + 1]):
                yield group - begin, chunk, slice(int(self.bounds[chunk]), int(self.bounds[chunk + 1]))

    def sum_groups(self, task: Callable[[int, int], tuple[Any, ...]], numbers: int) -> Nodes:
        """Add up what task(begin, end) returns for the groups begin to end: arrays with a leading axis of groups and
        `numbers` entries per group. Runs on all threads."""
        edges = self.blocks(numbers)
        nodes: Nodes = {}

        def reduced(begin: int, end: int) -> Nodes:
            return self.reduced(begin, task(begin, end))

        if len(edges) < 3:
            return reduced(edges[0], edges[-1])
        # Add sums as they arrive, because they are large for wide data.
        for its_nodes in (map if self.pool is None else self.pool.map)(reduced, edges[:-1], edges[1:]):
            nodes = merge_nodes(nodes | its_nodes, overwrite=True)
        return nodes

    def sum_clusters(self, clusters: int, task: Callable[[int, int, int], tuple[Any, ...]], numbers: int) -> Nodes:
        """Add up what task(cluster, begin, end) returns for the groups begin to end of each cluster: arrays with axes
        of groups and of one cluster. Runs on all threads."""
        blocks = list(itertools.pairwise(self.blocks(numbers)))
        # Clusters differ in size, so many small parts keep all threads busy.
        tasks = [(cluster, *block) for cluster in range(clusters) for block in blocks]
        nodes_found: list[list[Nodes]] = [[] for _ in range(clusters)]

        def start(first: int, last: int) -> None:
            for cluster, begin, end in tasks[first:last]:
                nodes_found[cluster].append(self.reduced(begin, task(cluster, begin, end)))

        self.run(start, len(tasks), len(tasks))
        return side_by_side(nodes_found)

    def reduced(self, begin: int, sums: tuple[Any, ...]) -> Nodes:
        """The nodes of the tree of sums for the groups from `begin` on."""
        return reduce_groups(self.stretch.first_group + begin, sums)

    def blocks(self, numbers: int) -> list[int]:
        """Edges of blocks of groups whose sums, with `numbers` entries per group, can be kept at a time."""
        first, count = self.stretch.first_group, len(self.stretch.groups) - 1
        most = min(
            SUMS_AT_ONCE // (8 * numbers * self.n_jobs), count if self.pool is None else count // (4 * self.n_jobs)
        )
        return [edge - first for edge in block_edges(first, first + count, power_of_two(most))]

    def group_rows(self) -> IntArray:
        """First row of each group, and the end of the last one."""
        edges: IntArray = self.bounds[self.stretch.groups]
        return edges

    @property
    def row_type(self) -> Any:
        """One type of row numbers for all loops over them, so that they are compiled once."""
        return np.int32 if self.n_rows < 2**31 else np.int64

    def sort(self, labels: IntArray, count: int) -> LabelOrder:
        """Sort the rows of each chunk by label; `count` is the number of labels."""
        chunks = len(self.bounds) - 1
        order = LabelOrder(np.empty(self.n_rows, np.int32), np.empty((chunks, count + 1), np.int64))

        def sort_part(begin: int, end: int) -> None:
            for _, chunk, some in self.in_groups(begin, end):
                label_loops.sort_by_label(labels[some], order.starts[chunk], order.rows[some])

        self.run(sort_part, len(self.stretch.groups) - 1, 4 * self.n_jobs)
        return order

    def members(self, by_label: LabelOrder, clusters: IntArray) -> list[IntArray]:
        """The row numbers of each of these clusters, in order."""
        sizes = (by_label.starts[:, clusters + 1] - by_label.starts[:, clusters]).sum()
        rows: IntArray = np.empty(int(sizes), self.row_type)
        ends = np.zeros(len(clusters) + 1, np.int64)
        label_loops.collect_members(by_label.rows, by_label.starts, self.bounds, clusters, ends[1:], rows)
        return [rows[begin:end] for begin, end in itertools.pairwise(ends.tolist())]


def side_by_side(clusters: list[list[Nodes]]) -> Nodes:
    """Concatenate the sums of several clusters, each given in pieces."""
    every = [{node: sums for piece in pieces for node, sums in piece.items()} for pieces in clusters]
    return {node: tuple(map(np.concatenate, zip(*(nodes[node] for nodes in every), strict=True))) for node in every[0]}


def chunk_bounds(rows: int, bytes_per_row: int) -> IntArray:
    """Edges of the chunks, which depend only on the shape of the data, so that sums do not depend on threads."""
    largest = min(max(CHUNK_BYTES // bytes_per_row, 4096), 32768)
    # Not too small, because the last block of each cluster in a chunk is only partly filled.
    chunks = max(-(-rows // largest), min(8, rows // 10_000), 1)
    return even_edges(rows, chunks)


def even_edges(length: int, parts: int) -> IntArray:
    """Edges of nearly equal parts of a range."""
    return np.arange(parts + 1) * length // parts
