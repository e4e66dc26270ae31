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
    matter. A point at distance r from c (in c's own metric) has at least distance delta - sigma r from k, where delta
    is m_c's distance from k and sigma the standard deviation of c along the direction from m_c to m_k, both in k's
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
        radii[c, c] = -1.0
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
def could_merge(first: Any, second: Any, most: Any, counts: Any, means: Any, scatters: Any, posterior: Any) -> Any:
    """For each pair of clusters, whether half the log determinant of the scale after merging stays at or below `most`.

    The merged scale is scale_1 + scatter_2 + w d d', d the second mean seen from the first's posterior. Its Cholesky
    factor is made row by row. It exceeds both clusters' own scales, hence so does each of its pivots: what is found
    so far plus what the own factors still have is a bound below, and a pair is dropped as soon as that is above
    `most`. Pairs that are far apart cost a row or two, others O(D^3).
    """
    strengths, posterior_means, scales, factors = posterior
    dim = means.shape[1]
    rest = np.zeros((len(counts), dim + 1))
    for k in range(len(counts)):
        for r in range(dim - 1, -1, -1):
            rest[k, r] = rest[k, r + 1] + math.log(factors[k, r, r])
    answers = np.ones(len(first), np.bool_)
    factor, gap = np.empty((dim, dim)), np.empty(dim)
    for pair in range(len(first)):
        i, j = first[pair], second[pair]
        weight = strengths[i] * counts[j] / (strengths[i] + counts[j])
        half = 0.0
        for r in range(dim):
            gap[r] = means[j, r] - posterior_means[i, r]
            for c in range(r + 1):
                value = scales[i, r, c] + scatters[j, r, c] + weight * gap[r] * gap[c]
                for m in range(c):
                    value -= factor[r, m] * factor[c, m]
                factor[r, c] = value / factor[c, c] if c < r else math.sqrt(max(value, 1e-300))
            half += math.log(factor[r, r])
            if half + max(rest[i, r + 1], rest[j, r + 1]) > most[pair]:
                answers[pair] = False
                break
    return answers
