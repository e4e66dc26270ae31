"""Compiled loops of the normal-inverse-gamma distribution, with one variance per feature or one for all.

`prior.py` and `spherical.py` have the mathematics. The sums of a cluster are those of x, then of x^2, then (if values
are missing) the numbers of observed values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.families.diagonal.prior import NumericTables, Posteriors
from dpmmwrap.numerics.special import compiled_float64 as compiled
from dpmmwrap.numerics.special import inner_float64 as inner
from dpmmwrap.numerics.special import log_gamma, new_array, new_zeros
from dpmmwrap.numerics.variates import derived_key, standard_gammas, standard_normals

# Re-exported from `prior`, where they are available without numba.
__all__ = ["NumericTables", "Posteriors"]

HALF_LOG_2_PI = 0.5 * math.log(2 * math.pi)


@inner
def fill_posterior(prior: Any, n_all: Any, sums: Any, tied: Any, means: Any, strengths: Any, scales: Any) -> Any:
    """Write one cluster's posterior means, strengths and scales; return its log marginal likelihood and number of
    values.

    The scatter about the prior mean is the scatter about the sample mean plus a term for the distance of the two. O(D).
    """
    dim = len(prior.means)
    counted = len(sums) == 3 * dim
    total, pooled, values, last, last_terms = 0.0, 0.0, 0.0, -1.0, 0.0
    for j in range(dim):
        n = sums[2 * dim + j] if counted else n_all
        strength_n = prior.strengths[0] + n
        middle = sums[j] / max(n, 1e-300) if n > 0.0 else prior.means[j]
        gap = middle - prior.means[j]
        scatter = max(sums[dim + j] - sums[j] * middle, 0.0) + prior.strengths[0] * n / strength_n * gap * gap
        means[j] = prior.means[j] + n / strength_n * gap
        if counted or j == 0:
            strengths[j] = strength_n
        values += n
        # Most features have the same n: evaluate gamma functions only where it changes.
        if n != last:
            last = n
            last_terms = 0.5 * (math.log(prior.strengths[0]) - math.log(strength_n)) - 0.5 * n * math.log(math.pi)
            if not tied:
                last_terms += log_gamma(0.5 * (prior.freedoms[0] + n)) - log_gamma(0.5 * prior.freedoms[0])
        total += last_terms
        if tied:
            pooled += scatter
        else:
            scales[j] = prior.scales[j] + scatter
            ratio = math.log(prior.scales[j]) * prior.freedoms[0] - math.log(scales[j]) * (prior.freedoms[0] + n)
            total += 0.5 * ratio
    if tied:
        freedom, scale = prior.freedoms[0], prior.scales[0]
        scales[0] = scale + pooled
        total += log_gamma(0.5 * (freedom + values)) - log_gamma(0.5 * freedom)
        total += 0.5 * freedom * math.log(scale) - 0.5 * (freedom + values) * math.log(scales[0])
    return total, values


@compiled
def posteriors(prior: Any, tied: Any, counts: Any, sums: Any) -> Any:
    """The posterior and the log marginal likelihood of each cluster. O(K D)."""
    count, dim = len(counts), len(prior.means)
    counted = sums.shape[1] == 3 * dim
    means, strengths = new_array((count, dim), np.float64), new_array((count, dim if counted else 1), np.float64)
    scales = new_array((count, 1 if tied else dim), np.float64)
    freedoms = new_array((count, dim if counted and not tied else 1), np.float64)
    log_marginal = new_array(count, np.float64)
    for k in range(count):
        log_marginal[k], values = fill_posterior(prior, counts[k], sums[k], tied, means[k], strengths[k], scales[k])
        for j in range(freedoms.shape[1]):
            n = sums[k, 2 * dim + j] if counted else counts[k]
            freedoms[k, j] = prior.freedoms[0] + (values if tied else n)
    return Posteriors(means, strengths, scales, freedoms), log_marginal


@compiled
def union_log_marginals(prior: Any, tied: Any, counts: Any, sums: Any, one: Any, other: Any) -> Any:
    """Log marginal likelihoods of the unions of pairs of clusters. O(D) per pair."""
    dim = len(prior.means)
    total, found = new_array(sums.shape[1], np.float64), new_array(len(one), np.float64)
    means, strengths, scales = new_array(dim, np.float64), new_array(dim, np.float64), new_array(dim, np.float64)
    for pair in range(len(one)):
        i, j = one[pair], other[pair]
        for f in range(sums.shape[1]):
            total[f] = sums[i, f] + sums[j, f]
        found[pair], _ = fill_posterior(prior, counts[i] + counts[j], total, tied, means, strengths, scales)
    return found


def draw(key: Any, posterior: Any) -> Any:
    """Draw a precision and a mean for every cluster and feature, see `drawn_terms`."""
    count, dim = posterior.means.shape
    shapes = np.broadcast_to(0.5 * posterior.freedoms, posterior.scales.shape)
    gammas = standard_gammas(key, shapes.flatten())
    return drawn_terms(posterior, gammas, standard_normals(derived_key(key, 1 << 40), count * dim))


@compiled
def drawn_terms(posterior: Any, gammas: Any, normals: Any) -> Any:
    """Factors (roots of the precisions), offsets (mean times factor) and the terms log factor - log(2 pi) / 2, all
    (K, D) in float32, and the terms' sums in float64, from the random variables of each cluster in turn."""
    count, dim = posterior.means.shape
    width, one_strength = posterior.scales.shape[1], posterior.strengths.shape[1] == 1
    factors, offsets = new_array((count, dim), np.float32), new_array((count, dim), np.float32)
    terms, totals = new_array((count, dim), np.float32), new_zeros(count, np.float64)
    for k in range(count):
        for j in range(dim):
            at = 0 if width == 1 else j
            factor = math.sqrt(2.0 * gammas[k * width + at] / posterior.scales[k, at])
            step = np.float64(normals[k * dim + j]) / math.sqrt(posterior.strengths[k, 0 if one_strength else j])
            factors[k, j] = factor
            offsets[k, j] = posterior.means[k, j] * factor + step
            terms[k, j] = math.log(factor) - HALF_LOG_2_PI
            totals[k] += terms[k, j]
    return factors, offsets, terms, totals
