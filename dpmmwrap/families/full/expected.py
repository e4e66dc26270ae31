"""Statistics of clusters with full covariances where values are missing: expectations, by EM given the labels.

Each row counts with the expectations of its missing values given what is observed, and their conditional covariance is
added to the scatter (Dempster, Laird and Rubin 1977). Such statistics are for estimates. Their log marginal likelihood
is not that of what is observed: log p(x) - log q(missing values of x), with values drawn from q, is, from below and on
average (`draw_given_labels`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.families.full.statistics import Statistics, plain_sums, statistics_from_sums
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.loops import Loops

loops = Loops("dpmmwrap.families.full.gaps")
STEPS, CLOSE = 40, 1e-3
"""Steps of EM, and the largest change of a value, in deviations of its column, after which there are no more."""


def expected_statistics(X: FloatArray, labels: IntArray, n_clusters: int) -> Statistics:
    """Of rows grouped by label (negative ones are left out), some of them with missing values."""
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
        # The first step is by diagonal covariances, which change nothing.
        if number and (np.abs(filled[missing] - before) / deviations).max(initial=0.0) < CLOSE:
            break
    assert statistics is not None
    return statistics


def draw_given_labels(X: FloatArray, labels: IntArray, posterior: Any, seed: int) -> tuple[Float64Array, float]:
    """Rows with their missing values drawn given what is observed and the expected precision of their cluster, and the
    log density of these."""
    filled, dim = np.array(X, np.float64), X.shape[1]
    factors = np.sqrt(posterior.degrees_of_freedom)[:, None, None] * np.linalg.inv(posterior.cholesky)
    gaussians = loops.precisions_of(posterior.mean, factors, np.zeros(len(factors)))
    gaps, own = loops.find_gaps(X), np.asarray(labels, np.int64)
    log_density = loops.fill_given_labels(filled, gaps, own, gaussians, 1, np.uint64(seed), np.zeros((0, dim, dim)))
    return filled, float(log_density)


def gaussians_of(statistics: Statistics, variances: Float64Array) -> Any:
    """The Gaussians by which values are expected. Of small clusters the covariances tend to the diagonal ones of all,
    which count as one row more than there are columns."""
    dim = len(variances)
    scales = statistics.scatters + (dim + 1) * np.diag(variances)
    covariances = scales / (statistics.counts + dim + 1)[:, None, None]
    factors = np.linalg.inv(np.linalg.cholesky(covariances))
    return loops.precisions_of(statistics.means, factors, np.zeros(len(factors)))


def column_means(X: FloatArray) -> Float64Array:
    """Of what is observed; 0 where nothing is."""
    there = ~np.isnan(X)
    total: Float64Array = np.where(there, X, 0.0).sum(axis=0, dtype=np.float64)
    return np.asarray(total / np.maximum(there.sum(axis=0), 1))


def start(X: FloatArray, labels: IntArray, n_clusters: int) -> tuple[Float64Array, Float64Array]:
    """Means of each cluster's observed values (K, D), all data's where it has none, and the variances within clusters
    (D,)."""
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
