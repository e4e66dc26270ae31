"""The exact moves within the search: from the chain's state to a partition, and back to subclusters.

They leave traps in which halves of clusters stay for ever. Subclusters are no part of a partition: clusters that have
changed get theirs anew.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.families.base import nothing_like, put, take
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.numerics.rules import AsBefore, CameFrom, Rule
from dpmmwrap.numerics.variates import derived_key
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.moves import single_points, split_merge
from dpmmwrap.sampler.moves.restarts import start_subclusters
from dpmmwrap.sampler.moves.split_merge import SplitMergeInfo, Tools
from dpmmwrap.sampler.moves.subclusters import MIN_SPLIT_SIDE
from dpmmwrap.sampler.partition import partition_of
from dpmmwrap.sampler.state import State, generator

POINTS_KEY, STARTS_KEY = 1 << 58, 1 << 59
"""Added to a step's key for single points and for the starts of new clusters."""
SAME = 0.9
"""A cluster that shares so much with one of before is the same."""


def step(
    key: Any, state: State, context: Context, tools: Tools, proposals: int, points: int
) -> tuple[State, SplitMergeInfo]:
    """Splits and merges that grow from two points, and single points."""
    context.data.remember(state)
    partition = partition_of(context, state.partition_prior, state.labels, state.known.clusters, proposals + points)
    partition, info = split_merge.step(key, partition, context, tools, proposals)
    partition, single = single_points.step(derived_key(key, POINTS_KEY), partition, context, points)
    if info.splits + info.merges + single.moved:
        follow(derived_key(key, STARTS_KEY), state, context, partition.n_clusters)
    return state, info


def follow(key: Any, state: State, context: Context, count: int) -> None:
    """Bring subclusters and records in line with labels that have changed since they were remembered."""
    data, every = context.data, np.arange(count)
    table = data.changes(state, state.n_clusters, count)
    sizes_before, sizes = table.sum(axis=1), table.sum(axis=0)
    source = table.argmax(axis=0)
    shared = table[source, every]
    kept = (table.argmax(axis=1)[source] == every) & (shared >= SAME * np.maximum(sizes_before[source], sizes))
    # An outlier component may be empty, and is never lost.
    source[: context.model.outliers], kept[: context.model.outliers] = 0, True
    untouched = kept & (shared == sizes) & (shared == sizes_before[source])
    records, subclusters = state.new_records(count), nothing_like(state.subclusters, 2 * count)
    records[kept] = state.records[source[kept]]
    put(subclusters, both_halves(every[untouched]), take(state.subclusters, both_halves(source[untouched])))
    state.records, state.subclusters, state.by_label = records, subclusters, None
    merged = ~kept & (shared < SAME * sizes)
    known_sides, new = np.flatnonzero((kept & ~untouched) | merged), np.flatnonzero(~kept & ~merged)
    if len(known_sides):
        # Two that merge become the subclusters of the merged cluster; other clusters' points keep their sides.
        rules: list[Rule] = [CameFrom(int(source[k])) if merged[k] else AsBefore() for k in known_sides]
        state.replace(known_sides, data.divide(state, known_sides, data.members(state, known_sides), rules))
    if len(new):
        tiny = sizes[new] < MIN_SPLIT_SIDE
        state.replace(new, start_subclusters(state, context, new, tiny, generator(key)))
    state.posteriors = data.compute_posteriors(context.model, state.subclusters)


def both_halves(clusters: IntArray) -> IntArray:
    """The rows of both subclusters of each cluster, in turn."""
    return np.stack([2 * clusters, 2 * clusters + 1], axis=1).ravel()
