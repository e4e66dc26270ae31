"""Clusters with their parameters integrated out, compiled by numba: what exact moves ask of a family, point by point.

A bundle of clusters holds, for each, what its posterior predictive needs, and has room for clusters that are not born
yet; an empty one is the prior. The functions `log_predictive`, `add_point`, `log_marginal` and `clear` are the same for
all families to their callers, and numba chooses by the bundle's type: a move is written once.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from dpmmwrap.special import OPTIONS, compiled_float64, log_gamma

LOG_PI = math.log(math.pi)


class WhitenedClusters(NamedTuple):
    """Full-covariance Gaussians: normal-inverse-Wishart posteriors. The prior is the last."""

    counts: Any
    means: Any
    strengths: Any
    freedoms: Any
    factors: Any
    """Lower Cholesky factors of the scales (C, D, D)."""
    halves: Any
    """Half the log determinants of the scales."""
    work: Any


class NumericClusters(NamedTuple):
    """Numeric columns with a variance each, or one for all: sums of x, x^2 and observed values, and the prior."""

    counts: Any
    sums: Any
    prior: Any
    """An `inverse_gamma.Posteriors` of one distribution."""
    tied: Any


class CountClusters(NamedTuple):
    """Counts: sums of them (C, V), their totals, and the Dirichlet prior."""

    counts: Any
    sums: Any
    totals: Any
    concentration: Any
    whole: Any
    """The sum of the prior's concentration."""


class CodeClusters(NamedTuple):
    """Categories: how often each level occurs (C, F), the prior's concentration, and each level's column."""

    counts: Any
    sums: Any
    concentration: Any
    edges: Any


class MixedClusters(NamedTuple):
    """Numeric and categorical columns."""

    counts: Any
    numeric: Any
    codes: Any


class MixedRows(NamedTuple):
    numeric: Any
    codes: Any


def log_predictive(clusters: Any, k: int, X: Any, row: int) -> float:
    """log density of cluster k's posterior predictive at a row."""
    raise NotImplementedError


def add_point(clusters: Any, k: int, X: Any, row: int, sign: float) -> None:
    """Add a row to cluster k, or take it out (sign -1); `counts` is the caller's."""
    raise NotImplementedError


def log_marginal(clusters: Any, k: int) -> float:
    """log marginal likelihood of cluster k's points."""
    raise NotImplementedError


def clear(clusters: Any, k: int) -> None:
    """Make cluster k empty."""
    raise NotImplementedError


def _is(bundle: Any, kind: type) -> bool:
    return isinstance(bundle, types.BaseNamedTuple) and getattr(bundle, "instance_class", None) is kind


JIT: Any = {name: value for name, value in OPTIONS.items() if name in ("nogil", "error_model")} | {
    "fastmath": {"reassoc", "contract"}
}


# Full covariances.


@compiled_float64
def _square_distance(clusters: Any, k: int, X: Any, row: int) -> Any:
    """|L^-1 (x - mean)|^2, by forward substitution. O(D^2)."""
    mean, factor, step = clusters.means[k], clusters.factors[k], clusters.work
    total = 0.0
    for i in range(len(mean)):
        value = np.float64(X[row, i]) - mean[i]
        for j in range(i):
            value -= factor[i, j] * step[j]
        step[i] = value / factor[i, i]
        total += step[i] * step[i]
    return total


@compiled_float64
def _whitened_predictive(clusters: Any, k: int, X: Any, row: int) -> Any:
    dim = clusters.means.shape[1]
    strength, freedom = clusters.strengths[k], clusters.freedoms[k] - dim + 1
    ratio = strength / (strength + 1.0)
    total = log_gamma(0.5 * (freedom + dim)) - log_gamma(0.5 * freedom)
    total += 0.5 * dim * (math.log(ratio) - LOG_PI) - clusters.halves[k]
    return total - 0.5 * (freedom + dim) * math.log1p(ratio * _square_distance(clusters, k, X, row))


@compiled_float64
def _whitened_add(clusters: Any, k: int, X: Any, row: int, sign: Any) -> None:
    """A rank-one update of the scale's factor: scale +- w d d', d the point seen from the mean without it. O(D^2)."""
    mean, factor, step = clusters.means[k], clusters.factors[k], clusters.work
    dim, strength = len(mean), clusters.strengths[k]
    if sign > 0.0:
        weight = strength / (strength + 1.0)
        for i in range(dim):
            step[i] = np.float64(X[row, i]) - mean[i]
            mean[i] += step[i] / (strength + 1.0)
    else:
        weight = (strength - 1.0) / strength
        for i in range(dim):
            mean[i] = (strength * mean[i] - np.float64(X[row, i])) / (strength - 1.0)
            step[i] = np.float64(X[row, i]) - mean[i]
    clusters.strengths[k] += sign
    clusters.freedoms[k] += sign
    root, half = math.sqrt(weight), 0.0
    for i in range(dim):
        step[i] *= root
    for i in range(dim):
        pivot = factor[i, i]
        new = math.sqrt(max(pivot * pivot + sign * step[i] * step[i], 1e-12 * pivot * pivot))
        c, s = new / pivot, step[i] / pivot
        factor[i, i] = new
        half += math.log(new)
        for j in range(i + 1, dim):
            factor[j, i] = (factor[j, i] + sign * s * step[j]) / c
            step[j] = c * step[j] - s * factor[j, i]
    clusters.halves[k] = half


@compiled_float64
def _log_normaliser(clusters: Any, k: int) -> Any:
    dim, freedom = clusters.means.shape[1], clusters.freedoms[k]
    total = -freedom * clusters.halves[k] - 0.5 * dim * math.log(clusters.strengths[k])
    for j in range(dim):
        total += log_gamma(0.5 * (freedom - j))
    return total


@compiled_float64
def _whitened_marginal(clusters: Any, k: int) -> Any:
    last = len(clusters.strengths) - 1
    n = clusters.strengths[k] - clusters.strengths[last]
    constant = 0.5 * clusters.means.shape[1] * LOG_PI * n
    return _log_normaliser(clusters, k) - _log_normaliser(clusters, last) - constant


@compiled_float64
def _whitened_clear(clusters: Any, k: int) -> None:
    last = len(clusters.strengths) - 1
    clusters.means[k] = clusters.means[last]
    clusters.factors[k] = clusters.factors[last]
    clusters.strengths[k] = clusters.strengths[last]
    clusters.freedoms[k] = clusters.freedoms[last]
    clusters.halves[k] = clusters.halves[last]


# Numeric columns.


@compiled_float64
def _feature(clusters: Any, k: int, j: int) -> Any:
    """Observed values of a feature, their posterior mean and strength, and what they add to the scale."""
    prior, sums = clusters.prior, clusters.sums[k]
    dim = len(prior.means)
    n = sums[2 * dim + j]
    strength = prior.strengths[0] + n
    middle = sums[j] / n if n > 0.5 else prior.means[j]
    gap = middle - prior.means[j]
    scatter = max(sums[dim + j] - sums[j] * middle, 0.0) if n > 0.5 else 0.0
    scatter += prior.strengths[0] * n / strength * gap * gap
    return n, prior.means[j] + n / strength * gap, strength, scatter


@compiled_float64
def _numeric_predictive(clusters: Any, k: int, X: Any, row: int) -> Any:
    """Student's t, feature by feature, or one t for all features that share a variance. O(D)."""
    prior, tied = clusters.prior, clusters.tied
    dim = len(prior.means)
    total, pooled, values, square, seen = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(dim):
        n, mean, strength, scatter = _feature(clusters, k, j)
        values += n
        pooled += scatter
        x = np.float64(X[row, j])
        if not np.isnan(x):
            gap, ratio = x - mean, strength / (strength + 1.0)
            if tied:
                square += ratio * gap * gap
                total += 0.5 * (math.log(ratio) - LOG_PI)
                seen += 1.0
            else:
                freedom, scale = prior.freedoms[0] + n, prior.scales[j] + scatter
                total += log_gamma(0.5 * (freedom + 1.0)) - log_gamma(0.5 * freedom)
                total += 0.5 * (math.log(ratio / scale) - LOG_PI)
                total -= 0.5 * (freedom + 1.0) * math.log1p(ratio * gap * gap / scale)
    if tied:
        freedom, scale = prior.freedoms[0] + values, prior.scales[0] + pooled
        total += log_gamma(0.5 * (freedom + seen)) - log_gamma(0.5 * freedom) - 0.5 * seen * math.log(scale)
        total -= 0.5 * (freedom + seen) * math.log1p(square / scale)
    return total


@compiled_float64
def _numeric_add(clusters: Any, k: int, X: Any, row: int, sign: Any) -> None:
    sums = clusters.sums[k]
    dim = len(sums) // 3
    for j in range(dim):
        x = np.float64(X[row, j])
        if not np.isnan(x):
            sums[j] += sign * x
            sums[dim + j] += sign * x * x
            sums[2 * dim + j] += sign


@compiled_float64
def _numeric_marginal(clusters: Any, k: int) -> Any:
    prior, tied = clusters.prior, clusters.tied
    total, pooled, values = 0.0, 0.0, 0.0
    for j in range(len(prior.means)):
        n, _, strength, scatter = _feature(clusters, k, j)
        values += n
        pooled += scatter
        total += 0.5 * (math.log(prior.strengths[0] / strength) - n * LOG_PI)
        if not tied:
            freedom, scale = prior.freedoms[0], prior.scales[j]
            total += log_gamma(0.5 * (freedom + n)) - log_gamma(0.5 * freedom)
            total += 0.5 * (freedom * math.log(scale) - (freedom + n) * math.log(scale + scatter))
    if tied:
        freedom, scale = prior.freedoms[0], prior.scales[0]
        total += log_gamma(0.5 * (freedom + values)) - log_gamma(0.5 * freedom)
        total += 0.5 * (freedom * math.log(scale) - (freedom + values) * math.log(scale + pooled))
    return total


# Counts, dense or sparse.


@compiled_float64
def _rising(base: Any, count: Any) -> Any:
    """log of Gamma(base + count) / Gamma(base); most counts are 1."""
    return math.log(base) if count == 1.0 else log_gamma(base + count) - log_gamma(base)


@compiled_float64
def _dense_counts_predictive(clusters: Any, k: int, X: Any, row: int) -> Any:
    total, n = 0.0, 0.0
    for v in range(X.shape[1]):
        x = np.float64(X[row, v])
        if x > 0.0:
            total += _rising(clusters.concentration[v] + clusters.sums[k, v], x)
            n += x
    return total - _rising(clusters.whole + clusters.totals[k], n) if n > 0.0 else 0.0


@compiled_float64
def _sparse_counts_predictive(clusters: Any, k: int, X: Any, row: int) -> Any:
    total, n = 0.0, 0.0
    for entry in range(X.starts[row], X.starts[row + 1]):
        v, x = X.columns[entry], np.float64(X.values[entry])
        if x > 0.0:
            total += _rising(clusters.concentration[v] + clusters.sums[k, v], x)
            n += x
    return total - _rising(clusters.whole + clusters.totals[k], n) if n > 0.0 else 0.0


@compiled_float64
def _dense_counts_add(clusters: Any, k: int, X: Any, row: int, sign: Any) -> None:
    for v in range(X.shape[1]):
        clusters.sums[k, v] += sign * np.float64(X[row, v])
        clusters.totals[k] += sign * np.float64(X[row, v])


@compiled_float64
def _sparse_counts_add(clusters: Any, k: int, X: Any, row: int, sign: Any) -> None:
    for entry in range(X.starts[row], X.starts[row + 1]):
        clusters.sums[k, X.columns[entry]] += sign * np.float64(X.values[entry])
        clusters.totals[k] += sign * np.float64(X.values[entry])


@compiled_float64
def _counts_marginal(clusters: Any, k: int) -> Any:
    total = -_rising(clusters.whole, clusters.totals[k]) if clusters.totals[k] > 0.0 else 0.0
    for v in range(clusters.sums.shape[1]):
        if clusters.sums[k, v] > 0.0:
            total += _rising(clusters.concentration[v], clusters.sums[k, v])
    return total


# Categories.


@compiled_float64
def _codes_predictive(clusters: Any, k: int, X: Any, row: int) -> Any:
    total, edges = 0.0, clusters.edges
    for column in range(X.shape[1]):
        code = X[row, column]
        if code >= 0:
            whole = 0.0
            for f in range(edges[column], edges[column + 1]):
                whole += clusters.concentration[f] + clusters.sums[k, f]
            total += math.log((clusters.concentration[code] + clusters.sums[k, code]) / whole)
    return total


@compiled_float64
def _codes_add(clusters: Any, k: int, X: Any, row: int, sign: Any) -> None:
    for column in range(X.shape[1]):
        if X[row, column] >= 0:
            clusters.sums[k, X[row, column]] += sign


@compiled_float64
def _codes_marginal(clusters: Any, k: int) -> Any:
    total, edges = 0.0, clusters.edges
    for column in range(len(edges) - 1):
        whole, n = 0.0, 0.0
        for f in range(edges[column], edges[column + 1]):
            whole += clusters.concentration[f]
            if clusters.sums[k, f] > 0.5:
                n += clusters.sums[k, f]
                total += _rising(clusters.concentration[f], clusters.sums[k, f])
        total -= _rising(whole, n) if n > 0.5 else 0.0
    return total


@compiled_float64
def _sums_clear(clusters: Any, k: int) -> None:
    clusters.sums[k] = 0.0


@compiled_float64
def _counts_clear(clusters: Any, k: int) -> None:
    clusters.sums[k] = 0.0
    clusters.totals[k] = 0.0


# By the bundle's type. numba looks at what these functions return for it, not at what they do.


@overload(log_predictive, jit_options=JIT, strict=False)
def _log_predictive(clusters: Any, k: Any, X: Any, row: Any) -> Any:
    if _is(clusters, WhitenedClusters):
        return lambda clusters, k, X, row: _whitened_predictive(clusters, k, X, row)
    if _is(clusters, NumericClusters):
        return lambda clusters, k, X, row: _numeric_predictive(clusters, k, X, row)
    if _is(clusters, CountClusters) and isinstance(X, types.BaseNamedTuple):
        return lambda clusters, k, X, row: _sparse_counts_predictive(clusters, k, X, row)
    if _is(clusters, CountClusters):
        return lambda clusters, k, X, row: _dense_counts_predictive(clusters, k, X, row)
    if _is(clusters, MixedClusters):
        return lambda clusters, k, X, row: (
            _numeric_predictive(clusters.numeric, k, X.numeric, row)
            + _codes_predictive(clusters.codes, k, X.codes, row)
        )
    return None


@overload(add_point, jit_options=JIT, strict=False)
def _add_point(clusters: Any, k: Any, X: Any, row: Any, sign: Any) -> Any:
    if _is(clusters, WhitenedClusters):
        return lambda clusters, k, X, row, sign: _whitened_add(clusters, k, X, row, sign)
    if _is(clusters, NumericClusters):
        return lambda clusters, k, X, row, sign: _numeric_add(clusters, k, X, row, sign)
    if _is(clusters, CountClusters) and isinstance(X, types.BaseNamedTuple):
        return lambda clusters, k, X, row, sign: _sparse_counts_add(clusters, k, X, row, sign)
    if _is(clusters, CountClusters):
        return lambda clusters, k, X, row, sign: _dense_counts_add(clusters, k, X, row, sign)
    if _is(clusters, MixedClusters):

        def add_both(clusters: Any, k: Any, X: Any, row: Any, sign: Any) -> None:
            _numeric_add(clusters.numeric, k, X.numeric, row, sign)
            _codes_add(clusters.codes, k, X.codes, row, sign)

        return add_both
    return None


@overload(log_marginal, jit_options=JIT, strict=False)
def _log_marginal(clusters: Any, k: Any) -> Any:
    if _is(clusters, WhitenedClusters):
        return lambda clusters, k: _whitened_marginal(clusters, k)
    if _is(clusters, NumericClusters):
        return lambda clusters, k: _numeric_marginal(clusters, k)
    if _is(clusters, CountClusters):
        return lambda clusters, k: _counts_marginal(clusters, k)
    if _is(clusters, MixedClusters):
        return lambda clusters, k: _numeric_marginal(clusters.numeric, k) + _codes_marginal(clusters.codes, k)
    return None


@overload(clear, jit_options=JIT, strict=False)
def _clear(clusters: Any, k: Any) -> Any:
    if _is(clusters, WhitenedClusters):
        return lambda clusters, k: _whitened_clear(clusters, k)
    if _is(clusters, NumericClusters):
        return lambda clusters, k: _sums_clear(clusters, k)
    if _is(clusters, CountClusters):
        return lambda clusters, k: _counts_clear(clusters, k)
    if _is(clusters, MixedClusters):

        def clear_both(clusters: Any, k: Any) -> None:
            _sums_clear(clusters.numeric, k)
            _sums_clear(clusters.codes, k)

        return clear_both
    return None
