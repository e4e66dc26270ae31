"""The evidence of a mixture: the probability of the data summed over labellings.

The log posterior of a single labelling does not compare mixtures with overlapping clusters fairly, since many
labellings are about equally good and all of them count. If labels are drawn from each point's probabilities, with
probability q in all, then log p(labels, X) - log q is a lower bound on log p(X) on average, apart from the K! ways of
naming K clusters, which matter little in comparison.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.families.base import Points, Prior, Statistics
from dpmmwrap.families.learned.base import LearnedPrior
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.numerics.categorical_draws import draw_columns
from dpmmwrap.partitions import PartitionPrior

if TYPE_CHECKING:
    from dpmmwrap.sampler.settings import Settings
    from dpmmwrap.sampler.state import Best

LABELLED = 10_000
"""Number of points to label in all, at least three labellings; this settles differences of a nat or two."""


def log_evidence(
    prior: Prior, X: Points, labels: IntArray, partition_prior: PartitionPrior, seed: int = 0, weights: Any = None
) -> float:
    """A lower bound on the log probability of the data under a mixture with these clusters. O(N K) beyond a sweep."""
    statistics = prior.statistics(X, labels, None, weights)
    posterior = prior.posterior(statistics)
    logs = scores_of(statistics, posterior, X, partition_prior.shift).T
    if weights is not None:
        logs = logs * weights[:, None]
    logs -= logs.max(axis=1)[:, None]
    shares = np.exp(logs)
    logs -= np.log(shares.sum(axis=1))[:, None]
    rng, every, total = np.random.default_rng(seed), np.arange(len(logs)), 0.0
    labellings = max(3, LABELLED // len(logs))
    for _ in range(labellings):
        drawn = draw_columns(shares, rng)
        whole, log_missing = posterior.filled(X, drawn, int(rng.integers(2**62)))
        statistics = prior.statistics(whole, drawn, logs.shape[1], weights)
        log_joint = partition_prior.log_joint(statistics.counts, prior.log_marginal_likelihood(statistics))
        total += log_joint - log_missing
        total -= float(logs[every, drawn].sum())
    return total / labellings


def log_evidence_of(clustering: Best, X: Points, settings: Settings) -> float:
    """log p(X) of a clustering, including its prior over partitions, under the most probable prior of its clusters.

    The restriction on the widths of a learned prior is lifted, because it would penalise some clusterings and
    covariance types more than others.
    """
    process, labels, weights = clustering.partition_prior, clustering.labels, settings.weights
    best = log_evidence_at_best(clustering.prior, settings.hyperprior, X, labels, process, weights)
    return best + process.log_density()


def log_evidence_at_best(
    prior: Prior, hyperprior: LearnedPrior | None, X: Points, labels: IntArray, partition_prior: PartitionPrior,
    weights: Any = None,
) -> float:  # fmt: skip
    """log p(X, prior) under the prior that is most probable given these clusters, or under the given prior if it is not
    learned."""
    if hyperprior is None:
        return log_evidence(prior, X, labels, partition_prior, weights=weights)
    free = hyperprior.unrestricted()
    best = free.climb(prior, prior.statistics(X, labels, None, weights))
    return free.log_density(best) + log_evidence(best, X, labels, partition_prior, weights=weights)


def log_scores(
    prior: Prior, X: Points, labels: IntArray, shift: float = 0.0, at: Points | None = None, weights: Any = None
) -> Float64Array:
    """Log probability of each point in each cluster (K, N), up to a constant. The points are X, or `at` if given."""
    statistics = prior.statistics(X, labels, None, weights)
    return scores_of(statistics, prior.posterior(statistics), X if at is None else at, shift)


def scores_of(statistics: Statistics, posterior: Any, X: Points, shift: float) -> Float64Array:
    """`log_scores` from the clusters' statistics and posteriors."""
    found: Float64Array = np.log(statistics.counts + shift)[:, None] + posterior.log_predictive(X)
    return found
