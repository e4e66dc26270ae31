"""The spherical Gaussian: one variance per cluster, the same in every direction."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from scipy.special import gammaln

from dpmmwrap.families.diagonal.prior import NIG, Student
from dpmmwrap.families.screening import bounding_table, powers
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, FloatArray, IntArray

ROUNDING = 1e-6
"""A few units of single precision."""


@dataclass(frozen=True)
class SphericalNIG(NIG):
    """Normal-inverse-gamma with one variance for all features: the prior of spherical clusters.

    Parameters
    ----------
    mean : array, shape (D,)
        Expected location of clusters.
    mean_strength : float
        kappa: how many points the prior location counts as.
    scale : array, shape (1,)
        One number; divided by the degrees of freedom it is roughly the expected variance.
    degrees_of_freedom : float
        nu, above 0: how certain the prior is of the variance.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmmwrap import SphericalNIG
    >>> SphericalNIG(np.zeros(3), 0.1, np.array([5.0]), 5.0).dim
    3
    """

    family: ClassVar[str] = "spherical"
    covariances: ClassVar[str] = "spherical"
    called: ClassVar[str] = "a normal-inverse-gamma prior with one variance"
    other: ClassVar[str] = "covariance_type='diag'"
    tied: ClassVar[bool] = True

    def _scale_shape(self) -> tuple[int, ...]:
        return (1,)

    @staticmethod
    def fitting(fields: dict[str, Any]) -> dict[str, Any]:
        return fields | {"scale": np.atleast_1d(fields["scale"])}

    @staticmethod
    def n_parameters(dim: int) -> int:
        return dim + 1

    @staticmethod
    def pooled(scales: Float64Array) -> Float64Array:
        return np.atleast_1d(np.mean(scales))

    @cached_property
    def student(self) -> Student:
        """The predictives of rows without missing values: a multivariate t with a single power."""
        means, strengths, scales, freedoms = self.batch
        spread = (np.broadcast_to(strengths, means.shape) + 1) / strengths
        constants = gammaln((freedoms + self.dim) / 2) - gammaln(freedoms / 2)
        constants = constants - 0.5 * (self.dim * np.log(np.pi * scales) + np.log(spread).sum(axis=1, keepdims=True))
        return Student(means, 1 / (scales * spread), 0.5 * (freedoms + self.dim), constants, constants[:, 0])

    def _log_student(self, rows: FloatArray, k: Any) -> Float64Array:
        student = self.student
        squares = rows - student.means[k]
        squares *= squares
        total = np.einsum("...d,...d->...", student.precisions[k], squares)
        found = student.totals[k] - student.powers[k, 0] * np.log1p(total)
        if len(gaps := np.flatnonzero(np.isnan(total))):
            own = np.broadcast_to(k, len(rows))[gaps]
            found[gaps] = self._log_student_of_rest(squares[gaps], own)
        return np.asarray(found)

    def _log_student_of_rest(self, squares: Float64Array, k: IntArray) -> Float64Array:
        """The multivariate t over the observed values, given squared differences from the distributions' means."""
        freedoms, precisions = self.batch.freedoms[k, 0], self.student.precisions[k]
        observed = ~np.isnan(squares)
        values = observed.sum(axis=1)
        constants = gammaln((freedoms + values) / 2) - gammaln(freedoms / 2)
        constants -= 0.5 * (values * np.log(np.pi) - np.where(observed, np.log(precisions), 0.0).sum(axis=1))
        total = np.where(observed, squares * precisions, 0.0).sum(axis=1)
        return np.asarray(constants - 0.5 * (freedoms + values) * np.log1p(total))

    @cached_property
    def bounding(self) -> Float32Array:
        """Coefficients of upper bounds on the negative squared distances: polynomials of degree 2."""
        _, widths, means = self.frame
        precisions = self.student.precisions * widths**2
        coefficients = np.stack([2 * precisions * means, -precisions])
        return bounding_table(coefficients, -(precisions * means**2).sum(axis=1))

    def upper_bounds(self, X: FloatArray) -> Float32Array:
        """Upper bounds on the log density of each predictive at each row (N, K); NaN where a value is missing."""
        found = powers((X - self.frame.centre) / self.frame.widths, 2) @ self.bounding
        # NaN is preserved.
        np.log1p(np.maximum(-found, 0, out=found), out=found)
        found *= (-(1 - ROUNDING) * self.student.powers[:, 0]).astype(np.float32)
        found += (self.student.totals + ROUNDING * np.abs(self.student.totals)).astype(np.float32)
        return found

    def impute(self, X: FloatArray, components: IntArray, rng: np.random.Generator | None) -> Float64Array:
        """As in `NIG`, but the observed values determine the spread of the missing ones."""
        means, strengths, scales, freedoms = (values[components] for values in self.batch)
        spread, observed = (np.broadcast_to(strengths, means.shape) + 1) / strengths, ~np.isnan(X)
        if rng is None:
            return np.where(observed, X, means)
        squares = np.where(observed, (X - means) ** 2 / spread, 0.0).sum(axis=1, keepdims=True)
        wide = (scales + squares) / rng.chisquare(freedoms + observed.sum(axis=1, keepdims=True))
        return np.where(observed, X, means + np.sqrt(wide * spread) * rng.standard_normal(means.shape))

    def sample(self, components: IntArray, rng: np.random.Generator) -> Float64Array:
        """Draw one point from the multivariate t of each of these distributions."""
        means, strengths, scales, freedoms = self.batch
        spread = np.sqrt(scales / freedoms * (np.broadcast_to(strengths, means.shape) + 1) / strengths)
        chosen = freedoms[components]
        tails = np.sqrt(chosen / rng.chisquare(chosen))
        steps = rng.standard_normal((len(components), self.dim)) * spread[components] * tails
        return np.asarray(means[components] + steps)
