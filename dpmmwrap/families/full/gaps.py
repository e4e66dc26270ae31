"""Rows with missing values under full covariances, compiled by numba: only these rows cost anything.

A Gaussian with precision P has, given what is observed (o), the missing values (m) with precision P_mm about the mean
mu_m - P_mm^-1 P_mo (x_o - mu_o). With these in their place, |W (x - mu)|^2 (W'W = P) is the squared distance of what is
observed alone, and the log density of what is observed is that of the whole row less that of the missing values. So a
pattern of gaps takes one Cholesky factor, that of P_mm, for each cluster.
"""

from __future__ import annotations

import itertools
import math
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.special import compiled_float64 as compiled
from dpmmwrap.numerics.special import inner_float64 as inner
from dpmmwrap.numerics.variates import random_bits

HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)
NEGLIGIBLE = 40.0
"""A cluster whose log probability is this far below that of the best is left out: a uniform number has 53 bits."""
ROWS_AT_ONCE = 512
"""The most rows of a pattern that one thread works on."""


class Gaps(NamedTuple):
    """Rows with missing values, in order of their patterns."""

    rows: IntArray
    starts: IntArray
    """Where each stretch of rows with one pattern begins, and where the last one ends."""
    columns: IntArray
    """The missing columns of each stretch, after them the others (S, D)."""
    missing: IntArray
    """How many are missing."""


def find_gaps(X: FloatArray) -> Gaps:
    """The rows of X with missing values."""
    gaps = np.isnan(X)
    rows = np.flatnonzero(gaps.any(axis=1))
    packed = np.packbits(gaps[rows], axis=1)
    _, first, which = np.unique(packed, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(which.ravel(), kind="stable")
    edges = np.searchsorted(which.ravel()[order], np.arange(len(first) + 1))
    starts = np.concatenate([np.arange(a, b, ROWS_AT_ONCE) for a, b in itertools.pairwise(edges)])
    patterns = gaps[rows[order[starts]]]
    columns = np.argsort(~patterns, axis=1, kind="stable")
    return Gaps(rows[order], np.append(starts, len(rows)), columns, patterns.sum(axis=1))


class Precisions(NamedTuple):
    """Gaussians by mean (K, D), precision (K, D, D), its lower triangular factor W with W'W = P, and log peak (K,)."""

    means: Float64Array
    matrices: Float64Array
    factors: Float64Array
    log_peaks: Float64Array


def precisions_of(means: Any, factors: Any, log_peaks: Any) -> Precisions:
    """From means, precision factors W, which may be filled up with zeros, and log peaks."""
    dim = np.shape(means)[1]
    whole = np.ascontiguousarray(factors[:, :dim, :dim], np.float64)
    return Precisions(np.asarray(means, np.float64), _squares(whole), whole, np.asarray(log_peaks, np.float64))


def expected_precisions(posterior: Any) -> Precisions:
    """Gaussians with the expected precisions of normal-inverse-Wishart posteriors."""
    whole = _inverses(posterior.batch.factors, np.atleast_1d(posterior.degrees_of_freedom))
    return Precisions(np.atleast_2d(posterior.mean), _squares(whole), whole, np.zeros(len(whole)))


@compiled
def _squares(factors: Any) -> Any:
    """W'W of each lower triangular W (K, D, D)."""
    count, dim, _ = factors.shape
    found = np.zeros((count, dim, dim))
    for k in range(count):
        for r in range(dim):
            for i in range(r + 1):
                for j in range(r + 1):
                    found[k, i, j] += factors[k, r, i] * factors[k, r, j]
    return found


@compiled
def _inverses(factors: Any, freedoms: Any) -> Any:
    """The inverse of each lower triangular factor (D, D, K), times the root of its degrees of freedom: (K, D, D)."""
    dim, _, count = factors.shape
    found = np.zeros((count, dim, dim))
    for k in range(count):
        for j in range(dim):
            for i in range(j, dim):
                total = math.sqrt(freedoms[k]) if i == j else 0.0
                for r in range(j, i):
                    total -= factors[i, r, k] * found[k, r, j]
                found[k, i, j] = total / factors[i, i, k]
    return found


@inner
def _factorise(matrix: Any, columns: Any, m: Any, factor: Any) -> Any:
    """Write the lower Cholesky factor of the part of a matrix that belongs to the first m of some columns; half its log
    determinant."""
    half = 0.0
    for i in range(m):
        for j in range(i + 1):
            value = matrix[columns[i], columns[j]]
            for r in range(j):
                value -= factor[i, r] * factor[j, r]
            factor[i, j] = value / factor[j, j] if j < i else math.sqrt(max(value, 1e-300))
        half += math.log(factor[i, i])
    return half


@inner
def _expect(x: Any, mean: Any, matrix: Any, columns: Any, m: Any, factor: Any, step: Any) -> None:
    """Write the row as seen from the mean to `step`, with expectations of what is missing, its first m columns."""
    for place in range(m, len(columns)):
        j = columns[place]
        step[j] = np.float64(x[j]) - mean[j]
    for place in range(m):
        i = columns[place]
        total = 0.0
        for other in range(m, len(columns)):
            total -= matrix[i, columns[other]] * step[columns[other]]
        for before in range(place):
            total -= factor[place, before] * step[columns[before]]
        step[i] = total / factor[place, place]
    _solve_transposed(columns, m, factor, step)


@inner
def _solve_transposed(columns: Any, m: Any, factor: Any, step: Any) -> None:
    """Solve C' y = step for the first m columns, in their place."""
    for place in range(m - 1, -1, -1):
        total = step[columns[place]]
        for after in range(place + 1, m):
            total -= factor[after, place] * step[columns[after]]
        step[columns[place]] = total / factor[place, place]


@inner
def _normal(key: Any, place: Any) -> Any:
    """A standard normal variable, by Box and Muller's transform."""
    first = (np.float64(random_bits(key, 2 * place) >> np.uint64(11)) + 0.5) * 2.0**-53
    second = (np.float64(random_bits(key, 2 * place + 1) >> np.uint64(11)) + 0.5) * 2.0**-53
    return math.sqrt(-2.0 * math.log(first)) * math.cos(2.0 * math.pi * second)


@inner
def _fill(x: Any, mean: Any, columns: Any, m: Any, factor: Any, step: Any, key: Any) -> None:
    """Draw the missing values of a row from their conditional distribution, whose expectations are in `step`."""
    noise = np.zeros(len(columns))
    for place in range(m):
        noise[columns[place]] = _normal(key, place + 1)
    _solve_transposed(columns, m, factor, noise)
    for place in range(m):
        i = columns[place]
        x[i] = mean[i] + step[i] + noise[i]


@inner
def _reduce(
    whole: Any,
    matrix: Any,
    mean: Any,
    columns: Any,
    m: Any,
    factor: Any,
    step: Any,
    observed: Any,
    offsets: Any,
    k: Any,
) -> None:
    """Write V and V mu_o, in place k, such that |V (x_o - mu_o)|^2 is the squared distance of what is observed: W, with
    what the missing values are expected to be taken in. O(D^2 m)."""
    dim = len(columns)
    for i in range(dim):
        offsets[i, k] = 0.0
    for place in range(m, dim):
        j = columns[place]
        for at in range(m):
            total = -matrix[columns[at], j]
            for before in range(at):
                total -= factor[at, before] * step[columns[before]]
            step[columns[at]] = total / factor[at, at]
        _solve_transposed(columns, m, factor, step)
        for i in range(dim):
            value = whole[i, j]
            for at in range(m):
                value += whole[i, columns[at]] * step[columns[at]]
            observed[i, place - m, k] = value
            offsets[i, k] += value * mean[j]


@compiled
def draw_missing(X: Any, gaps: Any, first: Any, last: Any, gaussians: Any, key: Any) -> None:
    """For the rows of some stretches: draw a cluster by the density of what is observed, then the missing values given
    that cluster. Row r depends on the key and on r alone. O(K D^2) a row, O(K m D^2) a stretch."""
    means, matrices, whole, log_peaks = gaussians
    count, dim = means.shape
    step, scores, constants, values = np.empty(dim), np.empty(count), np.empty(count), np.empty(count)
    # Clusters along the last axis: one step of the arithmetic serves all of them.
    factors, observed, offsets = np.empty((count, dim, dim)), np.empty((dim, dim, count)), np.empty((dim, count))
    for stretch in range(first, last):
        columns, m = gaps.columns[stretch], gaps.missing[stretch]
        for k in range(count):
            constants[k] = log_peaks[k] + m * HALF_LOG_2_PI - _factorise(matrices[k], columns, m, factors[k])
            _reduce(whole[k], matrices[k], means[k], columns, m, factors[k], step, observed, offsets, k)
        for at in range(gaps.starts[stretch], gaps.starts[stretch + 1]):
            row = gaps.rows[at]
            for k in range(count):
                scores[k] = constants[k]
            for i in range(dim):
                for k in range(count):
                    values[k] = -offsets[i, k]
                for j in range(dim - m):
                    x = np.float64(X[row, columns[m + j]])
                    for k in range(count):
                        values[k] += observed[i, j, k] * x
                for k in range(count):
                    scores[k] -= 0.5 * values[k] * values[k]
            best = -np.inf
            for k in range(count):
                best = max(best, scores[k])
            its_key = random_bits(key, row)
            chosen = _draw_one(scores, best, its_key)
            _expect(X[row], means[chosen], matrices[chosen], columns, m, factors[chosen], step)
            _fill(X[row], means[chosen], columns, m, factors[chosen], step, its_key)


@inner
def _draw_one(scores: Any, best: Any, key: Any) -> Any:
    """One of some clusters, in proportion to exp of their scores."""
    total = 0.0
    for k in range(len(scores)):
        scores[k] = math.exp(scores[k] - best) if scores[k] > best - NEGLIGIBLE else 0.0
        total += scores[k]
    left, chosen, last = (np.float64(random_bits(key, 0) >> np.uint64(11)) + 0.5) * 2.0**-53 * total, 0, 0
    for k in range(len(scores)):
        if scores[k] > 0.0:
            last = k
    while chosen < last and left >= scores[chosen]:
        left -= scores[chosen]
        chosen += 1
    return chosen


@compiled
def fill_given_labels(X: Any, gaps: Any, labels: Any, gaussians: Any, noise: Any, key: Any, extra: Any) -> Any:
    """For all rows with missing values, by the Gaussians of their labels (negative ones are left out): the sum of the
    log densities of these values given what is observed.

    With noise 1 the missing values are drawn, with 0 they become their expectations, with -1 they stay. Conditional
    covariances are added to extra[label], if it has any rows. O(D^2 + m^3) a row.
    """
    means, matrices, _, _ = gaussians
    dim = means.shape[1]
    step, factor, unit = np.empty(dim), np.empty((dim, dim)), np.empty(dim)
    total = 0.0
    for stretch in range(len(gaps.missing)):
        columns, m = gaps.columns[stretch], gaps.missing[stretch]
        before, half = -1, 0.0
        for at in range(gaps.starts[stretch], gaps.starts[stretch + 1]):
            row = gaps.rows[at]
            k = labels[row]
            if k < 0:
                continue
            x, mean = X[row], means[k]
            if k != before:
                half = _factorise(matrices[k], columns, m, factor)
                before = k
            _expect(x, mean, matrices[k], columns, m, factor, step)
            if noise > 0:
                _fill(x, mean, columns, m, factor, step, random_bits(key, row))
            elif noise == 0:
                for place in range(m):
                    x[columns[place]] = mean[columns[place]] + step[columns[place]]
            total += half - m * HALF_LOG_2_PI
            for place in range(m):
                value = 0.0
                for after in range(place, m):
                    i = columns[after]
                    value += factor[after, place] * (np.float64(x[i]) - mean[i] - step[i])
                total -= 0.5 * value * value
            if len(extra) > 0:
                _add_covariance(columns, m, factor, unit, extra[k])
    return total


@inner
def _add_covariance(columns: Any, m: Any, factor: Any, unit: Any, extra: Any) -> None:
    """Add (C C')^-1 to the part of a matrix that belongs to the first m columns."""
    for place in range(m):
        for other in range(m):
            unit[columns[other]] = 0.0
        for other in range(m):
            value = 1.0 if other == place else 0.0
            for before in range(other):
                value -= factor[other, before] * unit[columns[before]]
            unit[columns[other]] = value / factor[other, other]
        _solve_transposed(columns, m, factor, unit)
        for other in range(m):
            extra[columns[place], columns[other]] += unit[columns[other]]
