"""How much the number of clusters depends on the prior: short chains with other widths, kappas and concentrations.

They begin with the clusters of the fit, so that few iterations are enough: those that a narrower prior finds split,
those that a wider one does not want merge. Everything but the one number stays as the fit has learned it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.base import Points, Prior
from dpmmwrap.families.learned.base import LearnedPrior
from dpmmwrap.model.choice import short_chains
from dpmmwrap.numerics.arrays import IntArray, evenly_spaced
from dpmmwrap.partitions import PartitionPrior
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.starts import make_initializer

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Factors of the number in question. 1 tells what a short chain on a sample finds with the prior as it is."""
SETTINGS = ("width", "kappa", "alpha")
ITERATIONS, MOST_POINTS = 50, 4000


class AtSetting(NamedTuple):
    """What a short chain finds if one number of the prior is another."""

    setting: str
    """The prior's width, its kappa, or the concentration alpha."""
    factor: float
    """Its value, in units of the fitted one."""
    n_clusters: int


class FittedPrior(NamedTuple):
    """What a fit has found, in the terms of the sampler."""

    points: Points
    labels: IntArray
    """The label of each point; -1 for outliers."""
    prior: Prior
    hyperprior: LearnedPrior
    partition_prior: PartitionPrior
    outlier_weight: float = 0.0
    outlier_prior: Any = None
    weights: Any = None
    """Of the points; None where all weigh 1."""


def sensitivity_of(fitted: FittedPrior, seed: int = 0) -> list[AtSetting]:
    """Clusters at other values of each setting, from short chains on a sample of the points."""
    # Outliers of the fit are left out: as clusters to begin with they would stay.
    inside = np.flatnonzero(fitted.labels >= 0)
    rows = inside[evenly_spaced(len(inside), MOST_POINTS)]
    weights = None if fitted.weights is None else fitted.weights[rows]
    some = fitted._replace(points=fitted.points[rows], labels=fitted.labels[rows], weights=weights)
    return [
        AtSetting(setting, factor, clusters_at(some, setting, factor, seed))
        for setting in SETTINGS
        for factor in FACTORS
    ]


def clusters_at(fitted: FittedPrior, setting: str, factor: float, seed: int) -> int:
    """The number of clusters that a short chain finds if a setting is multiplied by a factor."""
    is_alpha = setting == "alpha"
    settings = Settings(
        partition_prior=fitted.partition_prior.scaled(factor if is_alpha else 1.0),
        prior=fitted.prior if is_alpha else fitted.hyperprior.scaled(fitted.prior, setting, factor),
        initializer=make_initializer("kmeans"),
        max_iter=ITERATIONS,
        min_cluster_age=3,
        seed=seed,
        init_clusters=fitted.labels,
        weights=fitted.weights,
        outlier_weight=fitted.outlier_weight,
        outlier_prior=fitted.outlier_prior,
        restart_after=10,
    )
    found = short_chains(fitted.points, settings).labels
    return len(np.unique(found[found >= 0]))
