"""Slice sampling of a scalar (Neal 2003)."""

from __future__ import annotations

import math
from collections.abc import Callable

from numpy.random import Generator


def slice_step(
    rng: Generator, x: float, log_density: Callable[[float], float], width: float, low: float, high: float
) -> float:
    """A step that leaves the density on (low, high) invariant. An interval around x grows until both ends are outside
    the slice, and shrinks until a point drawn from it is inside."""
    level = log_density(x) - rng.standard_exponential()
    begin = x - width * rng.random()
    end = begin + width
    while begin > low and log_density(begin) > level:
        begin -= width
    while end < high and log_density(end) > level:
        end += width
    begin, end = max(begin, low), min(end, high)
    while end - begin > 1e-12 * max(1.0, math.fabs(x)):
        y = begin + (end - begin) * rng.random()
        if low < y < high and log_density(y) > level:
            return y
        begin, end = (y, end) if y < x else (begin, y)
    return x
