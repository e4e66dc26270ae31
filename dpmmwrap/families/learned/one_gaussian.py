"""One Gaussian for all rows, with a learned covariance and a learned strength of its prior."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.learned.hyperprior import Hyperparameters, Hyperprior, log_multigamma
from dpmmwrap.numerics.arrays import Float64Array


class OneGaussian(NamedTuple):
    """Mean, expected covariance and evidence of one Gaussian for all rows."""

    mean: Float64Array
    covariance: Float64Array
    share: float
    """The weight of each row's outer product in the covariance; 1 / N without the prior."""
    log_evidence: float


def one_gaussian(X: Float64Array) -> OneGaussian:
    """Fit one Gaussian to all rows under a normal-inverse-Wishart prior with the most probable strength.

    The prior expects the variances of the features and no correlations, so the covariance exists even with fewer rows
    than features. In units of the variances the prior scale is a multiple of the identity, so the eigenvalues of the
    scatter matrix give the determinants for all strengths. O(N D^2 + D^3).
    """
    (rows, dim), mean, variances = X.shape, X.mean(axis=0), X.var(axis=0)
    hyperprior, centred = Hyperprior(NIW, mean, variances), X - mean
    scatter = centred.T @ centred
    eigenvalues = np.linalg.eigvalsh(scatter / np.sqrt(np.outer(variances, variances))).clip(0)
    strengths = hyperprior.strengths
    # With these scales the expected covariance has these variances.
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
