"""The Student-t predictive of a full-covariance Gaussian, also for rows with missing values."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import gammaln

from dpmmwrap.numerics.arrays import Float32Array, Float64Array, FloatArray, IntArray

if TYPE_CHECKING:
    from dpmmwrap.families.full.prior import NIW

WHITENED = 1 << 20
"""Number of values whitened at a time."""
UNITS = 16
"""Units of single-precision rounding: more than the terms of a bound lose before they are summed, and after."""


class Whitening(NamedTuple):
    """Inverse Cholesky factors of the scales, and their products with the means relative to the centre of all means.
    Relative to this centre, a difference of whitened points loses no more digits than a difference of points."""

    centre: Float64Array
    factors: Float64Array
    means: Float64Array


class Student(NamedTuple):
    """Parameters of the predictives: log density = constant - power log(1 + square / width), square a distance to a
    mean."""

    constants: Float64Array
    powers: Float64Array
    widths: Float64Array


def patterns(gaps: Any, gappy: Any) -> Iterator[tuple[IntArray, IntArray]]:
    """Groups of rows with the same gaps, each with its observed columns."""
    rows = np.flatnonzero(gappy)
    _, first, which = np.unique(np.packbits(gaps[rows], axis=1), axis=0, return_index=True, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    edges = np.searchsorted(which.ravel()[order], np.arange(len(first) + 1))
    for number, begin in enumerate(edges[:-1]):
        yield rows[order[begin : edges[number + 1]]], np.flatnonzero(~gaps[rows[first[number]]])


def log_predictive(prior: NIW, X: FloatArray) -> Float64Array:
    """Log density of each distribution's predictive at the observed values of each row: (K, N)."""
    gaps = np.isnan(X)
    gappy = gaps.any(axis=1)
    if not gappy.any():
        return prior.log_predictive_complete(X)
    found = np.empty((len(prior.mean.reshape(-1, prior.dim)), len(X)))
    found[:, ~gappy] = prior.log_predictive_complete(X[~gappy])
    for rows, observed in patterns(gaps, gappy):
        if not len(observed):
            found[:, rows] = 0.0
            continue
        found[:, rows] = prior.marginal(observed).log_predictive_complete(X[np.ix_(rows, observed)])
    return found


def student_of(prior: NIW) -> Student:
    freedom = np.atleast_1d(np.asarray(prior.degrees_of_freedom)) - prior.dim + 1
    strength = np.atleast_1d(np.asarray(prior.mean_strength))
    widths, powers = (strength + 1) / strength, 0.5 * (freedom + prior.dim)
    constants = gammaln(powers) - gammaln(freedom / 2) - 0.5 * prior.dim * np.log(math.pi * widths)
    halves = np.log(np.diagonal(prior.cholesky, axis1=1, axis2=2)).sum(axis=1)
    return Student(constants - halves, powers, widths)


def log_student(prior: NIW, X: FloatArray) -> Float64Array:
    """Log density of each predictive at rows without gaps."""
    constants, powers, widths = prior.student
    squares = np.empty((len(constants), len(X)))
    rows = np.asarray(X, dtype=np.float64) - prior.whitening.centre
    step = max(1, WHITENED // max(len(X) * prior.dim, 1))
    for begin in range(0, len(squares), step):
        own = slice(begin, begin + step)
        whitened = np.tensordot(prior.whitening.factors[own], rows, axes=(2, 1)) - prior.whitening.means[own, :, None]
        np.einsum("kdn,kdn->kn", whitened, whitened, out=squares[own])
    return np.asarray(constants[:, None] - powers[:, None] * np.log1p(squares / widths[:, None]))


def log_student_of(prior: NIW, X: FloatArray, k: int) -> Float64Array:
    """Log density of one predictive at rows without gaps."""
    constants, powers, widths = prior.student
    centre, factors, means = prior.whitening
    whitened = (X - centre) @ factors[k].T - means[k]
    squares = np.einsum("nd,nd->n", whitened, whitened)
    return np.asarray(constants[k] - powers[k] * np.log1p(squares / widths[k]))


def bounding_of(prior: NIW) -> Float32Array:
    """Coefficients (features, K) of lower bounds on square / width. The bound is the contribution of the first half of
    the whitened values; as inverse Cholesky factors are triangular, it is a quadratic function of the first half of the
    columns.

    The rounding error of a sum of n products in single precision is at most n units of rounding times the sum of their
    absolute values. That sum is below 2 (trace(A) x'x + m'm) for the square x'A x - 2 b'x + m'm of a vector F x - m.
    """
    size = prior.dim // 2
    factors, means = prior.whitening.factors[:, :size, :size], prior.whitening.means[:, :size]
    squares, i, j = np.swapaxes(factors, 1, 2) @ factors, *np.tril_indices(size)
    rounding = 2 * (len(i) + size + UNITS) * float(np.finfo(np.float32).eps)
    squares -= rounding * np.trace(squares, axis1=1, axis2=2)[:, None, None] * np.eye(size)
    products, constants = squares[:, i, j] * np.where(i == j, 1.0, 2.0), (1 - rounding) * (means**2).sum(axis=1)
    table = np.column_stack([products, -2 * np.einsum("kij,ki->kj", factors, means), constants])
    with np.errstate(over="ignore"):
        return np.asarray((table / prior.student.widths[:, None]).T, np.float32)


def upper_bounds(prior: NIW, X: FloatArray) -> Float32Array:
    """Upper bounds on the log density of each predictive at each row (N, K)."""
    size, rounding = prior.dim // 2, UNITS * float(np.finfo(np.float32).eps)
    rows = np.asarray(X[:, :size] - prior.whitening.centre[:size], np.float32)
    i, j = np.tril_indices(size)
    found = np.concatenate([rows[:, i] * rows[:, j], rows, np.ones_like(rows[:, :1])], axis=1) @ prior.bounding
    np.log1p(np.maximum(found, 0.0, out=found), out=found)
    found *= (-(1 - rounding) * prior.student.powers).astype(np.float32)
    found += (prior.student.constants + rounding * np.abs(prior.student.constants)).astype(np.float32)
    return np.asarray(found)


def whitening_of(prior: NIW) -> Whitening:
    """Whitening that turns the distances of all distributions into one product."""
    means = prior.mean.reshape(-1, prior.dim)
    factors: Any = np.linalg.inv(prior.cholesky)
    centre = means.mean(axis=0)
    return Whitening(centre, factors, np.einsum("kij,kj->ki", factors, means - centre))


def impute(prior: NIW, X: FloatArray, components: IntArray, rng: Generator | None) -> Float64Array:
    """Fill missing values with their conditional expectations, or with draws if there is a generator. The conditional
    distribution of a part of a Student's t is a Student's t with one more degree of freedom per observed value."""
    filled, gaps = np.array(X, np.float64), np.isnan(X)
    means, scales = prior.mean.reshape(-1, prior.dim), prior.scale.reshape(-1, prior.dim, prior.dim)
    strengths, freedoms = np.atleast_1d(prior.mean_strength), np.atleast_1d(prior.degrees_of_freedom) - prior.dim + 1
    for rows, o in patterns(gaps, gaps.any(axis=1)):
        m, k = np.setdiff1d(np.arange(prior.dim), o), components[rows]
        used, k = np.unique(k, return_inverse=True)
        own = scales[used]
        across = own[:, m[:, None], o]
        slopes = np.swapaxes(np.linalg.solve(own[:, o[:, None], o], np.swapaxes(across, 1, 2)), 1, 2)
        away = filled[rows][:, o] - means[used][k][:, o]
        filled[np.ix_(rows, m)] = means[used][k][:, m] + np.einsum("nij,nj->ni", slopes[k], away)
        if rng is None:
            continue
        rest = np.linalg.cholesky(own[:, m[:, None], m] - slopes @ np.swapaxes(across, 1, 2))
        freedom, strength = freedoms[used][k], strengths[used][k]
        spread = (strength + 1) / (strength * freedom)
        squares = np.einsum("ni,ni->n", away, np.linalg.solve(own[:, o[:, None], o][k], away[:, :, None])[:, :, 0])
        wide = spread * (freedom + squares / spread) / rng.chisquare(freedom + len(o))
        noise = np.einsum("nij,nj->ni", rest[k], rng.standard_normal((len(rows), len(m))))
        filled[np.ix_(rows, m)] += np.sqrt(wide)[:, None] * noise
    return filled
