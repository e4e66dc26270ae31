"""Student-t clusters with diagonal scale matrices, or one variance for all features, with integrated parameters."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.collapsed import register
from dpmmwrap.families.student.collapsed import (
    log_marginal_of_scales,
    log_predictive_of_scale,
    points_of,
    prepare_tails,
)
from dpmmwrap.numerics.special import inner_float64 as inner
from dpmmwrap.numerics.special import log_gamma

LOG_PI = math.log(math.pi)


class DiagonalStudentClusters(NamedTuple):
    """Normal-inverse-gamma posteriors given scales, and statistics of the scales. The last one is the prior."""

    counts: Any
    means: Any
    strengths: Any
    freedoms: Any
    """Those of the prior plus the number of points (C,), even where all features share a variance."""
    scales: Any
    """One per feature (C, D), or one for all (C, 1)."""
    logs: Any
    ones: Any
    constants: Any
    """The terms of the log predictive density in gamma functions and scales, valid after `prepare`."""
    shares: Any
    tails: Any


@inner
def freedom_of(clusters: Any, k: int) -> Any:
    """Degrees of freedom of a variance of cluster k."""
    first, dim = clusters.freedoms[len(clusters.freedoms) - 1], clusters.means.shape[1]
    shared = dim // clusters.scales.shape[1]
    return first + shared * (clusters.freedoms[k] - first)


def prepare(clusters: Any, k: int) -> None:
    scales, dim, freedom = clusters.scales[k], clusters.means.shape[1], freedom_of(clusters, k)
    shared = dim // len(scales)
    total = len(scales) * (log_gamma(0.5 * (freedom + shared)) - log_gamma(0.5 * freedom)) - 0.5 * dim * LOG_PI
    for j in range(len(scales)):
        total -= 0.5 * shared * math.log(scales[j])
    clusters.constants[k] = total
    prepare_tails(clusters, k)


def log_predictive(clusters: Any, k: int, X: Any, row: int, weight: Any) -> Any:
    """Predictive of a point and its scale: for the scale a mixture over the degrees of freedom, for the point given it
    Student's t, per feature or for all features. O(D + G)."""
    of_scale = log_predictive_of_scale(clusters, k, X.scales[row])
    if of_scale == -np.inf:
        return of_scale
    mean, scales, strength, scale = clusters.means[k], clusters.scales[k], clusters.strengths[k], X.scales[row]
    ratio, total, pooled, dim = strength * scale / (strength + scale), 0.0, 0.0, len(mean)
    for j in range(dim):
        gap = np.float64(X.points[row, j]) - mean[j]
        if len(scales) < dim:
            pooled += gap * gap
        else:
            total += math.log1p(ratio * gap * gap / scales[j])
    if len(scales) < dim:
        total = math.log1p(ratio * pooled / scales[0])
    power = 0.5 * (freedom_of(clusters, k) + dim // len(scales))
    return of_scale + clusters.constants[k] + 0.5 * dim * math.log(ratio) - power * total


@inner
def _add(clusters: Any, k: int, j: int, mass: Any, mean: Any, scatter: Any) -> None:
    """Add points with a sum of scales, mean and scatter to a feature of cluster k; the caller updates the strength."""
    strength = clusters.strengths[k]
    gap, at = mean - clusters.means[k, j], min(j, clusters.scales.shape[1] - 1)
    grown = clusters.scales[k, at] + scatter + strength * mass / (strength + mass) * gap * gap
    clusters.scales[k, at] = max(grown, 1e-12 * clusters.scales[k, at])
    clusters.means[k, j] += mass / (strength + mass) * gap


def add_point(clusters: Any, k: int, X: Any, row: int, sign: Any) -> None:
    scale = X.scales[row]
    for j in range(clusters.means.shape[1]):
        _add(clusters, k, j, sign * scale, np.float64(X.points[row, j]), 0.0)
    clusters.strengths[k] += sign * scale
    clusters.freedoms[k] += sign
    clusters.logs[k] += sign * math.log(scale)
    if scale == 1.0:
        clusters.ones[k] += sign


def add_cluster(clusters: Any, k: int, others: Any, m: int, sign: float) -> None:
    last = len(clusters.strengths) - 1
    base = clusters.strengths[last]
    strength = others.strengths[m]
    mass = strength - base
    if points_of(others, m) <= 0.0:
        return
    for at in range(clusters.scales.shape[1]):
        clusters.scales[k, at] += sign * (others.scales[m, at] - clusters.scales[last, at])
    for j in range(clusters.means.shape[1]):
        # Remove the prior: the mean of m is mass / strength of the way from the prior mean to the mean of its points.
        gap = (others.means[m, j] - clusters.means[last, j]) * strength / mass
        scatter = -sign * base * mass / strength * gap * gap
        _add(clusters, k, j, sign * mass, clusters.means[last, j] + gap, scatter)
    clusters.strengths[k] += sign * mass
    clusters.freedoms[k] += sign * (others.freedoms[m] - clusters.freedoms[last])
    clusters.logs[k] += sign * others.logs[m]
    clusters.ones[k] += sign * others.ones[m]


@inner
def _copy(clusters: Any, k: int, others: Any, m: int) -> None:
    for j in range(clusters.means.shape[1]):
        clusters.means[k, j] = others.means[m, j]
    for j in range(clusters.scales.shape[1]):
        clusters.scales[k, j] = others.scales[m, j]
    clusters.strengths[k], clusters.freedoms[k] = others.strengths[m], others.freedoms[m]
    clusters.logs[k], clusters.ones[k] = others.logs[m], others.ones[m]


def copy_cluster(clusters: Any, k: int, others: Any, m: int) -> None:
    _copy(clusters, k, others, m)


def clear(clusters: Any, k: int) -> None:
    _copy(clusters, k, clusters, len(clusters.strengths) - 1)


@inner
def log_normaliser(clusters: Any, k: int) -> Any:
    scales, freedom = clusters.scales[k], freedom_of(clusters, k)
    total = len(scales) * log_gamma(0.5 * freedom) - 0.5 * clusters.means.shape[1] * math.log(clusters.strengths[k])
    for j in range(len(scales)):
        total -= 0.5 * freedom * math.log(scales[j])
    return total


def log_marginal(clusters: Any, k: int) -> Any:
    """Log marginal likelihood of the points and their scales."""
    last = len(clusters.strengths) - 1
    return log_normaliser(clusters, k) - log_normaliser(clusters, last) + log_marginal_of_scales(clusters, k)


register(
    DiagonalStudentClusters, log_predictive, add_point, log_marginal,
    fields=("means", "strengths", "freedoms", "scales", "logs", "ones"), add_cluster=add_cluster,
    copy_cluster=copy_cluster, clear=clear, prepare=prepare,
)  # fmt: skip
