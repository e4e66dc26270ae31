"""One Gaussian of all rows, with its covariance and the strength of its prior learned."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.learned.hyperprior import Hyperparameters, Hyperprior, log_multigamma
from dpmmwrap.numerics.arrays import Float64Array


class OneGaussian(NamedTuple):
    """Its mean, its expected covariance, and how probable it makes the rows."""

    mean: Float64Array
    covariance: Float64Array
    share: float
    """What the square of a row adds to the covariance: 1 / N but for the prior."""
    log_evidence: float


def one_gaussian(X: Float64Array) -> OneGaussian:
    """The Gaussian of all rows under a normal-inverse-Wishart prior with the most probable strength.

    The prior expects the features' means and variances and no correlations, so the covariance exists with fewer rows
    than features, too. In units of the variances its scale is a multiple of the identity: the eigenvalues of the
    scatter give the determinants for all strengths. O(N D^2 + D^3).
    """
    (rows, dim), mean, variances = X.shape, X.mean(axis=0), X.var(axis=0)
    hyperprior, centred = Hyperprior(NIW, mean, variances), X - mean
    scatter = centred.T @ centred
    eigenvalues = np.linalg.eigvalsh(scatter / np.sqrt(np.outer(variances, variances))).clip(0)
    strengths = hyperprior.strengths
    # So that the expected covariance has these variances.
    scales, freedoms = strengths - 2, hyperprior.least_freedom + strengths
    logs = log_multigamma((freedoms + rows) / 2, dim) - log_multigamma(freedoms / 2, dim)
    logs += freedoms / 2 * dim * np.log(scales)
    logs -= (freedoms + rows) / 2 * np.log(scales[:, None] + eigenvalues).sum(axis=1)
    for number, share in enumerate(scales / freedoms):
        values = Hyperparameters(mean, 1.0, variances * share, float(strengths[number]))
        logs[number] += hyperprior.log_density_of(values)
    best = int(logs.argmax())
    share = 1.0 / (freedoms[best] + rows - dim - 1)
    constant = -0.5 * rows * (dim * math.log(math.pi) + np.log(variances).sum()) - 0.5 * dim * math.log1p(rows)
    covariance = share * (scatter + scales[best] * np.diag(variances))
    return OneGaussian(mean, covariance, float(share), float(constant + logs[best]))
