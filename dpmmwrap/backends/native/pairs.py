"""The loops over pairs of clusters, compiled by numba: who is whose neighbour, and who could merge with whom."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.backends.native.kernels import CUTOFF, LANES, compiled, exp_float32, gather, log_chance, squared_distances
from dpmmwrap.conjugate import log_gamma, log_partition


@compiled
def tables(log_weights: Any, log_subweights: Any, means: Any, whitening: Any, log_normalisers: Any) -> Any:
    """Drawn parameters as the kernels take them: clusters, what they know of each other, their subclusters."""
    count, dim = len(log_weights), means.shape[1]
    factors, log_heights = np.empty((count, dim, dim), np.float32), np.empty(count, np.float32)
    for c in range(count):
        log_heights[c] = log_weights[c] + log_normalisers[c]
        for i in range(dim):
            for j in range(dim):
                factors[c, i, j] = whitening[c, i, j]
    neighbours = neighbour_tables(log_heights, means, whitening)
    subclusters = subcluster_tables(log_subweights, means, whitening, log_normalisers, neighbours[0])
    return (factors, log_heights), neighbours, subclusters


@compiled
def subcluster_tables(log_subweights: Any, means: Any, whitening: Any, log_normalisers: Any, origins: Any) -> Any:
    """Whitening factors, offsets W (m - origin) and log heights of each cluster's two subclusters. O(K D^2)."""
    count, dim = origins.shape
    factors = np.empty((count, 2, dim, dim), np.float32)
    offsets = np.zeros((count, 2, dim), np.float32)
    log_heights = np.empty((count, 2), np.float32)
    for c in range(count):
        for side in range(2):
            k = count + 2 * c + side
            log_heights[c, side] = log_subweights[c, side] + log_normalisers[k]
            for i in range(dim):
                total = 0.0
                for j in range(dim):
                    factors[c, side, i, j] = whitening[k, i, j]
                    total += whitening[k, i, j] * (means[k, j] - np.float64(origins[c, j]))
                offsets[c, side, i] = total
    return factors, offsets, log_heights


@compiled
def neighbour_tables(log_heights: Any, means: Any, whitening: Any) -> Any:
    """What cluster c's points need to know of every cluster k. O(K^2 D^2).

    Returns origins (float32 means), offsets W_k (m_k - origin_c), and the squared radius about c up to which k cannot
    matter. A point at distance r from c (in c's own metric) has at least distance delta - sigma r from k, where delta
    is m_c's distance from k and sigma the standard deviation of c along the direction from m_c to m_k, both in k's
    metric. So k is below e^-CUTOFF of c while (delta - sigma r)^2 / 2 - r^2 / 2 > CUTOFF + height_k - height_c, up to
    the smaller root in r.
    """
    count, dim = len(log_heights), means.shape[1]
    origins = np.empty((count, dim), np.float32)
    for c in range(count):
        for i in range(dim):
            origins[c, i] = means[c, i]
    offsets = np.empty((count, count, dim), np.float32)
    radii = np.empty((count, count), np.float32)
    gap, pull = np.empty(dim), np.empty(dim)
    spread = np.zeros((dim, dim))
    for c in range(count):
        _invert(whitening[c], spread)
        for k in range(count):
            for i in range(dim):
                gap[i] = means[k, i] - np.float64(origins[c, i])
                pull[i] = 0.0
            delta2 = 0.0
            for i in range(dim):
                row = whitening[k, i]
                total = 0.0
                for j in range(i + 1):
                    total += row[j] * gap[j]
                offsets[c, k, i] = np.float32(total)
                delta2 += total * total
                for j in range(i + 1):
                    pull[j] += row[j] * total
            sigma2 = 0.0
            for j in range(dim):
                total = 0.0
                for i in range(j, dim):
                    total += spread[j, i] * pull[i]
                sigma2 += total * total
            needed = 2.0 * (CUTOFF + log_heights[k] - log_heights[c])
            radii[c, k] = _safe_radius2(delta2, sigma2 / max(delta2, 1e-300), needed)
        radii[c, c] = -1.0
    return origins, offsets, radii


@compiled
def _invert(factor: Any, transposed: Any) -> None:
    """The inverse of a lower triangular factor, transposed: row j holds column j of the inverse. O(D^3)."""
    dim = len(factor)
    for j in range(dim):
        transposed[j, j] = 1.0 / factor[j, j]
        for i in range(j + 1, dim):
            total = 0.0
            for m in range(j, i):
                total -= factor[i, m] * transposed[j, m]
            transposed[j, i] = total / factor[i, i]


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
def log_parting(
    X: Any, bounds: Any, sorting: Any, clusters: Any, neighbours: Any, one: Any, other: Any, least: Any
) -> Any:
    """log probability that the points of two clusters got the one of these two labels that they have.

    By the sweep's own parameters and order. A sum that has fallen below `least` is not gone on with. O(n D^2).
    """
    whitening, log_heights = clusters
    origins, offsets = neighbours[0], neighbours[1]
    order, starts = sorting
    dim = origins.shape[1]
    rows, block, z = np.empty(LANES, np.int64), np.empty((dim, LANES), np.float32), np.empty(LANES, np.float32)
    own, others = np.empty(LANES, np.float32), np.empty(LANES, np.float32)
    # Of the two sides of a coin that `log_chance` knows, every point shows the one that is not its rival.
    shown = np.zeros(LANES, np.float32)
    total = 0.0
    for chunk in range(len(bounds) - 1):
        its_order, part = order[bounds[chunk] : bounds[chunk + 1]], X[bounds[chunk] : bounds[chunk + 1]]
        for c, k in ((one, other), (other, one)):
            lead = log_heights[k] - log_heights[c]
            for first in range(starts[chunk, c], starts[chunk, c + 1], LANES):
                n = min(LANES, starts[chunk, c + 1] - first)
                gather(part, its_order, first, n, origins[c], rows, block)
                squared_distances(whitening[c], offsets[c, c], block, z, own)
                squared_distances(whitening[k], offsets[c, k], block, z, others)
                for b in range(LANES):
                    own[b] = lead + np.float32(0.5) * (own[b] - others[b])
                    others[b] = np.float32(1) + exp_float32(-abs(own[b]))
                total += log_chance(shown, own, others, n)
            if total < least:
                return total
    return total


@compiled
def split_ratios(alpha: Any, sides: Any, log_marginal: Any) -> Any:
    """log H of splitting each of K clusters into its subclusters (the paper's equation for H_split).

    `sides` counts the points left and right; `log_marginal` has the K clusters, then their 2K subclusters. Minus
    infinity where a side is empty.
    """
    count = len(sides)
    ratios = np.empty(count)
    for k in range(count):
        ratios[k] = -np.inf
        left, right = sides[k, 0], sides[k, 1]
        if left > 0.0 and right > 0.0:
            gain = log_marginal[count + 2 * k] + log_marginal[count + 2 * k + 1] - log_marginal[k]
            ratios[k] = math.log(alpha) + log_gamma(left) + log_gamma(right) - log_gamma(left + right) + gain
    return ratios


@compiled
def accepted_splits(ratios: Any, begun: Any, latest: Any, least: Any) -> Any:
    """Which clusters have a ratio above their entry of `least` and have begun by then; how many have the latter."""
    accepted = np.empty(len(ratios), np.int64)
    found = proposed = 0
    for k in range(len(ratios)):
        if begun[k] <= latest:
            proposed += 1
            if ratios[k] > least[k]:
                accepted[found] = k
                found += 1
    return accepted[:found], proposed


@compiled
def log_merge_ratio(alpha: Any, n1: Any, n2: Any, gain: Any, printed: Any) -> Any:
    """log H of merging two clusters, where gain = log f(both) - log f(one) - log f(other).

    `printed` is the paper's, one over the split's. The other is what DPMMSubClusters.jl computes, which also charges
    the merged cluster for the sublabels that it gets.
    """
    n = n1 + n2
    ratio = gain - math.log(alpha) + log_gamma(n) - log_gamma(n1) - log_gamma(n2)
    if printed:
        return ratio
    half = 0.5 * alpha
    sublabels = log_gamma(alpha) - log_gamma(n + alpha) - 2.0 * log_gamma(half)
    return ratio + sublabels + log_gamma(n1 + half) + log_gamma(n2 + half)


@compiled
def merge_ratios(
    candidates: Any, alpha: Any, printed: Any, least: Any, prior: Any, clusters: Any, posterior: Any
) -> Any:
    """The pairs of candidates whose log H is above their entry of `least`, and by how much.

    Pairs are counted row by row: candidates 0 and 1, 0 and 2, ..., 1 and 2, ...

    The merged scale is scale_1 + scatter_2 + w d d', d the second mean seen from the first's posterior. Its Cholesky
    factor is made row by row. It exceeds both clusters' own scales, hence so does each of its pivots: what is found
    so far plus what the own factors still have is a bound below on its determinant, and a pair is dropped as soon as
    that is too large. Pairs that are far apart cost a row or two, others O(D^3).
    """
    prior_strength, prior_freedom, prior_log_partition = prior
    counts, means, scatters = clusters
    strengths, centres, scales, factors, log_marginal = posterior
    dim = means.shape[1]
    rest = np.zeros((len(counts), dim + 1))
    for k in range(len(counts)):
        for r in range(dim - 1, -1, -1):
            rest[k, r] = rest[k, r + 1] + math.log(factors[r, r, k])
    factor, gap = np.empty((dim, dim)), np.empty(dim)
    first, second, lead = np.empty(len(least), np.int64), np.empty(len(least), np.int64), np.empty(len(least))
    found, pair = 0, -1
    for a in range(len(candidates)):
        for b in range(a + 1, len(candidates)):
            pair += 1
            i, j = candidates[a], candidates[b]
            n = counts[i] + counts[j]
            strength, freedom = prior_strength + n, prior_freedom + n
            shared = -prior_log_partition - 0.5 * n * dim * math.log(math.pi) - log_marginal[i] - log_marginal[j]
            base = log_merge_ratio(alpha, counts[i], counts[j], shared, printed)
            # The D gamma functions are bounded above by the outer two: the log gamma function is convex.
            gammas = 0.5 * dim * (log_gamma(0.5 * freedom) + log_gamma(0.5 * (freedom - dim + 1)))
            most = (base + gammas - 0.5 * dim * math.log(strength) - least[pair]) / freedom
            weight = strengths[i] * counts[j] / (strengths[i] + counts[j])
            half = 0.0
            for r in range(dim):
                gap[r] = means[j, r] - centres[i, r]
                for c in range(r + 1):
                    value = scales[i, r, c] + scatters[j, r, c] + weight * gap[r] * gap[c]
                    for m in range(c):
                        value -= factor[r, m] * factor[c, m]
                    factor[r, c] = value / factor[c, c] if c < r else math.sqrt(max(value, 1e-300))
                half += math.log(factor[r, r])
                if half + max(rest[i, r + 1], rest[j, r + 1]) > most:
                    break
            else:
                above = base + log_partition(freedom, strength, half, dim) - least[pair]
                if above > 0.0:
                    first[found], second[found], lead[found] = i, j, above
                    found += 1
    return first[:found], second[:found], lead[:found]
