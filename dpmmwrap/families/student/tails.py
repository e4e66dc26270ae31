"""The tails of a cluster: compiled inference of degrees of freedom on a grid from the scales of points.

A point of a cluster with nu degrees of freedom is x | u ~ N(mu, Sigma / u) with scale u ~ Gamma(nu / 2, nu / 2). A
Gaussian cluster has nu = infinity and all scales exactly 1. So the scales of a cluster are either all 1 or never 1, and
the density of n scales is a sum over the grid that depends only on n, their sum and the sum of their logs. Formulas use
the heaviness 1 / nu in place of nu.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.numerics.special import compiled_float64 as compiled
from dpmmwrap.numerics.special import inner_float64 as inner
from dpmmwrap.numerics.special import log_gamma


@inner
def log_scales(tails: Any, g: Any, n: Any, mass: Any, log_sum: Any, ones: Any) -> Any:
    """Log of the prior of the g-th degrees of freedom times the density of n scales, given their sum, the sum of their
    logs, and the number of scales that are exactly 1."""
    if tails.heaviness[g] == 0.0:
        return tails.log_priors[g] if ones == n else -np.inf
    if ones > 0.0:
        return -np.inf
    half = 0.5 / tails.heaviness[g]
    return tails.log_priors[g] + n * tails.constants[g] + (half - 1.0) * log_sum - half * mass


@inner
def log_evidence(tails: Any, n: Any, mass: Any, log_sum: Any, ones: Any) -> Any:
    """Log density of the scales of a cluster, summed over the grid of degrees of freedom."""
    if n <= 0.0:
        return 0.0
    best = -np.inf
    for g in range(len(tails.heaviness)):
        best = max(best, log_scales(tails, g, n, mass, log_sum, ones))
    if best == -np.inf:
        return best
    total = 0.0
    for g in range(len(tails.heaviness)):
        total += math.exp(log_scales(tails, g, n, mass, log_sum, ones) - best)
    return best + math.log(total)


@compiled
def log_evidences(tails: Any, statistics: Any) -> Any:
    """`log_evidence` of each cluster."""
    counts, masses, logs, ones = statistics.counts, statistics.masses, statistics.logs, statistics.ones
    found = np.empty(len(counts))
    for k in range(len(counts)):
        found[k] = log_evidence(tails, counts[k], masses[k], logs[k], ones[k])
    return found


@compiled
def most_probable(tails: Any, statistics: Any) -> Any:
    """The most probable heaviness of each cluster given its scales; for an empty cluster that of the prior."""
    counts, masses, logs, ones = statistics.counts, statistics.masses, statistics.logs, statistics.ones
    found = np.empty(len(counts))
    for k in range(len(counts)):
        best = -np.inf
        for g in range(len(tails.heaviness)):
            value = tails.log_priors[g]
            if counts[k] > 0.0:
                value = log_scales(tails, g, counts[k], masses[k], logs[k], ones[k])
            if value > best:
                best, found[k] = value, tails.heaviness[g]
    return found


@inner
def log_peak_gain(heaviness: Any, dim: Any) -> Any:
    """The log density of Student's t minus that of a Gaussian, both at the mean."""
    if heaviness == 0.0:
        return 0.0
    half = 0.5 / heaviness
    return log_gamma(half + 0.5 * dim) - log_gamma(half) - 0.5 * dim * math.log(half)


@compiled
def log_peak_gains(heaviness: Any, dim: Any) -> Any:
    found = np.empty(len(heaviness))
    for k in range(len(heaviness)):
        found[k] = log_peak_gain(heaviness[k], dim)
    return found


@compiled
def draw_heaviness(tails: Any, counts: Any, falls: Any, dim: Any, uniforms: Any) -> Any:
    """Draw the heaviness of each cluster from the grid given its points' squared distances, with scales integrated out.

    `falls` (K, G) are sums over the points of how far the log density is below that at the mean. A negative uniform
    number selects the most probable heaviness.
    """
    found, logs = np.empty(len(counts)), np.empty(len(tails.heaviness))
    for k in range(len(counts)):
        best, total, chosen = -np.inf, 0.0, 0
        for g in range(len(logs)):
            logs[g] = tails.log_priors[g] + counts[k] * log_peak_gain(tails.heaviness[g], dim) - falls[k, g]
            if logs[g] > best:
                best, chosen = logs[g], g
        if uniforms[k] >= 0.0:
            for g in range(len(logs)):
                logs[g] = math.exp(logs[g] - best)
                total += logs[g]
            left, chosen = uniforms[k] * total, 0
            while chosen < len(logs) - 1 and left >= logs[chosen]:
                left -= logs[chosen]
                chosen += 1
        found[k] = tails.heaviness[chosen]
    return found
