"""One Gaussian of all rows, with its covariance and the strength of its prior learned."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.learned.hyperprior import Hyperparameters, Hyperprior
from dpmmwrap.numerics.arrays import Float64Array


class OneGaussian(NamedTuple):
    """Its mean, its expected covariance, and how probable it makes the rows."""

    mean: Float64Array
    covariance: Float64Array
    share: float
    """What the square of a row adds to the covariance: 1 / N but for the prior."""
    log_evidence: float


def one_gaussian(X: Float64Array) -> OneGaussian:
    """The Gaussian of all rows: sum of squares and prior, the strength of which is the most probable one.

    The prior expects the features' variances and no correlations: the covariance exists with fewer rows than features,
    too. O(N D^2 + D^3).
    """
    mean, variances = X.mean(axis=0), X.var(axis=0)
    hyperprior, statistics = Hyperprior(NIW, mean, variances), NIW.statistics(X)
    best, log_evidence = None, -np.inf
    for strength in hyperprior.strengths.tolist():
        # So that the expected covariance has these variances.
        widths = variances * (strength - 2) / (hyperprior.least_freedom + strength)
        prior = hyperprior.make(Hyperparameters(mean, 1.0, widths, strength))
        found = hyperprior.log_density(prior) + float(prior.log_marginal_likelihood(statistics)[0])
        if found > log_evidence:
            best, log_evidence = prior.posterior(statistics), found
    assert best is not None
    share = 1.0 / (float(np.ravel(best.degrees_of_freedom)[0]) - X.shape[1] - 1)
    return OneGaussian(mean, best.mean_covariance()[0], share, log_evidence)
