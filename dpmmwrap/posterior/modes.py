"""Whether numbers have one mode or two: the dip of Hartigan and Hartigan (1985), "The dip test of unimodality".

The dip is the largest difference between the distribution function of numbers and the nearest one with a single mode,
which is convex up to the mode and concave after it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, FloatArray
from dpmmwrap.numerics.special import compiled_float64, inner_float64

MOST = 2000
"""Values to use, evenly spaced in order: among a million, the smallest irregularity would be significant."""


def quantiles_of(values: Float64Array, weights: FloatArray | None) -> Float64Array:
    """The sorted numbers, each repeated by its weight, or `MOST` evenly spaced ones among them."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)[order])
    total = reached[-1] if len(values) else 0.0
    count = min(MOST, round(total))
    return np.asarray(values[order][np.searchsorted(reached, (np.arange(count) + 0.5) / max(count, 1) * total)])


def dip(values: FloatArray) -> float:
    """The largest difference from the nearest distribution function with one mode; 0 if all numbers are the same.

    The interval that contains the mode shrinks step by step. Outside of it the unimodal function must be convex
    on the left and concave on the right, which determines the difference there; inside, the largest gap between the
    greatest convex minorant and the least concave majorant bounds it.
    """
    positions, counts = np.unique(np.asarray(values, np.float64), return_counts=True)
    if len(positions) < 2:
        return 0.0
    after = np.cumsum(counts).astype(np.float64)
    return float(largest_difference(positions, after - counts, after)) / (2.0 * len(values))


@compiled_float64
def largest_difference(x: Any, before: Any, after: Any) -> Any:
    """Twice the dip, in points, of a distribution function by its values before and after each jump."""
    low, high, found = 0, len(x) - 1, 1.0
    below, above = np.empty(len(x), np.int64), np.empty(len(x), np.int64)
    lower, upper = np.empty(len(x)), np.empty(len(x))
    while True:
        n_below, n_above = corners(x, before, 1.0, low, high, below), corners(x, after, -1.0, low, high, above)
        along(x, before, below[:n_below], lower)
        along(x, after, above[:n_above], upper)
        widest, gap = low, -1.0
        for i in range(n_below):
            if upper[below[i]] - lower[below[i]] > gap:
                widest, gap = below[i], upper[below[i]] - lower[below[i]]
        for i in range(n_above):
            if upper[above[i]] - lower[above[i]] > gap:
                widest, gap = above[i], upper[above[i]] - lower[above[i]]
        if gap <= found:
            return found
        left, right = low, high
        for i in range(n_below):
            if below[i] <= widest:
                left = below[i]
        for i in range(n_above - 1, -1, -1):
            if above[i] >= widest:
                right = above[i]
        # Not at the ends: at the mode the function may jump as the numbers do.
        for i in range(low, left):
            found = max(found, after[i] - lower[i])
        for i in range(right + 1, high + 1):
            found = max(found, upper[i] - before[i])
        if left == low and right == high:
            return found
        low, high = left, right


@inner_float64
def corners(x: Any, y: Any, sign: Any, low: Any, high: Any, found: Any) -> Any:
    """The corners from `low` to `high` of the greatest convex function below the points, which are sorted by x, or of
    the least concave one above (sign -1); how many. O(n)."""
    count = 0
    for i in range(low, high + 1):
        while count > 1:
            one, two = found[count - 2], found[count - 1]
            if sign * (y[two] - y[one]) * (x[i] - x[one]) < sign * (y[i] - y[one]) * (x[two] - x[one]):
                break
            count -= 1
        found[count] = i
        count += 1
    return count


@inner_float64
def along(x: Any, y: Any, points: Any, found: Any) -> None:
    """The values at all x of the lines between some points."""
    for piece in range(len(points) - 1):
        one, two = points[piece], points[piece + 1]
        slope = (y[two] - y[one]) / (x[two] - x[one])
        for i in range(one, two):
            found[i] = y[one] + slope * (x[i] - x[one])
    found[points[-1]] = y[points[-1]]
