"""Sums over the points of full-covariance clusters: their arrays, and the calls of the loops that fill them."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.families.full import kernels, pairs
from dpmmwrap.families.full.blocks import BUFFER, LANES
from dpmmwrap.families.full.kernels import SubclusterTables, Sums, Tables, new_workspace
from dpmmwrap.families.full.wishart import Statistics
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, IntArray, UInt8Array
from dpmmwrap.numerics.chunks import Chunks
from dpmmwrap.numerics.labels import LabelOrder
from dpmmwrap.numerics.ordered_sums import Nodes, reduce_groups

NO_SUBCLUSTERS = SubclusterTables(*(np.empty((0,) * axes, np.float32) for axes in (3, 2, 1)))
NO_SIDES, NO_LOGS = np.empty(0, np.uint8), np.empty(0)


def new_sums(groups: int, clusters: int, sides: int, dim: int) -> tuple[Any, Any, Any]:
    """Zero counts, sums and squares."""
    shape = (groups, clusters, sides)
    return np.zeros(shape), np.zeros((*shape, dim)), np.zeros((*shape, dim, dim))


def start_groups(
    X: Float32Array, weights: Float64Array, chunks: Chunks, sublabels: UInt8Array, members: IntArray,
    sides: UInt8Array, origin: Float32Array, begin: int, end: int,
) -> tuple[Any, ...]:  # fmt: skip
    """Write the sublabels of a cluster; return its sums in the groups from `begin` to `end`."""
    rows, sums = members.astype(chunks.row_type, copy=False), new_sums(end - begin, 1, 2, X.shape[1])
    bounds = np.searchsorted(rows, chunks.group_rows()[begin : end + 1])
    counts, totals, squares = (total.reshape(end - begin, *total.shape[2:]) for total in sums)
    own = Sums(counts, totals, squares, NO_LOGS)
    kernels.draw_sublabels(
        X, weights, sublabels, bounds, rows, np.repeat(origin[None], end - begin, axis=0), NO_SUBCLUSTERS,
        np.uint64(0), False, new_workspace(0, X.shape[1], len(weights) > 0), own, False, sides, -1,
    )  # fmt: skip
    return sums


def sides_of(sublabels: UInt8Array | None) -> int:
    """Number of sides of a cluster in sums over points."""
    return 1 if sublabels is None else 2


def draw_sides(
    X: Float32Array, weights: Float64Array, sublabels: UInt8Array | None, some: slice, starts: IntArray,
    rows: IntArray, tables: Tables, key: Any, greedy: bool, work: Any, own: Sums, scaled: bool,
) -> UInt8Array:  # fmt: skip
    """Draw the sublabels of a chunk and sum its statistics; without sublabels all are 0."""
    if sublabels is None:
        drawn = given = np.zeros(len(X), np.uint8)
    else:
        drawn, given = sublabels[some], NO_SIDES
    kernels.draw_sublabels(
        X, weights, drawn, starts, rows, tables.neighbours.origins, tables.subclusters, key, greedy, work, own, scaled,
        given, BUFFER - LANES,
    )  # fmt: skip
    return drawn


def pair_groups(
    X: Float32Array, weights: Float64Array, chunks: Chunks, by_label: LabelOrder, tables: Tables, one: IntArray,
    other: IntArray, margins: Float64Array, scaled: bool,
) -> Nodes:  # fmt: skip
    """`FamilyPoints.pair_groups` from these tables."""
    stretch = chunks.stretch
    found = np.zeros((len(one), len(stretch.groups) - 1))

    def look_at(begin: int, end: int) -> None:
        pairs.reverse_proposal_log_prob(
            X, weights, chunks.bounds, stretch.groups, by_label, tables, one[begin:end], other[begin:end],
            margins[begin:end], found[begin:end], scaled, new_workspace(0, X.shape[1], len(weights) > 0),
        )  # fmt: skip

    chunks.run(look_at, len(one), len(one))
    return reduce_groups(stretch.first_group, (found.T,))


def statistics_from(total: tuple[Any, ...], origins: Float32Array) -> Statistics:
    """Statistics from counts, sums and squares about the clusters' origins."""
    statistics: Statistics = kernels.collect_statistics(*(array[None] for array in total), origins)
    return statistics
