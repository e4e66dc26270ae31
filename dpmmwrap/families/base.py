"""The interface of a family: a likelihood with its conjugate prior. Nothing else of a family is visible outside.

A `Family` is what `DPMM(family=...)` selects. It states which data it accepts, which priors it has, and which backends
can run it. A prior is an instance of a class such as `NIW`. It holds either one distribution over the parameters of a
cluster, or a batch of them, one per cluster, as returned by `posterior`; every field of a batch has a leading axis.

Cluster statistics are NamedTuples of arrays whose leading axis is the cluster. The first array is the number of
points. Compiled loops take these tuples directly.
"""

from __future__ import annotations

import importlib
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

import numpy as np
from numpy.random import Generator

from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.cells import Embedder

Points = Any
"""The data in the family's own format: a float32 array (N, D), a sparse matrix of counts, or `TablePoints`."""
Statistics = Any
"""A NamedTuple of arrays, one row per cluster, `counts` first."""
SomeStatistics = TypeVar("SomeStatistics", bound=tuple[Any, ...])


Input = Literal["numbers", "counts", "table"]
"""What the columns of the data contain."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """A value of `DPMM(family=...)` and `--family`. Capabilities that a family does not declare are absent."""

    name: str
    input: Input
    priors: Mapping[str, str]
    """Its priors: the name used in files and summaries, and "module:Class" relative to `families`."""
    compiled: tuple[str, ...]
    """Kinds of compiled loops (`sampler.tiny_runs`)."""
    reason: str = ""
    """Why the shape of its clusters is what it is, for families that offer no choice."""
    covariance_types: tuple[str, ...] = ("auto",)
    """The values that `covariance_type` may take."""
    sparse: bool = False
    """Whether it accepts sparse matrices."""
    exposure: bool = False
    """Whether a column may give each row's exposure (time or population at risk)."""
    learned: bool = False
    """Whether its default prior is the learned prior for numeric columns (`learned.hyperprior`)."""
    reference: bool = False
    """Whether the reference package's prior is available."""
    prior_file: bool = True
    """Whether the prior can be read from a file of numbers."""
    network: bool = False
    """Whether SplitNet can initialise its subclusters."""
    julia: tuple[str, ...] = ()
    """Those of its priors that the Julia sampler supports."""
    dask: bool = True
    """Whether its rows can be distributed over several machines."""
    weighted: bool = True
    """Whether it accepts row weights."""
    gaps: bool = True
    """Whether it accepts missing values."""
    with_tails: str = ""
    """The family for the same data that allows heavy tails and has the same covariance types."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of its priors."""
        return tuple(self.priors)

    def kind_of(self, covariance_type: str) -> str:
        """The name of the prior with this covariance type; "auto" gives the first."""
        at = self.covariance_types.index(covariance_type) - 1 if covariance_type in self.covariance_types else 0
        return self.kinds[max(at, 0)]

    @property
    def mixes(self) -> bool:
        """Whether it takes tables that may contain words."""
        return self.input == "table"

    def prior_class(self, kind: str | None = None) -> Any:
        """The prior class of this kind; by default the first."""
        module, name = self.priors[kind or self.kinds[0]].split(":")
        return getattr(importlib.import_module(f"dpmmwrap.families.{module}"), name)

    def examples(self) -> Any:
        """The module with a few points and a prior for each kind of compiled loop (EXAMPLES)."""
        return importlib.import_module(f"dpmmwrap.families.{self.name}.examples")


class Prior(ABC):
    """A conjugate prior, or a batch of posteriors, one per cluster. Non-abstract methods have defaults for most
    families."""

    family: ClassVar[str]
    """The name of this kind of prior in files."""
    FIELDS: ClassVar[tuple[str, ...]]
    """The names of the hyperparameters, which are all that a file has to store."""
    STATISTICS: ClassVar[type[tuple[Any, ...]]]
    """The NamedTuple of its cluster statistics, with a method `scaled`."""
    input: ClassVar[Input] = "numbers"
    covariances: ClassVar[str] = ""
    """The name of its covariances, as in "full covariances"; empty if it has none."""
    correlated: ClassVar[bool] = False
    """Whether columns may be correlated within a cluster."""
    ones: ClassVar[str] = "ones"
    """Its covariances, as in "they make the data more probable than full ones"."""
    profile: ClassVar[Input] = "numbers"
    """How reports tell its clusters apart: by means of numbers or by shares of counts."""
    coordinates: ClassVar[str] = "standardised features"
    """A description of the coordinates that `embedder` produces."""
    other: ClassVar[str] = "a smaller concentration of the prior"
    """What to try if no split is ever accepted."""
    called: ClassVar[str] = "a prior"
    """The prior, in words."""

    @property
    def file_input(self) -> Input:
        """What the columns of its data files contain."""
        return self.input

    @staticmethod
    def fitting(fields: dict[str, Any]) -> dict[str, Any]:
        """Convert fields read from a file to the form that the prior takes."""
        return fields

    @staticmethod
    def n_parameters(dim: int) -> int:
        """Number of parameters of one cluster."""
        return dim

    @staticmethod
    def is_costly(dim: int) -> bool:
        """Whether an iteration takes long in this many dimensions."""
        return False

    @staticmethod
    def rows_per_cluster(dim: int) -> int:
        """Roughly how many rows determine the shape of a cluster."""
        return 1

    @staticmethod
    def is_wide(X: Points) -> bool:
        """Whether there are so few rows per column that halves of the data say little. A chain then starts with many
        clusters."""
        return False

    def filled(self, X: Points, labels: IntArray, seed: int) -> tuple[Points, float]:
        """For a batch of posteriors: impute the missing values from their conditional distribution given the observed
        values and the cluster; return the completed rows and the log density of the imputed values. Families whose
        statistics use only observed values return the rows unchanged."""
        return X, 0.0

    def counting_observed(self, statistics: Statistics) -> Statistics:
        """Statistics that also count the observed values of each feature, so that rows with gaps can be added.
        Unchanged if the family always counts them, or never does."""
        return statistics

    def estimates(self) -> dict[str, Float64Array]:
        """Estimates of the cluster parameters that a fitted model exposes, by name, each (K, ...)."""
        return {}

    def compute_both(self, subclusters: Statistics) -> ClusterPosteriors:
        """Posteriors and log marginal likelihoods of clusters and subclusters, from the subclusters' statistics."""
        every = self.with_unions(subclusters)
        count = len(subclusters.counts) // 2
        return ClusterPosteriors(take(every, slice(0, count)), take(every, slice(count, None)), *self.compute(every))

    @property
    def tail_freedoms(self) -> Float64Array | None:
        """Degrees of freedom of each distribution's tails; None if all are Gaussian."""
        return None

    def draw_tail_freedoms(self, clusters: int, rng: Generator) -> Float64Array | None:
        """For a prior: degrees of freedom of the tails of some clusters, drawn from the prior."""
        return None

    def describe_tails(self, clusters: int) -> str | None:
        """For a batch of posteriors: how many of the first clusters have heavy tails; None if none can."""
        return None

    @property
    @abstractmethod
    def dim(self) -> int:
        """Number of features."""

    @abstractmethod
    def points(
        self, X: Points, n_jobs: int, stretch: Any = None, missing: bool | None = None, weights: Any = None
    ) -> Any:
        """Wrap points with the family's compiled loops (`families.points.FamilyPoints`). If X holds only some of the
        rows, `stretch` says which ones, and `missing` whether any row of the data has missing values. A row of weight w
        counts as w identical rows that stay together."""

    @abstractmethod
    def posterior(self, statistics: Statistics) -> Any:
        """The posterior of each cluster given its statistics, as one batch."""

    @abstractmethod
    def compute(self, statistics: Statistics) -> PosteriorBatch:
        """The posterior and the log marginal likelihood of each cluster."""

    @abstractmethod
    def log_marginal_likelihood(self, statistics: Statistics, posterior: Any = None) -> Float64Array:
        """log f(x; prior) of each cluster. Pass the posterior if it is already available."""

    @abstractmethod
    def with_unions(self, subclusters: Statistics) -> Statistics:
        """Statistics of K clusters followed by those of their 2K subclusters, from the latter."""

    @abstractmethod
    def log_predictive(self, X: Points) -> Float64Array:
        """Log density of each row under the posterior predictive of each distribution: (K, N)."""

    @abstractmethod
    def sample(self, components: IntArray, rng: Generator) -> Any:
        """Draw one point from the predictive of each of these distributions of the batch."""

    @abstractmethod
    def statistics(
        self, X: Points, labels: IntArray | None = None, n_clusters: int | None = None, weights: Any = None
    ) -> Statistics:
        """Statistics of the rows grouped by label, or of all rows as one cluster if there are no labels. Rows with
        negative labels are left out. Each row counts as often as its weight says."""

    @abstractmethod
    def origin(self, X: Points) -> Any:
        """The point about which `plain_sums` are taken; None where it does not matter."""

    @abstractmethod
    def plain_sums(self, X: Points, labels: IntArray, n_clusters: int, origin: Any) -> tuple[Any, ...]:
        """Sums over rows in double precision. The sums of disjoint sets of rows can be added."""

    @abstractmethod
    def statistics_from_sums(self, sums: tuple[Any, ...], origin: Any) -> Statistics:
        """Convert such sums to statistics."""

    @abstractmethod
    def shifted(self, offset: FloatArray) -> Any:
        """The same prior for data from which `offset` has been subtracted."""

    def embedder(self, X: Points) -> Embedder:
        """A map from rows to coordinates (dense or sparse) in which k-means makes sense."""
        raise NotImplementedError

    def replaced(self, rows: IntArray, other: Any) -> Any:
        """This batch with some rows replaced by other distributions. Outlier components and draws need it."""
        raise NotImplementedError

    def outliers(self, X: Points, n_rows: int | None = None) -> Any:
        """A broad prior for the outlier component. X may be a sample of `n_rows` rows."""
        raise NotImplementedError


@dataclass(frozen=True)
class Model:
    """The model of a chain except for the prior over partitions: the prior (its current value if it is learned), and
    the outlier component, if any, which is always cluster 0."""

    prior: Prior
    outlier_weight: float = 0.0
    outlier_prior: Prior | None = None

    @cached_property
    def outliers(self) -> int:
        """Number of outlier components: 0 or 1. They come first."""
        return int(self.outlier_weight > 0)


class ClusterPosteriors(NamedTuple):
    """Statistics, posteriors and marginal likelihoods of K clusters and their 2K subclusters (left, right, left,
    ...)."""

    clusters: Statistics
    subclusters: Statistics
    posterior: Any
    """The posteriors of the K clusters, then of the 2K subclusters, as one batch."""
    log_marginal: Float64Array
    """Log marginal likelihoods in the same order."""

    @property
    def n_clusters(self) -> int:
        return len(self.clusters.counts)

    @property
    def sides(self) -> Float64Array:
        """Number of points in the left and right subclusters: (K, 2)."""
        sides: Float64Array = self.subclusters.counts.reshape(-1, 2)
        return sides


class PosteriorBatch(NamedTuple):
    """Posteriors of clusters and their log marginal likelihoods."""

    posterior: Any
    log_marginal: Float64Array


def take(statistics: SomeStatistics, index: Any) -> SomeStatistics:
    """Select the statistics of some clusters."""
    return type(statistics)(*(array[index] for array in statistics))


def nothing_like(statistics: SomeStatistics, count: int) -> SomeStatistics:
    """The statistics of `count` empty clusters."""
    return type(statistics)(*(np.zeros((count, *array.shape[1:]), array.dtype) for array in statistics))


def concatenate(parts: Sequence[SomeStatistics]) -> SomeStatistics:
    """Concatenate statistics along the cluster axis."""
    return type(parts[0])(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def put(statistics: tuple[Any, ...], rows: Any, others: tuple[Any, ...]) -> None:
    """Overwrite the statistics of some clusters in place."""
    for own, other in zip(statistics, others, strict=True):
        own[rows] = other


def grouped(labels: IntArray | None, rows: int, n_clusters: int | None) -> tuple[IntArray, int]:
    """The labels and the number of clusters; without labels, one cluster of all rows."""
    if labels is None:
        return np.zeros(rows, np.int32), 1
    return labels, int(labels.max(initial=-1)) + 1 if n_clusters is None else n_clusters


def counts_of(labels: IntArray, count: int, weights: Any = None) -> Float64Array:
    """Number, or total weight, of the rows with each label; negative labels are left out."""
    kept = labels >= 0
    return np.bincount(labels[kept], None if weights is None else weights[kept], count).astype(np.float64)


def sums_by_label(values: Float64Array, labels: IntArray, count: int) -> Float64Array:
    """The sum of the rows with each label; negative labels are left out."""
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(count + 1))
    present = np.flatnonzero(np.diff(edges))
    sums = np.zeros((count, values.shape[1]))
    if len(present):
        sums[present] = np.add.reduceat(values[order[: edges[-1]]], edges[present], axis=0)
    return sums


def put_rows(values: Any, rows: IntArray, others: Any) -> Any:
    """A copy of `values` with some rows replaced."""
    values = np.array(values)
    values[rows] = others
    return values


def expected_deviations(prior: Any) -> Float64Array:
    """The standard deviation of each feature that a Gaussian prior expects within a cluster."""
    scale = prior.scale.diagonal() if prior.scale.ndim == 2 else prior.scale
    return np.asarray(np.sqrt(scale / prior.degrees_of_freedom))


def with_outlier_weight(model: Model, log_weights: Float64Array) -> Float64Array:
    """Prepend the fixed weight of the outlier component, if any, to the clusters' log weights."""
    if not model.outliers:
        return log_weights
    return np.append(np.log(model.outlier_weight), log_weights + np.log1p(-model.outlier_weight))
