"""Full covariances with integrated parameters: normal-inverse-Wishart posteriors stored as Cholesky factors."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.collapsed import register
from dpmmwrap.numerics.special import inner_float64 as inner
from dpmmwrap.numerics.special import log_gamma, new_zeros

LOG_PI = math.log(math.pi)


class WhitenedClusters(NamedTuple):
    """Full-covariance Gaussians as normal-inverse-Wishart posteriors. The last one is the prior."""

    counts: Any
    means: Any
    strengths: Any
    freedoms: Any
    factors: Any
    """Lower Cholesky factors of the scales (C, D, D)."""
    constants: Any
    """Log predictive density at the mean, valid after `prepare`."""
    inverses: Any
    """Inverses of the factors (C, D, D), valid after `prepare`."""
    work: Any


@inner
def _half_log_determinant(factor: Any) -> Any:
    total = 0.0
    for i in range(len(factor)):
        total += math.log(factor[i, i])
    return total


def prepare(clusters: Any, k: int) -> None:
    """Invert the factor, so that no step of the predictive has to wait for the one before. O(D^3 / 6)."""
    dim = clusters.means.shape[1]
    strength, freedom = clusters.strengths[k], clusters.freedoms[k] - dim + 1
    total = log_gamma(0.5 * (freedom + dim)) - log_gamma(0.5 * freedom)
    total += 0.5 * dim * (math.log(strength / (strength + 1.0)) - LOG_PI)
    clusters.constants[k] = total - _half_log_determinant(clusters.factors[k])
    factor, inverse = clusters.factors[k], clusters.inverses[k]
    for i in range(dim):
        pivot = 1.0 / factor[i, i]
        for j in range(i):
            inverse[i, j] = 0.0
        for r in range(i):
            for j in range(r + 1):
                inverse[i, j] -= factor[i, r] * inverse[r, j]
        for j in range(i):
            inverse[i, j] *= pivot
        inverse[i, i] = pivot


def log_predictive(clusters: Any, k: int, X: Any, row: int, weight: Any) -> Any:
    """Student's t, from |L^-1 (x - mean)|^2. O(D^2)."""
    mean, inverse, gap = clusters.means[k], clusters.inverses[k], clusters.work
    total = 0.0
    for i in range(len(mean)):
        gap[i] = np.float64(X[row, i]) - mean[i]
        value = 0.0
        for j in range(i + 1):
            value += inverse[i, j] * gap[j]
        total += value * value
    if weight != 1.0:
        return _log_ratio_of_copies(clusters, k, weight, total)
    ratio = clusters.strengths[k] / (clusters.strengths[k] + 1.0)
    return clusters.constants[k] - 0.5 * (clusters.freedoms[k] + 1.0) * math.log1p(ratio * total)


@inner
def _log_ratio_of_copies(clusters: Any, k: int, weight: Any, square: Any) -> Any:
    """The increase of the log marginal likelihood from `weight` copies of a point at this squared distance."""
    dim, strength, freedom = clusters.means.shape[1], clusters.strengths[k], clusters.freedoms[k]
    total = 0.5 * dim * (math.log(strength / (strength + weight)) - weight * LOG_PI)
    for j in range(dim):
        total += log_gamma(0.5 * (freedom + weight - j)) - log_gamma(0.5 * (freedom - j))
    ratio = strength * weight / (strength + weight)
    total -= weight * _half_log_determinant(clusters.factors[k])
    return total - 0.5 * (freedom + weight) * math.log1p(ratio * square)


def add_point(clusters: Any, k: int, X: Any, row: int, sign: Any) -> None:
    """A rank-one update of the scale's factor: scale +- w d d', where d is the point minus the mean without it.
    O(D^2)."""
    mean, factor, step = clusters.means[k], clusters.factors[k], clusters.work
    dim, strength = len(mean), clusters.strengths[k]
    after, direction = strength + sign, 1.0 if sign > 0.0 else -1.0
    if sign > 0.0:
        weight = strength * sign / after
        for i in range(dim):
            step[i] = np.float64(X[row, i]) - mean[i]
            mean[i] += step[i] * sign / after
    else:
        weight = -after * sign / strength
        for i in range(dim):
            mean[i] = (strength * mean[i] + sign * np.float64(X[row, i])) / after
            step[i] = np.float64(X[row, i]) - mean[i]
    clusters.strengths[k] = after
    clusters.freedoms[k] += sign
    root = math.sqrt(weight)
    for i in range(dim):
        step[i] *= root
    for i in range(dim):
        pivot = factor[i, i]
        new = math.sqrt(max(pivot * pivot + direction * step[i] * step[i], 1e-12 * pivot * pivot))
        shrunk, c, s = pivot / new, new / pivot, step[i] / pivot
        factor[i, i] = new
        for j in range(i + 1, dim):
            factor[j, i] = (factor[j, i] + direction * s * step[j]) * shrunk
            step[j] = c * step[j] - s * factor[j, i]


def add_rows(clusters: Any, k: int, X: Any, rows: Any, sides: Any, side: Any) -> None:
    """Sum about the current mean, then factorise once: O(D^2 / 2) per row plus O(D^3)."""
    mean, factor, gap = clusters.means[k], clusters.factors[k], clusters.work
    dim = len(mean)
    count, sums, scale = 0.0, new_zeros(dim, np.float64), new_zeros((dim, dim), np.float64)
    for place in range(len(rows)):
        if sides[place] == side:
            count += 1.0
            for i in range(dim):
                gap[i] = np.float64(X[rows[place], i]) - mean[i]
                sums[i] += gap[i]
                for j in range(i + 1):
                    scale[i, j] += gap[i] * gap[j]
    if count > 0.0:
        strength = clusters.strengths[k] + count
        for i in range(dim):
            for j in range(i + 1):
                scale[i, j] -= sums[i] * sums[j] / strength
                for r in range(j + 1):
                    scale[i, j] += factor[i, r] * factor[j, r]
        _factorise(scale, factor)
        for i in range(dim):
            mean[i] += sums[i] / strength
        clusters.strengths[k] = strength
        clusters.freedoms[k] += count


@inner
def _factorise(scale: Any, factor: Any) -> None:
    """Write the lower Cholesky factor of a matrix. O(D^3)."""
    for i in range(len(scale)):
        for j in range(i + 1):
            value = scale[i, j]
            for r in range(j):
                value -= factor[i, r] * factor[j, r]
            factor[i, j] = value / factor[j, j] if j < i else math.sqrt(max(value, 1e-300))


@inner
def _copy(clusters: Any, k: int, others: Any, m: int) -> None:
    """Element by element: for slice assignments numba spends a second on compiling error messages about shapes."""
    mean, factor, its_mean, its_factor = clusters.means[k], clusters.factors[k], others.means[m], others.factors[m]
    for i in range(len(mean)):
        mean[i] = its_mean[i]
        for j in range(len(mean)):
            factor[i, j] = its_factor[i, j]
    clusters.strengths[k], clusters.freedoms[k] = others.strengths[m], others.freedoms[m]


def add_cluster(clusters: Any, k: int, others: Any, m: int, sign: float) -> None:
    """The posterior given the points of both clusters, or (sign -1) given those of k without those of m. O(D^3).

    A scale is prior scale + sum of x x' + kappa_0 m_0 m_0' - kappa m m' for any origin. Cluster k's mean is used as the
    origin, to limit cancellation.
    """
    last = len(clusters.strengths) - 1
    dim, base = clusters.means.shape[1], clusters.strengths[last]
    mean, factor = clusters.means[k], clusters.factors[k]
    if clusters.strengths[k] == base:
        _copy(clusters, k, others, m)
        return
    strength = clusters.strengths[k] + sign * (others.strengths[m] - base)
    # The inverse serves as scratch space: `prepare` recomputes it before the next predictive.
    scale, centre = clusters.inverses[k], clusters.work
    first, second = clusters.means[last], others.means[m]
    for i in range(dim):
        centre[i] = sign * (others.strengths[m] * (second[i] - mean[i]) - base * (first[i] - mean[i])) / strength
    for i in range(dim):
        for j in range(i + 1):
            value = sign * others.strengths[m] * (second[i] - mean[i]) * (second[j] - mean[j])
            value -= sign * base * (first[i] - mean[i]) * (first[j] - mean[j]) + strength * centre[i] * centre[j]
            for r in range(j + 1):
                value += factor[i, r] * factor[j, r] + sign * others.factors[m, i, r] * others.factors[m, j, r]
                value -= sign * clusters.factors[last, i, r] * clusters.factors[last, j, r]
            scale[i, j] = value
    _factorise(scale, factor)
    for i in range(dim):
        mean[i] += centre[i]
    clusters.strengths[k] = strength
    clusters.freedoms[k] += sign * (others.freedoms[m] - clusters.freedoms[last])


@inner
def log_normaliser(clusters: Any, k: int) -> Any:
    dim, freedom = clusters.means.shape[1], clusters.freedoms[k]
    total = -freedom * _half_log_determinant(clusters.factors[k]) - 0.5 * dim * math.log(clusters.strengths[k])
    for j in range(dim):
        total += log_gamma(0.5 * (freedom - j))
    return total


def log_marginal(clusters: Any, k: int) -> Any:
    last = len(clusters.strengths) - 1
    n = clusters.strengths[k] - clusters.strengths[last]
    constant = 0.5 * clusters.means.shape[1] * LOG_PI * n
    return log_normaliser(clusters, k) - log_normaliser(clusters, last) - constant


def clear(clusters: Any, k: int) -> None:
    _copy(clusters, k, clusters, len(clusters.strengths) - 1)


def copy_cluster(clusters: Any, k: int, others: Any, m: int) -> None:
    _copy(clusters, k, others, m)


register(
    WhitenedClusters, log_predictive, add_point, log_marginal, fields=("means", "strengths", "freedoms", "factors"),
    add_cluster=add_cluster, copy_cluster=copy_cluster, clear=clear, prepare=prepare, add_rows=add_rows,
)  # fmt: skip
