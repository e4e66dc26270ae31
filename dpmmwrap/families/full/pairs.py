"""Compiled loops over pairs of clusters: which ones overlap, and which ones might merge."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.families.full.blocks import (
    LANES,
    gather,
    log_densities,
    narrow,
    padded,
    proposal_log_prob,
    take_weights,
    weigh,
)
from dpmmwrap.families.full.kernels import ClusterTables, Neighbours, SubclusterTables, Tables
from dpmmwrap.families.full.wishart import log_normaliser
from dpmmwrap.numerics.labels import CUTOFF
from dpmmwrap.numerics.special import compiled, exp_float32, inner, log_float32, log_gamma, new_array, new_zeros
from dpmmwrap.partitions.hastings import log_merge_ratio_by

HALVINGS = 8
"""Bisection steps in the search for the radius within which a neighbour cannot matter, if there are tails."""
NO_TAILS = np.empty(0, np.float32)
NO_SHARES = np.empty((0, 0), np.float32)
LEVELS = 20
"""Number of squared radii 1, sqrt 2, 2, ... at which the probability of a cluster with tails is bounded from below."""


def neighbour_tables(
    log_weights: Any, drawn: Any, cutoff: float, tails: Any = (NO_TAILS, NO_TAILS)
) -> tuple[ClusterTables, Neighbours]:
    """The tables of the clusters and of their neighbours from drawn parameters (`wishart.Gaussians`); `tails` are
    heaviness and powers."""
    own, log_peaks, origins, offsets, radii, *distances = neighbour_radii(
        log_weights, drawn.means, drawn.precision_factors, drawn.log_peak_densities, cutoff
    )
    heaviness, powers = tails
    shares = tail_shares(*distances, log_peaks, cutoff, *tails, radii) if len(heaviness) else NO_SHARES
    neighbours = Neighbours(origins, offsets, np.argsort(radii, axis=1), radii)
    return ClusterTables(own, log_peaks, heaviness, powers, shares), neighbours


@compiled
def neighbour_radii(log_weights: Any, means: Any, precision_factors: Any, log_peak_densities: Any, cutoff: Any) -> Any:
    """Tables of the clusters and, for each one, what its points need to know about the others: origins (float32 means),
    offsets W_k (m_k - origin_c), and the squared radius about c within which k cannot matter; also the delta^2 and
    sigma^2 below (K, K), the latter not yet divided by the former. O(K^2 D^2).

    Factors and offsets are padded with zeros to the rows of a block.

    A point at distance r from c (in c's metric) is at least delta - sigma r from k, where delta is m_c's distance from
    k and sigma the standard deviation of c along the direction from m_c to m_k, both in k's metric. So k is below
    e^-cutoff of c while (delta - sigma r)^2 / 2 - r^2 / 2 > cutoff + log_peak_k - log_peak_c, that is, for r up to the
    smaller root. With Student's t the root is found by bisection.
    """
    count, dim = len(log_weights), means.shape[1]
    own, log_peaks = new_zeros((count, padded(dim), padded(dim)), np.float32), new_array(count, np.float32)
    origins = new_array((count, dim), np.float32)
    # Clusters along the last axis, as in `wishart`, so that the arithmetic is vectorised over all neighbours.
    centres, factors = new_array((dim, count), np.float64), new_array((dim, dim, count), np.float64)
    for k in range(count):
        log_peaks[k] = log_weights[k] + log_peak_densities[k]
        for i in range(dim):
            origins[k, i] = means[k, i]
            centres[i, k] = means[k, i]
            for j in range(i + 1):
                own[k, i, j] = factors[i, j, k] = precision_factors[k, i, j]
    offsets = new_zeros((count * count, padded(dim)), np.float32)
    radii = new_array((count, count), np.float32)
    deltas, sigmas = new_array((count, count), np.float64), new_array((count, count), np.float64)
    gap, pull = new_array((dim, count), np.float64), new_array((dim, count), np.float64)
    total = new_array(count, np.float64)
    for c in range(count):
        delta2, sigma2 = deltas[c], sigmas[c]
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
                offsets[c * count + k, i] = total[k]
                delta2[k] += total[k] * total[k]
            for j in range(i + 1):
                for k in range(count):
                    pull[j, k] += factors[i, j, k] * total[k]
        # Solve W_c' x = pull by back substitution, in place.
        for i in range(dim - 1, -1, -1):
            for j in range(i + 1, dim):
                for k in range(count):
                    pull[i, k] -= precision_factors[c, j, i] * pull[j, k]
            for k in range(count):
                pull[i, k] /= precision_factors[c, i, i]
                sigma2[k] += pull[i, k] * pull[i, k]
        for k in range(count):
            needed, ratio = cutoff + log_peaks[k] - log_peaks[c], sigma2[k] / max(delta2[k], 1e-300)
            radii[c, k] = _safe_radius2(delta2[k], ratio, 2.0 * needed)
        radii[c, c] = -1.0
    return own, log_peaks, origins, offsets, radii, deltas, sigmas


@compiled
def tail_shares(deltas: Any, sigmas: Any, log_peaks: Any, cutoff: Any, heaviness: Any, powers: Any, radii: Any) -> Any:
    """Change the radii of pairs with tails; return lower bounds on the clusters' posterior probabilities."""
    count = len(log_peaks)
    shares = new_array((count, LEVELS), np.float32)
    for c in range(count):
        delta2, sigma2 = deltas[c], sigmas[c]
        for k in range(count):
            if c != k and max(heaviness[c], heaviness[k]) > 0.0:
                needed, ratio = cutoff + log_peaks[k] - log_peaks[c], sigma2[k] / max(delta2[k], 1e-300)
                radii[c, k] = _safe_radius2_with_tails(delta2[k], ratio, needed, heaviness, powers, c, k)
        _least_shares(delta2, sigma2, log_peaks, heaviness, powers, c, shares)
    return shares


@inner
def _least_shares(delta2: Any, sigma2: Any, log_peaks: Any, heaviness: Any, powers: Any, c: Any, shares: Any) -> None:
    """Write lower bounds on the posterior probability of c up to each of some squared radii, from the bound of
    `neighbour_tables` for every k, which rises with the radius. O(K) per radius."""
    count, one, half = len(delta2), np.float32(1), np.float32(0.5)
    deltas, sigmas = new_array(count, np.float32), new_array(count, np.float32)
    for k in range(count):
        # sigma2 has not yet been divided by delta2.
        deltas[k] = 0.999 * np.sqrt(delta2[k])
        sigmas[k] = np.sqrt(sigma2[k] / max(delta2[k], 1e-300))
    square = 1.0
    for level in range(LEVELS):
        radius, base = np.float32(np.sqrt(square)), log_peaks[c] - np.float32(fall(square, heaviness[c], powers[c]))
        total = np.float32(0)
        for k in range(count):
            gap = max(deltas[k] - sigmas[k] * radius, np.float32(0))
            far = min(gap * gap, np.float32(1e30))
            below = half * far if heaviness[k] == np.float32(0) else powers[k] * log_float32(one + heaviness[k] * far)
            log_ratio = log_peaks[k] - below - base
            # Where another cluster may be the more probable one, there is no bound.
            ratio = exp_float32(log_ratio) if log_ratio < np.float32(0) else np.float32(1e30)
            total += ratio if k != c else one
        shares[c, level] = np.float32(0.9999) / total
        square *= math.sqrt(2.0)


@inner
def fall(square: Any, heaviness: Any, power: Any) -> Any:
    """How far the log density at a squared distance is below that at the mean."""
    return 0.5 * square if heaviness == 0.0 else power * math.log1p(heaviness * square)


@inner
def _safe_radius2_with_tails(delta2: Any, sigma2: Any, needed: Any, heaviness: Any, powers: Any, c: Any, k: Any) -> Any:
    """`_safe_radius2` if one of the two clusters has tails, by bisection: the further out, the less k is below c."""
    if fall(delta2, heaviness[k], powers[k]) <= needed:
        return 0.0
    delta, sigma = np.sqrt(delta2), np.sqrt(sigma2)
    low, high = 0.0, delta / max(sigma, 1e-30)
    for _ in range(HALVINGS):
        middle = 0.5 * (low + high)
        gap = delta - sigma * middle
        if fall(gap * gap, heaviness[k], powers[k]) - fall(middle * middle, heaviness[c], powers[c]) > needed:
            low = middle
        else:
            high = middle
    return 0.998 * low * low


@inner
def _safe_radius2(delta2: Any, sigma2: Any, needed: Any) -> Any:
    """The squared radius within which a neighbour is below the cutoff; see `neighbour_tables`."""
    if delta2 <= needed:
        return 0.0
    delta, sigma = np.sqrt(delta2), np.sqrt(sigma2)
    radius = delta / max(sigma, 1e-30)
    discriminant = delta2 + needed * (sigma2 - 1.0)
    if discriminant >= 0.0:
        radius = min(radius, (delta2 - needed) / (delta * sigma + np.sqrt(discriminant)))
    # The margin is for the distances compared with this radius, which are float32.
    return 0.998 * radius * radius


@compiled
def subcluster_tables(
    log_subweights: Any, means: Any, precision_factors: Any, log_peak_densities: Any, origins: Any
) -> Any:
    """Precision factors, offsets W (m - origin) and log peaks of each cluster's two subclusters, padded with zeros like
    those of clusters. O(K D^2)."""
    count, dim = origins.shape
    factors = new_zeros((2 * count, padded(dim), padded(dim)), np.float32)
    offsets = new_zeros((2 * count, padded(dim)), np.float32)
    log_peaks = new_array(2 * count, np.float32)
    for s in range(2 * count):
        k, c = count + s, s // 2
        log_peaks[s] = log_subweights[c, s % 2] + log_peak_densities[k]
        for i in range(dim):
            total = 0.0
            for j in range(dim):
                factors[s, i, j] = precision_factors[k, i, j]
                total += precision_factors[k, i, j] * (means[k, j] - np.float64(origins[c, j]))
            offsets[s, i] = total
    return SubclusterTables(factors, offsets, log_peaks)


def kernel_tables(
    log_weights: Any, log_subweights: Any, drawn: Any, cutoff: float = CUTOFF, tails: Any = (NO_TAILS, NO_TAILS)
) -> Tables:
    """Convert drawn parameters (`wishart.Gaussians`) to the kernels' tables; `tails` are heaviness and powers."""
    clusters, neighbours = neighbour_tables(log_weights, drawn, cutoff, tails)
    subclusters = subcluster_tables(
        log_subweights, drawn.means, drawn.precision_factors, drawn.log_peak_densities, neighbours.origins
    )
    return Tables(clusters, neighbours, subclusters)


@compiled
def reverse_proposal_log_prob(
    X: Any, weights: Any, bounds: Any, groups: Any, by_label: Any, tables: Any, one: Any, other: Any, margin: Any,
    found: Any, scaled: Any, work: Any,
) -> None:  # fmt: skip
    """For each pair of clusters and each group of chunks, the log probability that their points draw the labels they
    have when only these two labels are available.

    This uses the parameters and order of the sweep. A sum that is certain to end below -margin, whatever rounding and
    the other groups contribute, is cut short and set to minus infinity. O(n D^2) per pair.
    """
    factors, log_peaks = tables.clusters.factors, tables.clusters.log_peaks
    origins, offsets = tables.neighbours.origins, tables.neighbours.offsets
    rows_in_order, starts = by_label.rows, by_label.starts
    rows, block, flat, z, logs, lane_weights = work.rows, work.block, work.flat, work.z, work.logs, work.lane_weights
    # `proposal_log_prob` takes log odds of two sides: here side 0 is the point's own cluster, which every point has
    # drawn.
    shown = work.uniforms
    for b in range(LANES):
        shown[b] = np.float32(0)
    for pair in range(len(one)):
        least = -margin[pair] - 1e-6 * (1.0 + abs(margin[pair]))
        before = 0.0
        for group in range(len(groups) - 1):
            total = 0.0
            for step in range(2 * groups[group], 2 * groups[group + 1]):
                chunk = step // 2
                c = one[pair] if step % 2 == 0 else other[pair]
                rival = one[pair] + other[pair] - c
                part = X[bounds[chunk] : bounds[chunk + 1]]
                its_rows = rows_in_order[bounds[chunk] : bounds[chunk + 1]]
                its_weights = weights[bounds[chunk] : bounds[chunk + 1]]
                for first in range(starts[chunk, c], starts[chunk, c + 1], LANES):
                    if before + total < least:
                        break
                    n = min(LANES, starts[chunk, c + 1] - first)
                    gather(part, its_rows, first, n, origins, c, rows, block)
                    take_weights(its_weights, rows, lane_weights)
                    for side in range(2):
                        k = rival if side else c
                        log_densities(factors, k, offsets, c * len(origins) + k, log_peaks[k], flat, z, logs, side)
                        if scaled:
                            narrow(logs, side, log_peaks[k], lane_weights)
                        else:
                            weigh(logs, side, its_weights, lane_weights)
                    for b in range(LANES):
                        t = logs[1, b] - logs[0, b]
                        logs[0, b] = t
                        logs[1, b] = np.float32(1) + exp_float32(-abs(t))
                    total += proposal_log_prob(shown, logs, n)
            before += total
            found[pair, group] = total
            if before < least:
                found[pair, group] = -np.inf
                break


@inner
def log_gammas(freedom: Any, strength: Any, dim: Any) -> Any:
    """An upper bound on the terms of `log_normaliser` other than the determinant. The log gamma function is convex, so
    the outer two of its D values bound the rest."""
    outer = log_gamma(0.5 * freedom) + log_gamma(0.5 * (freedom - dim + 1))
    return 0.5 * dim * (outer - math.log(strength))


@compiled
def merge_ratios(
    candidates: Any, rule: Any, neg_log_uniform: Any, prior: Any, clusters: Any, posterior: Any, log_marginal: Any,
) -> Any:  # fmt: skip
    """Find the pairs of candidates whose log H + neg_log_uniform is positive; return them with that sum.

    Pairs are numbered row by row: candidates 0 and 1, 0 and 2, ..., 1 and 2, ...

    The merged scale is scale_1 + scatter_2 + w d d', where d is the second mean minus the first's posterior mean. Its
    Cholesky factor is computed row by row. The merged scale exceeds the scale of either cluster, and so does each of
    its pivots. Hence the pivots computed so far and the remaining pivots of either cluster give a lower bound on the
    determinant, and a pair is dropped as soon as this bound is too large. Distant pairs cost one or two rows, others
    O(D^3).

    Apart from the determinant, log H is a sum of terms of each cluster and of a convex function of the number of
    points. It is therefore at most the mean of the values for each cluster merged with its own double (`doubles`), so
    that pairs which two rows can reject need no gamma function.
    """
    counts, means, scatters = clusters.counts, clusters.means, clusters.scatters
    strengths, centres = posterior.strengths, posterior.means
    scales, factors = posterior.scales, posterior.factors
    count, dim = means.shape
    rest, doubles = new_zeros((count, dim + 1), np.float64), new_array(count, np.float64)
    constant = 0.5 * dim * math.log(math.pi)
    for k in candidates:
        for r in range(dim - 1, -1, -1):
            rest[k, r] = rest[k, r + 1] + math.log(factors[r, r, k])
        gain = log_gammas(prior.freedom + 2 * counts[k], prior.strength + 2 * counts[k], dim)
        gain -= prior.log_normaliser + 2 * (constant * counts[k] + log_marginal[k])
        doubles[k] = log_merge_ratio_by(rule, counts[k], counts[k], gain)
    factor, gap = new_array((dim, dim), np.float64), new_array(dim, np.float64)
    most_pairs = len(candidates) * (len(candidates) - 1) // 2
    first, second, margins = (
        new_array(most_pairs, np.int64),
        new_array(most_pairs, np.int64),
        new_array(most_pairs, np.float64),
    )
    found, pair = 0, -1
    for a in range(len(candidates)):
        for b in range(a + 1, len(candidates)):
            pair += 1
            i, j = candidates[a], candidates[b]
            n = counts[i] + counts[j]
            strength, freedom = prior.strength + n, prior.freedom + n
            most = (0.5 * (doubles[i] + doubles[j]) + neg_log_uniform[pair]) / freedom
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
                    gain = -prior.log_normaliser - constant * n - log_marginal[i] - log_marginal[j]
                    base = log_merge_ratio_by(rule, counts[i], counts[j], gain)
                    most = (base + log_gammas(freedom, strength, dim) + neg_log_uniform[pair]) / freedom
                    if half + remaining > most:
                        break
            else:
                above = base + log_normaliser(freedom, strength, half, dim) + neg_log_uniform[pair]
                if above > 0.0:
                    first[found], second[found], margins[found] = i, j, above
                    found += 1
    return first[:found], second[:found], margins[:found]
