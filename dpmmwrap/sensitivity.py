"""How much the number of clusters depends on the default prior: short chains with a narrower and a wider one.

They begin with the clusters of the fit, so that few iterations are enough: those that a narrower prior finds split,
those that a wider one does not want merge.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.arrays import IntArray
from dpmmwrap.backends import Settings
from dpmmwrap.choice import ModelOptions, choose_model, concentration, short_chains
from dpmmwrap.families.base import Points
from dpmmwrap.families.columns import Columns
from dpmmwrap.inputs import Read
from dpmmwrap.starts import make_initializer

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Of the width. 1 tells what a short chain on a sample finds with the prior as it is."""
ITERATIONS, MOST_POINTS = 50, 4000


class AtWidth(NamedTuple):
    """What a short chain finds with a prior of another width."""

    factor: float
    """The width, in widths of the fitted prior."""
    prior_width: float
    n_clusters: int


class Fitted(NamedTuple):
    """What a fit has found, in the terms of the sampler."""

    points: Points
    labels: IntArray
    """Of each of the points; -1 for outliers."""
    width: float
    asked: ModelOptions
    """The model, with the covariance type that was chosen."""
    columns: Columns | None = None
    outlier_weight: float = 0.0
    outlier_prior: Any = None
    """The user's own, if there is one."""


def sensitivity_of(fitted: Fitted, seed: int = 0) -> list[AtWidth]:
    """Clusters at some widths of the prior, from short chains on a sample of the points."""
    return [at_width(fitted, factor, seed) for factor in FACTORS]


def at_width(fitted: Fitted, factor: float, seed: int) -> AtWidth:
    width = factor * fitted.width
    # The prior is tied to how wide all points are locally, not only those of the sample.
    read = Read(fitted.points, np.zeros(1), fitted.columns)
    choice = choose_model(fitted.asked._replace(prior_width=width), read)
    # Outliers of the fit are left out: as clusters to begin with they would stay.
    inside = np.flatnonzero(fitted.labels >= 0)
    rows = inside[sample_rows(len(inside))]
    points, labels = choice.read.points[rows], fitted.labels[rows]
    outlier_prior = None
    if fitted.outlier_weight:
        outlier_prior = fitted.outlier_prior or choice.prior.outliers(choice.read.points)
    settings = Settings(
        **concentration(fitted.asked.alpha, fitted.asked.alpha_prior),
        prior=choice.prior,
        hyperprior=choice.hyperprior,
        initializer=make_initializer("kmeans"),
        max_iter=ITERATIONS,
        min_cluster_age=3,
        seed=seed,
        init_clusters=labels,
        outlier_weight=fitted.outlier_weight,
        outlier_prior=outlier_prior,
        restart_after=10,
    )
    found = short_chains(points, settings).labels
    return AtWidth(factor, width, len(np.unique(found[found >= 0])))


def sample_rows(count: int) -> IntArray:
    """All rows, or some that are evenly spaced."""
    if count <= MOST_POINTS:
        return np.arange(count)
    return np.linspace(0, count - 1, MOST_POINTS).astype(np.int64)
