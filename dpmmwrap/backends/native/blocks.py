"""One block of points, compiled by numba: laid out, measured, drawn for, summed.

A block has LANES points of one cluster, feature by feature, points along the vector lanes, relative to the cluster's
mean. Whatever is done to it is a loop over the lanes that the compiler turns into a few vector instructions.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from dpmmwrap.variates import OPTIONS, compiled, exp_float32, random_bits, uniform

LANES = 64
BUFFER = 4 * LANES
"""Points of a subcluster that are put together before they are added to its sums."""
CUTOFF = 30.0
"""A cluster whose log probability is by so much below the best one's is left out."""
inlined: Any = njit(**OPTIONS | {"inline": "always"})
"""For what is called for every block: a call, with views of arrays to pass, costs as much as ten points."""


@compiled
def padded(dim: Any) -> Any:
    """Rows of a block, and of what is multiplied with it: whole fours of features, filled up with zeros. But two in the
    plane."""
    return dim if dim == 2 else 4 * ((dim + 3) // 4)


@compiled
def new_block(dim: Any) -> Any:
    """Room for a block (rows, LANES), and the same numbers in one row."""
    flat = np.zeros(padded(dim) * LANES, np.float32)
    return flat.reshape(padded(dim), LANES), flat


@inlined
def gather(X: Any, order: Any, first: Any, count: Any, origin: Any, rows: Any, block: Any) -> None:
    """Lay count rows feature by feature into a block, relative to origin; the last row fills the rest. O(n D).

    Eight rows by name, so that the compiler keeps their places at hand and writes eight numbers at once.
    """
    for lane in range(LANES):
        rows[lane] = order[first + min(lane, count - 1)]
    for lane in range(0, LANES, 8):
        r0, r1, r2, r3 = rows[lane], rows[lane + 1], rows[lane + 2], rows[lane + 3]
        r4, r5, r6, r7 = rows[lane + 4], rows[lane + 5], rows[lane + 6], rows[lane + 7]
        for j in range(len(origin)):
            middle = origin[j]
            block[j, lane] = X[r0, j] - middle
            block[j, lane + 1] = X[r1, j] - middle
            block[j, lane + 2] = X[r2, j] - middle
            block[j, lane + 3] = X[r3, j] - middle
            block[j, lane + 4] = X[r4, j] - middle
            block[j, lane + 5] = X[r5, j] - middle
            block[j, lane + 6] = X[r6, j] - middle
            block[j, lane + 7] = X[r7, j] - middle


@inlined
def draw_uniforms(key: Any, rows: Any, shift: Any, uniforms: Any) -> None:
    """A uniform number for every lane, from the 24 bits above `shift` of its point's random bits."""
    for lane in range(LANES):
        uniforms[lane] = uniform(random_bits(key, rows[lane]) >> shift)


@inlined
def squared_distances(whitening: Any, offset: Any, flat: Any, z: Any, out: Any) -> None:
    """out = |W y - offset|^2 for every lane: D (D + 1) / 2 multiply-adds a point, W lower triangular.

    A block's features are LANES apart in `flat`: the compiler can tell that they do not overlap.
    """
    if len(offset) == 2:
        w00, w10, w11 = whitening[0, 0], whitening[1, 0], whitening[1, 1]
        o0, o1 = offset[0], offset[1]
        for b in range(LANES):
            t0 = w00 * flat[b] - o0
            t1 = w10 * flat[b] + w11 * flat[LANES + b] - o1
            out[b] = t0 * t0 + t1 * t1
    else:
        _tiled_distances(whitening, offset, flat, z, out)


@compiled
def _tiled_distances(whitening: Any, offset: Any, flat: Any, z: Any, out: Any) -> None:
    """`squared_distances` beyond the plane: four rows of W by four columns at a time, so that eight loads and four
    stores serve sixteen products."""
    for i in range(0, len(offset), 4):
        o0, o1, o2, o3 = offset[i], offset[i + 1], offset[i + 2], offset[i + 3]
        for b in range(LANES):
            z[b], z[LANES + b], z[2 * LANES + b], z[3 * LANES + b] = -o0, -o1, -o2, -o3
        for j in range(0, i, 4):
            y = flat[j * LANES : (j + 4) * LANES]
            w00, w01, w02, w03 = whitening[i, j], whitening[i, j + 1], whitening[i, j + 2], whitening[i, j + 3]
            w = whitening[i + 1]
            w10, w11, w12, w13 = w[j], w[j + 1], w[j + 2], w[j + 3]
            w = whitening[i + 2]
            w20, w21, w22, w23 = w[j], w[j + 1], w[j + 2], w[j + 3]
            w = whitening[i + 3]
            w30, w31, w32, w33 = w[j], w[j + 1], w[j + 2], w[j + 3]
            for b in range(LANES):
                y0, y1, y2, y3 = y[b], y[LANES + b], y[2 * LANES + b], y[3 * LANES + b]
                z[b] += w00 * y0 + w01 * y1 + w02 * y2 + w03 * y3
                z[LANES + b] += w10 * y0 + w11 * y1 + w12 * y2 + w13 * y3
                z[2 * LANES + b] += w20 * y0 + w21 * y1 + w22 * y2 + w23 * y3
                z[3 * LANES + b] += w30 * y0 + w31 * y1 + w32 * y2 + w33 * y3
        y = flat[i * LANES : (i + 4) * LANES]
        w00, w10, w11 = whitening[i, i], whitening[i + 1, i], whitening[i + 1, i + 1]
        w20, w21, w22 = whitening[i + 2, i], whitening[i + 2, i + 1], whitening[i + 2, i + 2]
        w = whitening[i + 3]
        w30, w31, w32, w33 = w[i], w[i + 1], w[i + 2], w[i + 3]
        for b in range(LANES):
            y0, y1, y2, y3 = y[b], y[LANES + b], y[2 * LANES + b], y[3 * LANES + b]
            t0 = z[b] + w00 * y0
            t1 = z[LANES + b] + w10 * y0 + w11 * y1
            t2 = z[2 * LANES + b] + w20 * y0 + w21 * y1 + w22 * y2
            t3 = z[3 * LANES + b] + w30 * y0 + w31 * y1 + w32 * y2 + w33 * y3
            before = out[b] if i > 0 else np.float32(0)
            out[b] = before + t0 * t0 + t1 * t1 + t2 * t2 + t3 * t3


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
def log_chance(drawn: Any, t: Any, total: Any, count: Any) -> Any:
    """log probability of the sides drawn for the first lanes (right where drawn > 0), with log odds t of the right
    and total = 1 + e^-|t|: that is -log total for the likelier side, and |t| less for the other. One log a block."""
    product, against = np.float32(1), np.float32(0)
    for b in range(count):
        product *= total[b]
        against += abs(t[b]) if (drawn[b] > np.float32(0)) != (t[b] > np.float32(0)) else np.float32(0)
    return -np.float64(against) - math.log(np.float64(product))


@compiled
def set_aside(block: Any, lanes: Any, count: Any, points: Any, filled: Any) -> None:
    """Append the given lanes of a block to a side's points. O(n D).

    Eight lanes by name, as in `gather`; there has to be room for seven more points.
    """
    for m in range(0, count, 8):
        l0, l1, l2, l3 = lanes[m], lanes[m + 1], lanes[m + 2], lanes[m + 3]
        l4, l5, l6, l7 = lanes[m + 4], lanes[m + 5], lanes[m + 6], lanes[m + 7]
        for j in range(points.shape[0]):
            to, row = points[j, filled + m : filled + m + 8], block[j]
            to[0], to[1], to[2], to[3] = row[l0], row[l1], row[l2], row[l3]
            to[4], to[5], to[6], to[7] = row[l4], row[l5], row[l6], row[l7]


@compiled
def add_points(points: Any, count: Any, counts: Any, sums: Any, squares: Any, side: Any) -> None:
    """Add count points, feature by feature, to a subcluster's sums: D (D + 1) / 2 multiply-adds a point, in float64.

    Two features by two at a time, so that four loads serve four products. The points are filled up with zeros to whole
    vectors, of which the compiler takes four at a time: what is left would go point by point.
    """
    dim = points.shape[0]
    counts[side] += count
    for i in range(dim):
        for b in range(count, (count + 31) // 32 * 32):
            points[i, b] = 0.0
    count = (count + 31) // 32 * 32
    for i in range(dim):
        total = 0.0
        for b in range(count):
            total += points[i, b]
        sums[side, i] += total
    for i in range(0, dim - 1, 2):
        for j in range(0, i + 1, 2):
            t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
            for b in range(count):
                t0 += points[i, b] * points[j, b]
                t1 += points[i, b] * points[j + 1, b]
                t2 += points[i + 1, b] * points[j, b]
                t3 += points[i + 1, b] * points[j + 1, b]
            squares[side, i, j] += t0
            squares[side, i, j + 1] += t1
            squares[side, i + 1, j] += t2
            squares[side, i + 1, j + 1] += t3
    if dim % 2:
        for j in range(dim):
            t0 = 0.0
            for b in range(count):
                t0 += points[dim - 1, b] * points[j, b]
            squares[side, dim - 1, j] += t0
