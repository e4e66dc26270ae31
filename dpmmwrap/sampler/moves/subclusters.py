"""Splits and merges by subclusters (Chang and Fisher 2013), proposed, accepted and carried out for all clusters at
once."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.base import take
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.numerics.variates import derived_key, standard_exponentials
from dpmmwrap.sampler.kernels.splits import Rules
from dpmmwrap.sampler.moves.restarts import start_subclusters
from dpmmwrap.sampler.partition import prior_for_moves
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.state import State, generator

MIN_SPLIT_SIDE = 10
"""A split that removes fewer points leaves the rest nearly unchanged, so both halves start with random subclusters."""
STARTS_KEY = 1 << 50
"""Offset of the key for the starts of new clusters."""
NO_CLUSTERS = np.empty(0, np.int64)


class AcceptedMoves(NamedTuple):
    """The accepted moves: clusters that split, clusters that absorb others, clusters that are absorbed, and the number
    of empty clusters to remove."""

    splits: IntArray
    merge_into: IntArray
    absorbed: IntArray
    empty: int
    splits_proposed: int = 0
    merges_proposed: int = 0


def step(key: Any, state: State, problem: Problem) -> tuple[State, AcceptedMoves]:
    """Propose splits and merges of all clusters that are old enough, and carry out those accepted.

    The greedy end of a search proposes none and only removes empty clusters.
    """
    problem.data.update_posteriors(state)
    moves = empty_ones(state) if problem.is_greedy(state) else accept_moves(key, state, problem)
    # Free them: they are large for wide data.
    state.tables = None
    return apply_moves(key, state, problem, moves), moves


def empty_ones(state: State) -> AcceptedMoves:
    """No splits or merges; only empty clusters are removed."""
    counts = state.counts[state.model.outliers :]
    return AcceptedMoves(NO_CLUSTERS, NO_CLUSTERS, NO_CLUSTERS, int(len(counts) - np.count_nonzero(counts)))


def accept_moves(key: Any, state: State, problem: Problem) -> AcceptedMoves:
    """Accept the splits and merges whose log Hastings ratio exceeds the log of a uniform number."""
    settings, outliers, count = problem.settings, problem.outliers, state.n_clusters
    neg_log_uniform = standard_exponentials(key, count * (count + 1) // 2)
    ratio, latest = settings.acceptance_ratio, state.iteration - settings.min_cluster_age
    prior = prior_for_moves(state)
    rules = Rules(outliers, prior, ratio == "reference", settings.full_ratio, latest)
    candidates = problem.data.evaluate_moves(rules, state, neg_log_uniform)
    splits = candidates.splits
    if settings.max_clusters is not None:
        space = max(settings.max_clusters - (count - outliers), 0)
        splits = np.sort(splits[np.argsort(-candidates.split_ratios[splits], kind="stable")[:space]])
    one, other, margins = candidates.one, candidates.other, candidates.margins
    if len(one):
        if settings.full_ratio:
            # So far the probability of the reverse proposal has been taken as 1.
            margins = problem.data.add_reverse_proposal_log_prob(state, one, other, margins)
        one, other = disjoint(one, other, margins)
    return AcceptedMoves(splits, one, other, candidates.empty, candidates.splits_proposed, candidates.merges_proposed)


def disjoint(one: IntArray, other: IntArray, margins: Float64Array) -> tuple[IntArray, IntArray]:
    """Select merges with positive margins that can all be carried out: each cluster once, the best first."""
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


def apply_moves(key: Any, state: State, problem: Problem, moves: AcceptedMoves) -> State:
    """Split and merge clusters, remove empty ones, and renumber the others without gaps.

    Two clusters that merge become the subclusters of the union, so that the reverse split remains possible.
    """
    left, merge_into, absorbed = moves.splits, moves.merge_into, moves.absorbed
    if not (len(left) or len(absorbed) or moves.empty):
        return state
    data, known = problem.data, state.posteriors
    assert known is not None
    counts = known.clusters.counts
    staying = counts > 0
    staying[: problem.outliers] = True
    staying[absorbed] = False
    kept, born = int(np.count_nonzero(staying)), len(left)
    new_number = np.zeros(len(counts), np.int32)
    new_number[staying] = np.arange(kept)
    labels, sides = np.array([new_number, new_number]).T, np.zeros((len(counts), 2), np.uint8)
    sides[:, 1] = 1
    if len(absorbed):
        labels[absorbed] = new_number[merge_into][:, None]
        sides[merge_into], sides[absorbed] = 0, 1
        state.merge(merge_into, take(known.clusters, merge_into), take(known.clusters, absorbed))
    if born:
        labels[left, 1] = np.arange(kept, kept + born)
    data.relabel(state, labels, sides)
    sizes = known.sides[left]
    # Free them: they are large for wide data.
    state.posteriors = known = None
    state.keep(staying)
    if born:
        tiny = sizes.min(axis=1) < MIN_SPLIT_SIDE
        rng = generator(derived_key(key, STARTS_KEY))
        halves = np.concatenate([new_number[left], np.arange(kept, kept + born)])
        fresh = start_subclusters(state, problem, halves, np.concatenate([tiny, tiny]), rng, kept + born)
        state.split(new_number[left], fresh)
    data.update_posteriors(state)
    return state
