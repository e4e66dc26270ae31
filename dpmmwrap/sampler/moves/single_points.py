"""Collapsed Gibbs on some points (Neal 2000, algorithm 3): each may join any cluster or found one.

Leaves the posterior invariant: which points are taken does not depend on their labels. Outliers are passed over: the
sweep knows them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.kernels.exact import draw_rows, founding_probabilities, gibbs_points
from dpmmwrap.sampler.partition import Partition, close_ranks, prior_for_moves, with_room
from dpmmwrap.sampler.state import generator

SEARCHED = 50_000
"""Rows among which likely founders are looked for."""


class Founders(NamedTuple):
    """Rows that may well found a cluster of their own, and their cumulative shares."""

    rows: IntArray
    cumulative: Float64Array


NO_FOUNDERS = Founders(np.empty(0, np.int64), np.empty(0))


class SinglePointsInfo(NamedTuple):
    proposed: int
    moved: int


def likely_founders(key: Any, partition: Partition, context: Context) -> Founders:
    """The rows by the probability that they found a cluster, as things are now.

    Most points never would. A chain that takes those that might more often sees clusters come and go a hundred times
    as often, and it is free to: who is taken is fixed from then on, whatever becomes of the labels.
    """
    n_rows = context.data.n_rows
    rows = np.arange(n_rows)
    if n_rows > SEARCHED:
        rows = np.sort(generator(key).choice(n_rows, SEARCHED, replace=False))
    with_room(partition, context, 1)
    some = context.data.some_rows(rows)
    shares = founding_probabilities(
        partition.clusters, partition.n_clusters, context.model.outliers, some.points, some.rows,
        prior_for_moves(partition, context),
    )  # fmt: skip
    return Founders(rows, np.cumsum(shares) / shares.sum())


def step(
    key: Any, partition: Partition, context: Context, points: int, founders: Founders = NO_FOUNDERS
) -> tuple[Partition, SinglePointsInfo]:
    """Draw the labels of so many points anew, one after the other, with all parameters integrated out.

    They are random, every other one among likely founders.
    """
    data, fixed = context.data, context.model.outliers
    with_room(partition, context, points)
    rows, uniforms = draw_rows(key, points, data.n_rows, *founders)
    some = data.some_rows(rows, partition)
    used, moved = gibbs_points(
        partition.clusters, partition.n_clusters, fixed, context.settings.cluster_limit, some.points, some.rows,
        uniforms, prior_for_moves(partition, context, points), some.labels,
    )  # fmt: skip
    if moved:
        data.put_labels(partition, some)
        close_ranks(partition, context, used)
    return partition, SinglePointsInfo(points, moved)
