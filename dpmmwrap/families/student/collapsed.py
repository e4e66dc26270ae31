"""Student-t clusters with integrated parameters and degrees of freedom, given the scales of the points."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from dpmmwrap.families.collapsed import JIT, POINTWISE, register
from dpmmwrap.families.full import collapsed as gaussian
from dpmmwrap.families.student.tails import log_evidence, log_scales
from dpmmwrap.numerics.special import inner_float64 as inner


class ScaledRows(NamedTuple):
    """Rows and their scales."""

    points: Any
    scales: Any


class StudentClusters(NamedTuple):
    """Normal-inverse-Wishart posteriors given scales (`full.collapsed`), and statistics of the scales. The last one is
    the prior."""

    counts: Any
    means: Any
    strengths: Any
    freedoms: Any
    factors: Any
    logs: Any
    """Sums of the log scales (C,)."""
    ones: Any
    """Number of scales that equal 1 (C,)."""
    constants: Any
    inverses: Any
    shares: Any
    """Log probability of each heaviness given the scales (C, G), valid after `prepare`."""
    tails: Any
    work: Any


prepare_gaussian: Any = njit(**POINTWISE)(gaussian.prepare)
add_to_gaussian: Any = njit(**POINTWISE)(gaussian.add_point)
join_gaussians: Any = njit(**JIT)(gaussian.add_cluster)
copy_gaussian: Any = njit(**JIT)(gaussian.copy_cluster)


@inner
def points_of(clusters: Any, k: int) -> Any:
    """Number of points in cluster k, rounded to an integer."""
    return math.floor(clusters.freedoms[k] - clusters.freedoms[len(clusters.freedoms) - 1] + 0.5)


@inner
def mass_of(clusters: Any, k: int) -> Any:
    """Sum of the scales of cluster k's points."""
    return clusters.strengths[k] - clusters.strengths[len(clusters.strengths) - 1]


@inner
def prepare_tails(clusters: Any, k: int) -> None:
    """Write the log probabilities of each heaviness."""
    tails, n, mass = clusters.tails, points_of(clusters, k), mass_of(clusters, k)
    whole = log_evidence(tails, n, mass, clusters.logs[k], clusters.ones[k])
    for g in range(len(tails.heaviness)):
        if n > 0.0:
            clusters.shares[k, g] = log_scales(tails, g, n, mass, clusters.logs[k], clusters.ones[k]) - whole
        else:
            clusters.shares[k, g] = tails.log_priors[g]


@inner
def log_predictive_of_scale(clusters: Any, k: int, scale: Any) -> Any:
    """Log predictive density of a scale: a mixture over the degrees of freedom. O(G)."""
    tails, log_scale, one = clusters.tails, math.log(scale), 1.0 if scale == 1.0 else 0.0
    best, total = -np.inf, 0.0
    for g in range(len(tails.heaviness)):
        own = log_scales(tails, g, 1.0, scale, log_scale, one) - tails.log_priors[g] + clusters.shares[k, g]
        best = max(best, own)
    if best == -np.inf:
        return best
    for g in range(len(tails.heaviness)):
        own = log_scales(tails, g, 1.0, scale, log_scale, one) - tails.log_priors[g] + clusters.shares[k, g]
        total += math.exp(own - best)
    return best + math.log(total)


@inner
def log_marginal_of_scales(clusters: Any, k: int) -> Any:
    """Log marginal likelihood of the scales, plus the terms in scales and pi of that of the points."""
    n, logs = points_of(clusters, k), clusters.logs[k]
    of_points = 0.5 * clusters.means.shape[1] * (logs - n * gaussian.LOG_PI)
    return of_points + log_evidence(clusters.tails, n, mass_of(clusters, k), logs, clusters.ones[k])


def prepare(clusters: Any, k: int) -> None:
    prepare_gaussian(clusters, k)
    prepare_tails(clusters, k)


def log_predictive(clusters: Any, k: int, X: Any, row: int, weight: Any) -> Any:
    """Predictive of a point and its scale: for the scale a mixture over the degrees of freedom, for the point given it
    Student's t. O(D^2 + G)."""
    mean, inverse, gap = clusters.means[k], clusters.inverses[k], clusters.work
    scale, square = X.scales[row], 0.0
    for i in range(len(mean)):
        gap[i] = np.float64(X.points[row, i]) - mean[i]
        value = 0.0
        for j in range(i + 1):
            value += inverse[i, j] * gap[j]
        square += value * value
    of_scale = log_predictive_of_scale(clusters, k, scale)
    if of_scale == -np.inf:
        return of_scale
    strength = clusters.strengths[k]
    ratio = strength * scale / (strength + scale)
    # `constants` holds the peak for a scale of 1.
    peak = clusters.constants[k] + 0.5 * len(mean) * math.log(ratio * (strength + 1.0) / strength)
    return of_scale + peak - 0.5 * (clusters.freedoms[k] + 1.0) * math.log1p(ratio * square)


def add_point(clusters: Any, k: int, X: Any, row: int, sign: Any) -> None:
    freedom, scale = clusters.freedoms[k], X.scales[row]
    add_to_gaussian(clusters, k, X.points, row, sign * scale)
    clusters.freedoms[k] = freedom + sign
    clusters.logs[k] += sign * math.log(scale)
    if scale == 1.0:
        clusters.ones[k] += sign


def add_cluster(clusters: Any, k: int, others: Any, m: int, sign: float) -> None:
    join_gaussians(clusters, k, others, m, sign)
    clusters.logs[k] += sign * others.logs[m]
    clusters.ones[k] += sign * others.ones[m]


def copy_cluster(clusters: Any, k: int, others: Any, m: int) -> None:
    copy_gaussian(clusters, k, others, m)
    clusters.logs[k], clusters.ones[k] = others.logs[m], others.ones[m]


def clear(clusters: Any, k: int) -> None:
    copy_gaussian(clusters, k, clusters, len(clusters.strengths) - 1)
    clusters.logs[k], clusters.ones[k] = 0.0, 0.0


def log_marginal(clusters: Any, k: int) -> Any:
    """Log marginal likelihood of the points and their scales."""
    of_points = gaussian.log_normaliser(clusters, k) - gaussian.log_normaliser(clusters, len(clusters.strengths) - 1)
    return of_points + log_marginal_of_scales(clusters, k)


register(
    StudentClusters, log_predictive, add_point, log_marginal,
    fields=("means", "strengths", "freedoms", "factors", "logs", "ones"), add_cluster=add_cluster,
    copy_cluster=copy_cluster, clear=clear, prepare=prepare,
)  # fmt: skip
