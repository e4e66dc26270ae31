"""Expected statistics of clusters with full covariances and missing values, by EM given the labels.

Each row enters with the conditional expectations of its missing values, and their conditional covariance is added to
the scatter (Dempster, Laird and Rubin 1977). Such statistics are for estimates. Their log marginal likelihood is not
that of the observed values. With missing values drawn from q, log p(x) - log q(missing values of x) is a lower bound on
it, on average (`draw_given_labels`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.families.full.statistics import Statistics, plain_sums, statistics_from_sums
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.loops import Loops

loops = Loops("dpmmwrap.families.full.gaps")
STEPS, CLOSE = 40, 1e-3
"""Most steps of EM, and the largest change of a value, in standard deviations of its column, at which it stops."""


def expected_statistics(X: FloatArray, labels: IntArray, n_clusters: int) -> Statistics:
    """Statistics of rows with missing values, grouped by label (negative labels are left out)."""
    gaps = loops.find_gaps(X)
    rows = np.sort(gaps.rows)
    complete = np.ones(len(X), bool)
    complete[rows] = False
    some, own = np.asarray(X[rows], np.float64), np.asarray(labels[rows], np.int64)
    gaps = gaps._replace(rows=np.searchsorted(rows, gaps.rows))
    shift = column_means(X)
    fixed = plain_sums(X[complete], labels[complete], n_clusters, shift)
    missing, (means, variances) = np.isnan(some), start(X, labels, n_clusters)
    filled, deviations = np.where(missing, means[own], some), np.sqrt(variances)[np.nonzero(missing)[1]]
    factors = np.tile(np.diag(variances**-0.5), (n_clusters, 1, 1))
    gaussians = loops.precisions_of(means, factors, np.zeros(n_clusters))
    statistics = None
    for number in range(STEPS):
        before, extra = filled[missing], np.zeros((n_clusters, X.shape[1], X.shape[1]))
        loops.fill_given_labels(filled, gaps, own, gaussians, 0, np.uint64(0), extra)
        sums = plain_sums(filled, own, n_clusters, shift)
        counts, totals, squares = (one + other for one, other in zip(fixed, sums, strict=True))
        statistics = statistics_from_sums(counts, totals, squares + extra, shift)
        gaussians = gaussians_of(statistics, variances)
        # The first step uses diagonal covariances, under which the expectations do not change.
        if number and (np.abs(filled[missing] - before) / deviations).max(initial=0.0) < CLOSE:
            break
    assert statistics is not None
    return statistics


def draw_given_labels(X: FloatArray, labels: IntArray, posterior: Any, seed: int) -> tuple[Float64Array, float]:
    """Draw the missing values of each row given its observed values and the expected precision of its cluster; return
    the completed rows and the log density of the drawn values."""
    filled, dim = np.array(X, np.float64), X.shape[1]
    factors = np.sqrt(posterior.degrees_of_freedom)[:, None, None] * np.linalg.inv(posterior.cholesky)
    gaussians = loops.precisions_of(posterior.mean, factors, np.zeros(len(factors)))
    gaps, own = loops.find_gaps(X), np.asarray(labels, np.int64)
    log_density = loops.fill_given_labels(filled, gaps, own, gaussians, 1, np.uint64(seed), np.zeros((0, dim, dim)))
    return filled, float(log_density)


def gaussians_of(statistics: Statistics, variances: Float64Array) -> Any:
    """The Gaussians that give the conditional expectations. Covariances of small clusters are shrunk towards a common
    diagonal one, which counts as D + 1 rows."""
    dim = len(variances)
    scales = statistics.scatters + (dim + 1) * np.diag(variances)
    covariances = scales / (statistics.counts + dim + 1)[:, None, None]
    factors = np.linalg.inv(np.linalg.cholesky(covariances))
    return loops.precisions_of(statistics.means, factors, np.zeros(len(factors)))


def column_means(X: FloatArray) -> Float64Array:
    """Means of the observed values; 0 for columns without any."""
    there = ~np.isnan(X)
    total: Float64Array = np.where(there, X, 0.0).sum(axis=0, dtype=np.float64)
    return np.asarray(total / np.maximum(there.sum(axis=0), 1))


def start(X: FloatArray, labels: IntArray, n_clusters: int) -> tuple[Float64Array, Float64Array]:
    """Means of each cluster's observed values (K, D), the overall mean where it has none, and the variances within
    clusters (D,)."""
    there, kept = ~np.isnan(X), labels >= 0
    overall = column_means(X)
    sums, counts = np.zeros((n_clusters, X.shape[1])), np.zeros((n_clusters, X.shape[1]))
    np.add.at(sums, labels[kept], np.where(there, X - overall, 0.0)[kept])
    np.add.at(counts, labels[kept], there[kept])
    means = overall + sums / np.maximum(counts, 1)
    gaps = np.where(there[kept], X[kept] - means[labels[kept]], 0.0)
    variances = (gaps**2).sum(axis=0, dtype=np.float64) / np.maximum(counts.sum(axis=0), 1)
    floor = np.where(there, (X - overall) ** 2, 0.0).sum(axis=0, dtype=np.float64) / np.maximum(there.sum(axis=0), 1)
    return means, np.maximum(np.maximum(variances, 1e-6 * floor), 1e-30)
