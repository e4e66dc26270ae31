"""Compiled loops over rows with missing values under full covariances. Rows without gaps cost nothing.

Under a Gaussian with precision P, the missing values (m) given the observed ones (o) have precision P_mm about the mean
mu_m - P_mm^-1 P_mo (x_o - mu_o). With this mean filled in, |W (x - mu)|^2 (W'W = P) is the squared distance of the
observed values alone, and the log density of the observed values is that of the whole row minus that of the missing
values. A pattern of gaps therefore needs one Cholesky factor, that of P_mm, per cluster.
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
"""A cluster whose log probability is this far below the best is left out: a uniform number has 53 bits."""
ROWS_AT_ONCE = 512
"""Most rows of one pattern in a stretch, the unit of work of a thread."""


class Gaps(NamedTuple):
    """Rows with missing values, ordered by pattern."""

    rows: IntArray
    starts: IntArray
    """The first row of each stretch of rows with the same pattern, and the end of the last one."""
    columns: IntArray
    """The missing columns of each stretch, then the observed ones (S, D)."""
    missing: IntArray
    """Number of missing columns of each stretch."""


def find_gaps(X: FloatArray) -> Gaps:
    """Find the rows of X with missing values and group them by pattern."""
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
    """Gaussians: mean (K, D), precision (K, D, D), its lower triangular factor W with W'W = P, and log peak (K,)."""

    means: Float64Array
    matrices: Float64Array
    factors: Float64Array
    log_peaks: Float64Array


def precisions_of(means: Any, factors: Any, log_peaks: Any) -> Precisions:
    """From means, precision factors W (possibly padded with zeros), and log peaks."""
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
    """Write the lower Cholesky factor of the submatrix of the first m of these columns; return half its log
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
    """Write the row minus the mean to `step`, with conditional expectations for the first m columns, which are
    missing."""
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
    """Solve C' y = step for the first m columns, in place."""
    for place in range(m - 1, -1, -1):
        total = step[columns[place]]
        for after in range(place + 1, m):
            total -= factor[after, place] * step[columns[after]]
        step[columns[place]] = total / factor[place, place]


@inner
def _normal(key: Any, place: Any) -> Any:
    """A standard normal variable by the Box-Muller transform."""
    first = (np.float64(random_bits(key, 2 * place) >> np.uint64(11)) + 0.5) * 2.0**-53
    second = (np.float64(random_bits(key, 2 * place + 1) >> np.uint64(11)) + 0.5) * 2.0**-53
    return math.sqrt(-2.0 * math.log(first)) * math.cos(2.0 * math.pi * second)


@inner
def _fill(x: Any, mean: Any, columns: Any, m: Any, factor: Any, step: Any, key: Any) -> None:
    """Draw the missing values of a row from their conditional distribution, whose mean minus `mean` is in `step`."""
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
    """Write V and V mu_o of cluster k such that |V (x_o - mu_o)|^2 is the squared distance of the observed values: W
    with the conditional expectations of the missing values substituted. O(D^2 m)."""
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
    """For the rows of some stretches, draw a cluster given the observed values, then the missing values given that
    cluster. The draw for row r depends on the key and r only. O(K D^2) per row, O(K m D^2) per stretch."""
    means, matrices, whole, log_peaks = gaussians
    count, dim = means.shape
    step, scores, constants, values = np.empty(dim), np.empty(count), np.empty(count), np.empty(count)
    # Clusters along the last axis, so that the arithmetic is vectorised over clusters.
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
    """Draw a cluster with probability proportional to exp of its score."""
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
    """Fill the missing values of all rows by the Gaussians of their labels (rows with negative labels are left out);
    return the sum of the log densities of these values given the observed ones.

    With noise 1 missing values are drawn, with 0 they are set to their conditional expectations, with -1 they stay.
    Conditional covariances are added to extra[label] unless `extra` is empty. O(D^2 + m^3) per row.
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
    """Add (C C')^-1 to the submatrix of the first m columns."""
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
