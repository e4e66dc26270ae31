"""Compiled loops that label rows independently of each other.

BLAS may change the order of sums with the number of rows, and then labels would depend on the number of machines.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np

from dpmmwrap.numerics.arrays import Float32Array, Float64Array, IntArray, UInt8Array
from dpmmwrap.numerics.kernel_cache import kept
from dpmmwrap.numerics.special import compiled, new_array
from dpmmwrap.numerics.variates import random_bits


@compiled
def toss(key: Any, rows: Any, first_row: Any) -> Any:
    """0 or 1 for each row, determined by the key and the row number. O(n)."""
    sides = new_array(len(rows), np.uint8)
    for i in range(len(rows)):
        sides[i] = random_bits(key, first_row + rows[i]) & np.uint64(1)
    return sides


@compiled
def project(points: Any, axis: Any) -> Any:
    """The dot product of each row with `axis`. O(n D)."""
    along = new_array(len(points), np.float64)
    for i in range(len(points)):
        total = 0.0
        for j in range(len(axis)):
            total += np.float64(points[i, j]) * axis[j]
        along[i] = total
    return along


@compiled
def nearest_centres(points: Any, centres: Any, half_squares: Any, labels: Any) -> None:
    """The index of the centre nearest to each row; centres are (D, K). O(n K D)."""
    count = len(half_squares)
    scores = new_array(count, np.float32)
    for i in range(len(points)):
        for k in range(count):
            scores[k] = -half_squares[k]
        for j in range(len(centres)):
            value, row = points[i, j], centres[j]
            for k in range(count):
                scores[k] += value * row[k]
        best = 0
        for k in range(1, count):
            if scores[k] > scores[best]:
                best = k
        labels[i] = best


@kept(numba.njit(fastmath=True))
def label_members(
    X: Float32Array,
    rows: IntArray,
    centre: Float64Array,
    constant: float,
    linear: Float64Array,
    quadratic: Float64Array,
) -> UInt8Array:
    """1 where constant + linear . d + d' quadratic d > 0, with d = x - centre. About D^2 / 2 operations per member."""
    dim = len(centre)
    labels = np.empty(len(rows), dtype=np.uint8)
    d = np.empty(dim)
    for i in range(len(rows)):
        for j in range(dim):
            d[j] = X[rows[i], j] - centre[j]
        odds = constant
        for j in range(dim):
            # The matrix is symmetric, so only its lower half is read.
            inner = linear[j] + quadratic[j, j] * d[j]
            for k in range(j):
                inner += 2.0 * quadratic[j, k] * d[k]
            odds += inner * d[j]
        labels[i] = odds > 0
    return labels


@kept(numba.njit(fastmath={"reassoc", "contract", "nsz", "arcp"}))
def label_members_by_feature(
    X: Float32Array,
    rows: IntArray,
    centre: Float64Array,
    constant: float,
    offsets: Float64Array,
    linear: Float64Array,
    quadratic: Float64Array,
) -> UInt8Array:
    """1 where constant + sum of offset + linear d + quadratic d^2 > 0, with d = x - centre, over observed values.

    O(D) per member. The compiler may reorder the sum but must not assume that there are no NaNs.
    """
    dim = len(centre)
    labels = np.empty(len(rows), dtype=np.uint8)
    for i in range(len(rows)):
        odds = constant
        for j in range(dim):
            d = X[rows[i], j] - centre[j]
            term = offsets[j] + d * (linear[j] + d * quadratic[j])
            odds += 0.0 if np.isnan(d) else term
        labels[i] = odds > 0
    return labels
