"""Collapsed Gibbs on some points (Neal 2000, algorithm 3): each may join any cluster or start one.

Leaves the posterior invariant: which points are taken does not depend on their labels. Outliers are passed over: the
sweep knows them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array
from dpmmwrap.sampler.data import SomeRows
from dpmmwrap.sampler.kept import KeptData
from dpmmwrap.sampler.kernels.exact import draw_rows, gibbs_points, seeding_probabilities
from dpmmwrap.sampler.partition import prior_for_moves, renumber, with_room
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.proposals import NO_CLUSTER_SEEDS, ClusterSeeds
from dpmmwrap.sampler.state import State, generator

SEARCHED = 50_000
"""Rows among which likely seeds are looked for."""


class SinglePointsInfo(NamedTuple):
    proposed: int
    moved: int


@dataclass(frozen=True)
class SinglePoints:
    """Draw the labels of some points anew, one after the other, with all parameters integrated out.

    They are random, every other one among the likely seeds of clusters, if there are any.
    """

    points: int

    def step(self, key: Any, state: State, problem: Problem) -> tuple[State, SinglePointsInfo]:
        data = problem.data
        if not data.n_rows:
            return state, SinglePointsInfo(0, 0)
        rows, uniforms = draw_rows(key, self.points, data.n_rows, *state.cluster_seeds)
        return state, draw_labels(state, problem, data.some_rows(state, rows), uniforms)


@dataclass(frozen=True)
class KeptClusters:
    """The same of some kept clusters (`sampler.kept`), each as a whole."""

    def step(self, key: Any, state: State, problem: Problem) -> tuple[State, SinglePointsInfo]:
        data = problem.data
        if not isinstance(data, KeptData) or data.kept.apart or not data.n_kept:
            return state, SinglePointsInfo(0, 0)
        numbers, uniforms = draw_rows(key, data.kept.visits, data.n_kept, *NO_CLUSTER_SEEDS)
        return state, draw_labels(state, problem, data.some_kept(state, numbers), uniforms)


def draw_labels(state: State, problem: Problem, some: SomeRows, uniforms: Float64Array) -> SinglePointsInfo:
    """Draw the labels of some rows anew, in turn."""
    with_room(state, problem, len(uniforms))
    used, moved = gibbs_points(
        state.collapsed, state.n_clusters, problem.outliers, problem.settings.cluster_limit, some.points, some.rows,
        uniforms, prior_for_moves(state, len(uniforms)), some.labels,
    )  # fmt: skip
    if moved:
        problem.data.put_labels(state, some)
        renumber(state, problem, used)
    return SinglePointsInfo(len(uniforms), moved)


def likely_cluster_seeds(key: Any, state: State, problem: Problem) -> ClusterSeeds:
    """The rows by the probability that they start a cluster, as things are now.

    Most points never would. A chain that takes those that might more often sees clusters come and go a hundred times
    as often, and it is free to: who is taken is fixed from then on, whatever becomes of the labels.
    """
    n_rows = problem.data.n_rows
    rows = np.arange(n_rows)
    if n_rows > SEARCHED:
        rows = np.sort(generator(key).choice(n_rows, SEARCHED, replace=False))
    with_room(state, problem, 1)
    some = problem.data.some_rows(state, rows)
    shares = seeding_probabilities(
        state.collapsed, state.n_clusters, problem.outliers, some.points, some.rows, prior_for_moves(state)
    )
    return ClusterSeeds(rows, np.cumsum(shares) / shares.sum())
