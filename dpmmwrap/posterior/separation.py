"""Whether two components are two clusters, by more than each row's probabilities of components.

Components that overlap may be pieces of one cluster that is not Gaussian, or two clusters. There are two signs of two
clusters:

- A gap separates their rows: these have two modes by the dip test, both along the log ratio of their
  densities and along the line between them. (The pieces of a curved cluster can have two modes along one of these.)
  Each of the K - 1 steps from K components to one is a test, so a clear gap is one at the level of 5% / (K - 1): then
  at most one in twenty mixtures without gaps shows one.
- Fits to half of the rows reproduce their boundary. They do so for two clusters, even if these overlap, but cut a
  cluster that is not Gaussian in other places. As in Hennig (2007), "Cluster-wise assessment of cluster stability", the
  measure is Jaccard's index: rows on a side of the boundary in both fits, as a share of those in either fit. From 0.85
  on a cluster is "highly stable". This sign counts if the data follow the model (`fit_check.py`), or together with a
  weak gap, at the level of 25%: some clusters that are not Gaussian are cut in nearly the same places again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.special import compiled_float64, inner_float64

REPRODUCED = 0.85
"""Jaccard's index from which a boundary counts as reproduced."""
CLEAR, WEAK = 0.05, 0.25
"""Levels of a gap that is sufficient, for all steps together, and of one that needs a reproduced boundary."""
LEVELS = (0.25, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005)
CRITICAL = {
    5: (0.345, 0.416, 0.432, 0.439, 0.443, 0.446, 0.446, 0.447),
    10: (0.361, 0.441, 0.476, 0.504, 0.527, 0.553, 0.570, 0.583),
    20: (0.381, 0.470, 0.512, 0.541, 0.567, 0.597, 0.620, 0.641),
    50: (0.401, 0.497, 0.542, 0.574, 0.603, 0.640, 0.668, 0.693),
    200: (0.419, 0.521, 0.570, 0.603, 0.636, 0.674, 0.701, 0.730),
    1000: (0.430, 0.535, 0.584, 0.621, 0.653, 0.697, 0.724, 0.752),
}
"""By sample size, quantiles of the dip times the square root of the size for the uniform distribution, which has the
largest dips of all unimodal ones."""
TOO_FAR = 0.42
"""The same at a level of 25%, for samples of any size."""
TUBE = 0.95
"""The share of the rows of two components that count as close to the line between them."""
TINY = 1e-300
MOST = 2000
"""Values to use, evenly spaced in order: among a million, the smallest irregularity would be significant."""


class Half(NamedTuple):
    """The result of a fit to half of the rows."""

    rows: IntArray
    labels: IntArray
    """The clusters of these rows; -1 for outliers."""


class Shape(NamedTuple):
    """Where the rows and the components lie."""

    points: Float64Array
    """(N, D)."""
    means: Float64Array
    """(K, D)."""
    covariances: Float64Array
    """(K, D, D), or the variances (K, D)."""


class GroupEvidence(NamedTuple):
    """What is known about the rows besides their probabilities."""

    shape: Shape | None = None
    halves: Sequence[Half] = ()
    fits: bool = False
    """Whether the data follow the model."""


def has_gap(values: Float64Array, level: float | None = None) -> bool:
    """Whether numbers have two modes, at a level of the dip test; None is 25% for samples of any size. O(n log n).

    The critical value of the dip times the square root of the sample size is interpolated in the table by the
    logarithms of size and level, and constant beyond it.
    """
    used = quantiles_of(values)
    if len(used) < 2:
        return False
    critical = TOO_FAR
    if level is not None:
        by_size = [np.interp(-math.log(level), -np.log(LEVELS), row) for row in CRITICAL.values()]
        critical = float(np.interp(math.log(len(used)), np.log(list(CRITICAL)), by_size))
    return dip(used) * math.sqrt(len(used)) > critical


def along_line(shape: Shape, rows: IntArray, inside: Any, one: int, other: int) -> Float64Array:
    """The positions along the line from one component to another of those rows that are no farther from it than most
    rows inside the two. Distances are in units of the sum of the two covariances. O(n D^2)."""
    covariance = shape.covariances[one] + shape.covariances[other]
    steps, line = shape.points[rows] - shape.means[one], shape.means[other] - shape.means[one]
    if covariance.ndim == 1:
        steps, line = steps / np.sqrt(covariance), line / np.sqrt(covariance)
    else:
        factor = np.linalg.inv(np.linalg.cholesky(covariance))
        steps, line = steps @ factor.T, factor @ line
    positions = steps @ (line / max(float(np.linalg.norm(line)), TINY))
    away = (steps**2).sum(axis=1) - positions**2
    near = away <= np.quantile(away[inside], TUBE)
    return np.asarray(positions[near])


def count_rows(half: Half, components: IntArray, n_components: int) -> Float64Array:
    """The number of rows of each cluster of a half sample in each component (L, K), without outliers."""
    table = np.zeros((int(half.labels.max(initial=-1)) + 2, n_components))
    # Outliers fall into the last row.
    np.add.at(table, (half.labels, components[half.rows]), 1.0)
    return table[:-1]


def boundary_in(tables: Sequence[Float64Array], one: int, other: int) -> float:
    """How well half samples reproduce the boundary between two components, on average over the tables of `count_rows`.

    A cluster of a half sample belongs to the side of most of its rows. The smaller of the two sides' Jaccard indices
    counts; NaN if no half sample has rows of both components.
    """
    indices = []
    for table in tables:
        here, there = table[:, one], table[:, other]
        if here.any() and there.any():
            first = here > there
            inside, beyond = here[first].sum(), there[first].sum()
            sides = [(inside, here.sum() + beyond), (there.sum() - beyond, there.sum() + here.sum() - inside)]
            indices.append(min(common / either for common, either in sides))
    return float(np.mean(indices)) if indices else math.nan


def quantiles_of(values: Float64Array) -> Float64Array:
    """The sorted numbers, or `MOST` evenly spaced ones among them."""
    ordered, count = np.sort(values), min(MOST, len(values))
    return np.asarray(ordered[np.ceil((np.arange(count) + 0.5) / max(count, 1) * len(values)).astype(int) - 1])


def dip(values: FloatArray) -> float:
    """The largest difference from the nearest distribution function with one mode, which is convex up to the mode and
    concave after it (Hartigan and Hartigan 1985); 0 if all numbers are the same.

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
    low, high, result = 0, len(x) - 1, 1.0
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
        if gap <= result:
            return result
        left, right = low, high
        for i in range(n_below):
            if below[i] <= widest:
                left = below[i]
        for i in range(n_above - 1, -1, -1):
            if above[i] >= widest:
                right = above[i]
        # Not at the ends: at the mode the function may jump as the numbers do.
        for i in range(low, left):
            result = max(result, after[i] - lower[i])
        for i in range(right + 1, high + 1):
            result = max(result, upper[i] - before[i])
        if left == low and right == high:
            return result
        low, high = left, right


@inner_float64
def corners(x: Any, y: Any, sign: Any, low: Any, high: Any, result: Any) -> Any:
    """The corners from `low` to `high` of the greatest convex function below the points, which are sorted by x, or of
    the least concave one above (sign -1); how many. O(n)."""
    count = 0
    for i in range(low, high + 1):
        while count > 1:
            one, two = result[count - 2], result[count - 1]
            if sign * (y[two] - y[one]) * (x[i] - x[one]) < sign * (y[i] - y[one]) * (x[two] - x[one]):
                break
            count -= 1
        result[count] = i
        count += 1
    return count


@inner_float64
def along(x: Any, y: Any, points: Any, result: Any) -> None:
    """The values at all x of the lines between some points."""
    for piece in range(len(points) - 1):
        one, two = points[piece], points[piece + 1]
        slope = (y[two] - y[one]) / (x[two] - x[one])
        for i in range(one, two):
            result[i] = y[one] + slope * (x[i] - x[one])
    result[points[-1]] = y[points[-1]]
