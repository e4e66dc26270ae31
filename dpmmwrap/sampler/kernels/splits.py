"""Compiled acceptance of splits from statistics."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.special import compiled, new_array, new_zeros
from dpmmwrap.partitions.hastings import split_ratios


class Rules(NamedTuple):
    """The rules for accepting moves."""

    outliers: Any
    """Number of outlier components, which come first and do not move."""
    prior: Any
    """The prior over partitions in plain numbers (`partitions.gibbs_type`)."""
    reference: Any
    """Whether the merge ratio is the reference package's instead of the inverse of the split's."""
    full: Any
    """Whether to include the probability of the proposed sublabels."""
    latest: Any
    """Clusters unchanged since this iteration may move."""


class MoveCandidates(NamedTuple):
    """Moves accepted by the statistics alone."""

    split_ratios: Any
    """log H of splitting each cluster; minus infinity if a side is empty."""
    splits: Any
    """The clusters that split."""
    splits_proposed: Any
    one: Any
    other: Any
    """The pairs that may merge."""
    margins: Any
    """log H + neg_log_uniform, without the probability of the reverse proposal."""
    merges_proposed: Any
    empty: Any
    """Number of clusters without points."""


@compiled
def accept_splits(rules: Any, records: Any, neg_log_uniform: Any, counts: Any, sides: Any, log_marginal: Any) -> Any:
    """Return log H of all splits, the clusters that split, how many could, the candidates for merges, the number of
    clusters with points, and the number of empty ones.

    A cluster splits if it is old enough and log H + neg_log_uniform is positive. Clusters that split do not merge. The
    full ratio includes the probability of the proposed sublabels. O(K).
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
