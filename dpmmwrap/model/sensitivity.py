"""How much the number of clusters depends on the prior: short chains with other widths, kappas and concentrations.

They begin with the clusters of the fit, so few iterations are enough: a narrower prior splits clusters, a wider one
merges them. Everything else stays as the fit has learned it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from dpmmwrap.model.short_chains import short_chain, short_settings
from dpmmwrap.numerics.arrays import IntArray, evenly_spaced

if TYPE_CHECKING:
    from dpmmwrap.posterior.mixin import PosteriorMixin

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


def sensitivity_of(model: PosteriorMixin, labels: IntArray) -> list[AtSetting]:
    """The numbers of clusters at other values of each setting, from short chains on a sample of the kept rows, which
    have these labels."""
    # Outliers of the fit are left out: as initial clusters they would stay.
    inside = np.flatnonzero(labels >= 0)
    rows = inside[evenly_spaced(len(inside), MOST_POINTS)]
    points = model._some_points[rows]

    def clusters_at(setting: str, factor: float) -> int:
        prior, is_alpha = model._prior, setting == "alpha"
        settings = short_settings(
            model.partition_prior_.scaled(factor if is_alpha else 1.0),
            prior if is_alpha else model._hyperprior.scaled(prior, setting, factor),
            ITERATIONS,
            init_clusters=labels[rows],
            weights=None if model._some_weights is None else model._some_weights[rows],
            outlier_weight=float(model.outlier_weight),
            outlier_prior=model._outliers,
        )
        clusters = short_chain(points, settings).labels
        return len(np.unique(clusters[clusters >= 0]))

    return [AtSetting(setting, factor, clusters_at(setting, factor)) for setting in SETTINGS for factor in FACTORS]
