"""Exact moves within the search, and the update of subclusters after them.

They escape traps in which halves of clusters stay for ever. Exact moves do not use subclusters, so clusters that have
changed get new ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.families.base import nothing_like, put, take
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.numerics.rules import AsBefore, CameFrom, Rule
from dpmmwrap.numerics.variates import derived_key
from dpmmwrap.sampler.moves.restarts import start_subclusters
from dpmmwrap.sampler.moves.single_points import KeptClusters, SinglePoints
from dpmmwrap.sampler.moves.split_merge import SplitMerge, SplitMergeInfo
from dpmmwrap.sampler.moves.subclusters import MIN_SPLIT_SIDE
from dpmmwrap.sampler.partition import collapse
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.state import State, generator

PROPOSALS, POINTS = 20, 32
"""Number of pairs that propose a split or a merge, and of single points that choose a cluster again, each time."""
SHORTEST_WAIT, LONGEST_WAIT = 2, 16
"""Iterations between exact moves. The wait doubles whenever no split or merge was accepted."""
POINTS_KEY, STARTS_KEY, KEPT_KEY = 1 << 58, 1 << 59, 1 << 57
"""Offsets of the keys for single points, the starts of new clusters, and kept clusters."""
SAME = 0.9
"""A cluster that shares this much with a former one counts as the same."""


def step(key: Any, state: State, problem: Problem) -> tuple[State, SplitMergeInfo]:
    """Split-merge and single-point moves. The less they change, the longer the wait until they are made again."""
    problem.data.remember(state)
    collapse(state, problem, PROPOSALS + POINTS)
    state, info = SplitMerge(PROPOSALS).step(key, state, problem)
    state, single = SinglePoints(POINTS).step(derived_key(key, POINTS_KEY), state, problem)
    state, kept = KeptClusters().step(derived_key(key, KEPT_KEY), state, problem)
    state.collapsed = None
    if info.splits + info.merges + single.moved + kept.moved:
        follow(derived_key(key, STARTS_KEY), state, problem)
    state.exact_wait = SHORTEST_WAIT if info.splits + info.merges else min(2 * state.exact_wait, LONGEST_WAIT)
    state.exact_due = state.iteration + state.exact_wait
    return state, info


def follow(key: Any, state: State, problem: Problem) -> None:
    """Update subclusters and records after labels have changed since `remember`."""
    data, were, count = problem.data, len(state.records), state.n_clusters
    every = np.arange(count)
    table = data.changes(state, were, count)
    sizes_before, sizes = table.sum(axis=1), table.sum(axis=0)
    source = table.argmax(axis=0)
    shared = table[source, every]
    kept = (table.argmax(axis=1)[source] == every) & (shared >= SAME * np.maximum(sizes_before[source], sizes))
    # An outlier component may be empty and is never removed.
    source[: problem.outliers], kept[: problem.outliers] = 0, True
    untouched = kept & (shared == sizes) & (shared == sizes_before[source])
    records, subclusters = state.new_records(count), nothing_like(state.subclusters, 2 * count)
    records[kept] = state.records[source[kept]]
    put(subclusters, both_halves(every[untouched]), take(state.subclusters, both_halves(source[untouched])))
    state.records, state.subclusters, state.by_label = records, subclusters, None
    merged = ~kept & (shared < SAME * sizes)
    known_sides, new = np.flatnonzero((kept & ~untouched) | merged), np.flatnonzero(~kept & ~merged)
    if len(known_sides):
        # Two clusters that merge become the subclusters of the union; points of other clusters keep their sides.
        rules: list[Rule] = [CameFrom(int(source[k])) if merged[k] else AsBefore() for k in known_sides]
        state.replace(known_sides, data.divide(state, known_sides, data.members(state, known_sides), rules))
    if len(new):
        tiny = sizes[new] < MIN_SPLIT_SIDE
        state.replace(new, start_subclusters(state, problem, new, tiny, generator(key)))
    data.update_posteriors(state)


def both_halves(clusters: IntArray) -> IntArray:
    """The rows of both subclusters of each cluster, in turn."""
    return np.stack([2 * clusters, 2 * clusters + 1], axis=1).ravel()
