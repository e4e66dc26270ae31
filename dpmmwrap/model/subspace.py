"""A subspace that all clusters share: in it they differ, and in all other directions they are one Gaussian.

    x = center + (y, z) basis^-1,    y ~ the mixture, in q dimensions,    z ~ N(0, I), the same for all clusters.

With log |det basis| the density of y and z is one of all columns. The sampler sees y alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.files import read_arrays
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, FloatArray, evenly_spaced

CHUNK = 1 << 14
"""Rows that are projected at a time."""
NUMBERS = 10_000_000
"""Numbers in the rows whose noise is looked at, at most."""
NAMES = ("subspace_center", "subspace_basis", "subspace_dim")


@dataclass(frozen=True)
class Subspace:
    """The first `dim` columns of the basis are the directions in which clusters differ."""

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
        """y of rows (n, q), in single precision."""
        found = np.empty((len(X), self.dim), np.float32)
        for begin in range(0, len(X), CHUNK):
            rows = np.asarray(X[begin : begin + CHUNK])
            np.matmul(
                (rows - self._center(rows.dtype)).astype(np.float32), self._projection, found[begin : begin + CHUNK]
            )
        if np.isnan(found).any():
            raise ValueError("values are missing: clusters in a subspace need all values of a row")
        return found

    def log_noise(self, X: FloatArray) -> Float64Array:
        """log density of z of rows (n,), with the basis' determinant: what y leaves of the density of x."""
        found, noise = np.empty(len(X)), self.basis[:, self.dim :]
        for begin in range(0, len(X), CHUNK):
            z = (np.asarray(X[begin : begin + CHUNK], np.float64) - self.center) @ noise
            found[begin : begin + CHUNK] = -0.5 * (z**2).sum(axis=1)
        return np.asarray(found - 0.5 * noise.shape[1] * math.log(2 * math.pi) + self.log_determinant)

    def mean_log_noise(self, X: FloatArray) -> float:
        """The mean of `log_noise`, of evenly spaced rows if there are many."""
        return float(self.log_noise(X[evenly_spaced(len(X), NUMBERS // self.n_features)]).mean())

    def _center(self, dtype: Any) -> Any:
        # Subtracted in the rows' precision, before they lose any.
        return self.center.astype(dtype) if np.issubdtype(dtype, np.floating) else self.center

    def features(self, inside: Float64Array) -> Float64Array:
        """x of points y, without noise."""
        return np.asarray(self.center + inside @ self.inverse[: self.dim])

    def covariances(self, inside: Float64Array) -> Float64Array:
        """Of all features (K, D, D), from those of y (K, q, q)."""
        own, noise = self.inverse[: self.dim], self.inverse[self.dim :]
        return np.asarray(own.T @ inside @ own + noise.T @ noise)

    def sample(self, inside: Float64Array, rng: np.random.Generator) -> Float64Array:
        """x of points y, with noise."""
        noise = self.inverse[self.dim :]
        return self.features(inside) + rng.standard_normal((len(inside), len(noise))) @ noise

    def shifted(self, offset: Float64Array) -> Subspace:
        """The same for data from which `offset` has been subtracted."""
        return replace(self, center=self.center - offset)

    def arrays(self) -> dict[str, Any]:
        """As plain arrays, for a file."""
        return dict(zip(NAMES, (self.center, self.basis, np.array(self.dim)), strict=True))

    @classmethod
    def read(cls, path: str | Path) -> Subspace | None:
        """From a file that holds `arrays`, or None from one that does not."""
        found = read_arrays(path, required=(), optional=NAMES)
        if not found:
            return None
        center, basis, dim = (found[name] for name in NAMES)
        fits = center.ndim == 1 and basis.shape == (len(center), len(center)) and 0 < int(dim) <= len(center)
        if not fits or not (np.isfinite(center).all() and np.isfinite(basis).all()):
            raise ValueError("its subspace is not one of its features")
        return cls(center, basis, int(dim))
