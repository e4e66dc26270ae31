"""Split and merge by sequential allocation from two points (Dahl 2003; Jain and Neal 2004): an exact move.

Two points are chosen without looking at labels, half of the time near each other. If they share a cluster, its points
are divided between them, each by the predictive of the sides so far, and the probability of just this division is
known. If they do not, the division is the present one. Order, blocks and the pair depend on the set of points alone,
never on how it is divided now: so they cancel.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from dpmmwrap.arrays import IntArray
from dpmmwrap.bins import Embedder
from dpmmwrap.dirichlet_process import log_split_prior
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.kernels.collapsed import log_marginal
from dpmmwrap.sampler.kernels.exact import allocate
from dpmmwrap.sampler.moves.subclusters import NO_CLUSTERS, AcceptedMoves, apply_moves
from dpmmwrap.sampler.state import State, generator
from dpmmwrap.special import compiled_float64
from dpmmwrap.variates import derived_key

ANCHORS, NEIGHBOURS = 2000, 20
"""Points among which near pairs are chosen, and how many neighbours each has."""
ONE_BY_ONE = 32
"""Points that are allocated one by one before blocks begin to double."""
LARGEST_UNION = 50_000
"""Larger unions are left to the subclusters: a proposal goes over all of its points."""


class SplitMergeInfo(NamedTuple):
    splits_proposed: int = 0
    splits: int = 0
    merges_proposed: int = 0
    merges: int = 0


class Pairs(NamedTuple):
    """How pairs of points are chosen: once per chain, by the data alone."""

    anchors: IntArray
    neighbours: IntArray
    """Row numbers of each anchor's neighbours (A, NEIGHBOURS)."""

    @classmethod
    def of(cls, data: Any, embed: Embedder) -> Pairs:
        from sklearn.neighbors import NearestNeighbors

        rows = np.arange(data.n_rows)
        if data.n_rows > ANCHORS:
            rows = np.sort(np.random.default_rng(0).choice(data.n_rows, ANCHORS, replace=False))
        points = embed(data.take(rows))
        near = NearestNeighbors(n_neighbors=min(NEIGHBOURS + 1, len(rows))).fit(points)
        # A point is its own nearest neighbour, or one of its doubles is.
        found = near.kneighbors(points, return_distance=False)[:, 1:]
        return cls(rows, rows[found])

    def draw(self, n_rows: int, rng: Generator) -> tuple[int, int]:
        """Two different points: any two, or (half of the time) two near each other."""
        if rng.random() < 0.5 and self.neighbours.shape[1]:
            anchor = int(rng.integers(len(self.anchors)))
            one, other = int(self.anchors[anchor]), int(rng.choice(self.neighbours[anchor]))
            if one != other:
                return one, other
        one, other = int(rng.integers(n_rows)), int(rng.integers(n_rows - 1))
        return one, other + (other >= one)


def step(key: Any, state: State, context: Context, pairs: Pairs, proposals: int) -> tuple[State, SplitMergeInfo]:
    """So many proposals, one after the other."""
    totals = np.zeros(4, np.int64)
    for number in range(proposals):
        state, info = propose(derived_key(key, number + 1), state, context, pairs)
        totals += info
    return state, SplitMergeInfo(*totals.tolist())


def propose(key: Any, state: State, context: Context, pairs: Pairs) -> tuple[State, SplitMergeInfo]:
    """Propose to split the cluster of two points, or to merge their clusters."""
    rng, data = generator(key), context.data
    i, j = pairs.draw(data.n_rows, rng)
    one, other = int(state.labels[i]), int(state.labels[j])
    known = state.known
    counts = known.clusters.counts
    split = one == other
    size = int(counts[one] + (0 if split else counts[other]))
    log_uniform = -float(rng.exponential())
    tried = SplitMergeInfo(splits_proposed=int(split), merges_proposed=int(not split))
    if size > LARGEST_UNION:
        return state, tried
    if not split:
        joint = data.union_log_marginal(context.model, known, one, other)
        gain = joint - known.log_marginal[one] - known.log_marginal[other]
        against = log_split_prior(state.alpha, counts[one], counts[other])
        # The probability of the way back is at most 1: most merges are refused without looking at a point.
        if gain - against < log_uniform:
            return state, tried
    members = data.members(state, np.array([one] if split else sorted((one, other))), counts)
    rows = in_random_order(np.concatenate(members), i, j, rng)
    sides = np.zeros(size, np.int64) if split else (state.labels[rows] == other).astype(np.int64)
    scratch = data.scratch(context.model)
    log_q = allocate(scratch, data.loop_points, rows, sides, rng.random(size), split, ONE_BY_ONE)
    if not split:
        if gain - against + log_q < log_uniform:
            return state, tried
        pair = np.array([min(one, other)]), np.array([max(one, other)])
        moves = AcceptedMoves(NO_CLUSTERS, *pair, 0)
        return apply_moves(key, state, context, moves), tried._replace(merges=1)
    left, right = scratch.counts[0], scratch.counts[1]
    gain = side_log_marginals(scratch) - known.log_marginal[one]
    if gain + log_split_prior(state.alpha, left, right) - log_q < log_uniform:
        return state, tried
    in_turn = [rows[sides == 0], rows[sides == 1]]
    halves = data.set_sublabels(state, [np.concatenate(in_turn)], [np.repeat([0, 1], [len(p) for p in in_turn])])
    state.replace(np.array([one]), halves)
    state.posteriors = known._replace(subclusters=state.subclusters)
    return apply_moves(key, state, context, AcceptedMoves(np.array([one]), NO_CLUSTERS, NO_CLUSTERS, 0)), (
        tried._replace(splits=1)
    )


def in_random_order(rows: IntArray, i: int, j: int, rng: Generator) -> IntArray:
    """The rows in random order, i and j first."""
    rest = rng.permutation(rows[(rows != i) & (rows != j)])
    return np.concatenate([[i, j], rest]).astype(np.int64)


@compiled_float64
def side_log_marginals(scratch: Any) -> Any:
    return log_marginal(scratch, 0) + log_marginal(scratch, 1)
