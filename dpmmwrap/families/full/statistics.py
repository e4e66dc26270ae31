"""Statistics of Gaussian clusters with full covariances, and the tuples that compiled loops take."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.base import counts_of, take
from dpmmwrap.families.learned.base import Moments
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.loops import Loops

wishart = Loops("dpmmwrap.families.full.wishart")
LOG_2_PI = math.log(2 * math.pi)
CHUNK_ROWS = 1 << 16


class Statistics(NamedTuple):
    """Sufficient statistics of K clusters: counts (K,), means (K, D), scatters about those means (K, D, D)."""

    counts: Any
    means: Any
    scatters: Any

    def scaled(self, factor: float) -> Statistics:
        """Statistics as if every row had this weight."""
        return Statistics(factor * self.counts, self.means, factor * self.scatters)


class PriorFields(NamedTuple):
    """One normal-inverse-Wishart distribution."""

    mean: Any
    strength: Any
    scale: Any
    freedom: Any
    log_normaliser: Any


class Posteriors(NamedTuple):
    """A normal-inverse-Wishart distribution per cluster, with factors and determinants of its scale."""

    means: Any
    strengths: Any
    scales: Any
    freedoms: Any
    factors: Any
    """Lower Cholesky factors of the scales (D, D, K)."""
    halves: Any
    """Half the log determinants of the scales."""
    log_normalisers: Any


class Gaussians(NamedTuple):
    """Gaussians: mean and lower triangular precision factor W, with W'W the precision."""

    means: Any
    precision_factors: Any
    log_peak_densities: Any
    """Log of (2 pi)^(-D/2) |W|, the density at the mean."""


def statistics_of(
    X: FloatArray, labels: IntArray | None = None, n_clusters: int | None = None, weights: Any = None
) -> Statistics:
    """Statistics of the rows grouped by label, or of one cluster without labels. Negative labels are left out."""
    rows, dim = X.shape
    if labels is None:
        labels, n_clusters = np.zeros(rows, dtype=np.int8), 1
    if n_clusters is None:
        n_clusters = int(labels.max(initial=-1)) + 1
    shift = np.asarray(X[:CHUNK_ROWS], dtype=np.float64).mean(axis=0) if rows else np.zeros(dim)
    return statistics_from_sums(*plain_sums(X, labels, n_clusters, shift, weights), shift)


def plain_sums(
    X: FloatArray, labels: IntArray, n_clusters: int, shift: FloatArray, weights: Any = None
) -> tuple[Float64Array, Float64Array, Float64Array]:
    """The weighted number of rows with each label, and their weighted sums of x - shift and (x - shift)(x - shift)'."""
    rows, dim = X.shape
    counts = counts_of(labels, n_clusters, weights)
    sums = np.zeros((n_clusters, dim))
    squares = np.zeros((n_clusters, dim, dim))
    for begin in range(0, rows, CHUNK_ROWS):
        chunk = np.asarray(X[begin : begin + CHUNK_ROWS], dtype=np.float64) - shift
        chunk_labels = labels[begin : begin + CHUNK_ROWS]
        for k in np.flatnonzero(np.bincount(chunk_labels[chunk_labels >= 0])):
            which = chunk_labels == k
            members = chunk[which]
            weighted = members
            if weights is not None:
                weighted = members * weights[begin : begin + CHUNK_ROWS][which][:, None]
            sums[k] += weighted.sum(axis=0)
            squares[k] += weighted.T @ members
    return counts, sums, squares


def statistics_from_sums(
    counts: Float64Array, sums: Float64Array, squares: Float64Array, shift: FloatArray
) -> Statistics:
    """Statistics from plain sums of x - shift and of (x - shift)(x - shift)'."""
    means = sums / np.where(counts > 0, counts, 1.0)[:, None]
    scatters = squares - sums[:, :, None] * means[:, None, :]
    return Statistics(counts, means + shift, scatters)


def union(left: Statistics, right: Statistics) -> Statistics:
    """Statistics of the unions of pairs of clusters."""
    in_turn = (np.stack(pair, axis=1).reshape(-1, *pair[0].shape[1:]) for pair in zip(left, right, strict=True))
    return take(Statistics(*wishart.with_unions(Statistics(*in_turn))), slice(0, len(left.counts)))


def gaussians_of(means: Float64Array, precision_factors: Float64Array) -> Gaussians:
    """Gaussians from means and lower triangular precision factors."""
    halves = np.log(np.diagonal(precision_factors, axis1=1, axis2=2)).sum(axis=1)
    return Gaussians(means, precision_factors, halves - 0.5 * means.shape[1] * LOG_2_PI)


def moments_of(means: Float64Array, precisions: Float64Array, log_variance: float) -> Moments:
    """Sums over Gaussians with these means and precisions."""
    pulls = np.einsum("kij,kj->ki", precisions, means)
    return Moments(len(means), precisions.sum(axis=0), pulls.sum(axis=0), float((pulls * means).sum()), log_variance)


def covariances_of(gaussians: Gaussians) -> Float64Array:
    inverse = np.linalg.inv(gaussians.precision_factors)
    return np.asarray(inverse @ np.swapaxes(inverse, 1, 2))
