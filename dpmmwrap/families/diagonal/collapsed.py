"""Numeric columns with one variance each, or one for all, with integrated parameters: Student's t from sums."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.collapsed import register
from dpmmwrap.numerics.special import inner_float64 as inner
from dpmmwrap.numerics.special import log_gamma

LOG_PI = math.log(math.pi)
LARGE = 1e150


class NumericClusters(NamedTuple):
    """Clusters of numeric columns with one variance each, or one for all: sums of x and x^2, counts of observed values,
    and the prior."""

    counts: Any
    sums: Any
    prior: Any
    """A single distribution as `inverse_gamma.Posteriors`."""
    tied: Any
    tables: Any
    """Terms of each feature's predictive (C, 4, D), valid after `prepare`: the mean; the factor of the squared distance
    from it; the (negative) power of one plus that product; the log density at the mean."""
    pooled: Any
    """If all features share one variance, their degrees of freedom and scale (C, 2), valid after `prepare`."""


@inner
def _feature(clusters: Any, k: int, j: int) -> Any:
    """Number of observed values of a feature, posterior mean and strength, and their contribution to the scale."""
    prior, sums = clusters.prior, clusters.sums[k]
    dim = len(prior.means)
    n = sums[2 * dim + j]
    strength = prior.strengths[0] + n
    middle = sums[j] / n if n > 0.0 else prior.means[j]
    gap = middle - prior.means[j]
    scatter = max(sums[dim + j] - sums[j] * middle, 0.0) if n > 0.0 else 0.0
    scatter += prior.strengths[0] * n / strength * gap * gap
    return n, prior.means[j] + n / strength * gap, strength, scatter


def prepare(clusters: Any, k: int) -> None:
    """O(D). Gamma functions are evaluated only where the number of observed values changes."""
    prior, tied, table = clusters.prior, clusters.tied, clusters.tables[k]
    last, terms, values, pooled = -1.0, 0.0, 0.0, 0.0
    for j in range(len(prior.means)):
        n, mean, strength, scatter = _feature(clusters, k, j)
        ratio = strength / (strength + 1.0)
        table[0, j] = mean
        if tied:
            values += n
            pooled += scatter
            table[1, j], table[2, j] = ratio, 0.0
            table[3, j] = 0.5 * (math.log(ratio) - LOG_PI)
        else:
            freedom, scale = prior.freedoms[0] + n, prior.scales[j] + scatter
            if n != last:
                last = n
                terms = log_gamma(0.5 * (freedom + 1.0)) - log_gamma(0.5 * freedom) - 0.5 * LOG_PI
            table[1, j], table[2, j] = ratio / scale, -0.5 * (freedom + 1.0)
            table[3, j] = terms + 0.5 * math.log(table[1, j])
    if tied:
        clusters.pooled[k, 0], clusters.pooled[k, 1] = prior.freedoms[0] + values, prior.scales[0] + pooled


@inner
def _log_ratio_of_copies(clusters: Any, k: int, X: Any, row: int, weight: Any) -> Any:
    """Log ratio of the marginal likelihoods with and without `weight` copies of a row. O(D), with gamma functions."""
    prior, tied = clusters.prior, clusters.tied
    total, square, seen, values, pooled = 0.0, 0.0, 0.0, 0.0, 0.0
    for j in range(len(prior.means)):
        x = np.float64(X[row, j])
        n, mean, strength, scatter = _feature(clusters, k, j)
        values += n
        pooled += scatter
        if not np.isnan(x):
            after = strength + weight
            gap = strength * weight / after * (x - mean) * (x - mean)
            total += 0.5 * (math.log(strength / after) - weight * LOG_PI)
            seen += weight
            square += gap
            if not tied:
                freedom, own = prior.freedoms[0] + n, prior.scales[j] + scatter
                total += log_gamma(0.5 * (freedom + weight)) - log_gamma(0.5 * freedom)
                total -= 0.5 * (weight * math.log(own) + (freedom + weight) * math.log1p(gap / own))
    if tied:
        freedom, scale = prior.freedoms[0] + values, prior.scales[0] + pooled
        total += log_gamma(0.5 * (freedom + seen)) - log_gamma(0.5 * freedom)
        total -= 0.5 * (seen * math.log(scale) + (freedom + seen) * math.log1p(square / scale))
    return total


def log_predictive(clusters: Any, k: int, X: Any, row: int, weight: Any) -> Any:
    """Student's t feature by feature, or one multivariate t if all features share a variance. O(D).

    Factors with the same power are multiplied before the logarithm is taken.
    """
    if weight != 1.0:
        return _log_ratio_of_copies(clusters, k, X, row, weight)
    table = clusters.tables[k]
    dim = table.shape[1]
    total, seen = 0.0, 0.0
    if clusters.tied:
        square = 0.0
        for j in range(dim):
            x = np.float64(X[row, j])
            if not np.isnan(x):
                gap = x - table[0, j]
                square += table[1, j] * gap * gap
                total += table[3, j]
                seen += 1.0
        freedom, scale = clusters.pooled[k, 0], clusters.pooled[k, 1]
        total += log_gamma(0.5 * (freedom + seen)) - log_gamma(0.5 * freedom) - 0.5 * seen * math.log(scale)
        return total - 0.5 * (freedom + seen) * math.log1p(square / scale)
    product, power = 1.0, 0.0
    for j in range(dim):
        x = np.float64(X[row, j])
        if not np.isnan(x):
            if table[2, j] != power or product > LARGE:
                total += power * math.log(product)
                product, power = 1.0, table[2, j]
            gap = x - table[0, j]
            product *= 1.0 + table[1, j] * gap * gap
            total += table[3, j]
    return total + power * math.log(product)


def add_point(clusters: Any, k: int, X: Any, row: int, sign: Any) -> None:
    sums = clusters.sums[k]
    dim = len(sums) // 3
    for j in range(dim):
        x = np.float64(X[row, j])
        if not np.isnan(x):
            sums[j] += sign * x
            sums[dim + j] += sign * x * x
            sums[2 * dim + j] += sign


def log_marginal(clusters: Any, k: int) -> Any:
    prior, tied = clusters.prior, clusters.tied
    total, pooled, values, last, terms = 0.0, 0.0, 0.0, -1.0, 0.0
    for j in range(len(prior.means)):
        n, _, strength, scatter = _feature(clusters, k, j)
        values += n
        pooled += scatter
        if n != last:
            last = n
            terms = 0.5 * (math.log(prior.strengths[0] / strength) - n * LOG_PI)
            if not tied:
                terms += log_gamma(0.5 * (prior.freedoms[0] + n)) - log_gamma(0.5 * prior.freedoms[0])
        total += terms
        if not tied:
            freedom, scale = prior.freedoms[0], prior.scales[j]
            total += 0.5 * (freedom * math.log(scale) - (freedom + n) * math.log(scale + scatter))
    if tied:
        freedom, scale = prior.freedoms[0], prior.scales[0]
        total += log_gamma(0.5 * (freedom + values)) - log_gamma(0.5 * freedom)
        total += 0.5 * (freedom * math.log(scale) - (freedom + values) * math.log(scale + pooled))
    return total


register(NumericClusters, log_predictive, add_point, log_marginal, prepare=prepare)
