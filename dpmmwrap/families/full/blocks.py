"""Compiled operations on one block of points: layout, log densities, draws and sums.

A block holds LANES points of one cluster relative to the cluster's mean, stored feature by feature with the points
along the vector lanes. Every operation is a loop over the lanes, which the compiler turns into a few vector
instructions. Arrays are passed whole, with an index, because numba counts references to every view, which takes as long
as the lanes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.numerics.labels import CUTOFF
from dpmmwrap.numerics.special import exp_float32, inlined, inner, log_float32
from dpmmwrap.numerics.variates import random_bits, uniform

LANES = 64
BUFFER = 4 * LANES
"""Number of points of a subcluster that are collected before they are added to its sums."""


@inner
def padded(dim: Any) -> Any:
    """Number of rows of a block and of the matrices multiplied by it: the features rounded up to a multiple of four
    with zeros, but only 2 for one or two features."""
    return 2 if dim <= 2 else (dim + 3) // 4 * 4


@inlined
def gather(X: Any, order: Any, first: Any, count: Any, origins: Any, c: Any, rows: Any, block: Any) -> None:
    """Copy `count` rows into a block, feature by feature, relative to origins[c]; repeat the last row to fill it. O(n
    D).

    Row numbers are unsigned so that the compiled code need not check for negative indices.
    """
    for lane in range(LANES):
        rows[lane] = order[first + min(lane, count - 1)]
    for j in range(origins.shape[1]):
        middle = origins[c, j]
        for lane in range(LANES):
            block[j, lane] = X[rows[lane], j] - middle


@inlined
def draw_uniforms(key: Any, rows: Any, shift: Any, uniforms: Any) -> None:
    """A uniform number per lane, from the 24 bits above `shift` of its point's random bits."""
    for lane in range(LANES):
        uniforms[lane] = uniform(random_bits(key, rows[lane]) >> shift)


@inlined
def log_densities(
    factors: Any, k: Any, offsets: Any, m: Any, log_peak: Any, flat: Any, z: Any, out: Any, at: Any
) -> None:
    """Set out[at] = log_peak - |W y - offset|^2 / 2 for every lane, with the lower triangular W = factors[k] and
    offsets[m]. D (D + 1) / 2 multiply-adds per point.

    W is processed in tiles of four rows by four columns, so that eight loads and four stores serve sixteen products.
    The first four rows have no columns before the diagonal tile and take one pass. The features of a block are LANES
    apart in `flat`, from which the compiler can tell that they do not overlap.
    """
    if offsets.shape[1] == 2:
        w00, w10, w11 = factors[k, 0, 0], factors[k, 1, 0], factors[k, 1, 1]
        o0, o1 = offsets[m, 0], offsets[m, 1]
        for b in range(LANES):
            t0 = w00 * flat[b] - o0
            t1 = w10 * flat[b] + w11 * flat[LANES + b] - o1
            out[at, b] = log_peak - np.float32(0.5) * (t0 * t0 + t1 * t1)
    else:
        w00, w10, w11 = factors[k, 0, 0], factors[k, 1, 0], factors[k, 1, 1]
        w20, w21, w22 = factors[k, 2, 0], factors[k, 2, 1], factors[k, 2, 2]
        w30, w31, w32, w33 = factors[k, 3, 0], factors[k, 3, 1], factors[k, 3, 2], factors[k, 3, 3]
        o0, o1, o2, o3 = offsets[m, 0], offsets[m, 1], offsets[m, 2], offsets[m, 3]
        for b in range(LANES):
            y0, y1, y2, y3 = flat[b], flat[LANES + b], flat[2 * LANES + b], flat[3 * LANES + b]
            t0 = w00 * y0 - o0
            t1 = w10 * y0 + w11 * y1 - o1
            t2 = w20 * y0 + w21 * y1 + w22 * y2 - o2
            t3 = w30 * y0 + w31 * y1 + w32 * y2 + w33 * y3 - o3
            out[at, b] = log_peak - np.float32(0.5) * (t0 * t0 + t1 * t1 + t2 * t2 + t3 * t3)
        for i in range(4, offsets.shape[1], 4):
            o0, o1, o2, o3 = offsets[m, i], offsets[m, i + 1], offsets[m, i + 2], offsets[m, i + 3]
            for b in range(LANES):
                z[b], z[LANES + b], z[2 * LANES + b], z[3 * LANES + b] = -o0, -o1, -o2, -o3
            v0, v1, v2, v3 = factors[k, i], factors[k, i + 1], factors[k, i + 2], factors[k, i + 3]
            for j in range(0, i, 4):
                y = flat[j * LANES : (j + 4) * LANES]
                w00, w01, w02, w03 = v0[j], v0[j + 1], v0[j + 2], v0[j + 3]
                w10, w11, w12, w13 = v1[j], v1[j + 1], v1[j + 2], v1[j + 3]
                w20, w21, w22, w23 = v2[j], v2[j + 1], v2[j + 2], v2[j + 3]
                w30, w31, w32, w33 = v3[j], v3[j + 1], v3[j + 2], v3[j + 3]
                for b in range(LANES):
                    y0, y1, y2, y3 = y[b], y[LANES + b], y[2 * LANES + b], y[3 * LANES + b]
                    z[b] += w00 * y0 + w01 * y1 + w02 * y2 + w03 * y3
                    z[LANES + b] += w10 * y0 + w11 * y1 + w12 * y2 + w13 * y3
                    z[2 * LANES + b] += w20 * y0 + w21 * y1 + w22 * y2 + w23 * y3
                    z[3 * LANES + b] += w30 * y0 + w31 * y1 + w32 * y2 + w33 * y3
            y = flat[i * LANES : (i + 4) * LANES]
            w00, w10, w11, w20, w21, w22 = v0[i], v1[i], v1[i + 1], v2[i], v2[i + 1], v2[i + 2]
            w30, w31, w32, w33 = v3[i], v3[i + 1], v3[i + 2], v3[i + 3]
            for b in range(LANES):
                y0, y1, y2, y3 = y[b], y[LANES + b], y[2 * LANES + b], y[3 * LANES + b]
                t0 = z[b] + w00 * y0
                t1 = z[LANES + b] + w10 * y0 + w11 * y1
                t2 = z[2 * LANES + b] + w20 * y0 + w21 * y1 + w22 * y2
                t3 = z[3 * LANES + b] + w30 * y0 + w31 * y1 + w32 * y2 + w33 * y3
                out[at, b] -= np.float32(0.5) * (t0 * t0 + t1 * t1 + t2 * t2 + t3 * t3)


@inlined
def take_weights(weights: Any, rows: Any, own: Any) -> None:
    """Copy the weights of a block's points, if points have weights."""
    if len(weights) > 0:
        for lane in range(LANES):
            own[lane] = weights[rows[lane]]


@inlined
def weigh(logs: Any, at: Any, weights: Any, own: Any) -> None:
    """Multiply a row of log densities by the points' weights, if any: a point of weight w counts as w points."""
    if len(weights) > 0:
        for lane in range(LANES):
            logs[at, lane] *= np.float32(own[lane])


@inlined
def narrow(logs: Any, at: Any, log_peak: Any, own: Any) -> None:
    """Multiply each Gaussian's precision by the point's weight in a row of log densities, up to a term common to all
    clusters."""
    for lane in range(LANES):
        logs[at, lane] = log_peak + np.float32(own[lane]) * (logs[at, lane] - log_peak)


@inlined
def fatten(logs: Any, at: Any, log_peak: Any, heaviness: Any, powers: Any, k: Any) -> None:
    """Convert a row of Gaussian log densities to those of Student's t if cluster k has tails: from log peak - s / 2 to
    log peak - power log(1 + heaviness s)."""
    if len(heaviness) > 0 and heaviness[k] > np.float32(0):
        twice, power = np.float32(2) * heaviness[k], powers[k]
        for lane in range(LANES):
            half = min(max(log_peak - logs[at, lane], np.float32(0)), np.float32(1e30))
            logs[at, lane] = log_peak - power * log_float32(np.float32(1) + twice * half)


@inlined
def draw(log_likelihoods: Any, best: Any, found: Any, uniforms: Any, total: Any, chosen: Any) -> None:
    """Draw one of the first `found` rows for each lane with probability proportional to exp. One exp per point and
    row."""
    for b in range(LANES):
        total[b] = np.float32(0)
    for s in range(found):
        for b in range(LANES):
            gap = log_likelihoods[s, b] - best[b]
            value = exp_float32(gap) if gap > np.float32(-CUTOFF) else np.float32(0)
            log_likelihoods[s, b] = value
            total[b] += value
    for b in range(LANES):
        uniforms[b] *= total[b]
        total[b] = np.float32(0)
        chosen[b] = 0
    for s in range(found - 1):
        for b in range(LANES):
            total[b] += log_likelihoods[s, b]
            chosen[b] += total[b] <= uniforms[b]


@inlined
def proposal_log_prob(drawn: Any, logs: Any, count: Any) -> Any:
    """Log probability of the sides drawn for the first `count` lanes (right where drawn > 0), with the log odds t of
    the right side in logs[0] and total = 1 + e^-|t| in logs[1]. Each term is -log total for the likelier side, and |t|
    less for the other. One log per block."""
    product, against = np.float32(1), np.float32(0)
    for b in range(count):
        t = logs[0, b]
        product *= logs[1, b]
        against += abs(t) if (drawn[b] > np.float32(0)) != (t > np.float32(0)) else np.float32(0)
    return -np.float64(against) - math.log(np.float64(product))


@inner
def set_aside(block: Any, own: Any, lanes: Any, count: Any, points: Any, weights: Any, side: Any, filled: Any) -> None:
    """Append the given lanes of a block to the points of a side, and their weights, if any, to its weights. O(n D)."""
    # Unsigned, because the compiler does not vectorise where an index might be negative.
    start = np.uint64(filled)
    for j in range(points.shape[1]):
        for m in range(count):
            points[side, j, start + np.uint64(m)] = block[j, lanes[side, m]]
    if weights.shape[1] > 0:
        for m in range(count):
            weights[side, start + np.uint64(m)] = own[lanes[side, m]]


@inner
def add_points(points: Any, weights: Any, count: Any, counts: Any, sums: Any, squares: Any, c: Any, side: Any) -> None:
    """Add `count` points of a side, stored feature by feature, to the sums of cluster c in float64: D (D + 1) / 2
    multiply-adds per point. Points are first multiplied by the square roots of their weights, so that their products
    carry the weights.

    Features are processed in tiles of two by two, so that four loads serve four products. The points are padded with
    zeros to a multiple of 32, since the compiler takes four vectors at a time and would treat the rest point by point.
    """
    dim = points.shape[1]
    for i in range(dim):
        for b in range(count, (count + 31) // 32 * 32):
            points[side, i, b] = 0.0
    if weights.shape[1] > 0:
        for b in range(count):
            counts[c, side] += weights[side, b]
        for i in range(dim):
            total = 0.0
            for b in range(count):
                total += weights[side, b] * points[side, i, b]
                points[side, i, b] *= math.sqrt(weights[side, b])
            sums[c, side, i] += total
    else:
        counts[c, side] += count
        for i in range(dim):
            total = 0.0
            for b in range((count + 31) // 32 * 32):
                total += points[side, i, b]
            sums[c, side, i] += total
    count = (count + 31) // 32 * 32
    for i in range(0, dim - 1, 2):
        for j in range(0, i + 1, 2):
            t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
            for b in range(count):
                t0 += points[side, i, b] * points[side, j, b]
                t1 += points[side, i, b] * points[side, j + 1, b]
                t2 += points[side, i + 1, b] * points[side, j, b]
                t3 += points[side, i + 1, b] * points[side, j + 1, b]
            squares[c, side, i, j] += t0
            squares[c, side, i, j + 1] += t1
            squares[c, side, i + 1, j] += t2
            squares[c, side, i + 1, j + 1] += t3
    if dim % 2:
        for j in range(dim):
            t0 = 0.0
            for b in range(count):
                t0 += points[side, dim - 1, b] * points[side, j, b]
            squares[c, side, dim - 1, j] += t0
