"""The Metropolis-Hastings ratio of splits and merges: log prior ratio + log likelihood ratio + log proposal ratio.

All moves that split or merge clusters use it, in Python and in compiled loops. A merge is a split in reverse.
`clusters` is the number of clusters with points before the move, without the outlier component.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.special import compiled_float64 as compiled
from dpmmwrap.numerics.special import inner_float64 as inner
from dpmmwrap.numerics.special import log_gamma, new_array
from dpmmwrap.partitions.gibbs_type import log_prior_of_split


class MergeRule(NamedTuple):
    """How merges of subcluster moves are accepted."""

    prior: Any
    """The prior over partitions (`GibbsType`)."""
    clusters: Any
    reference: Any
    """Whether to use the ratio of the reference package, which is not the inverse of the split's."""


@compiled
def log_split_ratio(prior: Any, clusters: Any, left: Any, right: Any, log_likelihoods: Any, log_proposal: Any) -> Any:
    """log ratio of splitting a cluster into two of these sizes.

    `prior` is a `GibbsType`, `log_likelihoods` is log f(left) + log f(right) - log f(both), and `log_proposal` the log
    probability of proposing this division (0 if it is not counted).
    """
    return log_prior_of_split(prior, clusters, left, right) + log_likelihoods - log_proposal


@compiled
def log_merge_ratio(prior: Any, clusters: Any, one: Any, other: Any, log_likelihoods: Any, log_proposal: Any) -> Any:
    """log ratio of merging two clusters of these sizes.

    `log_likelihoods` is log f(both) - log f(one) - log f(other), `log_proposal` the log probability of proposing the
    split back.
    """
    return log_likelihoods - log_prior_of_split(prior, clusters - 1, one, other) + log_proposal


@inner
def log_merge_ratio_by(rule: Any, one: Any, other: Any, log_likelihoods: Any) -> Any:
    """The same by a `MergeRule`, without the probability of the split back.

    The ratio of the reference package, DPMMSubClusters.jl, also includes the probability of the merged cluster's
    sublabels, and is not the inverse of its ratio of a split. It serves comparisons, for the Dirichlet process only,
    whose concentration is twice `side`.
    """
    ratio = log_merge_ratio(rule.prior, rule.clusters, one, other, log_likelihoods, 0.0)
    if not rule.reference:
        return ratio
    half = rule.prior.side
    sublabels = log_gamma(2.0 * half) - log_gamma(one + other + 2.0 * half) - 2.0 * log_gamma(half)
    return ratio + sublabels + log_gamma(one + half) + log_gamma(other + half)


@compiled
def split_ratios(prior: Any, clusters: Any, sides: Any, log_marginal: Any, log_proposals: Any) -> Any:
    """log ratios of splitting each of K clusters into its subclusters.

    `sides` counts the points left and right; `log_marginal` has the K clusters, then their 2K subclusters. The ratio is
    minus infinity if a side is empty.
    """
    count = len(sides)
    ratios = new_array(count, np.float64)
    for k in range(count):
        ratios[k] = -np.inf
        left, right = sides[k, 0], sides[k, 1]
        if left > 0.0 and right > 0.0:
            gain = log_marginal[count + 2 * k] + log_marginal[count + 2 * k + 1] - log_marginal[k]
            ratios[k] = log_split_ratio(prior, clusters, left, right, gain, log_proposals[k])
    return ratios


@compiled
def merge_ratios(rule: Any, counts: Any, one: Any, other: Any, log_likelihoods: Any) -> Any:
    """log ratios of merging pairs of clusters, without the probabilities of the splits back."""
    ratios = new_array(len(one), np.float64)
    for pair in range(len(one)):
        ratios[pair] = log_merge_ratio_by(rule, counts[one[pair]], counts[other[pair]], log_likelihoods[pair])
    return ratios
