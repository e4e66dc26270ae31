"""Collapsed Gibbs on some points (Neal 2000, algorithm 3): each may join any cluster or found one.

Leaves the posterior invariant: which points are taken does not depend on their labels.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.base import concatenate, nothing_like
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.kernels.exact import gibbs_points
from dpmmwrap.sampler.moves.subclusters import close_ranks
from dpmmwrap.sampler.state import State, generator


class SinglePointsInfo(NamedTuple):
    proposed: int
    moved: int


def step(key: Any, state: State, context: Context, points: int) -> tuple[State, SinglePointsInfo]:
    """Draw the labels of so many random points anew, with all parameters integrated out."""
    rng = generator(key)
    count = min(points, context.data.n_rows)
    rows = rng.choice(context.data.n_rows, count, replace=False)
    uniforms, sides = rng.random(count), rng.integers(0, 2, count, dtype=np.uint8)
    before = state.labels[rows].copy()
    clusters = context.data.collapsed(context.model, state, count)
    used = gibbs_points(clusters, state.n_clusters, context.data.loop_points, rows, uniforms, state.alpha, state.labels)
    moved = np.flatnonzero(state.labels[rows] != before)
    if len(moved):
        born = used - state.n_clusters
        if born:
            state.subclusters = concatenate([state.subclusters, nothing_like(state.subclusters, 2 * born)])
            state.records = np.concatenate([state.records, state.new_records(born)])
        for place in moved:
            row = rows[place]
            context.data.add_to_statistics(state.subclusters, 2 * before[place] + state.sublabels[row], row, -1)
            state.sublabels[row] = sides[place]
            context.data.add_to_statistics(state.subclusters, 2 * state.labels[row] + state.sublabels[row], row, 1)
        state.by_label = None
        state, _ = close_ranks(key, state, context)
    return state, SinglePointsInfo(count, len(moved))
