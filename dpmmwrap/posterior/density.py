"""The uncertainty of the density: mixtures drawn from the posterior, with their weights, means and covariances.

A predictive density averages over all uncertainty. A band needs separate mixtures: the partition of a draw, weights
from the Dirichlet distribution of the clusters' counts, and a Gaussian from each cluster's posterior.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import gammaln

from dpmmwrap.families.base import Prior
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray

if TYPE_CHECKING:
    from dpmmwrap.mixture import Mixture

MIXTURES = 300
"""Mixtures to draw: the coverage of a 90% band is then accurate to about 2%."""


class Density(NamedTuple):
    """A density at some points, with quantiles over the posterior."""

    mean: Float64Array
    """The mean over drawn mixtures (n,): the posterior predictive."""
    quantiles: Float64Array
    """A row for each quantile (q, n)."""


def density_of(
    mixture: Mixture, points: FloatArray, quantiles: Sequence[float], columns: list[int] | None, rng: Generator
) -> Density:
    """The density at points (n, D), or the marginal density of some columns at points with only these."""
    averaged, share = mixture.averaged, 1 - mixture.outlier_weight
    # The components of all partitions over which the mixture is averaged, one after the other, or of the only one.
    starts: IntArray
    if averaged is None:
        weights, posterior, starts = np.exp(mixture._log_weights), mixture.posterior, np.zeros(1, np.int64)
    else:
        weights, posterior, starts = averaged.weights, averaged.posterior, averaged.starts
    # Outliers are the last component of a partition, and their weight is fixed.
    outside, ends = np.zeros(len(weights)), np.append(starts[1:], len(weights))
    if mixture.outlier_weight > 0:
        outside[ends - 1] = mixture.outlier_weight
    counts = np.where(outside > 0, 0.0, weights * (mixture.counts + mixture.size_shift).sum() / share)

    def one_round() -> Float64Array:
        """The densities of one mixture for each partition (partitions, n)."""
        gammas = rng.standard_gamma(counts)
        drawn = outside + share * gammas / np.repeat(np.add.reduceat(gammas, starts), ends - starts)
        means, covariances = posterior.draw_gaussians(rng)
        if columns is not None:
            for part in (mixture.subspace, mixture.restored):
                if part is not None:
                    means, covariances = part.features(means), part.covariances(covariances)
            means, covariances = means[:, columns], marginal(covariances, columns)
        densities = np.exp(log_density_of(points, means, covariances, posterior.tail_freedoms))
        return np.asarray(np.add.reduceat(drawn[:, None] * densities, starts, axis=0))

    densities = np.concatenate([one_round() for _ in range(-(-MIXTURES // len(starts)))])
    return Density(densities.mean(axis=0), np.quantile(densities, np.asarray(quantiles, dtype=np.float64), axis=0))


def marginal(covariances: Float64Array, columns: list[int]) -> Float64Array:
    """Covariances (K, D, D), or variances (K, D), of some columns."""
    rows = covariances[:, columns]
    return rows if covariances.ndim == 2 else rows[:, :, columns]


def log_density_of(
    points: FloatArray, means: Float64Array, covariances: Float64Array, freedoms: Float64Array | None = None
) -> Float64Array:
    """Log densities (K, n) of Gaussians with covariances (K, D, D) or variances (K, D), or of Student's t for finite
    degrees of freedom."""
    steps = np.asarray(points, dtype=np.float64) - means[:, None]
    if covariances.ndim == 2:
        squares = np.einsum("knd,kd->kn", steps**2, 1 / covariances)
        halves = 0.5 * np.log(covariances).sum(axis=1)
    else:
        factors = np.linalg.cholesky(covariances)
        squares = (np.linalg.solve(factors, np.swapaxes(steps, 1, 2)) ** 2).sum(axis=1)
        halves = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    dim = means.shape[1]
    logs = np.asarray(-0.5 * (squares + dim * math.log(2 * math.pi)) - halves[:, None])
    for k in np.flatnonzero(np.isfinite(freedoms)) if freedoms is not None else ():
        nu = float(freedoms[k])  # type: ignore[index]
        peak = gammaln(0.5 * (nu + dim)) - gammaln(0.5 * nu) - 0.5 * dim * math.log(nu * math.pi) - halves[k]
        logs[k] = peak - 0.5 * (nu + dim) * np.log1p(squares[k] / nu)
    return logs


def prior_predictive(prior: Prior, alpha: float, n_samples: int, rng: Generator) -> tuple[Float64Array, IntArray]:
    """Draw a data set and its clusters from a Dirichlet process mixture of Gaussians.

    Parameters
    ----------
    prior : NIW, NIG or SphericalNIG
        The prior of the clusters.
    alpha : float
        The concentration.
    n_samples : int
        The number of points.
    rng : numpy.random.Generator
        The source of randomness.

    Returns
    -------
    X : ndarray of float64, shape (n_samples, D)
        The points.
    labels : ndarray of int32, shape (n_samples,)
        The cluster of each, by the Chinese restaurant process.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmmwrap import NIW
    >>> from dpmmwrap.posterior.density import prior_predictive
    >>> X, labels = prior_predictive(NIW.reference(2), 1.0, 100, np.random.default_rng(0))
    >>> X.shape, labels[0]
    ((100, 2), np.int32(0))
    """
    labels = np.zeros(n_samples, np.int32)
    for i in range(1, n_samples):
        # In the cluster of an earlier point, or in a new one.
        partner = rng.random() * (i + alpha)
        labels[i] = labels[int(partner)] if partner < i else labels[:i].max() + 1
    count = int(labels.max(initial=-1)) + 1
    # The posteriors of clusters without points.
    nothing = prior.statistics(np.zeros((0, prior.dim)), np.zeros(0, np.int32), count)
    means, covariances = prior.posterior(nothing).draw_gaussians(rng)
    normal, freedoms = rng.standard_normal(means[labels].shape), prior.draw_tail_freedoms(count, rng)
    if freedoms is not None:
        freedoms = freedoms[labels]
        heavy = np.isfinite(freedoms)
        normal[heavy] /= np.sqrt(rng.chisquare(freedoms[heavy]) / freedoms[heavy])[:, None]
    if covariances.ndim == 2:
        return means[labels] + np.sqrt(covariances)[labels] * normal, labels
    return means[labels] + np.einsum("nij,nj->ni", np.linalg.cholesky(covariances)[labels], normal), labels
