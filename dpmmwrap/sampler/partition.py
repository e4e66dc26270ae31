"""The collapsed clusters, with integrated parameters, which exact moves change together with the labels."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.families.collapsed import copy_cluster, copy_clusters
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.partitions.gibbs_type import GibbsType
from dpmmwrap.sampler.state import State

if TYPE_CHECKING:
    from dpmmwrap.sampler.problem import Problem


def collapse(state: State, problem: Problem, births: int = 0) -> None:
    """Make the collapsed clusters from the statistics, with room for `births` new ones."""
    clusters = state.known.clusters
    state.collapsed = problem.data.collapsed(state.model, clusters, state.n_clusters + births)


def weights_prior(state: State, key: Any) -> GibbsType:
    """The prior over partitions in plain numbers, for draws of the clusters' weights."""
    return state.partition_prior.for_weights(key, state.counts[state.model.outliers :])


def prior_for_moves(state: State, births: int = 0) -> GibbsType:
    """The prior over partitions in plain numbers, for moves with at most this many births."""
    return state.partition_prior.for_moves(state.counts[state.model.outliers :], births)


def capacity(state: State) -> int:
    """Number of collapsed clusters including empty ones, but not the last, which is the prior."""
    return len(state.collapsed.counts) - 1


def with_room(state: State, problem: Problem, births: int) -> None:
    """Ensure room for this many births."""
    needed = state.n_clusters + births
    if needed > capacity(state):
        collapsed = problem.data.empty_clusters(state.model, needed + births)
        copy_clusters(state.collapsed, state.n_clusters, collapsed)
        state.collapsed = collapsed


def renumber(state: State, problem: Problem, used: int) -> None:
    """Fill gaps among the first `used` clusters with the last ones, and update the labels of their points."""
    to_label = np.arange(used, dtype=np.int32)
    state.n_clusters = fill_gaps(state.collapsed, used, state.model.outliers, to_label)
    problem.data.map_labels(state, to_label)


def fill_gaps(clusters: Any, used: int, fixed: int, to_label: IntArray) -> int:
    """Move the last clusters into empty ones after the first `fixed`; return the number of clusters.

    The new number of each moved cluster is written to `to_label`.
    """
    counts = clusters.counts
    taken = fixed + np.flatnonzero(counts[fixed:used])
    end = fixed + len(taken)
    empty = fixed + np.flatnonzero(counts[fixed:end] == 0.0)
    for k, last in zip(empty.tolist(), taken[::-1].tolist(), strict=False):
        copy_cluster(clusters, k, clusters, last)
        counts[k], counts[last] = counts[last], 0.0
        to_label[last] = k
    return end
