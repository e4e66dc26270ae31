"""How much the number of clusters depends on the prior: short chains with other widths, kappas and concentrations.

They begin with the clusters of the fit, so few iterations are enough: a narrower prior splits clusters, a wider one
merges them. Everything else stays as the fit has learned it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.base import Points, Prior
from dpmmwrap.families.learned.base import LearnedPrior
from dpmmwrap.model.short_chains import short_chain, short_settings
from dpmmwrap.numerics.arrays import IntArray, evenly_spaced
from dpmmwrap.partitions import PartitionPrior

FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The factor 1 shows what a short chain on a sample finds with the same prior."""
SETTINGS = ("width", "kappa", "alpha")
ITERATIONS, MOST_POINTS = 50, 4000


class AtSetting(NamedTuple):
    """The result of a short chain with another value of one setting."""

    setting: str
    """The prior's width, its kappa, or the concentration alpha."""
    factor: float
    """The value, in units of the fitted one."""
    n_clusters: int


class FittedPrior(NamedTuple):
    """The result of a fit, in the sampler's terms."""

    points: Points
    labels: IntArray
    """-1 for outliers."""
    prior: Prior
    hyperprior: LearnedPrior
    partition_prior: PartitionPrior
    outlier_weight: float = 0.0
    outlier_prior: Any = None
    weights: Any = None


def sensitivity_of(fitted: FittedPrior, seed: int = 0) -> list[AtSetting]:
    """The numbers of clusters at other values of each setting, from short chains on a sample of the points."""
    # Outliers of the fit are left out: as initial clusters they would stay.
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
    settings = short_settings(
        fitted.partition_prior.scaled(factor if is_alpha else 1.0),
        fitted.prior if is_alpha else fitted.hyperprior.scaled(fitted.prior, setting, factor),
        ITERATIONS,
        seed=seed,
        init_clusters=fitted.labels,
        weights=fitted.weights,
        outlier_weight=fitted.outlier_weight,
        outlier_prior=fitted.outlier_prior,
    )
    found = short_chain(fitted.points, settings).labels
    return len(np.unique(found[found >= 0]))
