"""Whether two components are two clusters, by what the rows show beside each row's probabilities of components.

Components that overlap may be pieces of one cluster that is not Gaussian, or two clusters. There are two signs of two
clusters, and a weak one counts together with another:

- a gap separates their rows: these have two modes, not one, by the dip test (`modes.py`), both along the log ratio of
  their densities and along the line between them. The pieces of a curved cluster can have two modes along one of the
  two. A clear gap is one at the level of 5%, a weak one at the level of 25%.
- fits to half of the rows find their boundary again. They do so for two clusters, even if these overlap, but cut a
  cluster that is not Gaussian in other places. As in Hennig (2007), "Cluster-wise assessment of cluster stability", the
  measure is Jaccard's: rows on the same side of the boundary, as a share of those that are there in either fit. From
  0.95 on, this is enough; from 0.85 on ("highly stable"), if there is a weak gap or if the data follow the model
  (`fit_check.py`): some clusters that are not Gaussian are cut in nearly the same places again.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.posterior.modes import dip, evenly_spaced

FOUND_AGAIN, SURELY_FOUND = 0.85, 0.95
"""Jaccard's index from which a boundary is found again, and from which this is enough."""
SIZES = (5, 10, 20, 50, 100, 200, 500, 1000, 2000)
CLEAR = (0.417, 0.441, 0.474, 0.496, 0.507, 0.521, 0.531, 0.534, 0.541)
WEAK = (0.344, 0.361, 0.382, 0.401, 0.411, 0.418, 0.430, 0.430, 0.435)
"""The dip times the square root of the sample size. It is larger in one of twenty, or of four, samples of these sizes
of the uniform distribution, which has the largest dips of all unimodal distributions."""
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


class Seen(NamedTuple):
    """What is known of the rows beside their probabilities."""

    shape: Shape | None = None
    halves: Sequence[Half] = ()
    fits: bool = False
    """Whether the data follow the model."""


def has_gap(values: Float64Array, weights: Float64Array, level: Sequence[float] = CLEAR) -> bool:
    """Whether numbers have two modes."""
    used = evenly_spaced(values, weights)
    return len(used) > 1 and dip(used) * math.sqrt(len(used)) > float(np.interp(len(used), SIZES, level))


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
