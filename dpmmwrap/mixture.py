"""The fitted mixture: each cluster's posterior predictive, weighted by its share of the points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from dpmmwrap.families.base import Points, Prior, Statistics, take
from dpmmwrap.families.tables import Columns, TablePoints, place_of
from dpmmwrap.files.selection import listed
from dpmmwrap.model.memory import Memory
from dpmmwrap.model.preparation import Preparation
from dpmmwrap.model.redundant import ColumnMap
from dpmmwrap.model.subspace import Subspace
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.posterior.averaging import AveragedMixture
from dpmmwrap.posterior.density import Density, density_of
from dpmmwrap.posterior.predictor import Assignment, MixturePredictor
from dpmmwrap.sampler.draws import Draws

if TYPE_CHECKING:
    from dpmmwrap.posterior.groups import Groups
    from dpmmwrap.posterior.separation import GroupEvidence, Shape

__all__ = ["Assignment", "Mixture"]

SIZES_SHOWN, NAMES_SHOWN = 8, 5


@dataclass(frozen=True, repr=False)
class Mixture(MixturePredictor):
    """The posterior distributions of clusters: all that is needed to label new rows.

    This is `DPMM.mixture_`, and what `load` reads. Labels run from 0; an outlier component has the label -1.
    """

    counts: Float64Array
    """The number of points in each cluster."""
    posterior: Any
    """The family's distributions, one for each cluster; that of an outlier component comes last."""
    outlier_weight: float = 0.0
    columns: Columns | None = None
    """The columns of a mixed table, and the levels of the categorical ones."""
    averaged: AveragedMixture | None = None
    """The mixtures of several draws, over which predictions are averaged."""
    draws: Draws | None = None
    """The draws, if the file has them."""
    feature_names: tuple[str, ...] | None = None
    """The names of the features, if they are known; principal components are PC1, PC2, …"""
    preparation: Preparation | None = None
    """What was done to the features before the fit, and is done to new rows; means and covariances are in its units."""
    restored: ColumnMap | None = None
    """How to restore all columns of the data, if constant ones and copies were left out."""
    size_shift: float = 0.0
    """The prior over partitions adds this to each cluster's size in its weight: minus the discount of a Pitman-Yor
    process, gamma of a finite mixture."""
    subspace: Subspace | None = None
    """The subspace in which clusters differ, if there is one; the posterior is that of the points in it."""
    memory: Memory | None = None
    """What is kept of the rows, so that a fit can continue."""
    statistics: Statistics = None
    """The clusters' statistics when they were made; not in a file."""

    @classmethod
    def from_labels(
        cls,
        X: Points,
        labels: IntArray,
        prior: Prior,
        outlier_weight: float = 0.0,
        outlier_prior: Prior | None = None,
        columns: Columns | None = None,
        sample_weight: Any = None,
    ) -> Mixture:
        """The mixture that a clustering of X implies under a prior.

        Parameters
        ----------
        X : array, shape (N, D)
            Points, as the prior's family stores them.
        labels : array of int, shape (N,)
            The cluster of each, from 0 without gaps; -1 for outliers.
        prior : NIW, NIG, SphericalNIG or Dirichlet
            The prior of the clusters.
        outlier_weight : float, default=0.0
            The share of the outlier component; 0 for none.
        outlier_prior : a prior of the same family, default=None
            The prior of the outlier component.
        columns : Columns, default=None
            The columns of a mixed table and their levels.
        sample_weight : array of float64, shape (N,), default=None
            How many equal points each point stands for.

        Returns
        -------
        Mixture
            A component for each cluster.
        """
        count = int(labels.max(initial=-1)) + 1
        if not count:
            raise ValueError(f"all {len(labels):,} points are outliers: outlier_weight should be smaller")
        if outlier_prior is not None:
            # The outlier component is one more cluster, after the others.
            labels, count = np.where(labels < 0, count, labels), count + 1
        statistics = prior.statistics(X, labels, count, sample_weight)
        return cls.from_statistics(statistics, prior, outlier_weight, outlier_prior, columns)

    @classmethod
    def from_statistics(
        cls,
        statistics: Statistics,
        prior: Prior,
        outlier_weight: float = 0.0,
        outlier_prior: Prior | None = None,
        columns: Columns | None = None,
    ) -> Mixture:
        """The mixture that the statistics of clusters imply; outliers, if they have a prior, are the last cluster."""
        posterior, counts = prior.posterior(statistics), statistics.counts
        if outlier_prior is not None:
            last = np.array([len(counts) - 1])
            posterior = posterior.replaced(last, outlier_prior.posterior(take(statistics, last)))
            counts = counts[:-1]
        return cls(counts, posterior, outlier_weight, columns, statistics=statistics)

    def __repr__(self) -> str:
        sizes = [f"{count:,.0f}" for count in self.counts[:SIZES_SHOWN]]
        rest = self.n_clusters - len(sizes)
        columns = several(self.n_inputs, "column")
        facts = [
            f"{several(self.n_clusters, 'cluster')} of {', '.join(sizes)}{f' and {rest:,} more' if rest else ''} rows",
            columns if self.input_names is None else f"{columns} ({listed(self.input_names, NAMES_SHOWN)})",
        ]
        if self.outlier_weight > 0:
            facts.append(f"outliers {self.outlier_weight:g}")
        if self.averaged is not None:
            facts.append(str(self.averaged))
        return f"Mixture({self.family}: {'; '.join(facts)})"

    def shifted(self, offset: FloatArray) -> Mixture:
        """The same mixture for data from which `offset` has been subtracted."""
        averaged = None if self.averaged is None else self.averaged.shifted(offset)
        return replace(self, posterior=self.posterior.shifted(offset), averaged=averaged)

    @property
    def family(self) -> str:
        return str(self.posterior.family)

    @property
    def is_gaussian(self) -> bool:
        """Whether clusters have means and covariances."""
        return bool(self.posterior.covariances)

    @property
    def n_clusters(self) -> int:
        return len(self.counts)

    @cached_property
    def weights(self) -> Float64Array:
        """Each cluster's share; all of them and the weight of an outlier component sum to 1."""
        sizes = self.counts + self.size_shift
        return np.asarray((1 - self.outlier_weight) * sizes / sizes.sum())

    @property
    def means(self) -> Float64Array:
        """The mean of each cluster's numeric features."""
        means = np.asarray(self.posterior.mean)[: self.n_clusters]
        return np.asarray(self._all_columns(means if self.subspace is None else self.subspace.features(means)))

    @cached_property
    def covariances(self) -> Float64Array:
        """The expected covariances (K, D, D) of each cluster, or variances (K, D) of a diagonal family."""
        covariances = np.asarray(self.posterior.mean_covariance())[: self.n_clusters]
        covariances = covariances if self.subspace is None else self.subspace.covariances(covariances)
        return covariances if self.restored is None else self.restored.covariances(covariances)

    def estimate(self, name: str) -> Float64Array:
        """The posterior estimates (K, ...) of a parameter of the clusters, such as "means" or "rates"."""
        if hasattr(type(self), name):
            return np.asarray(getattr(self, name))
        return np.asarray(self.posterior.estimates()[name][: self.n_clusters])

    @cached_property
    def _log_weights(self) -> Float64Array:
        weights = self.weights if self.outlier_weight == 0 else np.append(self.weights, self.outlier_weight)
        return np.asarray(np.log(weights))

    @cached_property
    def _names(self) -> IntArray:
        names = np.arange(len(self._log_weights), dtype=np.int32)
        names[self.n_clusters :] = -1
        return names

    def sample(self, n_samples: int, rng: Generator) -> tuple[Any, IntArray]:
        """New points from the posterior predictive, averaged over draws if there are any.

        They are in the units of the preparation, if there is one.

        Parameters
        ----------
        n_samples : int
            The number of points.
        rng : numpy.random.Generator
            The source of randomness.

        Returns
        -------
        X : ndarray of float64, shape (n_samples, D)
            The points; for a mixed table, an array of objects.
        labels : ndarray of int32, shape (n_samples,)
            The cluster of each.
        """
        posterior, weights, names = self.posterior, np.exp(self._log_weights), self._names
        if self.averaged is not None:
            # Each draw is as probable as any other.
            posterior, weights, names = self.averaged.posterior, self.averaged.weights, self.averaged.clusters
        components = rng.choice(len(weights), n_samples, p=weights / weights.sum())
        points, labels = posterior.sample(components, rng), names[components].astype(np.int32)
        if self.columns is not None:
            points = TablePoints(self._all_columns(points.numeric), points.codes)
            return self.columns.table(points), labels
        points = points if self.subspace is None else self.subspace.sample(points, rng)
        return self._all_columns(points), labels

    def density(
        self,
        X: Any,
        quantiles: Sequence[float] = (0.05, 0.5, 0.95),
        *,
        columns: Sequence[str | int] | None = None,
        rng: Generator | None = None,
    ) -> Density:
        """The density of Gaussian clusters at each row, and its uncertainty, as in `DPMM.density`.

        Parameters
        ----------
        X : array or table, shape (n, D)
            Rows with the columns of the fit; with `columns`, an array with just these.
        quantiles : list of float, default=(0.05, 0.5, 0.95)
            Quantiles of the density over drawn mixtures.
        columns : list of str or int, default=None
            The columns whose marginal density to compute, by name or number; None for all.
        rng : numpy.random.Generator, default=None
            The source of randomness; None gives the same result every time.

        Returns
        -------
        Density
            `mean`, shape (n,), and `quantiles`, shape (q, n).
        """
        if not self.is_gaussian:
            raise ValueError(f"density needs Gaussian clusters, not the family {self.family}")
        if not all(0 <= quantile <= 1 for quantile in quantiles):
            raise ValueError(f"quantiles should be from 0 to 1, not {list(quantiles)}")
        rng = np.random.default_rng(0) if rng is None else rng
        if columns is None:
            density = density_of(self, self._points(X), quantiles, None, rng)
            if self.subspace is None:
                return density
            noise = np.exp(self.subspace.log_noise(self._prepared(self._read(X))))
            return Density(density.mean * noise, density.quantiles * noise)
        places = [place_of(name, self._feature_names, "columns") for name in columns]
        rows = np.asarray(X, dtype=np.float64)
        if rows.ndim != 2 or rows.shape[1] != len(places):
            raise ValueError(f"X should have the shape (n, {len(places)}), a column for each of {list(columns)}")
        return density_of(self, rows, quantiles, places, rng)

    def groups(
        self, X: Any, method: str = "separation", cut: float | None = None, *, seen: GroupEvidence | None = None
    ) -> Groups:
        """Clusters that overlap among the rows of X, joined step by step.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D)
            Rows with the columns of the fit; those of a table are found by name.
        method : {"separation", "dip", "demp", "entropy"}, default="separation"
            Which two clusters to join next, as in `DPMM.groups`, but without fits to half of the rows.
        cut : float, default=None
            Where to cut the tree, as in `DPMM.groups`.
        seen : GroupEvidence, default=None
            Further evidence for "separation".

        Returns
        -------
        Groups
            The tree, and where to cut it.
        """
        from dpmmwrap.posterior.groups import group_components
        from dpmmwrap.posterior.separation import GroupEvidence

        if method == "separation":
            seen = (seen or GroupEvidence())._replace(shape=self._shape(X))
        return group_components(self.predict_proba(X)[:, : self.n_clusters], method, cut, seen=seen)

    def _shape(self, X: Any) -> Shape | None:
        """Where rows and clusters lie, if clusters are Gaussian and no value is missing."""
        from dpmmwrap.posterior.separation import Shape

        if not self.is_gaussian:
            return None
        points = np.asarray(self._points(X), np.float64)
        means, covariances = (moment[: self.n_clusters] for moment in self._moments)
        return Shape(points, means, covariances) if np.isfinite(points).all() else None

    def save(self, path: str | Path) -> None:
        """Write the mixture, and the draws if there are any, as plain arrays: loading it cannot execute code.

        Parameters
        ----------
        path : str or Path
            A .npz file. It is never written in part.
        """
        from dpmmwrap.posterior.mixture_file import save

        save(self, path)


def several(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"
