"""Collapsed Gibbs on some points (Neal 2000, algorithm 3): each may join any cluster or start a new one.

This leaves the posterior invariant, since the choice of points does not depend on their labels. Outliers are skipped;
the sweep handles them.
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
"""Number of rows among which likely seeds are searched."""


class SinglePointsInfo(NamedTuple):
    proposed: int
    moved: int


@dataclass(frozen=True)
class SinglePoints:
    """Redraw the labels of some points, one after the other, with all parameters integrated out.

    The points are random, and every other one is drawn from the likely seeds of clusters, if there are any.
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
    """Redraw the labels of some kept clusters (`sampler.kept`), each as a whole."""

    def step(self, key: Any, state: State, problem: Problem) -> tuple[State, SinglePointsInfo]:
        data = problem.data
        if not isinstance(data, KeptData) or data.kept.apart or not data.n_kept:
            return state, SinglePointsInfo(0, 0)
        numbers, uniforms = draw_rows(key, data.kept.visits, data.n_kept, *NO_CLUSTER_SEEDS)
        return state, draw_labels(state, problem, data.some_kept(state, numbers), uniforms)


def draw_labels(state: State, problem: Problem, some: SomeRows, uniforms: Float64Array) -> SinglePointsInfo:
    """Redraw the labels of some rows in turn."""
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
    """The rows with the probability that they start a cluster, given the current state.

    Most points never would. A chain that picks likely ones more often sees clusters come and go a hundred times as
    often. It remains valid because the probabilities are fixed from then on, whatever happens to the labels.
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
