"""What a family of distributions has to offer: a likelihood with its conjugate prior.

A family is a class whose instances are its priors, `NIW` for one. An instance may stand for one distribution over the
parameters of a cluster, or for a batch of them, one per cluster, as `posterior` returns it: then every field has a
leading axis.

Statistics of clusters are NamedTuples of arrays with a leading axis of clusters, the number of points first: compiled
loops take them as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.random import Generator

from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.cells import Embedder

Points = Any
"""The data of a fit as a family stores them: a float32 array (N, D), a sparse matrix of counts, a `MixedPoints`."""
Statistics = Any
"""A NamedTuple of arrays, one row per cluster, `counts` first."""
SomeStatistics = TypeVar("SomeStatistics", bound=tuple[Any, ...])


class Prior(Protocol):
    """A conjugate prior, or a batch of posteriors, one per cluster."""

    family: ClassVar[str]
    """The name by which the family is kept in files."""
    FIELDS: ClassVar[tuple[str, ...]]
    """The hyperparameters' names: all that a file needs to hold."""

    @property
    def dim(self) -> int:
        """Features of a point."""

    def points(self, X: Points, n_jobs: int, stretch: Any = None, missing: bool | None = None) -> Any:
        """Points with the family's loops over them (`families.points.FamilyPoints`). Where they are only some of the
        rows, `stretch` says which, and `missing` whether values are missing in any row."""

    def posterior(self, statistics: Statistics) -> Any:
        """The posteriors given each cluster's statistics, as one batch."""

    def compute(self, statistics: Statistics) -> Computed:
        """The posteriors, and the log marginal likelihood of each cluster."""

    def log_marginal_likelihood(self, statistics: Statistics, posterior: Any = None) -> Float64Array:
        """log f(x; prior) of each cluster; pass the posterior if it is at hand."""

    def with_unions(self, subclusters: Statistics) -> Statistics:
        """Statistics of K clusters, then of their 2K subclusters, from the latter."""

    def log_predictive(self, X: Points) -> Float64Array:
        """log density of each distribution's posterior predictive at each row: (K, N)."""

    def sample(self, components: IntArray, rng: Generator) -> Any:
        """A new point from the predictive of each of these distributions of the batch."""

    def statistics(self, X: Points, labels: IntArray | None = None, n_clusters: int | None = None) -> Statistics:
        """Of rows grouped by label (negative labels are left out); of one cluster without labels."""

    def origin(self, X: Points) -> Any:
        """About which `plain_sums` are taken; None where it does not matter."""

    def plain_sums(self, X: Points, labels: IntArray, n_clusters: int, origin: Any) -> tuple[Any, ...]:
        """Sums over rows, in double precision, that can be added up."""

    def statistics_from_sums(self, sums: tuple[Any, ...], origin: Any) -> Statistics:
        """The statistics, from such sums."""

    def replaced(self, rows: IntArray, other: Any) -> Any:
        """This batch with other distributions in some rows."""

    def shifted(self, offset: FloatArray) -> Any:
        """The same prior for data from which `offset` has been subtracted."""

    def embedder(self, X: Points) -> Embedder:
        """From rows of the data to coordinates (dense or sparse) in which k-means makes sense."""

    def outliers(self, X: Points, n_rows: int | None = None) -> Any:
        """A broad prior for a component that collects outliers; of so many rows X is a sample, if it is one."""


@dataclass(frozen=True)
class Model:
    """What the chain samples from, but for the concentration: the prior (as it stands, if it is learned), and the
    outlier component (always cluster 0) if there is one."""

    prior: Prior
    outlier_weight: float = 0.0
    outlier_prior: Prior | None = None

    @cached_property
    def outliers(self) -> int:
        """How many of the first clusters are outlier components: 0 or 1."""
        return int(self.outlier_weight > 0)


class ClusterPosteriors(NamedTuple):
    """All that the statistics say of K clusters and their 2K subclusters (left and right of each in turn)."""

    clusters: Statistics
    subclusters: Statistics
    posterior: Any
    """A batch of the K clusters' posteriors, then of the 2K subclusters'."""
    log_marginal: Float64Array
    """log marginal likelihoods in the same order."""

    @property
    def n_clusters(self) -> int:
        return len(self.clusters.counts)

    @property
    def sides(self) -> Float64Array:
        """Number of points left and right: (K, 2)."""
        sides: Float64Array = self.subclusters.counts.reshape(-1, 2)
        return sides


class Computed(NamedTuple):
    """Posteriors of clusters, and their log marginal likelihoods."""

    posterior: Any
    log_marginal: Float64Array


class Moments(NamedTuple):
    """Sums over K Gaussians, drawn or expected, of their precisions P and means mu, the latter from some origin."""

    clusters: int
    precision: Float64Array
    """Sum of P, (D, D), or its diagonal (D,) where it has no other entries."""
    pull: Float64Array
    """Sum of P mu."""
    square: float
    """Sum of mu' P mu."""
    log_variance: float
    """Sum of the logarithms of |Sigma|."""


def take(statistics: SomeStatistics, index: Any) -> SomeStatistics:
    """The rows of some clusters."""
    return type(statistics)(*(array[index] for array in statistics))


def nothing_like(statistics: SomeStatistics, count: int) -> SomeStatistics:
    """The statistics of so many clusters without points."""
    return type(statistics)(*(np.zeros((count, *array.shape[1:])) for array in statistics))


def concatenate(parts: Sequence[SomeStatistics]) -> SomeStatistics:
    """The rows of several statistics, one after the other."""
    return type(parts[0])(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def put(statistics: tuple[Any, ...], rows: Any, others: tuple[Any, ...]) -> None:
    """Overwrite the rows of some clusters."""
    for own, other in zip(statistics, others, strict=True):
        own[rows] = other


def put_rows(values: Any, rows: IntArray, others: Any) -> Any:
    """A copy with other values in some rows."""
    values = np.array(values)
    values[rows] = others
    return values


def with_outlier_weight(model: Model, log_weights: Float64Array) -> Float64Array:
    """The clusters' log weights after that of the outlier component, which is fixed."""
    if not model.outliers:
        return log_weights
    return np.append(np.log(model.outlier_weight), log_weights + np.log1p(-model.outlier_weight))
