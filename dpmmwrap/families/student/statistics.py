"""Statistics of clusters whose points have scales, either given or expected."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from dpmmwrap.families.base import counts_of, grouped, nothing_like
from dpmmwrap.families.full.statistics import statistics_of
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray

FREEDOMS = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, np.inf])
"""The grid of degrees of freedom; infinity stands for a Gaussian."""
GAUSSIAN = 0.5
"""The prior probability that a cluster is Gaussian. The rest is shared equally by the other values of the grid."""
STEPS, CLOSE = 100, 1e-6
"""Most steps of EM, and the increase of the log likelihood per point at which it stops."""


class Statistics(NamedTuple):
    """Sufficient statistics of K clusters whose points have scales u."""

    counts: Any
    """Numbers of points (K,)."""
    masses: Any
    """Sums of u (K,)."""
    means: Any
    """Means weighted by u (K, D)."""
    scatters: Any
    """Scatters about these means, weighted by u (K, D, D)."""
    logs: Any
    """Sums of log u (K,)."""
    ones: Any
    """Number of u that are exactly 1 (K,): all of a Gaussian cluster, none of others."""

    def scaled(self, factor: float) -> Statistics:
        """Statistics as if every row had this weight."""
        counts, masses, scatters = factor * self.counts, factor * self.masses, factor * self.scatters
        return Statistics(counts, masses, self.means, scatters, factor * self.logs, factor * self.ones)


class Tails(NamedTuple):
    """The possible degrees of freedom of clusters, as compiled loops take them."""

    heaviness: Any
    """One over the degrees of freedom; 0 for a Gaussian (G,)."""
    log_priors: Any
    constants: Any
    """The part of the log density of a scale that does not depend on it (G,)."""


class ScaledPoints(NamedTuple):
    """Points and their scales."""

    X: Any
    scales: Any


def tails_of(heaviness: float) -> Tails:
    """The grid if `heaviness` is negative (learned), otherwise the given value alone."""
    if heaviness >= 0:
        own, log_priors = np.array([float(heaviness)]), np.zeros(1)
    else:
        own, log_priors = 1 / FREEDOMS, np.full(len(FREEDOMS), np.log((1 - GAUSSIAN) / (len(FREEDOMS) - 1)))
        log_priors[own == 0] = np.log(GAUSSIAN)
    half = 0.5 / np.where(own > 0, own, 1.0)
    return Tails(own, log_priors, np.where(own > 0, half * np.log(half) - gammaln(half), 0.0))


def given_scales(points: ScaledPoints, labels: IntArray, count: int) -> Statistics:
    """Statistics of rows with scales, grouped by label (negative labels are left out)."""
    X, scales = points
    masses, means, scatters = statistics_of(X, labels, count, scales)
    return Statistics(
        counts_of(labels, count), masses, means, scatters, counts_of(labels, count, np.log(scales)),
        counts_of(labels, count, (scales == 1.0).astype(np.float64)),
    )  # fmt: skip


def expected_scales(X: FloatArray, labels: IntArray, count: int, prior: Any) -> Statistics:
    """Statistics of rows grouped by label, with expected scales and log scales, by EM in each cluster. Each step uses
    the most probable degrees of freedom (Liu and Rubin 1995)."""
    dim = X.shape[1]
    found = nothing_like(Statistics(*(np.zeros((0, *shape)) for shape in ((), (), (dim,), (dim, dim), (), ()))), count)
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(count + 1))
    for k in range(count):
        rows = np.asarray(X[order[edges[k] : edges[k + 1]]], np.float64)
        if len(rows):
            for own, value in zip(found, one_cluster(rows, prior), strict=True):
                own[k] = value
    return found


def one_cluster(rows: Float64Array, prior: Any) -> Statistics:
    """Statistics of one cluster, by EM with its posterior mean and expected precision."""
    (n, dim), tails = rows.shape, prior.tails
    scales, logs, before = np.ones(n), np.zeros(n), -np.inf
    for _ in range(STEPS):
        found = with_scales(rows, scales, logs)
        posterior = prior.posterior(Statistics(*(np.asarray(value)[None] for value in found)))
        squares = posterior.squares(rows, np.zeros(n, np.int64))
        values = log_likelihoods(squares, dim, tails)
        value = values.max() + n * np.log(np.diagonal(posterior.precision_roots(np.zeros(1, np.int64))[0])).sum()
        heaviness = tails.heaviness[values.argmax()]
        if value < before + CLOSE * n or (heaviness == 0 and found.ones == n):
            break
        before = value
        scales, logs = np.ones(n), np.zeros(n)
        if heaviness > 0:
            shape, rates = 0.5 * (1 / heaviness + dim), 0.5 * (1 / heaviness + squares)
            scales, logs = shape / rates, digamma(shape) - np.log(rates)
    return with_scales(rows, scales, logs)


def with_scales(rows: Float64Array, scales: Float64Array, logs: Float64Array) -> Statistics:
    """Statistics of one cluster from its scales and log scales, which may be expectations."""
    mass = scales.sum()
    mean = scales @ rows / mass
    gaps = rows - mean
    ones = float((scales == 1).all()) * len(rows)
    return Statistics(float(len(rows)), mass, mean, (scales[:, None] * gaps).T @ gaps, logs.sum(), ones)


def log_likelihoods(squares: Float64Array, dim: int, tails: Tails) -> Float64Array:
    """Log of prior times likelihood of each heaviness, from squared distances, up to a constant (G,)."""
    found = np.empty(len(tails.heaviness))
    for g, heaviness in enumerate(tails.heaviness):
        fall, gain = 0.5 * squares.sum(), 0.0
        if heaviness > 0:
            half = 0.5 / heaviness
            fall = (half + 0.5 * dim) * np.log1p(heaviness * squares).sum()
            gain = gammaln(half + 0.5 * dim) - gammaln(half) - 0.5 * dim * np.log(half)
        found[g] = tails.log_priors[g] + len(squares) * gain - fall
    return found


def group(labels: IntArray | None, rows: int, count: int | None) -> tuple[IntArray, int]:
    own, number = grouped(labels, rows, count)
    return np.asarray(own, np.int64), number
