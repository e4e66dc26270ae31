"""The fitted mixture: each cluster's posterior predictive, weighted by its share of the points."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.random import Generator

from dpmmwrap.families.base import Points, Prior, Statistics, nothing_like, take
from dpmmwrap.families.screening import NEGLIGIBLE, log_joint, log_sum
from dpmmwrap.families.tables import Columns, TablePoints, place_of
from dpmmwrap.files.selection import listed
from dpmmwrap.model.empty_rows import with_values
from dpmmwrap.model.memory import Memory
from dpmmwrap.model.mixture_rows import MixtureRows
from dpmmwrap.model.preparation import Preparation
from dpmmwrap.model.redundant import ColumnMap
from dpmmwrap.model.subspace import RowsWithGaps, Subspace
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.side_by_side import for_each
from dpmmwrap.posterior.averaging import AveragedMixture
from dpmmwrap.posterior.density import Density, density_of
from dpmmwrap.posterior.predictor import Predictor
from dpmmwrap.sampler.draws import Draws

if TYPE_CHECKING:
    from dpmmwrap.posterior.groups import Groups
    from dpmmwrap.posterior.separation import GroupEvidence, Shape

BLOCK, MOST_ROWS = 1 << 19, 1 << 13
"""Components and features of the rows that are answered at a time, about 30 bytes each; and such rows at most."""
SIZES_SHOWN, NAMES_SHOWN = 8, 5

Answer = Callable[[Any, Any], Any]
"""From points to what is asked about them; also told which rows they are."""


class Assignment(NamedTuple):
    """The most probable cluster of each row (-1 for outliers), and how probable it is."""

    labels: IntArray
    probabilities: Float64Array


@dataclass(frozen=True, repr=False)
class Mixture(MixtureRows, Predictor):
    """Clusters by their posterior distributions; labels run from 0, an outlier component carries -1.

    What `DPMM.mixture_` is and what `load` reads: all that is needed to label new rows.
    """

    counts: Float64Array
    """Points in each cluster."""
    posterior: Any
    """A batch of the family's distributions, one per cluster; the outlier component's, if there is one, comes last."""
    outlier_weight: float = 0.0
    columns: Columns | None = None
    """Of a mixed table: which columns it had, and the levels of the categorical ones."""
    averaged: AveragedMixture | None = None
    """The mixtures of several draws, over which predictions are averaged."""
    draws: Draws | None = None
    """What was sampled, where the file has it."""
    feature_names: tuple[str, ...] | None = None
    """What the features are called, where that is known; principal components are PC1, PC2, …"""
    preparation: Preparation | None = None
    """What was done to the features before the fit. Rows to predict are as they were before it, and it is done to them,
    too; means and covariances are in its units."""
    restored: ColumnMap | None = None
    """How to get all columns of the data back, where constant ones and copies were left out."""
    size_shift: float = 0.0
    """Added to each cluster's points in its weight, by the prior over partitions: minus the discount of a Pitman-Yor
    process, gamma of a finite mixture."""
    subspace: Subspace | None = None
    """Where clusters differ, if that is not everywhere; the posterior is one of the points in it."""
    memory: Memory | None = None
    """What is kept of the rows, by which a fit can go on."""
    statistics: Statistics = None
    """Of the clusters as they were made; no file has it."""

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
            A cluster for each, from 0 without gaps; -1 for outliers.
        prior : NIW, NIG, SphericalNIG or Dirichlet
            Of the clusters.
        outlier_weight : float, default=0.0
            Share of the outlier component; 0 for none.
        outlier_prior : a prior of the same family, default=None
            Of the outlier component.
        columns : Columns, default=None
            Of a mixed table: its columns and their levels.
        sample_weight : array of float64, shape (N,), default=None
            For how many equal points each stands.

        Returns
        -------
        Mixture
            A component for each cluster.
        """
        count = int(labels.max(initial=-1)) + 1
        if not count:
            raise ValueError(f"all {len(labels):,} points are outliers: outlier_weight should be smaller")
        if outlier_prior is not None:
            # The outlier component as one cluster more, after the others.
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
        """The mixture that the statistics of clusters imply under a prior.

        Parameters
        ----------
        statistics : Statistics
            Of the clusters, as `prior.statistics` gives them; outliers, if they have a prior, are the last.
        prior : NIW, NIG, SphericalNIG or Dirichlet
            Of the clusters.
        outlier_weight : float, default=0.0
            Share of the outlier component; 0 for none.
        outlier_prior : a prior of the same family, default=None
            Of the outlier component.
        columns : Columns, default=None
            Of a mixed table: its columns and their levels.

        Returns
        -------
        Mixture
            A component for each cluster.
        """
        if outlier_prior is None:
            posterior = prior.posterior(statistics)
            return cls(statistics.counts, posterior, outlier_weight, columns, statistics=statistics)
        count = len(statistics.counts) - 1
        special = outlier_prior.posterior(type(statistics)(*(array[count:] for array in statistics)))
        posterior = prior.posterior(statistics).replaced(np.array([count]), special)
        return cls(statistics.counts[:count], posterior, outlier_weight, columns, statistics=statistics)

    def __repr__(self) -> str:
        sizes = [f"{count:,.0f}" for count in self.counts[:SIZES_SHOWN]]
        rest = self.n_clusters - len(sizes)
        columns = several(self.n_inputs, "column")
        told = [
            f"{several(self.n_clusters, 'cluster')} of {', '.join(sizes)}{f' and {rest:,} more' if rest else ''} rows",
            columns if self.input_names is None else f"{columns} ({listed(self.input_names, NAMES_SHOWN)})",
            *([f"outliers {self.outlier_weight:g}"] if self.outlier_weight > 0 else []),
            *([] if self.averaged is None else [str(self.averaged)]),
        ]
        return f"Mixture({self.family}: {'; '.join(told)})"

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
        """Each cluster's share; with an outlier component they sum to one less its weight."""
        sizes = self.counts + self.size_shift
        return np.asarray((1 - self.outlier_weight) * sizes / sizes.sum())

    @property
    def means(self) -> Float64Array:
        """The mean of each cluster's numeric features."""
        means = np.asarray(self.posterior.mean)[: self.n_clusters]
        return np.asarray(self._all_columns(means if self.subspace is None else self.subspace.features(means)))

    def estimate(self, name: str) -> Float64Array:
        """The posterior estimate of the clusters' parameters of one name.

        Parameters
        ----------
        name : str
            Such as "means", "covariances" or "rates".

        Returns
        -------
        ndarray of float64, shape (K, ...)
            One entry per cluster.
        """
        own = hasattr(type(self), name)
        return np.asarray(getattr(self, name) if own else self.posterior.estimates()[name][: self.n_clusters])

    @cached_property
    def covariances(self) -> Float64Array:
        """The expected covariances (K, D, D) of each cluster, or variances (K, D) of a diagonal family."""
        covariances = np.asarray(self.posterior.mean_covariance())[: self.n_clusters]
        covariances = covariances if self.subspace is None else self.subspace.covariances(covariances)
        return covariances if self.restored is None else self.restored.covariances(covariances)

    @cached_property
    def _log_weights(self) -> Float64Array:
        weights = self.weights if self.outlier_weight == 0 else np.append(self.weights, self.outlier_weight)
        return np.asarray(np.log(weights))

    @cached_property
    def _names(self) -> IntArray:
        """The label of each component."""
        names = np.arange(len(self._log_weights), dtype=np.int32)
        names[self.n_clusters :] = -1
        return names

    def _by_blocks(self, X: Any, answer: Answer, fill: Any, noise: bool = False) -> Any:
        """What `answer` says of rows, asked for so many at a time that memory is bounded, and `fill` of those without
        any value. With `noise`, the log density outside a subspace is added."""
        points = self._read(X)
        found = np.empty((points.shape[0], *fill.shape), fill.dtype)
        components = len(self._names) if self.averaged is None else len(self.averaged.clusters)
        step = min(max(BLOCK // (components + self.dim), 1), MOST_ROWS)

        def work(begin: int) -> None:
            rows = slice(begin, begin + step)
            own = self._prepared(points[rows])
            there = with_values(own)
            chosen: Any = rows
            if not there.all():
                found[rows] = fill
                own, chosen = own[there], begin + np.flatnonzero(there)
            if own.shape[0] and self.subspace is None:
                found[chosen] = answer(own, chosen)
            elif own.shape[0]:
                self._answer_in_subspace(own, begin + np.flatnonzero(there), answer, noise, found)

        for_each(work, range(0, len(found), step))
        return found

    def _answer_in_subspace(self, rows: Any, numbers: IntArray, answer: Answer, noise: bool, found: Any) -> None:
        """Write what is said of rows with these numbers, of those with gaps apart from the others."""
        assert self.subspace is not None
        points = self.subspace.projected(rows)
        gaps = np.isnan(points).any(axis=1)
        if not gaps.all():
            whole = slice(None) if not gaps.any() else np.flatnonzero(~gaps)
            found[numbers[whole]] = answer(points[whole], numbers[whole])
            if noise:
                found[numbers[whole]] += self.subspace.log_noise(rows[whole])
        if gaps.any():
            found[numbers[gaps]] = answer(RowsWithGaps(rows[gaps]), numbers[gaps])

    @cached_property
    def _moments(self) -> tuple[Float64Array, Float64Array]:
        """Means and expected covariances of all components, where they differ."""
        return np.asarray(self.posterior.mean), np.asarray(self.posterior.mean_covariance())

    def _log_densities(self, points: Any, within: float = NEGLIGIBLE) -> Float64Array:
        """log of weight times predictive density (rows, components); may be -inf if not within so many nats of the
        best."""
        if isinstance(points, RowsWithGaps):
            assert self.subspace is not None
            return self._log_weights + self.subspace.log_observed(points.rows, *self._moments)
        return log_joint(self.posterior, points, self._log_weights, within=within)

    def _probabilities(self, points: Any) -> Float64Array:
        """Of each component for each row (rows, components)."""
        if self.averaged is not None and not isinstance(points, RowsWithGaps):
            return self.averaged.predict_proba(points, len(self._names))
        densities = self._log_densities(points)
        return np.asarray(np.exp(densities - log_sum(densities)[:, None]))

    def _score(self, points: Any) -> Float64Array:
        """log predictive density of each row."""
        if self.averaged is not None and not isinstance(points, RowsWithGaps):
            return self.averaged.score_samples(points)
        return log_sum(self._log_densities(points))

    def _labels(self, points: Any) -> IntArray:
        likely = self._log_densities(points, 0.0) if self.averaged is None else self._probabilities(points)
        return np.asarray(self._names[likely.argmax(axis=1)])

    @cached_property
    def _new_cluster(self) -> tuple[Any, float]:
        """The predictive distribution of a cluster without points, and its log weight."""
        memory = self.memory
        if memory is None:
            raise ValueError("the model does not keep its prior: novelty needs a model that this version has fitted")
        nothing = nothing_like(take(memory.statistics, slice(0, 1)), 1)
        weight = memory.log_new(self.counts) - np.log((self.counts + self.size_shift).sum())
        return memory.prior.posterior(nothing).shifted(-memory.offset), weight + np.log1p(-self.outlier_weight)

    def _novelty(self, points: Any) -> Float64Array:
        if isinstance(points, RowsWithGaps):
            raise ValueError("novelty needs all values of a row where clusters are in a subspace")
        unseen, weight = self._new_cluster
        new = unseen.log_predictive(points)[0] + weight
        return np.asarray(np.exp(new - np.logaddexp(new, log_sum(self._log_densities(points)))))

    def _ask(self, method: str, X: Any) -> Any:
        """Answer in blocks of rows."""
        answers: dict[str, tuple[Callable[[Any], Any], Any]] = {
            "predict": (self._labels, np.int32(-1)),
            "predict_proba": (self._probabilities, np.exp(self._log_weights)),
            "score_samples": (self._score, np.float64(0.0)),
            "novelty": (self._novelty, np.float64(np.nan)),
        }
        answer, fill = answers[method]
        return self._by_blocks(X, lambda points, _: answer(points), fill, noise=method == "score_samples")

    def assign(self, X: Any) -> Assignment:
        """The most probable cluster of each row, and how probable it is.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D)
            Rows with the columns of the fit; of a table they are found by name.

        Returns
        -------
        Assignment
            `labels` and `probabilities`; -1 and NaN of a row without any value.
        """
        kind = np.dtype([("label", np.int32), ("probability", np.float64)])

        def answer(points: Points, _: Any) -> Any:
            probabilities = self._probabilities(points)
            best = probabilities.argmax(axis=1)
            found = np.empty(len(best), kind)
            found["label"], found["probability"] = self._names[best], of_each(probabilities, best)
            return found

        found = self._by_blocks(X, answer, np.array((-1, np.nan), kind))
        return Assignment(np.ascontiguousarray(found["label"]), np.ascontiguousarray(found["probability"]))

    def probability_of(self, X: Any, labels: IntArray) -> Float64Array:
        """How probably each row is in a cluster that is given.

        Parameters
        ----------
        X : array, sparse matrix or table, shape (n, D)
            Rows with the columns of the fit; of a table they are found by name.
        labels : array of int, shape (n,)
            A cluster for each row; -1 is the outlier component.

        Returns
        -------
        ndarray of float64, shape (n,)
            The probability of that cluster; NaN of a row without any value.
        """
        found: Float64Array = self._by_blocks(
            X, lambda points, rows: of_each(self._probabilities(points), labels[rows]), np.float64(np.nan)
        )
        return found

    def sample(self, n_samples: int, rng: Generator) -> tuple[Any, IntArray]:
        """New points from the posterior predictive: from the predictive mixture, or the mean over those of draws.

        They are in the units of its preparation if it has one.

        Parameters
        ----------
        n_samples : int
            How many.
        rng : numpy.random.Generator
            Where chance comes from.

        Returns
        -------
        X : ndarray of float64, shape (n_samples, D)
            The points; of a mixed table a column by each name.
        labels : ndarray of int32, shape (n_samples,)
            The cluster of each.
        """
        posterior, weights, names = self.posterior, np.exp(self._log_weights), self._names
        if self.averaged is not None:
            # All draws are as probable as one another.
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
        """The density of Gaussian clusters at each row, and how sure that is.

        Mixtures are drawn from the posterior: partitions from its draws, if there are any, weights and Gaussians given
        them. Without draws the partition is the fitted one, and the bands know nothing of others.

        Parameters
        ----------
        X : array or table, shape (n, D)
            Rows with the columns of the fit; with `columns`, an array with just these.
        quantiles : list of float, default=(0.05, 0.5, 0.95)
            Of the density, over drawn mixtures.
        columns : list of str or int, default=None
            Of whose marginal density is asked, by name or place; None for all.
        rng : numpy.random.Generator, default=None
            Where chance comes from; None is the same every time.

        Returns
        -------
        Density
            `mean`, shape (n,), and `quantiles`, shape (q, n).
        """
        if not self.is_gaussian:
            raise ValueError(f"density is of Gaussian clusters, not of the family {self.family}")
        if not all(0 <= quantile <= 1 for quantile in quantiles):
            raise ValueError(f"quantiles should be from 0 to 1, not {list(quantiles)}")
        rng = np.random.default_rng(0) if rng is None else rng
        if columns is None:
            found = density_of(self, self._points(X), quantiles, None, rng)
            if self.subspace is None:
                return found
            noise = np.exp(self.subspace.log_noise(self._prepared(self._read(X))))
            return Density(found.mean * noise, found.quantiles * noise)
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
            Rows with the columns of the fit; of a table they are found by name.
        method : {"separation", "dip", "demp", "entropy"}, default="separation"
            Which two are joined next, as in `DPMM.groups`; without fits to half of the rows.
        cut : float, default=None
            What the suggested cut joins, as in `DPMM.groups`.
        seen : GroupEvidence, default=None
            What else is known of the rows, by which "separation" tells clusters apart.

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

        points = self._points(X) if self.is_gaussian else np.full((1, 1), np.nan)
        if not np.isfinite(points).all():
            return None
        own = slice(self.n_clusters)
        covariances = np.asarray(self.posterior.mean_covariance())[own]
        return Shape(np.asarray(points, np.float64), np.asarray(self.posterior.mean)[own], covariances)

    def save(self, path: str | Path) -> None:
        """Write the mixture, and the draws if there are any, as plain arrays: loading it cannot execute code.

        Parameters
        ----------
        path : str or Path
            A .npz file; it appears whole or not at all.
        """
        from dpmmwrap.posterior.mixture_file import save

        save(self, path)


def several(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def of_each(probabilities: Float64Array, components: IntArray) -> Float64Array:
    """The probability of one component for each row."""
    return np.asarray(probabilities[np.arange(len(components)), components])
