"""The loops over pairs of clusters, compiled by numba: who is whose neighbour, and who could merge with whom."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.backends.native.kernels import CUTOFF, compiled


@compiled
def neighbour_tables(means: Any, whitening: Any, spread: Any, log_heights: Any) -> Any:
    """What cluster c's points need to know of every cluster k. O(K^2 D^2).

    Returns origins (float32 means), offsets W_k (m_k - origin_c), and the squared radius about c up to which k cannot
    matter. A point at distance r from c (in c's own metric) has at least distance delta - sigma r from k, where delta is
    m_c's distance from k and sigma the standard deviation of c along the direction from m_c to m_k, both in k's
    metric. So k is below e^-CUTOFF of c while (delta - sigma r)^2 / 2 - r^2 / 2 > CUTOFF + height_k - height_c, up to
    the smaller root in r.
    `spread` holds the inverses of the whitening factors.
    """
    count, dim = means.shape
    origins = np.empty((count, dim), np.float32)
    for c in range(count):
        for i in range(dim):
            origins[c, i] = means[c, i]
    offsets = np.empty((count, count, dim), np.float32)
    radii = np.empty((count, count), np.float32)
    gap, offset, pull = np.empty(dim), np.empty(dim), np.empty(dim)
    for c in range(count):
        for k in range(count):
            for i in range(dim):
                gap[i] = means[k, i] - np.float64(origins[c, i])
                pull[i] = 0.0
            delta2 = 0.0
            for i in range(dim):
                total = 0.0
                for j in range(i + 1):
                    total += whitening[k, i, j] * gap[j]
                offset[i] = total
                offsets[c, k, i] = np.float32(total)
                delta2 += total * total
                for j in range(i + 1):
                    pull[j] += whitening[k, i, j] * total
            sigma2 = 0.0
            for j in range(dim):
                total = 0.0
                for i in range(j, dim):
                    total += spread[c, i, j] * pull[i]
                sigma2 += total * total
            needed = 2.0 * (CUTOFF + log_heights[k] - log_heights[c])
            radii[c, k] = _safe_radius2(delta2, sigma2 / max(delta2, 1e-300), needed)
        radii[c, c] = np.inf
    return origins, offsets, radii


@compiled
def _safe_radius2(delta2: Any, sigma2: Any, needed: Any) -> Any:
    """The squared radius within which a neighbour is below the cutoff; see `neighbour_tables`."""
    if delta2 <= needed:
        return 0.0
    delta, sigma = np.sqrt(delta2), np.sqrt(sigma2)
    radius = delta / max(sigma, 1e-30)
    discriminant = delta2 + needed * (sigma2 - 1.0)
    if discriminant >= 0.0:
        radius = min(radius, (delta2 - needed) / (delta * sigma + np.sqrt(discriminant)))
    # The distances that are compared with this are float32.
    return 0.998 * radius * radius


@compiled
def merge_bounds(candidates: Any, counts: Any, means: Any, scatters: Any, half_scatters: Any, posterior: Any) -> Any:
    """For every pair of candidates, a bound above on log f(x1 and x2 together), less what all pairs share.

    With B = scale_1 + scatter_2 the merged scale is B + w d d', d the second mean seen from the first's posterior. Its
    determinant is bounded below by Minkowski's inequality for |B| and by Cauchy and Schwarz for d' B^-1 d >=
    (d'v)^2 / v'B v with v = scale_1^-1 d; the multivariate gamma function above by convexity. O(D^2) for a pair,
    where the exact value takes O(D^3) and D gamma functions.
    """
    strengths, posterior_means, factors, freedoms, halves = posterior
    dim = means.shape[1]
    total = len(candidates) * (len(candidates) - 1) // 2
    first, second = np.empty(total, np.int64), np.empty(total, np.int64)
    bounds = np.empty(total)
    u, v = np.empty(dim), np.empty(dim)
    pair = 0
    for a in range(len(candidates)):
        i = candidates[a]
        for b in range(a + 1, len(candidates)):
            j = candidates[b]
            # u = L^-1 d and v = L^-T u, with L L' = scale_1: then d'v = v' scale_1 v = |u|^2.
            length2 = 0.0
            for m in range(dim):
                rest = means[j, m] - posterior_means[i, m]
                for n in range(m):
                    rest -= factors[i, m, n] * u[n]
                u[m] = rest / factors[i, m, m]
                length2 += u[m] * u[m]
                v[m] = u[m]
            for m in range(dim - 1, -1, -1):
                v[m] /= factors[i, m, m]
                for n in range(m):
                    v[n] -= factors[i, m, n] * v[m]
            through = length2
            for m in range(dim):
                row = 0.0
                for n in range(dim):
                    row += scatters[j, m, n] * v[n]
                through += row * v[m]
            weight = strengths[i] * counts[j] / (strengths[i] + counts[j])
            half = 0.5 * dim * math.log(math.exp(2 * halves[i] / dim) + math.exp(2 * half_scatters[j] / dim))
            if through > 0.0:
                half += 0.5 * math.log1p(weight * length2 * length2 / through)
            freedom = freedoms[i] + counts[j]
            ends = math.lgamma(0.5 * freedom) + math.lgamma(0.5 * (freedom - dim + 1))
            first[pair], second[pair] = i, j
            bounds[pair] = 0.5 * dim * (ends - math.log(strengths[i] + counts[j])) - freedom * half
            pair += 1
    return first, second, bounds
