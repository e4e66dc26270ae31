"""Data are centred and scaled for Julia if they need it: the package sums squares in single precision, which loses
clusters far from the origin."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpmmwrap.families.base import Prior
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.numerics.arrays import Float32Array, Float64Array

CHUNK = 1 << 16
NEAR = 4.0
"""Data are centred if their mean is more than this many deviations from zero."""
MODERATE = 2.0**10
"""Features are scaled if their deviation is more than this many times larger or smaller than 1."""


class Rescaling(NamedTuple):
    """x becomes (x - offset) * factor, feature by feature. Factors are powers of two, so that nothing is rounded."""

    offset: Float64Array
    factor: Float64Array

    @property
    def is_identity(self) -> bool:
        return not self.offset.any() and bool((self.factor == 1).all())

    def points(self, X: Float32Array) -> Float32Array:
        """The rescaled data; the very same array if nothing changes."""
        if self.is_identity:
            return X
        rescaled = np.empty_like(X)
        for begin in range(0, len(X), CHUNK):
            rows = X[begin : begin + CHUNK].astype(np.float64)
            rescaled[begin : begin + CHUNK] = (rows - self.offset) * self.factor
        return rescaled

    def prior(self, prior: Prior) -> Prior:
        """The same prior, over rescaled data."""
        if self.is_identity or not isinstance(prior, NIW):
            return prior
        return NIW(
            (prior.mean - self.offset) * self.factor,
            prior.mean_strength,
            prior.scale * np.multiply.outer(self.factor, self.factor),
            prior.degrees_of_freedom,
        )

    def log_volume(self, points: int) -> float:
        """The log density of the original points minus that of the rescaled ones."""
        return float(points * np.log(self.factor).sum())


def rescaling_of(X: Float32Array, prior: Prior) -> Rescaling:
    """For Gaussian data; counts stay as they are."""
    dim = X.shape[1]
    offset, factor = np.zeros(dim), np.ones(dim)
    if not isinstance(prior, NIW):
        return Rescaling(offset, factor)
    mean = X.mean(axis=0, dtype=np.float64)
    deviation = np.sqrt(variances(X, mean))
    far = np.abs(mean) > NEAR * deviation
    if far.any():
        offset = np.where(far, mean, 0.0)
    extreme = (deviation > MODERATE) | (deviation < 1 / MODERATE) & (deviation > 0)
    factor[extreme] = np.exp2(-np.round(np.log2(deviation[extreme])))
    return Rescaling(offset, factor)


def variances(X: Float32Array, mean: Float64Array) -> Float64Array:
    """The variance of each feature."""
    total = np.zeros(X.shape[1])
    for begin in range(0, len(X), CHUNK):
        total += np.square(X[begin : begin + CHUNK] - mean).sum(axis=0)
    return total / len(X)
