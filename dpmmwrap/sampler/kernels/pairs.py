"""The loops over pairs of clusters, compiled by numba: who is whose neighbour, and who could merge with whom."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.families.wishart import evidence, log_gamma, log_partition
from dpmmwrap.sampler.kernels.blocks import (
    CUTOFF,
    LANES,
    gather,
    log_chance,
    log_densities,
    new_block,
    padded,
)
from dpmmwrap.variates import compiled, exp_float32


@compiled
def neighbour_tables(log_weights: Any, means: Any, whitening: Any, log_normalisers: Any) -> Any:
    """Whitening factors and log heights of the clusters, and what each one's points need to know of the others.

    That is origins (float32 means), offsets W_k (m_k - origin_c), and the squared radius about c up to which k cannot
    matter. Factors and offsets are filled up with zeros to the rows that a block has. O(K^2 D^2).

    A point at distance r from c (in c's own metric) has at least distance delta - sigma r from k, where delta is m_c's
    distance from k and sigma the standard deviation of c along the direction from m_c to m_k, both in k's metric. So k
    is below e^-CUTOFF of c while (delta - sigma r)^2 / 2 - r^2 / 2 > CUTOFF + height_k - height_c, up to the smaller
    root in r.
    """
    count, dim = len(log_weights), means.shape[1]
    own, log_heights = np.zeros((count, padded(dim), padded(dim)), np.float32), np.empty(count, np.float32)
    origins = np.empty((count, dim), np.float32)
    # Clusters along the last axis, as in `conjugate`: one step of the arithmetic serves all neighbours.
    centres, factors = np.empty((dim, count)), np.empty((dim, dim, count))
    for k in range(count):
        log_heights[k] = log_weights[k] + log_normalisers[k]
        for i in range(dim):
            origins[k, i] = means[k, i]
            centres[i, k] = means[k, i]
            for j in range(i + 1):
                own[k, i, j] = factors[i, j, k] = whitening[k, i, j]
    offsets = np.zeros((count, count, padded(dim)), np.float32)
    radii = np.empty((count, count), np.float32)
    gap, pull = np.empty((dim, count)), np.empty((dim, count))
    total, delta2, sigma2 = np.empty(count), np.empty(count), np.empty(count)
    for c in range(count):
        for k in range(count):
            delta2[k] = sigma2[k] = 0.0
        for i in range(dim):
            for k in range(count):
                gap[i, k] = centres[i, k] - np.float64(origins[c, i])
                pull[i, k] = total[k] = 0.0
            for j in range(i + 1):
                for k in range(count):
                    total[k] += factors[i, j, k] * gap[j, k]
            for k in range(count):
                offsets[c, k, i] = total[k]
                delta2[k] += total[k] * total[k]
            for j in range(i + 1):
                for k in range(count):
                    pull[j, k] += factors[i, j, k] * total[k]
        # W_c' x = pull, from the last row back: what is found takes the place of pull.
        for i in range(dim - 1, -1, -1):
            for j in range(i + 1, dim):
                for k in range(count):
                    pull[i, k] -= whitening[c, j, i] * pull[j, k]
            for k in range(count):
                pull[i, k] /= whitening[c, i, i]
                sigma2[k] += pull[i, k] * pull[i, k]
        for k in range(count):
            needed = 2.0 * (CUTOFF + log_heights[k] - log_heights[c])
            radii[c, k] = _safe_radius2(delta2[k], sigma2[k] / max(delta2[k], 1e-300), needed)
        radii[c, c] = -1.0
    return (own, log_heights), (origins, offsets, radii)


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
def subcluster_tables(log_subweights: Any, means: Any, whitening: Any, log_normalisers: Any, origins: Any) -> Any:
    """Whitening factors, offsets W (m - origin) and log heights of each cluster's two subclusters. O(K D^2).

    Filled up with zeros as the clusters' are.
    """
    count, dim = origins.shape
    factors = np.zeros((count, 2, padded(dim), padded(dim)), np.float32)
    offsets = np.zeros((count, 2, padded(dim)), np.float32)
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
def charge_partings(
    X: Any, bounds: Any, sorting: Any, clusters: Any, neighbours: Any, one: Any, other: Any, lead: Any, charged: Any
) -> None:
    """Add to each pair's lead the log probability that the points of the two clusters got the one of these two labels
    that they have.

    By the sweep's own parameters and order. A sum that has fallen below zero is not gone on with. O(n D^2) a pair.
    """
    whitening, log_heights = clusters
    origins, offsets = neighbours[0], neighbours[1]
    order, starts = sorting
    dim = origins.shape[1]
    rows, z = np.empty(LANES, np.uint64), np.empty(4 * LANES, np.float32)
    block, flat = new_block(dim)
    logs = np.empty((2, LANES), np.float32)
    # Of the two sides of a coin that `log_chance` knows, every point shows the one that is not its rival.
    shown = np.zeros(LANES, np.float32)
    for pair in range(len(one)):
        total = lead[pair]
        for step in range(2 * (len(bounds) - 1)):
            if total < 0.0:
                break
            chunk = step // 2
            c = one[pair] if step % 2 == 0 else other[pair]
            rival = one[pair] + other[pair] - c
            part = X[bounds[chunk] : bounds[chunk + 1]]
            its_order = order[bounds[chunk] : bounds[chunk + 1]]
            for first in range(starts[chunk, c], starts[chunk, c + 1], LANES):
                if total < 0.0:
                    break
                n = min(LANES, starts[chunk, c + 1] - first)
                gather(part, its_order, first, n, origins[c], rows, block)
                for side in range(2):
                    k = rival if side else c
                    log_densities(whitening[k], offsets[c, k], log_heights[k], flat, z, logs[side])
                for b in range(LANES):
                    t = logs[1, b] - logs[0, b]
                    logs[0, b] = t
                    logs[1, b] = np.float32(1) + exp_float32(-abs(t))
                total += log_chance(shown, logs[0], logs[1], n)
        charged[pair] = total


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
def log_gammas(freedom: Any, strength: Any, dim: Any) -> Any:
    """A bound above on what `log_partition` has beside the determinant: the log gamma function is convex, so its D
    values are bounded by the outer two."""
    outer = log_gamma(0.5 * freedom) + log_gamma(0.5 * (freedom - dim + 1))
    return 0.5 * dim * (outer - math.log(strength))


@compiled
def merge_ratios(
    candidates: Any, alpha: Any, printed: Any, luck: Any, prior: Any, prior_log_partition: Any, clusters: Any,
    posterior: Any,
) -> Any:  # fmt: skip
    """The pairs of candidates whose log H plus their luck is above zero, and by how much.

    Pairs are counted row by row: candidates 0 and 1, 0 and 2, ..., 1 and 2, ...

    The merged scale is scale_1 + scatter_2 + w d d', d the second mean seen from the first's posterior. Its Cholesky
    factor is made row by row. It exceeds both clusters' own scales, hence so does each of its pivots: what is found
    so far plus what the own factors still have is a bound below on its determinant, and a pair is dropped as soon as
    that is too large. Pairs that are far apart cost a row or two, others O(D^3).

    All of log H but the determinant is a sum of what is each cluster's own and of a convex function of their number
    of points. So it is at most the mean of what it would be for either cluster with its own double (`doubles`): no
    gamma function for the pairs that two rows can tell apart.
    """
    prior_strength, prior_freedom = prior[1], prior[3]
    counts, means, scatters = clusters
    strengths, centres, scales, factors, log_marginal = posterior
    count, dim = means.shape
    rest, doubles = np.zeros((count, dim + 1)), np.empty(count)
    constant = 0.5 * dim * math.log(math.pi)
    for k in candidates:
        for r in range(dim - 1, -1, -1):
            rest[k, r] = rest[k, r + 1] + math.log(factors[r, r, k])
        gain = log_gammas(prior_freedom + 2 * counts[k], prior_strength + 2 * counts[k], dim)
        gain -= prior_log_partition + 2 * (constant * counts[k] + log_marginal[k])
        doubles[k] = log_merge_ratio(alpha, counts[k], counts[k], gain, printed)
    factor, gap = np.empty((dim, dim)), np.empty(dim)
    first, second, lead = np.empty(len(luck), np.int64), np.empty(len(luck), np.int64), np.empty(len(luck))
    found, pair = 0, -1
    for a in range(len(candidates)):
        for b in range(a + 1, len(candidates)):
            pair += 1
            i, j = candidates[a], candidates[b]
            n = counts[i] + counts[j]
            strength, freedom = prior_strength + n, prior_freedom + n
            most = (0.5 * (doubles[i] + doubles[j]) + luck[pair]) / freedom
            weight = strengths[i] * counts[j] / (strengths[i] + counts[j])
            base, half = 0.0, 0.0
            for r in range(dim):
                gap[r] = means[j, r] - centres[i, r]
                for c in range(r + 1):
                    value = scales[i, r, c] + scatters[j, r, c] + weight * gap[r] * gap[c]
                    for m in range(c):
                        value -= factor[r, m] * factor[c, m]
                    factor[r, c] = value / factor[c, c] if c < r else math.sqrt(max(value, 1e-300))
                half += math.log(factor[r, r])
                remaining = max(rest[i, r + 1], rest[j, r + 1])
                if half + remaining > most:
                    break
                if r == min(1, dim - 1):
                    gain = -prior_log_partition - constant * n - log_marginal[i] - log_marginal[j]
                    base = log_merge_ratio(alpha, counts[i], counts[j], gain, printed)
                    most = (base + log_gammas(freedom, strength, dim) + luck[pair]) / freedom
                    if half + remaining > most:
                        break
            else:
                above = base + log_partition(freedom, strength, half, dim) + luck[pair]
                if above > 0.0:
                    first[found], second[found], lead[found] = i, j, above
                    found += 1
    return first[:found], second[:found], lead[:found]


@compiled
def likely_moves(model: Any, records: Any, latest: Any, luck: Any, sides: Any, clusters: Any, posterior: Any) -> Any:
    """The log H of all splits; the clusters that split and how many could; the pairs that may merge and how many could;
    how many clusters are empty.

    Those move whose log H plus `luck` is above zero and that have been as they are since the iteration `latest`; each
    cluster's split has its own luck, and then each pair. What splits does not merge. With the full ratio the chance of
    the proposed sublabels is counted; that of the labels of a pair is left to the caller.
    """
    outliers, alpha, printed, full, prior, prior_log_partition = model
    counts = clusters[0]
    ratios = split_ratios(alpha, sides, posterior[4])
    splits, candidates = np.empty(len(counts), np.int64), np.empty(len(counts), np.int64)
    found, others, proposed, empty = 0, 0, 0, 0
    for k in range(outliers, len(counts)):
        empty += counts[k] == 0.0
        if full:
            ratios[k] -= records[k]["log_chance"]
        if counts[k] > 0.0 and records[k]["begun"] <= latest:
            proposed += 1
            if ratios[k] + luck[k] > 0.0:
                splits[found] = k
                found += 1
                continue
        if counts[k] > 0.0 and records[k]["formed"] <= latest:
            candidates[others] = k
            others += 1
    merges = merge_ratios(
        candidates[:others], alpha, printed, luck[len(counts) :], prior, prior_log_partition, clusters, posterior
    )
    return ratios, splits[:found], proposed, merges, others * (others - 1) // 2, empty


@compiled
def examined(model: Any, records: Any, latest: Any, luck: Any, counts: Any, means: Any, scatters: Any) -> Any:
    """What the statistics of the subclusters say (`wishart.evidence`), and what moves they make likely."""
    found = evidence(model[4], model[5], counts, means, scatters)
    clusters, worked_out, log_marginal = found
    posterior = (worked_out[1], worked_out[0], worked_out[2], worked_out[4], log_marginal)
    sides = counts.reshape(len(counts) // 2, 2)
    return found, likely_moves(model, records, latest, luck, sides, clusters, posterior)
