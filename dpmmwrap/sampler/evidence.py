"""How probable a mixture makes the data, whichever way its points are labelled.

The log posterior of one labelling is no fair measure of a mixture whose clusters overlap: many labellings are about as
good, and all of them count. A labelling that is drawn from the points' own probabilities stands for exp(-log q) of
them, q the probability with which it was drawn: log p(labels, X) - log q, on average a bound of log p(X) from below
but for the K! ways to name K clusters, which matter little beside it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpmmwrap.families.base import Points, Prior
from dpmmwrap.families.gaussian.hyperprior import LearnedPrior
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.partitions.dirichlet_process import log_alpha_prior, log_joint

if TYPE_CHECKING:
    from dpmmwrap.sampler.settings import Settings
    from dpmmwrap.sampler.state import Best

LABELLED = 10_000
"""Points that are labelled in all, and at least three times: a nat or two is then beyond chance."""


def log_evidence(prior: Prior, X: Points, labels: IntArray, alpha: float, seed: int = 0) -> float:
    """log probability of the data under a mixture with these clusters, bounded from below; O(N K) beyond a sweep."""
    logs = log_scores(prior, X, labels).T
    logs -= np.logaddexp.reduce(logs, axis=1)[:, None]
    rng, every, total = np.random.default_rng(seed), np.arange(len(logs)), 0.0
    labellings = max(3, LABELLED // len(logs))
    for _ in range(labellings):
        # The largest of log probabilities with Gumbel noise is a draw from them.
        drawn = (logs + rng.gumbel(size=logs.shape)).argmax(axis=1)
        found = prior.statistics(X, drawn, logs.shape[1])
        total += float(log_joint(alpha, found.counts, prior.log_marginal_likelihood(found)))
        total -= float(logs[every, drawn].sum())
    return total / labellings


def log_evidence_of(clustering: Best, X: Points, settings: Settings) -> float:
    """log p(X) of a clustering with its concentration, under the prior that is most probable given its clusters.

    Where the prior is learned, without the restriction of its widths: it would weigh on some clusterings, and on some
    kinds of covariances, more than on others.
    """
    found = log_evidence_at_best(clustering.prior, settings.hyperprior, X, clustering.labels, clustering.alpha)
    return found + log_alpha_prior(clustering.alpha, settings.alpha_prior)


def log_evidence_at_best(
    prior: Prior, hyperprior: LearnedPrior | None, X: Points, labels: IntArray, alpha: float
) -> float:
    """log p(X, prior) under the prior that is most probable given these clusters; under the one given, if it is not
    learned."""
    if hyperprior is None:
        return log_evidence(prior, X, labels, alpha)
    free = hyperprior.unrestricted()
    best = free.climb(prior, prior.statistics(X, labels))
    return free.log_density(best) + log_evidence(best, X, labels, alpha)


def log_scores(prior: Prior, X: Points, labels: IntArray) -> Float64Array:
    """Each cluster's log probability of each point (K, N), but for a constant."""
    statistics = prior.statistics(X, labels)
    found: Float64Array = np.log(statistics.counts)[:, None] + prior.posterior(statistics).log_predictive(X)
    return found
