"""Sampling: draws from the posterior by exact moves alone, after the search has found where it is.

Each move leaves the posterior of labels, and of the parameters of the prior over partitions, invariant; together they
reach every clustering. Nothing else may touch the labels while draws are kept.
"""

from __future__ import annotations

from typing import Any

from dpmmwrap.numerics.variates import derived_key
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.moves import partition_prior, restricted_sweep, single_points, split_merge
from dpmmwrap.sampler.moves.single_points import Founders
from dpmmwrap.sampler.moves.split_merge import Tools
from dpmmwrap.sampler.partition import Partition
from dpmmwrap.sampler.record import Moves, Sample

POINTS = 64
"""Single points that find their cluster anew in each iteration."""
FEWEST_PROPOSALS, MOST_PROPOSALS, PROPOSED_POINTS = 4, 24, 40_000
"""Pairs that propose a split or a merge in each iteration: as many as data of so many points have room for, within
these bounds. A pair takes time for all points of its clusters."""
POINTS_KEY, PAIRS_KEY, PRIOR_KEY = 1 << 60, 1 << 61, 1 << 62
"""Added to an iteration's key for its moves; the sweep takes the numbers before."""


def step(key: Any, partition: Partition, context: Context, tools: Tools, founders: Founders) -> tuple[Partition, Moves]:
    """One iteration: all labels, single points, splits and merges, the prior over partitions."""
    proposals = min(max(PROPOSED_POINTS // context.data.n_rows, FEWEST_PROPOSALS), MOST_PROPOSALS)
    partition, _ = restricted_sweep.step(key, partition, context, room=proposals + POINTS)
    partition, _ = single_points.step(derived_key(key, POINTS_KEY), partition, context, POINTS, founders)
    partition, info = split_merge.step(derived_key(key, PAIRS_KEY), partition, context, tools, proposals)
    partition = partition_prior.step(derived_key(key, PRIOR_KEY), partition, context)
    return partition, Moves(info.splits, info.splits_proposed, info.merges, info.merges_proposed)


def look(partition: Partition, context: Context) -> Sample:
    """What is kept of a draw."""
    model, counts = context.model, partition.counts
    log_marginals = context.data.log_marginals(model, partition)
    log_posterior = context.log_posterior(partition.partition_prior, counts, log_marginals)
    weights = counts[model.outliers :] / context.data.n_rows
    return Sample(len(weights), partition.partition_prior, log_posterior, weights, model.prior)
