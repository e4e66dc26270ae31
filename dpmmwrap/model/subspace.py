"""A subspace in which clusters differ. In all other directions they are one Gaussian.

    x = center + (y, z) basis^-1,    y ~ the mixture, in q dimensions,    z ~ N(0, I), the same for all clusters.

The density of y and z times |det basis| is the density of all columns. The sampler sees only y.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from dpmmwrap.files import read_arrays
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, FloatArray

CHUNK = 1 << 14
"""Rows that are projected at a time."""
NAMES = ("subspace_center", "subspace_basis", "subspace_dim")


class RowsWithGaps(NamedTuple):
    """Rows of all features with missing values (NaN), which are no points of the subspace."""

    rows: FloatArray


@dataclass(frozen=True)
class Subspace:
    """Clusters differ in the first `dim` columns of the basis."""

    center: Float64Array
    """(D,)"""
    basis: Float64Array
    """(D, D): (x - center) @ basis is y and z."""
    dim: int

    @property
    def n_features(self) -> int:
        return len(self.center)

    @cached_property
    def inverse(self) -> Float64Array:
        """(D, D): (y, z) @ inverse is x - center."""
        return np.asarray(np.linalg.inv(self.basis))

    @cached_property
    def log_determinant(self) -> float:
        return float(np.linalg.slogdet(self.basis)[1])

    @cached_property
    def _projection(self) -> Float32Array:
        return np.ascontiguousarray(self.basis[:, : self.dim], dtype=np.float32)

    def points(self, X: FloatArray) -> Float32Array:
        """y (n, q) of rows without missing values, in single precision."""
        result = self.projected(X)
        if np.isnan(result).any():
            raise ValueError("values are missing: this needs all values of a row if clusters are in a subspace")
        return result

    def projected(self, X: FloatArray) -> Float32Array:
        """y (n, q) of rows, in single precision; NaN for rows with gaps."""
        result = np.empty((len(X), self.dim), np.float32)
        for begin in range(0, len(X), CHUNK):
            rows = np.asarray(X[begin : begin + CHUNK])
            # In the rows' precision, before they lose any.
            center = self.center.astype(rows.dtype) if rows.dtype.kind == "f" else self.center
            np.matmul((rows - center).astype(np.float32), self._projection, result[begin : begin + CHUNK])
        return result

    def log_observed(self, X: FloatArray, means: Float64Array, covariances: Float64Array) -> Float64Array:
        """log density (n, K) of the observed values of rows with gaps, for Gaussian y with these means (K, q) and
        covariances (K, q, q), or variances (K, q).

        The density of a whole row is that of the observed values times that of the missing ones given these. So the
        result is the density at the most probable missing values, divided by the peak of their conditional
        distribution. Their precision is b diag(covariance^-1, I) b', with b their rows of the basis.
        """
        result = np.empty((len(X), len(means)))
        precisions = np.linalg.inv(matrices(covariances))
        log_peaks = 0.5 * np.linalg.slogdet(precisions)[1] + self.log_determinant
        patterns, which = np.unique(np.isnan(X), axis=0, return_inverse=True)
        for number, gaps in enumerate(patterns):
            rows = np.flatnonzero(which.ravel() == number)
            known = (np.asarray(X[rows], np.float64)[:, ~gaps] - self.center[~gaps]) @ self.basis[~gaps]
            y, z = known[:, : self.dim], known[:, self.dim :]
            inside, outside = self.basis[gaps, : self.dim], self.basis[gaps, self.dim :]
            of_noise, pull, squares = outside @ outside.T, z @ outside.T, (z**2).sum(axis=1)
            constant = -0.5 * (~gaps).sum() * math.log(2 * math.pi)
            for k, precision in enumerate(precisions):
                step = y - means[k]
                weighted = step @ precision
                factor = np.linalg.cholesky(inside @ precision @ inside.T + of_noise)
                gained = solve_triangular(factor, (weighted @ inside.T + pull).T, lower=True)
                distances = squares + (weighted * step).sum(axis=1) - (gained**2).sum(axis=0)
                peak = constant + log_peaks[k] - np.log(np.diagonal(factor)).sum()
                result[rows, k] = peak - 0.5 * distances
        return result

    def log_noise(self, X: FloatArray) -> Float64Array:
        """log density (n,) of z, with the determinant of the basis: the density of x divided by that of y."""
        result, noise = np.empty(len(X)), self.basis[:, self.dim :]
        for begin in range(0, len(X), CHUNK):
            z = (np.asarray(X[begin : begin + CHUNK], np.float64) - self.center) @ noise
            result[begin : begin + CHUNK] = -0.5 * (z**2).sum(axis=1)
        return np.asarray(result - 0.5 * noise.shape[1] * math.log(2 * math.pi) + self.log_determinant)

    def features(self, inside: Float64Array) -> Float64Array:
        """x of points y, without noise."""
        return np.asarray(self.center + inside @ self.inverse[: self.dim])

    def covariances(self, inside: Float64Array) -> Float64Array:
        """Covariances (K, D, D) of all features, from those of y (K, q, q), or from its variances (K, q)."""
        directions, noise = self.inverse[: self.dim], self.inverse[self.dim :]
        return np.asarray(directions.T @ matrices(inside) @ directions + noise.T @ noise)

    def sample(self, inside: Float64Array, rng: np.random.Generator) -> Float64Array:
        """x of points y, with noise."""
        noise = self.inverse[self.dim :]
        return self.features(inside) + rng.standard_normal((len(inside), len(noise))) @ noise

    def shifted(self, offset: Float64Array) -> Subspace:
        """The same for data from which `offset` has been subtracted."""
        return replace(self, center=self.center - offset)

    def arrays(self) -> dict[str, Any]:
        """The contents of a file."""
        return dict(zip(NAMES, (self.center, self.basis, np.array(self.dim)), strict=True))

    @classmethod
    def read(cls, path: str | Path) -> Subspace | None:
        """Read from a file; None if it has no subspace."""
        arrays = read_arrays(path, required=(), optional=NAMES)
        if not arrays:
            return None
        center, basis, dim = (arrays[name] for name in NAMES)
        fits = center.ndim == 1 and basis.shape == (len(center), len(center)) and 0 < int(dim) <= len(center)
        if not fits or not (np.isfinite(center).all() and np.isfinite(basis).all()):
            raise ValueError("its subspace is not one of its features")
        return cls(center, basis, int(dim))


def matrices(covariances: Float64Array) -> Float64Array:
    """Covariances (K, q, q), also from variances (K, q)."""
    return covariances if covariances.ndim == 3 else covariances[:, :, None] * np.eye(covariances.shape[1])
