"""Whether two components are two clusters, by what the rows show beside each row's probabilities of components.

Components that overlap may be pieces of one cluster that is not Gaussian, or two clusters. There are two signs of two
clusters, and a weak one counts together with another:

- a gap separates their rows: these have two modes, not one, by the dip test (`modes.py`), both along the log ratio of
  their densities and along the line between them. The pieces of a curved cluster can have two modes along one of the
  two. Each of the K - 1 steps from K components to one is a test, so a clear gap is one at the level of 5% / (K - 1):
  in at most one of twenty mixtures without gaps there is any.
- fits to half of the rows find their boundary again. They do so for two clusters, even if these overlap, but cut a
  cluster that is not Gaussian in other places. As in Hennig (2007), "Cluster-wise assessment of cluster stability", the
  measure is Jaccard's: rows on the same side of the boundary, as a share of those that are there in either fit. From
  0.85 on a cluster is "highly stable". That counts if the data follow the model (`fit_check.py`), or if there is a weak
  gap as well, at the level of 25%: some clusters that are not Gaussian are cut in nearly the same places again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.posterior.modes import dip, evenly_spaced

FOUND_AGAIN = 0.85
"""Jaccard's index from which a boundary is found again."""
CLEAR, WEAK = 0.05, 0.25
"""Levels of a gap that is enough, for all steps together, and of one that counts with a boundary."""
LEVELS = (0.25, 0.05, 0.02, 0.01, 0.005, 0.002, 0.001, 0.0005)
CRITICAL = {
    5: (0.345, 0.416, 0.432, 0.439, 0.443, 0.446, 0.446, 0.447),
    10: (0.361, 0.441, 0.476, 0.504, 0.527, 0.553, 0.570, 0.583),
    20: (0.381, 0.470, 0.512, 0.541, 0.567, 0.597, 0.620, 0.641),
    50: (0.401, 0.497, 0.542, 0.574, 0.603, 0.640, 0.668, 0.693),
    200: (0.419, 0.521, 0.570, 0.603, 0.636, 0.674, 0.701, 0.730),
    1000: (0.430, 0.535, 0.584, 0.621, 0.653, 0.697, 0.724, 0.752),
}
"""By sample size, quantiles of the dip times the square root of the size, for samples of the uniform distribution: of
all unimodal distributions it has the largest dips."""
TUBE = 0.95
"""The share of the rows of two components that count as lying on the line between them."""
TINY = 1e-300


class Half(NamedTuple):
    """What a fit to half of the rows has found."""

    rows: IntArray
    labels: IntArray
    """Of these rows; -1 for outliers."""


class Shape(NamedTuple):
    """Where the rows and the components lie."""

    points: Float64Array
    """(N, D)."""
    means: Float64Array
    """(K, D)."""
    covariances: Float64Array
    """(K, D, D), or the variances (K, D)."""


class GroupEvidence(NamedTuple):
    """What is known of the rows beside their probabilities."""

    shape: Shape | None = None
    halves: Sequence[Half] = ()
    fits: bool = False
    """Whether the data follow the model."""


def has_gap(values: Float64Array, weights: Float64Array, level: float) -> bool:
    """Whether numbers have two modes, at a level of the dip test."""
    used = evenly_spaced(values, weights)
    return len(used) > 1 and dip(used) * math.sqrt(len(used)) > critical_value(len(used), level)


def critical_value(size: int, level: float) -> float:
    """Of the dip times the square root of the sample size; between the sizes and levels of the table by their
    logarithms, beyond them by the nearest."""
    logs = -np.log(LEVELS)
    by_size = [np.interp(-math.log(level), logs, values) for values in CRITICAL.values()]
    return float(np.interp(math.log(size), np.log(list(CRITICAL)), by_size))


def along_line(shape: Shape, rows: IntArray, own: Any, one: int, other: int) -> tuple[Float64Array, IntArray]:
    """Where rows lie along the line from one component to another, and which rows: those that are no farther from it
    than most of the two components' own. Distances are in units of the sum of the two covariances. O(n D^2)."""
    covariance = shape.covariances[one] + shape.covariances[other]
    steps, line = shape.points[rows] - shape.means[one], shape.means[other] - shape.means[one]
    if covariance.ndim == 1:
        steps, line = steps / np.sqrt(covariance), line / np.sqrt(covariance)
    else:
        factor = np.linalg.inv(np.linalg.cholesky(covariance))
        steps, line = steps @ factor.T, factor @ line
    places = steps @ (line / max(float(np.linalg.norm(line)), TINY))
    away = (steps**2).sum(axis=1) - places**2
    near = away <= np.quantile(away[own], TUBE)
    return places[near], rows[near]


def count_rows(half: Half, components: IntArray, n_components: int) -> Float64Array:
    """How many rows of each cluster of a half sample are in each component (L, K), without outliers."""
    table = np.zeros((int(half.labels.max(initial=-1)) + 2, n_components))
    # Outliers fall into the last row.
    np.add.at(table, (half.labels, components[half.rows]), 1.0)
    return table[:-1]


def boundary_in(tables: Sequence[Float64Array], one: int, other: int) -> float:
    """How well half samples find the boundary between two components, on average over the tables of `count_rows`.

    A cluster of a half sample belongs to the side on which most of its rows are. Jaccard's index is of each side, and
    the smaller one counts; not a number if no half sample has rows of both components.
    """
    found = []
    for table in tables:
        here, there = table[:, one], table[:, other]
        if here.any() and there.any():
            first = here > there
            inside, beyond = here[first].sum(), there[first].sum()
            sides = [(inside, here.sum() + beyond), (there.sum() - beyond, there.sum() + here.sum() - inside)]
            found.append(min(common / either for common, either in sides))
    return float(np.mean(found)) if found else math.nan
