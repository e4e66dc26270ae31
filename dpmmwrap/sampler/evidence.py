"""How probable a mixture makes the data, whichever way its points are labelled.

The log posterior of one labelling is no fair measure of a mixture whose clusters overlap: many labellings are about as
good, and all of them count. A labelling that is drawn from each point's probabilities stands for exp(-log q) of
them, q the probability with which it was drawn: log p(labels, X) - log q, on average a bound of log p(X) from below
but for the K! ways to name K clusters, which matter little beside it.
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
"""Points that are labelled in all, and at least three times: a nat or two is then beyond chance."""


def log_evidence(
    prior: Prior, X: Points, labels: IntArray, partition_prior: PartitionPrior, seed: int = 0, weights: Any = None
) -> float:
    """log probability of the data under a mixture with these clusters, bounded from below; O(N K) beyond a sweep."""
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
    """log p(X) of a clustering with its prior over partitions, under the most probable prior of its clusters.

    Where the prior is learned, without the restriction of its widths: it would weigh on some clusterings, and on some
    kinds of covariances, more than on others.
    """
    process, labels, weights = clustering.partition_prior, clustering.labels, settings.weights
    best = log_evidence_at_best(clustering.prior, settings.hyperprior, X, labels, process, weights)
    return best + process.log_density()


def log_evidence_at_best(
    prior: Prior, hyperprior: LearnedPrior | None, X: Points, labels: IntArray, partition_prior: PartitionPrior,
    weights: Any = None,
) -> float:  # fmt: skip
    """log p(X, prior) under the prior that is most probable given these clusters; under the one given, if it is not
    learned."""
    if hyperprior is None:
        return log_evidence(prior, X, labels, partition_prior, weights=weights)
    free = hyperprior.unrestricted()
    best = free.climb(prior, prior.statistics(X, labels, None, weights))
    return free.log_density(best) + log_evidence(best, X, labels, partition_prior, weights=weights)


def log_scores(
    prior: Prior, X: Points, labels: IntArray, shift: float = 0.0, at: Points | None = None, weights: Any = None
) -> Float64Array:
    """Each cluster's log probability of each point (K, N), but for a constant; of other points if there are any."""
    statistics = prior.statistics(X, labels, None, weights)
    return scores_of(statistics, prior.posterior(statistics), X if at is None else at, shift)


def scores_of(statistics: Statistics, posterior: Any, X: Points, shift: float) -> Float64Array:
    """The same from statistics and posteriors of the clusters."""
    found: Float64Array = np.log(statistics.counts + shift)[:, None] + posterior.log_predictive(X)
    return found
