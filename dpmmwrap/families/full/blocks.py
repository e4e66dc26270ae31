"""One block of points, compiled by numba: laid out, measured, drawn for, summed.

A block has LANES points of one cluster, feature by feature, points along the vector lanes, relative to the cluster's
mean. Whatever is done to it is a loop over the lanes that the compiler turns into a few vector instructions. Arrays
are passed whole, with the place to look at: numba counts references to every view, which takes as long as the lanes.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.numerics.labels import CUTOFF
from dpmmwrap.numerics.special import exp_float32, inlined, inner, log_float32, new_zeros
from dpmmwrap.numerics.variates import random_bits, uniform

LANES = 64
BUFFER = 4 * LANES
"""Points of a subcluster that are put together before they are added to its sums."""


@inner
def padded(dim: Any) -> Any:
    """Rows of a block, and of what is multiplied with it: whole fours of features, if need be with some of zeros; two
    on the line and in the plane."""
    return 2 if dim <= 2 else (dim + 3) // 4 * 4


@inner
def new_block(dim: Any) -> Any:
    """Space for a block (rows, LANES), and the same numbers in one row."""
    flat = new_zeros(padded(dim) * LANES, np.float32)
    return flat.reshape(padded(dim), LANES), flat


@inlined
def gather(X: Any, order: Any, first: Any, count: Any, origins: Any, c: Any, rows: Any, block: Any) -> None:
    """Lay count rows feature by feature into a block, relative to origins[c]; the last row fills the rest. O(n D).

    Row numbers are unsigned: the compiler need not ask whether one is below zero.
    """
    for lane in range(LANES):
        rows[lane] = order[first + min(lane, count - 1)]
    for j in range(origins.shape[1]):
        middle = origins[c, j]
        for lane in range(LANES):
            block[j, lane] = X[rows[lane], j] - middle


@inlined
def draw_uniforms(key: Any, rows: Any, shift: Any, uniforms: Any) -> None:
    """A uniform number for every lane, from the 24 bits above `shift` of its point's random bits."""
    for lane in range(LANES):
        uniforms[lane] = uniform(random_bits(key, rows[lane]) >> shift)


@inlined
def log_densities(
    factors: Any, k: Any, offsets: Any, m: Any, log_peak: Any, flat: Any, z: Any, out: Any, at: Any
) -> None:
    """out[at] = log peak - |W y - offset|^2 / 2 for every lane: D (D + 1) / 2 multiply-adds a point, with the lower
    triangular W = factors[k] and offsets[m].

    Four rows of W by four columns at a time, so that eight loads and four stores serve sixteen products; the first
    rows, before which there is no column, in one pass. A block's features are LANES apart in `flat`: the compiler can
    tell that they do not overlap.
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
    """The weights of a block's points, if points have weights."""
    if len(weights) > 0:
        for lane in range(LANES):
            own[lane] = weights[rows[lane]]


@inlined
def weigh(logs: Any, at: Any, weights: Any, own: Any) -> None:
    """Multiply a row of log densities with the points' weights, if they have any: a point of weight w is w of them."""
    if len(weights) > 0:
        for lane in range(LANES):
            logs[at, lane] *= np.float32(own[lane])


@inlined
def narrow(logs: Any, at: Any, log_peak: Any, own: Any) -> None:
    """Make a row of log densities those of Gaussians whose precision is each point's weight times as large, but for
    what all clusters have in common."""
    for lane in range(LANES):
        logs[at, lane] = log_peak + np.float32(own[lane]) * (logs[at, lane] - log_peak)


@inlined
def fatten(logs: Any, at: Any, log_peak: Any, heaviness: Any, powers: Any, k: Any) -> None:
    """Make a row of log densities of Gaussians those of Student's t, if clusters have tails: from log peak - s / 2 to
    log peak - power log(1 + heaviness s)."""
    if len(heaviness) > 0 and heaviness[k] > np.float32(0):
        twice, power = np.float32(2) * heaviness[k], powers[k]
        for lane in range(LANES):
            half = min(max(log_peak - logs[at, lane], np.float32(0)), np.float32(1e30))
            logs[at, lane] = log_peak - power * log_float32(np.float32(1) + twice * half)


@inlined
def draw(log_likelihoods: Any, best: Any, found: Any, uniforms: Any, total: Any, chosen: Any) -> None:
    """Draw one of the first `found` rows for each lane in proportion to exp of it: one exp per point and row."""
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
    """log probability of the sides drawn for the first lanes (right where drawn > 0), with log odds t of the right
    in logs[0] and total = 1 + e^-|t| in logs[1]: that is -log total for the likelier side, and |t| less for the
    other. One log a block."""
    product, against = np.float32(1), np.float32(0)
    for b in range(count):
        t = logs[0, b]
        product *= logs[1, b]
        against += abs(t) if (drawn[b] > np.float32(0)) != (t > np.float32(0)) else np.float32(0)
    return -np.float64(against) - math.log(np.float64(product))


@inner
def set_aside(block: Any, own: Any, lanes: Any, count: Any, points: Any, weights: Any, side: Any, filled: Any) -> None:
    """Append the given lanes of a block to a side's points, and their own weights to its weights, which are empty where
    points have none. O(n D)."""
    # Unsigned: where an index might be below zero the compiler goes number by number.
    start = np.uint64(filled)
    for j in range(points.shape[1]):
        for m in range(count):
            points[side, j, start + np.uint64(m)] = block[j, lanes[side, m]]
    if weights.shape[1] > 0:
        for m in range(count):
            weights[side, start + np.uint64(m)] = own[lanes[side, m]]


@inner
def add_points(points: Any, weights: Any, count: Any, counts: Any, sums: Any, squares: Any, c: Any, side: Any) -> None:
    """Add a side's count points, feature by feature, to the sums of cluster c: D (D + 1) / 2 multiply-adds a point, in
    float64. Points with weights are multiplied with the roots of these, so that their products have the weights.

    Two features by two at a time, so that four loads serve four products. The points are filled up with zeros to whole
    vectors, of which the compiler takes four at a time: what is left would go point by point.
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
