"""The spherical Gaussian: one variance per cluster, the same in every direction."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import gammaln

from dpmmwrap.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.families.diagonal import NIG


@dataclass(frozen=True)
class SphericalNIG(NIG):
    """Normal-inverse-gamma with one variance for all features: the prior of clusters that are balls.

    Parameters
    ----------
    mean : array, shape (D,)
        Where clusters are expected.
    mean_strength : float
        kappa: how sure of that the prior is, in points.
    scale : array, shape (1,)
        One number; over the degrees of freedom it is about the variance that is expected.
    degrees_of_freedom : float
        nu, above 0: how sure of that the prior is.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmmwrap import SphericalNIG
    >>> SphericalNIG(np.zeros(3), 0.1, np.array([5.0]), 5.0).dim
    3
    """

    family: ClassVar[str] = "spherical"
    tied: ClassVar[bool] = True

    def _scale_shape(self) -> tuple[int, ...]:
        return (1,)

    @staticmethod
    def pooled(scales: Float64Array) -> Float64Array:
        return np.atleast_1d(np.mean(scales))

    def log_predictive(self, X: FloatArray) -> Float64Array:
        """log density of each distribution's predictive at each row (K, N): a multivariate t over what is observed."""
        means, strengths, scales, freedoms = self.batch
        strengths = np.broadcast_to(strengths, means.shape)
        found = np.empty((len(means), len(X)))
        rows = np.asarray(X, dtype=np.float64)
        observed = ~np.isnan(rows)
        values = observed.sum(axis=1)
        for k in range(len(means)):
            spread = (strengths[k] + 1) / strengths[k]
            squares = np.nansum((rows - means[k]) ** 2 / spread, axis=1) / scales[k, 0]
            freedom = freedoms[k, 0]
            constants = gammaln((freedom + values) / 2) - gammaln(freedom / 2)
            constants -= 0.5 * (values * np.log(np.pi * scales[k, 0]) + observed @ np.log(spread))
            found[k] = constants - 0.5 * (freedom + values) * np.log1p(squares)
        return found

    def sample(self, components: IntArray, rng: np.random.Generator) -> Float64Array:
        """A new point from the multivariate t of each of these distributions."""
        means, strengths, scales, freedoms = self.batch
        spread = np.sqrt(scales / freedoms * (np.broadcast_to(strengths, means.shape) + 1) / strengths)
        chosen = freedoms[components]
        tails = np.sqrt(chosen / rng.chisquare(chosen))
        steps = rng.standard_normal((len(components), self.dim)) * spread[components] * tails
        return np.asarray(means[components] + steps)
