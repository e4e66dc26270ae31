"""Splits and merges by subclusters (Chang and Fisher 2013): all of them proposed at once, accepted, and carried out."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.base import take
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.numerics.variates import derived_key, standard_exponentials
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.kernels.splits import Rules
from dpmmwrap.sampler.moves.restarts import start_subclusters
from dpmmwrap.sampler.state import State, generator
from dpmmwrap.sampler.sweep import SweepInfo

MIN_SPLIT_SIDE = 10
"""A split that sets fewer points aside leaves the rest of the cluster as it was: both start at random, not by a
search."""
STARTS_KEY = 1 << 50
"""Added to a step's key for the starts of new clusters."""
NO_CLUSTERS = np.empty(0, np.int64)


class AcceptedMoves(NamedTuple):
    """What is to be done: the clusters that split, those that others merge into and that are absorbed then, and how
    many leave because they are empty."""

    splits: IntArray
    merge_into: IntArray
    absorbed: IntArray
    empty: int
    splits_proposed: int = 0
    merges_proposed: int = 0


def step(key: Any, state: State, context: Context, swept: SweepInfo) -> tuple[State, AcceptedMoves]:
    """Propose to split and merge all clusters that are old enough; carry out what is accepted."""
    moves = accept_moves(key, state, context, swept)
    return apply_moves(key, state, context, moves), moves


def close_ranks(key: Any, state: State, context: Context) -> tuple[State, AcceptedMoves]:
    """Look at the subclusters and leave them as they are; clusters without points leave."""
    state.posteriors = context.data.compute_posteriors(context.model, state.subclusters)
    counts = state.posteriors.clusters.counts[context.model.outliers :]
    moves = AcceptedMoves(NO_CLUSTERS, NO_CLUSTERS, NO_CLUSTERS, int(len(counts) - np.count_nonzero(counts)))
    return apply_moves(key, state, context, moves), moves


def accept_moves(key: Any, state: State, context: Context, swept: SweepInfo) -> AcceptedMoves:
    """Look at the subclusters, and decide which clusters split and merge.

    A move is accepted when its log Hastings ratio is above the log of a uniform number.
    """
    settings, outliers, count = context.settings, context.model.outliers, state.n_clusters
    neg_log_uniform = standard_exponentials(key, count * (count + 1) // 2)
    ratio, latest = settings.acceptance_ratio, state.iteration - settings.min_cluster_age
    prior = state.partition_prior.for_moves(state.subclusters.counts.reshape(-1, 2).sum(axis=1)[outliers:])
    rules = Rules(outliers, prior, ratio == "reference", settings.full_ratio, latest)
    state.posteriors, found = context.data.evaluate_moves(context.model, rules, state, neg_log_uniform)
    splits = found.splits
    if settings.max_clusters is not None:
        space = max(settings.max_clusters - (count - outliers), 0)
        splits = np.sort(splits[np.argsort(-found.split_ratios[splits], kind="stable")[:space]])
    one, other, margins = found.one, found.other, found.margins
    if len(one):
        if settings.full_ratio:
            # As yet the probability that the split back would come up just so has been taken for 1.
            margins = context.data.add_reverse_proposal_log_prob(state, swept.tables, one, other, margins)
        one, other = disjoint(one, other, margins)
    return AcceptedMoves(splits, one, other, found.empty, found.splits_proposed, found.merges_proposed)


def disjoint(one: IntArray, other: IntArray, margins: Float64Array) -> tuple[IntArray, IntArray]:
    """Of merges with a margin above zero, those that can all be carried out: each cluster once, the best first."""
    hopeful = (margins > 0).nonzero()[0]
    if not len(hopeful):
        return NO_CLUSTERS, NO_CLUSTERS
    taken: set[int] = set()
    chosen = []
    for pair in hopeful[np.argsort(-margins[hopeful], kind="stable")]:
        both = {int(one[pair]), int(other[pair])}
        if not both & taken:
            taken |= both
            chosen.append(pair)
    return one[chosen], other[chosen]


def apply_moves(key: Any, state: State, context: Context, moves: AcceptedMoves) -> State:
    """Split and merge clusters; those without points leave, and the others close ranks.

    Two that merge become the subclusters of the merged cluster, so that the way back stays open.
    """
    left, merge_into, absorbed = moves.splits, moves.merge_into, moves.absorbed
    if not (len(left) or len(absorbed) or moves.empty):
        return state
    data, known = context.data, state.known
    counts = known.clusters.counts
    staying = counts > 0
    staying[: context.model.outliers] = True
    staying[absorbed] = False
    kept, born = int(np.count_nonzero(staying)), len(left)
    place = np.zeros(len(counts), np.int32)
    place[staying] = np.arange(kept)
    labels, sides = np.array([place, place]).T, np.zeros((len(counts), 2), np.uint8)
    sides[:, 1] = 1
    if len(absorbed):
        labels[absorbed] = place[merge_into][:, None]
        sides[merge_into], sides[absorbed] = 0, 1
        state.merge(merge_into, take(known.clusters, merge_into), take(known.clusters, absorbed))
    if born:
        labels[left, 1] = np.arange(kept, kept + born)
    data.relabel(state, labels, sides)
    state.keep(staying)
    if born:
        tiny = known.sides[left].min(axis=1) < MIN_SPLIT_SIDE
        rng = generator(derived_key(key, STARTS_KEY))
        halves = np.concatenate([place[left], np.arange(kept, kept + born)])
        fresh = start_subclusters(state, context, halves, np.concatenate([tiny, tiny]), rng, kept + born)
        state.split(place[left], fresh)
    state.posteriors = data.compute_posteriors(context.model, state.subclusters)
    return state
