"""Statistics of clusters whose points have scales: of scales that are given, or of expected ones."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

from dpmmwrap.families.base import counts_of, grouped, nothing_like
from dpmmwrap.families.full.expected import start
from dpmmwrap.families.full.statistics import statistics_of
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray

FREEDOMS = np.array([1.0, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0, np.inf])
"""The grid of degrees of freedom; infinity is the Gaussian."""
GAUSSIAN = 0.5
"""The prior probability that a cluster is Gaussian; the rest of the grid has equal shares."""
STEPS, CLOSE = 100, 1e-4
"""Steps of EM, and the change of its log likelihood by point after which there are no more."""


class Statistics(NamedTuple):
    """Sufficient statistics of K clusters whose points have scales u."""

    counts: Any
    """Points (K,)."""
    masses: Any
    """Sums of u (K,)."""
    means: Any
    """Means weighted by u (K, D)."""
    scatters: Any
    """Scatters about these, weighted by u (K, D, D)."""
    logs: Any
    """Sums of log u (K,)."""
    ones: Any
    """How many u are exactly 1, as all are in a Gaussian cluster and none is in others (K,)."""


class Tails(NamedTuple):
    """Degrees of freedom that clusters may have, as compiled loops take them."""

    heaviness: Any
    """One over each; 0 of Gaussians (G,)."""
    log_priors: Any
    constants: Any
    """What the log density of one scale has beside the scale (G,)."""


class ScaledPoints(NamedTuple):
    """Points with their scales."""

    X: Any
    scales: Any


def tails_of(heaviness: float) -> Tails:
    """The grid, or one heaviness that is given; a negative one is learned."""
    if heaviness >= 0:
        own, log_priors = np.array([float(heaviness)]), np.zeros(1)
    else:
        own, log_priors = 1 / FREEDOMS, np.full(len(FREEDOMS), np.log((1 - GAUSSIAN) / (len(FREEDOMS) - 1)))
        log_priors[own == 0] = np.log(GAUSSIAN)
    half = 0.5 / np.where(own > 0, own, 1.0)
    return Tails(own, log_priors, np.where(own > 0, half * np.log(half) - gammaln(half), 0.0))


def given_scales(points: ScaledPoints, labels: IntArray, count: int) -> Statistics:
    """Of rows grouped by label (negative ones are left out), with their scales."""
    X, scales = points
    masses, means, scatters = statistics_of(X, labels, count, scales)
    return Statistics(
        counts_of(labels, count), masses, means, scatters, counts_of(labels, count, np.log(scales)),
        counts_of(labels, count, (scales == 1.0).astype(np.float64)),
    )  # fmt: skip


def expected_scales(X: FloatArray, labels: IntArray, count: int, tails: Tails) -> Statistics:
    """Of rows grouped by label, with the expectations of their scales and of the logarithms of these, by EM in each
    cluster: the degrees of freedom are the most probable ones at each step (Liu and Rubin 1995)."""
    dim = X.shape[1]
    found = nothing_like(Statistics(*(np.zeros((0, *shape)) for shape in ((), (), (dim,), (dim, dim), (), ()))), count)
    if not len(X):
        return found
    _, variances = start(X, labels, count)
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(count + 1))
    for k in range(count):
        rows = np.asarray(X[order[edges[k] : edges[k + 1]]], np.float64)
        if len(rows):
            for own, value in zip(found, one_cluster(rows, variances, tails), strict=True):
                own[k] = value
    return found


def one_cluster(rows: Float64Array, variances: Float64Array, tails: Tails) -> Statistics:
    """Of one cluster. The covariance of few points tends to the diagonal one of all, which counts as one row more than
    there are columns."""
    n, dim = rows.shape
    scales, logs, before, heaviness = np.ones(n), np.zeros(n), -np.inf, 0.0
    for _ in range(STEPS):
        mass = scales.sum()
        mean = scales @ rows / mass
        gaps = rows - mean
        scatter = (scales[:, None] * gaps).T @ gaps
        factor = np.linalg.cholesky((scatter + (dim + 1) * np.diag(variances)) / (n + dim + 1))
        squares = (np.linalg.solve(factor, gaps.T) ** 2).sum(axis=0)
        values = log_likelihoods(squares, dim, tails)
        heaviness, value = tails.heaviness[values.argmax()], values.max() - n * np.log(np.diagonal(factor)).sum()
        if value < before + CLOSE * n:
            break
        before = value
        if heaviness == 0:
            # What remains is the plain mean and scatter.
            if (scales == 1).all():
                break
            scales, logs = np.ones(n), np.zeros(n)
        else:
            shape, rates = 0.5 * (1 / heaviness + dim), 0.5 * (1 / heaviness + squares)
            scales, logs = shape / rates, digamma(shape) - np.log(rates)
    mass = scales.sum()
    mean = scales @ rows / mass
    gaps = rows - mean
    is_gaussian = float((scales == 1).all())
    return Statistics(float(n), mass, mean, (scales[:, None] * gaps).T @ gaps, logs.sum(), is_gaussian * n)


def log_likelihoods(squares: Float64Array, dim: int, tails: Tails) -> Float64Array:
    """log of the prior times the likelihood of each heaviness, from squared distances, up to a constant (G,)."""
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
