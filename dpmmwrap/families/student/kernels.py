"""Compiled loops over points with scales: those of full covariances, and what tails add to them.

Given parameters and degrees of freedom, labels are drawn from Student's t with the scales integrated out, then scales
given the labels. Given the scales the clusters are Gaussian, with points weighted by their scales.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.full.blocks import LANES, draw_uniforms, gather, log_densities
from dpmmwrap.families.full.pairs import LEVELS
from dpmmwrap.families.full.wishart import log_normaliser
from dpmmwrap.families.student.tails import log_evidence
from dpmmwrap.numerics.labels import sort_by_label
from dpmmwrap.numerics.special import compiled, inner, log_float32
from dpmmwrap.numerics.special import compiled_float64 as compiled_in_double
from dpmmwrap.numerics.variates import random_bits, standard_gammas
from dpmmwrap.partitions.hastings import log_merge_ratio_by

SCALES_KEY = 1 << 44
"""Offset of the keys for scales, beyond the row numbers."""
FARTHEST = 1e30
"""A squared distance that is treated as infinite."""


class Sums(NamedTuple):
    """Sums of a sweep for each group of chunks, cluster and side, relative to the clusters' origins."""

    counts: Any
    masses: Any
    sums: Any
    squares: Any
    logs: Any
    """Sums of log scales."""
    proposal_log_probs: Any


@compiled
def tail_falls(
    X: Any, bounds: Any, groups: Any, by_label: Any, clusters: Any, origins: Any, tails: Any, falls: Any, work: Any
) -> None:
    """For each group of chunks, cluster, and degrees of freedom on the grid, sum how far the log densities of the
    points are below that at the mean: falls (groups, K, G). O(D^2 + G) per point."""
    count, dim = origins.shape
    rows, block, flat, z, halves = work.rows, work.block, work.flat, work.z, work.logs
    none = np.zeros((1, clusters.factors.shape[1]), np.float32)
    for group in range(len(groups) - 1):
        for chunk in range(groups[group], groups[group + 1]):
            part = X[bounds[chunk] : bounds[chunk + 1]]
            its_rows = by_label.rows[bounds[chunk] : bounds[chunk + 1]]
            for c in range(count):
                for first in range(by_label.starts[chunk, c], by_label.starts[chunk, c + 1], LANES):
                    n = min(LANES, by_label.starts[chunk, c + 1] - first)
                    gather(part, its_rows, first, n, origins, c, rows, block)
                    log_densities(clusters.factors, c, none, np.int64(0), np.float32(0), flat, z, halves, np.int64(0))
                    _add_falls(halves, n, dim, tails, falls, group, c)


@inner
def _add_falls(halves: Any, n: Any, dim: Any, tails: Any, falls: Any, group: Any, c: Any) -> None:
    """Add the falls of the first n lanes of a block; `halves` has minus half the squared distances."""
    for b in range(LANES):
        halves[0, b] = max(halves[0, b], np.float32(-FARTHEST)) if b < n else np.float32(0)
    for g in range(len(tails.heaviness)):
        total = np.float32(0)
        if tails.heaviness[g] == 0.0:
            for b in range(LANES):
                total -= halves[0, b]
            falls[group, c, g] += total
        else:
            twice = np.float32(-2.0 * tails.heaviness[g])
            for b in range(LANES):
                total += log_float32(np.float32(1) + twice * halves[0, b])
            falls[group, c, g] += total * (0.5 / tails.heaviness[g] + 0.5 * dim)


@compiled
def find_doubtful(
    X: Any, starts: Any, sorted_rows: Any, clusters: Any, neighbours: Any, key: Any, greedy: Any, work: Any,
    doubtful_starts: Any, doubtful: Any,
) -> None:  # fmt: skip
    """Find the rows of a chunk, ordered by their old labels, whose labels may change.

    A uniform number below the lower bound on the probability of a point's old cluster (`pairs`) selects this cluster,
    whatever the densities of the others. Without this test tails reach so far that nearly all clusters matter to nearly
    all points.
    """
    rows, block, flat, z, logs, uniforms = work.rows, work.block, work.flat, work.z, work.logs, work.uniforms
    shares, count = clusters.least_shares, len(starts) - 1
    found: Any = 0
    for c in range(count):
        doubtful_starts[c] = found
        for first in range(starts[c], starts[c + 1], LANES):
            n = min(LANES, starts[c + 1] - first)
            gather(X, sorted_rows, first, n, neighbours.origins, c, rows, block)
            log_densities(clusters.factors, c, neighbours.offsets, c * count + c, np.float32(0), flat, z, logs, 0)
            if greedy:
                for b in range(LANES):
                    uniforms[b] = np.float32(0.5)
            else:
                draw_uniforms(key, rows, np.uint64(40), uniforms)
            for b in range(LANES):
                square = min(np.float32(-2) * logs[0, b], np.float32(FARTHEST))
                # The level, in half octaves, rounded up.
                logs[1, b] = np.float32(2 / math.log(2)) * log_float32(max(square, np.float32(1))) + np.float32(1)
            for b in range(n):
                level = np.int64(logs[1, b])
                doubtful[found] = rows[b]
                found += level >= LEVELS or uniforms[b] >= shares[c, min(level, LEVELS - 1)]
    doubtful_starts[count] = found


@compiled
def draw_scales(
    X: Any, scales: Any, starts: Any, sorted_rows: Any, clusters: Any, origins: Any, key: Any, work: Any
) -> None:
    """Draw scales given the labels, for the rows of a chunk ordered by label."""
    rows, block, flat, z, logs = work.rows, work.block, work.flat, work.z, work.logs
    none, shapes = np.zeros((1, clusters.factors.shape[1]), np.float32), np.empty(LANES)
    for c in range(len(origins)):
        if clusters.heaviness[c] == 0.0:
            for at in range(starts[c], starts[c + 1]):
                scales[sorted_rows[at]] = 1.0
            continue
        half = 0.5 / np.float64(clusters.heaviness[c])
        for lane in range(LANES):
            shapes[lane] = np.float64(clusters.powers[c])
        for first in range(starts[c], starts[c + 1], LANES):
            n = min(LANES, starts[c + 1] - first)
            gather(X, sorted_rows, first, n, origins, c, rows, block)
            log_densities(clusters.factors, c, none, np.int64(0), np.float32(0), flat, z, logs, np.int64(0))
            drawn = standard_gammas(random_bits(key, SCALES_KEY + first), shapes)
            for b in range(n):
                scale = drawn[b] / (half - max(np.float64(logs[0, b]), -FARTHEST))
                # Exactly 1 is reserved for Gaussian clusters.
                scales[rows[b]] = max(scale, 1e-30) if scale != 1.0 else 1.0 + 1e-15


@compiled_in_double
def count_scales(labels: Any, sublabels: Any, scales: Any, heaviness: Any, counts: Any, logs: Any) -> None:
    """Count the rows of each cluster and side (K, 2), and sum the log scales of those with tails."""
    for row in range(len(labels)):
        c, side = labels[row], sublabels[row]
        counts[c, side] += 1.0
        if heaviness[c] > 0.0:
            logs[c, side] += math.log(scales[row])


@compiled_in_double
def sum_scales(scales: Any, rows: Any, sides: Any, bounds: Any, counts: Any, logs: Any, ones: Any) -> None:
    """For the rows and sides bounds[g] to bounds[g + 1], count the rows of each side, sum their log scales, and count
    the scales that equal 1."""
    for group in range(len(bounds) - 1):
        for place in range(bounds[group], bounds[group + 1]):
            scale, side = scales[rows[place]], sides[place]
            counts[group, side] += 1.0
            logs[group, side] += math.log(scale)
            ones[group, side] += scale == 1.0


@compiled
def log_density_of_scales(
    X: Any, scales: Any, labels: Any, bounds: Any, means: Any, factors: Any, heaviness: Any, constants: Any, found: Any,
    work: Any,
) -> None:  # fmt: skip
    """For each chunk, sum the log densities of its scales given the points and their clusters: means, precision factors
    W, and constants for the degrees of freedom. O(D^2) per point of a cluster with tails."""
    count, dim = means.shape
    rows, block, flat, z, halves, own = work.rows, work.block, work.flat, work.z, work.logs, work.lane_weights
    none, starts = np.zeros((1, factors.shape[1]), np.float32), np.empty(count + 1, np.int64)
    for chunk in range(len(bounds) - 1):
        begin, end = bounds[chunk], bounds[chunk + 1]
        order, part = np.empty(end - begin, np.int64), X[begin:end]
        sort_by_label(labels[begin:end], starts, order)
        for c in range(count):
            if heaviness[c] == 0.0:
                continue
            half = 0.5 / heaviness[c]
            shape = half + 0.5 * dim
            for first in range(starts[c], starts[c + 1], LANES):
                n = min(LANES, starts[c + 1] - first)
                gather(part, order, first, n, means, c, rows, block)
                log_densities(factors, c, none, np.int64(0), np.float32(0), flat, z, halves, np.int64(0))
                for b in range(LANES):
                    own[b] = scales[begin + rows[b]] if b < n else 0.0
                total, log_scales, squares = 0.0, 0.0, 0.0
                for b in range(LANES):
                    product = own[b] * (half - max(np.float64(halves[0, b]), -FARTHEST))
                    squares += product
                    halves[0, b] = product
                for b in range(n):
                    total += log_float32(halves[0, b])
                    log_scales += log_float32(np.float32(own[b]))
                found[chunk] -= squares + log_scales
                found[chunk] += n * constants[c] + shape * total


@compiled_in_double
def merge_ratios(
    candidates: Any, rule: Any, neg_log_uniform: Any, prior: Any, tails: Any, clusters: Any, posterior: Any,
    log_marginal: Any,
) -> Any:  # fmt: skip
    """Find the pairs of candidates whose log H + neg_log_uniform is positive, and return them with that sum, like
    `full.pairs.merge_ratios` for points with fixed scales."""
    counts, masses, means, scatters = clusters.counts, clusters.masses, clusters.means, clusters.scatters
    scales, factors, centres, strengths = posterior.scales, posterior.factors, posterior.means, posterior.strengths
    dim = means.shape[1]
    factor, gap, rest = np.empty((dim, dim)), np.empty(dim), np.zeros((len(counts), dim + 1))
    for k in candidates:
        for r in range(dim - 1, -1, -1):
            rest[k, r] = rest[k, r + 1] + math.log(factors[r, r, k])
    most_pairs = len(candidates) * (len(candidates) - 1) // 2
    first, second, margins = np.empty(most_pairs, np.int64), np.empty(most_pairs, np.int64), np.empty(most_pairs)
    found, pair = 0, -1
    for a in range(len(candidates)):
        for b in range(a + 1, len(candidates)):
            pair += 1
            i, j = candidates[a], candidates[b]
            n, mass, logs = counts[i] + counts[j], masses[i] + masses[j], clusters.logs[i] + clusters.logs[j]
            of_scales = log_evidence(tails, n, mass, logs, clusters.ones[i] + clusters.ones[j])
            if of_scales == -np.inf:
                continue
            strength, freedom = prior.strength + mass, prior.freedom + n
            gain = of_scales + 0.5 * dim * (logs - n * math.log(math.pi)) - prior.log_normaliser
            gain += log_normaliser(freedom, strength, 0.0, dim) - log_marginal[i] - log_marginal[j]
            above = log_merge_ratio_by(rule, counts[i], counts[j], gain) + neg_log_uniform[pair]
            weight = strengths[i] * masses[j] / (strengths[i] + masses[j])
            half = 0.0
            for r in range(dim):
                gap[r] = means[j, r] - centres[i, r]
                for c in range(r + 1):
                    value = scales[i, r, c] + scatters[j, r, c] + weight * gap[r] * gap[c]
                    for m in range(c):
                        value -= factor[r, m] * factor[c, m]
                    factor[r, c] = value / factor[c, c] if c < r else math.sqrt(max(value, 1e-300))
                half += math.log(factor[r, r])
                # The union's scale exceeds the scale of either cluster.
                if freedom * (half + max(rest[i, r + 1], rest[j, r + 1])) > above:
                    break
            else:
                first[found], second[found], margins[found] = i, j, above - freedom * half
                found += 1
    return first[:found], second[:found], margins[:found]
