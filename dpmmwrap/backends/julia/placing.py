"""Data on their way into Julia: near the origin and of a moderate size. The package works with sums of squares and in
single precision, and far from the origin both lose the clusters."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpmmwrap.families.base import Prior
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.numerics.arrays import Float32Array, Float64Array

CHUNK = 1 << 16
NEAR = 4.0
"""Data whose mean is no more than so many deviations from zero are left where they are."""
MODERATE = 2.0**10
"""So are features whose deviation is no more than so many times larger or smaller than 1."""


class Placing(NamedTuple):
    """How data were moved: x became (x - offset) * factor, feature by feature. Factors are powers of two, which round
    nothing."""

    offset: Float64Array
    factor: Float64Array

    @property
    def is_identity(self) -> bool:
        return not self.offset.any() and bool((self.factor == 1).all())

    def points(self, X: Float32Array) -> Float32Array:
        """The data where Julia is to see them; the very same array if they are there already."""
        if self.is_identity:
            return X
        moved = np.empty_like(X)
        for begin in range(0, len(X), CHUNK):
            rows = X[begin : begin + CHUNK].astype(np.float64)
            moved[begin : begin + CHUNK] = (rows - self.offset) * self.factor
        return moved

    def prior(self, prior: Prior) -> Prior:
        """The same prior over data that were moved."""
        if self.is_identity or not isinstance(prior, NIW):
            return prior
        return NIW(
            (prior.mean - self.offset) * self.factor,
            prior.mean_strength,
            prior.scale * np.multiply.outer(self.factor, self.factor),
            prior.degrees_of_freedom,
        )

    def log_volume(self, points: int) -> float:
        """What is to be added to the log density of so many moved points for that of the points as they came."""
        return float(points * np.log(self.factor).sum())


def placing_of(X: Float32Array, prior: Prior) -> Placing:
    """Where Gaussian data are to go; counts stay."""
    dim = X.shape[1]
    offset, factor = np.zeros(dim), np.ones(dim)
    if not isinstance(prior, NIW):
        return Placing(offset, factor)
    mean = X.mean(axis=0, dtype=np.float64)
    deviation = np.sqrt(variances(X, mean))
    far = np.abs(mean) > NEAR * deviation
    if far.any():
        offset = np.where(far, mean, 0.0)
    extreme = (deviation > MODERATE) | (deviation < 1 / MODERATE) & (deviation > 0)
    factor[extreme] = np.exp2(-np.round(np.log2(deviation[extreme])))
    return Placing(offset, factor)


def variances(X: Float32Array, mean: Float64Array) -> Float64Array:
    """The variance of each feature."""
    total = np.zeros(X.shape[1])
    for begin in range(0, len(X), CHUNK):
        total += np.square(X[begin : begin + CHUNK] - mean).sum(axis=0)
    return total / len(X)
