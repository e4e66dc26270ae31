"""Which splits their statistics accept, compiled by numba."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.special import compiled, new_array, new_zeros
from dpmmwrap.partitions.hastings import split_ratios


class Rules(NamedTuple):
    """How moves are accepted."""

    outliers: Any
    """How many of the first clusters are outlier components, which do not move."""
    prior: Any
    """Over partitions, in plain numbers (`partitions.gibbs_type`)."""
    reference: Any
    """Whether the merge ratio is the reference package's, not the inverse of the split's."""
    full: Any
    """Whether the probability of the proposed sublabels is counted."""
    latest: Any
    """Clusters that have been as they are since this iteration may move."""


class MoveCandidates(NamedTuple):
    """The moves that are accepted by the statistics alone."""

    split_ratios: Any
    """log H of splitting each cluster; minus infinity where a side is empty."""
    splits: Any
    """The clusters that split."""
    splits_proposed: Any
    one: Any
    other: Any
    """The pairs that may merge."""
    margins: Any
    """By how much their log H is above -neg_log_uniform, the probability of the reverse proposal left out."""
    merges_proposed: Any
    empty: Any
    """How many clusters have no points."""


@compiled
def accept_splits(rules: Any, records: Any, neg_log_uniform: Any, counts: Any, sides: Any, log_marginal: Any) -> Any:
    """log H of all splits; the clusters that split and how many could; those that may merge; how many have points, and
    how many are empty.

    Those split whose log H plus `neg_log_uniform` is above zero and that are old enough. What splits does not merge.
    With the full ratio the probability of the proposed sublabels is counted. O(K).
    """
    log_proposals, empty = new_zeros(len(counts), np.float64), 0
    for k in range(len(counts)):
        empty += k >= rules.outliers and counts[k] == 0.0
        if rules.full:
            log_proposals[k] = records[k]["proposal_log_prob"]
    alive = len(counts) - rules.outliers - empty
    ratios = split_ratios(rules.prior, alive, sides, log_marginal, log_proposals)
    splits, candidates = new_array(len(counts), np.int64), new_array(len(counts), np.int64)
    accepted, others, proposed = 0, 0, 0
    for k in range(rules.outliers, len(counts)):
        if counts[k] > 0.0 and records[k]["subclusters_born_at"] <= rules.latest:
            proposed += 1
            if ratios[k] + neg_log_uniform[k] > 0.0:
                splits[accepted] = k
                accepted += 1
                continue
        if counts[k] > 0.0 and records[k]["born_at"] <= rules.latest:
            candidates[others] = k
            others += 1
    return ratios, splits[:accepted], proposed, candidates[:others], alive, empty
