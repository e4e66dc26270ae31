"""Whether numbers have one mode or two: the dip of Hartigan and Hartigan (1985), "The dip test of unimodality".

The dip is how far the distribution of numbers is from the nearest one with a single mode: the largest difference
between the two distribution functions. One with a single mode is convex up to the mode and concave after it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray

MOST = 2000
"""The number of values that are used, evenly spaced in order: among a million, the smallest irregularity would be
significant."""
TOO_FAR = 0.42
"""The dip times the square root of the sample size. It is larger in one of four samples of the uniform distribution,
which has the largest dips of all unimodal distributions."""


def has_two_modes(values: FloatArray, weights: FloatArray | None = None) -> bool:
    """Whether numbers have two modes rather than one. O(n log n)."""
    used = evenly_spaced(np.asarray(values, np.float64), weights)
    return len(used) > 1 and dip(used) * math.sqrt(len(used)) > TOO_FAR


def evenly_spaced(values: Float64Array, weights: FloatArray | None) -> Float64Array:
    """The sorted numbers, each repeated by its weight, or `MOST` that are evenly spaced among them."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)[order])
    total = reached[-1] if len(values) else 0.0
    count = min(MOST, round(total))
    return np.asarray(values[order][np.searchsorted(reached, (np.arange(count) + 0.5) / max(count, 1) * total)])


class Steps(NamedTuple):
    """A distribution function: where it jumps, and its values before and after each jump, in points."""

    positions: Float64Array
    before: Float64Array
    after: Float64Array


def dip(values: FloatArray) -> float:
    """The largest difference from the nearest distribution function with one mode; 0 if all numbers are the same.

    The interval that contains the mode shrinks step by step. Outside of it the unimodal function must be convex
    on the left and concave on the right, which determines the difference there; inside, the largest gap between the
    greatest convex minorant and the least concave majorant bounds it.
    """
    steps = steps_of(values)
    low, high, found = 0, len(steps.positions) - 1, 1.0
    if high < 1:
        return 0.0
    while True:
        x, before, after = (part[low : high + 1] for part in steps)
        below, above = convex(x, before), convex(x, -after)
        lower, upper = np.interp(x, x[below], before[below]), np.interp(x, x[above], after[above])
        corners = np.union1d(below, above)
        widest = int(corners[(upper - lower)[corners].argmax()])
        if upper[widest] - lower[widest] <= found:
            break
        left, right = int(below[below <= widest].max()), int(above[above >= widest].min())
        # Not at the ends: at the mode the function may jump as the numbers do.
        found = max(
            found,
            float((after - lower)[:left].max(initial=0.0)),
            float((upper - before)[right + 1 :].max(initial=0.0)),
        )
        if left == 0 and right == high - low:
            break
        low, high = low + left, low + right
    return found / (2.0 * len(values))


def steps_of(values: FloatArray) -> Steps:
    positions, counts = np.unique(np.asarray(values, np.float64), return_counts=True)
    after = np.cumsum(counts).astype(np.float64)
    return Steps(np.asarray(positions, np.float64), after - counts, after)


def convex(x: Float64Array, y: Float64Array) -> IntArray:
    """The corners of the greatest convex function below the points, which are sorted by x. O(n)."""
    xs, ys = x.tolist(), y.tolist()
    corners: list[int] = []
    for position in range(len(xs)):
        while len(corners) > 1:
            one, two = corners[-2:]
            if (ys[two] - ys[one]) * (xs[position] - xs[one]) < (ys[position] - ys[one]) * (xs[two] - xs[one]):
                break
            corners.pop()
        corners.append(position)
    return np.array(corners)
