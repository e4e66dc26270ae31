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
"""Numbers that are looked at, evenly spaced in order: modes that one would see among so many. Of a million, the
smallest unevenness would be significant."""
TOO_FAR = 0.42
"""A dip times the square root of how many numbers there are: one in four samples of a uniform distribution, of all with
a single mode the one with the largest dips, has a larger one."""


def has_two_modes(values: FloatArray, weights: FloatArray | None = None) -> bool:
    """Whether numbers lie in two heaps with a gap between them, rather than in one. O(n log n)."""
    looked_at = evenly_spaced(np.asarray(values, np.float64), weights)
    return len(looked_at) > 1 and dip(looked_at) * math.sqrt(len(looked_at)) > TOO_FAR


def evenly_spaced(values: Float64Array, weights: FloatArray | None) -> Float64Array:
    """In order, every number as often as it counts, or `MOST` that are evenly spaced among them."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(np.ones(len(values)) if weights is None else np.asarray(weights, np.float64)[order])
    total = reached[-1] if len(values) else 0.0
    count = min(MOST, round(total))
    return np.asarray(values[order][np.searchsorted(reached, (np.arange(count) + 0.5) / max(count, 1) * total)])


class Steps(NamedTuple):
    """A distribution function: its places, and its values before and after the step at each of them, in points."""

    places: Float64Array
    before: Float64Array
    after: Float64Array


def dip(values: FloatArray) -> float:
    """The largest difference from the nearest distribution function with one mode; 0 if all numbers are the same.

    The interval in which the mode may lie is narrowed down step by step. Outside of it the function has to be convex
    on the left and concave on the right, which costs what it costs; inside, the largest gap between the convex function
    below and the concave one above says how much it could still cost.
    """
    steps = steps_of(values)
    low, high, found = 0, len(steps.places) - 1, 1.0
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
        # Not at the ends themselves: at the mode the function may jump as the numbers do.
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
    places, counts = np.unique(np.asarray(values, np.float64), return_counts=True)
    after = np.cumsum(counts).astype(np.float64)
    return Steps(np.asarray(places, np.float64), after - counts, after)


def convex(x: Float64Array, y: Float64Array) -> IntArray:
    """The corners of the largest convex function that lies nowhere above the points, whose places grow. O(n)."""
    xs, ys = x.tolist(), y.tolist()
    corners: list[int] = []
    for place in range(len(xs)):
        while len(corners) > 1:
            one, two = corners[-2:]
            if (ys[two] - ys[one]) * (xs[place] - xs[one]) < (ys[place] - ys[one]) * (xs[two] - xs[one]):
                break
            corners.pop()
        corners.append(place)
    return np.array(corners)
