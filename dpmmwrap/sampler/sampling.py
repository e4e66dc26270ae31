"""Sampling from the posterior by exact moves only, after the search has come close to it.

Each move leaves the posterior of labels and of the parameters of the prior over partitions invariant, and together they
reach every clustering. Nothing else may change the labels while draws are recorded.
"""

from __future__ import annotations

from typing import Any

from dpmmwrap.numerics.variates import derived_key
from dpmmwrap.sampler.moves import partition_prior, restricted_sweep
from dpmmwrap.sampler.moves.single_points import KeptClusters, SinglePoints, likely_cluster_seeds
from dpmmwrap.sampler.moves.split_merge import SplitMerge
from dpmmwrap.sampler.partition import collapse
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.record import Moves, Sample
from dpmmwrap.sampler.state import State, next_key

POINTS = 64
"""Number of single points whose labels are redrawn in each iteration."""
FEWEST_PROPOSALS, MOST_PROPOSALS, PROPOSED_POINTS = 4, 24, 40_000
"""Number of pairs that propose a split or a merge in each iteration: PROPOSED_POINTS divided by the number of points,
within bounds. A pair costs time for all points of its clusters."""
POINTS_KEY, PAIRS_KEY, PRIOR_KEY, KEPT_KEY = 1 << 60, 1 << 61, 1 << 62, 1 << 59
"""Offsets of the keys for the moves of an iteration; the sweep uses smaller numbers."""


def begin(state: State, problem: Problem) -> None:
    """Prepare the draws, after the search or from a checkpoint."""
    if state.collapsed is None:
        collapse(state, problem, births=POINTS)
        state.cluster_seeds = likely_cluster_seeds(next_key(state.rng), state, problem)
        state.posteriors = None
    state.near = problem.near.joined(state.cluster_seeds, problem.data, problem.embed)


def step(key: Any, state: State, problem: Problem) -> tuple[State, Moves]:
    """One iteration: all labels, single points, splits and merges, then the prior over partitions."""
    proposals = min(max(PROPOSED_POINTS // problem.data.n_rows, FEWEST_PROPOSALS), MOST_PROPOSALS)
    state, _ = restricted_sweep.step(key, state, problem)
    state, _ = SinglePoints(POINTS).step(derived_key(key, POINTS_KEY), state, problem)
    state, _ = KeptClusters().step(derived_key(key, KEPT_KEY), state, problem)
    state, info = SplitMerge(proposals).step(derived_key(key, PAIRS_KEY), state, problem)
    state, _ = partition_prior.step(derived_key(key, PRIOR_KEY), state, problem)
    return state, Moves(info.splits, info.splits_proposed, info.merges, info.merges_proposed)


def look(state: State, problem: Problem) -> Sample:
    """Record the current state as a draw."""
    log_posterior = problem.log_posterior(state, problem.data.log_marginals(state))
    weights = state.counts[problem.outliers :] / state.counts.sum()
    return Sample(len(weights), state.partition_prior, log_posterior, weights, state.model.prior)
