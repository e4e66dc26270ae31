"""How probable a mixture makes the data, whichever way its points are labelled.

The log posterior of one labelling is no fair measure of a mixture whose clusters overlap: many labellings are about as
good, and all of them count. A labelling that is drawn from the points' own probabilities stands for exp(-log q) of
them, q the probability with which it was drawn: log p(labels, X) - log q, on average a bound of log p(X) from below
but for the K! ways to name K clusters, which matter little beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpmmwrap.families.base import LearnedPrior, Points, Prior
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.partitions import PartitionPrior

if TYPE_CHECKING:
    from dpmmwrap.sampler.settings import Settings
    from dpmmwrap.sampler.state import Best

LABELLED = 10_000
"""Points that are labelled in all, and at least three times: a nat or two is then beyond chance."""


def log_evidence(prior: Prior, X: Points, labels: IntArray, partition_prior: PartitionPrior, seed: int = 0) -> float:
    """log probability of the data under a mixture with these clusters, bounded from below; O(N K) beyond a sweep."""
    logs = log_scores(prior, X, labels, partition_prior.shift).T
    logs -= np.logaddexp.reduce(logs, axis=1)[:, None]
    rng, every, total = np.random.default_rng(seed), np.arange(len(logs)), 0.0
    labellings = max(3, LABELLED // len(logs))
    for _ in range(labellings):
        # The largest of log probabilities with Gumbel noise is a draw from them.
        drawn = (logs + rng.gumbel(size=logs.shape)).argmax(axis=1)
        found = prior.statistics(X, drawn, logs.shape[1])
        total += partition_prior.log_joint(found.counts, prior.log_marginal_likelihood(found))
        total -= float(logs[every, drawn].sum())
    return total / labellings


def log_evidence_of(clustering: Best, X: Points, settings: Settings) -> float:
    """log p(X) of a clustering with its prior over partitions, under the most probable prior of its clusters.

    Where the prior is learned, without the restriction of its widths: it would weigh on some clusterings, and on some
    kinds of covariances, more than on others.
    """
    own = clustering.partition_prior
    return log_evidence_at_best(clustering.prior, settings.hyperprior, X, clustering.labels, own) + own.log_density()


def log_evidence_at_best(
    prior: Prior, hyperprior: LearnedPrior | None, X: Points, labels: IntArray, partition_prior: PartitionPrior
) -> float:
    """log p(X, prior) under the prior that is most probable given these clusters; under the one given, if it is not
    learned."""
    if hyperprior is None:
        return log_evidence(prior, X, labels, partition_prior)
    free = hyperprior.unrestricted()
    best = free.climb(prior, prior.statistics(X, labels))
    return free.log_density(best) + log_evidence(best, X, labels, partition_prior)


def log_scores(prior: Prior, X: Points, labels: IntArray, shift: float = 0.0) -> Float64Array:
    """Each cluster's log probability of each point (K, N), but for a constant."""
    statistics = prior.statistics(X, labels)
    found: Float64Array = np.log(statistics.counts + shift)[:, None] + prior.posterior(statistics).log_predictive(X)
    return found
