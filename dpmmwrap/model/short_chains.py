"""Short chains, whose results are only compared: kinds of covariances, priors, samples of the rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpmmwrap.backends.native import NativeBackend
from dpmmwrap.families import prior_named
from dpmmwrap.families.base import Points, Prior
from dpmmwrap.families.learned.defaults import DataScale, FixedHyperparameters
from dpmmwrap.families.learned.ties import spread_ties, tied_steps
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray, evenly_spaced
from dpmmwrap.numerics.cells import is_remote
from dpmmwrap.partitions import PartitionPrior
from dpmmwrap.sampler.evidence import log_evidence_of
from dpmmwrap.sampler.proposals import NearPairs
from dpmmwrap.sampler.settings import Result, Settings
from dpmmwrap.starts import make_initializer

if TYPE_CHECKING:
    from dpmmwrap.posterior.mixin import PosteriorMixin

ITERATIONS, SAMPLE = 30, 3000
"""Iterations of a chain that compares covariances, and its points."""
FACTORS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""The factor 1 shows what a short chain on a sample finds with the same prior."""
SETTINGS = ("width", "kappa", "alpha")
LONGER, MOST_POINTS = 50, 4000
"""Iterations of a chain at another setting, and its points."""


def short_settings(partition_prior: PartitionPrior, prior: Prior, max_iter: int, **others: Any) -> Settings:
    """The settings of a short chain."""
    common: dict[str, Any] = {"initializer": make_initializer("kmeans"), "min_cluster_age": 3, "restart_after": 10}
    return Settings(partition_prior, prior, max_iter=max_iter, **common | {"seed": 0} | others)


def short_chain(points: Points, settings: Settings) -> Result:
    """The result of a chain. After Ctrl-C there is nothing to compare."""
    result = NativeBackend().fit(points, settings)
    if result.interrupted:
        raise KeyboardInterrupt
    return result


class ShortRun(NamedTuple):
    """The clusters that a short chain found with one kind of covariances."""

    kind: str
    labels: IntArray
    log_evidence: float
    from_cells: bool = False
    """Whether it began with k-means cells, not with one cluster."""
    compared_starts: bool = False
    """Whether it is the better of both starts."""
    in_subspace: bool = False

    @property
    def covariances(self) -> str:
        """Its covariances in words."""
        prior = prior_named(self.kind)
        words = f"{getattr(prior, 'numeric_kind', self.kind)} {prior.ones}"
        return f"{words} in a subspace" if self.in_subspace else words


@dataclass(frozen=True, eq=False)
class Sample:
    """The points by which kinds of covariances are compared."""

    points: FloatArray
    weights: Float64Array | None = None
    near: NearPairs = field(default_factory=NearPairs)
    """Shared by the chains of all kinds."""


def sample_of(points: Any, weights: Float64Array | None) -> Sample:
    """A random sample of the points; all of them if they are few."""
    if len(points) > SAMPLE:
        rows = np.sort(np.random.default_rng(0).choice(len(points), SAMPLE, replace=False))
        points = np.ascontiguousarray(points[rows])
        weights = None if weights is None else weights[rows]
    elif is_remote(points):
        points = points[np.arange(len(points))]
    # If values recur, the density has no bound, and one kind of covariances may come closer to infinity than another.
    return Sample(np.asarray(spread_ties(points, tied_steps(points))), weights)


@dataclass(frozen=True)
class ShortRuns:
    """Runs of short chains on a sample."""

    sample: Sample
    scale: DataScale
    fixed: FixedHyperparameters
    partition_prior: PartitionPrior

    def run(self, kind: str, from_cells: bool) -> ShortRun:
        """Run a chain from k-means cells, or from one cluster.

        Its evidence is that of the mixture that it ends with, under the most probable prior for its clusters.
        """
        prior, hyperprior, n_cells = self.scale.start(kind, self.fixed)
        points = self.sample.points
        first = self.scale.cut(points, n_cells or 1) if from_cells else 1
        settings = short_settings(
            self.partition_prior, prior, ITERATIONS, hyperprior=hyperprior, init_clusters=first,
            weights=self.sample.weights, near=self.sample.near,
        )  # fmt: skip
        (best,) = short_chain(points, settings).candidates
        return ShortRun(kind, best.labels, log_evidence_of(best, points, settings), from_cells)

    def better(self, kind: str) -> ShortRun:
        """The better of a run from one cluster and one from cells; only the former if a run takes long."""
        starts = (False,) if prior_named(kind).is_costly(self.scale.dim) else (False, True)
        runs = [self.run(kind, from_cells) for from_cells in starts]
        return max(runs, key=lambda run: run.log_evidence)._replace(compared_starts=True)


class AtSetting(NamedTuple):
    """The result of a short chain with another value of one setting."""

    setting: str
    """The prior's width, its kappa, or the concentration alpha."""
    factor: float
    """The value, in units of the fitted one."""
    n_clusters: int


def sensitivity_of(model: PosteriorMixin, labels: IntArray) -> list[AtSetting]:
    """How much the number of clusters depends on the prior: the numbers at other widths, kappas and concentrations, by
    chains on a sample of the kept rows.

    They begin with these labels, those of the fit, so few iterations are enough: a narrower prior splits clusters, a
    wider one merges them. Everything else stays as the fit has learned it.
    """
    # Outliers of the fit are left out: as initial clusters they would stay.
    inside = np.flatnonzero(labels >= 0)
    rows = inside[evenly_spaced(len(inside), MOST_POINTS)]
    points = model._some_points[rows]

    def clusters_at(setting: str, factor: float) -> int:
        prior, is_alpha = model._prior, setting == "alpha"
        settings = short_settings(
            model.partition_prior_.scaled(factor if is_alpha else 1.0),
            prior if is_alpha else model._hyperprior.scaled(prior, setting, factor),
            LONGER,
            init_clusters=labels[rows],
            weights=None if model._some_weights is None else model._some_weights[rows],
            outlier_weight=float(model.outlier_weight),
            outlier_prior=model._outliers,
        )
        clusters = short_chain(points, settings).labels
        return len(np.unique(clusters[clusters >= 0]))

    return [AtSetting(setting, factor, clusters_at(setting, factor)) for setting in SETTINGS for factor in FACTORS]
