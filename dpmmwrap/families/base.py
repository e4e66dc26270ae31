"""All that the rest of the program may know of a family: a likelihood with its conjugate prior.

A `Family` is what `DPMM(family=...)` names: what data it takes, which priors it has, and who can run it. A prior is an
instance of a class, `NIW` for one. It may stand for one distribution over the parameters of a cluster, or for a batch
of them, one per cluster, as `posterior` returns it: then every field has a leading axis.

Statistics of clusters are NamedTuples of arrays with a leading axis of clusters, the number of points first: compiled
loops take them as they are.
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
"""The data of a fit as a family stores them: a float32 array (N, D), a sparse matrix of counts, a `TablePoints`."""
Statistics = Any
"""A NamedTuple of arrays, one row per cluster, `counts` first."""
SomeStatistics = TypeVar("SomeStatistics", bound=tuple[Any, ...])


Input = Literal["numbers", "counts", "table"]
"""What the columns of data hold."""


@dataclass(frozen=True, kw_only=True)
class Family:
    """What `DPMM(family=...)` and `--family` name. What a family does not say, it cannot do."""

    name: str
    input: Input
    priors: Mapping[str, str]
    """Its priors by the names that files and summaries call them: a module of `families`, a colon and a class."""
    compiled: Mapping[str, tuple[str, ...]]
    """Kinds of compiled loops, each with the tasks that compile a part of them (`sampler.tiny_runs`)."""
    reason: str = ""
    """Why its clusters have the form that they have, where nobody could choose."""
    covariance_types: tuple[str, ...] = ("auto",)
    """What `covariance_type` may be."""
    sparse: bool = False
    """Whether sparse matrices are taken."""
    exposure: bool = False
    """Whether a column may say for how long, or for how many, each row counts."""
    learned: bool = False
    """Whether its default prior is that of numeric columns, which is learned (`gaussian.hyperprior`)."""
    reference: bool = False
    """Whether it has the reference package's prior."""
    prior_file: bool = True
    """Whether a prior can be read from a file of numbers."""
    network: bool = False
    """Whether a network can begin its subclusters."""
    julia: tuple[str, ...] = ()
    """Those of its priors that Julia's sampler knows."""
    dask: bool = True
    """Whether its rows can be on several machines."""
    weighted: bool = True
    """Whether rows may have weights."""
    gaps: bool = True
    """Whether values may be missing."""
    with_tails: str = ""
    """The family of the same points whose clusters may have heavy tails, and covariances of the same types."""

    @property
    def kinds(self) -> tuple[str, ...]:
        """The names of its priors."""
        return tuple(self.priors)

    def kind_of(self, covariance_type: str) -> str:
        """The name of its priors with covariances of a type; "auto" is the first."""
        at = self.covariance_types.index(covariance_type) - 1 if covariance_type in self.covariance_types else 0
        return self.kinds[max(at, 0)]

    @property
    def mixes(self) -> bool:
        """Whether it takes tables with words in them."""
        return self.input == "table"

    def prior_class(self, kind: str | None = None) -> Any:
        """The class of its priors of a kind; of the only one."""
        module, name = self.priors[kind or self.kinds[0]].split(":")
        return getattr(importlib.import_module(f"dpmmwrap.families.{module}"), name)

    def examples(self) -> Any:
        """The module with a few points and a prior for each kind of compiled loops (EXAMPLES, EXTRA)."""
        return importlib.import_module(f"dpmmwrap.families.{self.name}.examples")


class Prior(ABC):
    """A conjugate prior, or a batch of posteriors, one per cluster. What is not abstract holds for most families."""

    family: ClassVar[str]
    """The name by which its kind is kept in files."""
    FIELDS: ClassVar[tuple[str, ...]]
    """The hyperparameters' names: all that a file needs to hold."""
    STATISTICS: ClassVar[type[tuple[Any, ...]]]
    """The NamedTuple of its clusters' statistics, with a method `scaled`."""
    input: ClassVar[Input] = "numbers"
    covariances: ClassVar[str] = ""
    """What its covariances are called, as in "full covariances"; nothing if it has none."""
    correlated: ClassVar[bool] = False
    """Whether columns may be correlated within a cluster."""
    ones: ClassVar[str] = "ones"
    """Such covariances, as in "they make the data more probable than full ones"."""
    profile: ClassVar[Input] = "numbers"
    """By what its clusters are told apart in reports: means of numbers, shares of counts."""
    coordinates: ClassVar[str] = "standardised features"
    """What `embedder` makes of a row, in words."""
    other: ClassVar[str] = "a smaller concentration of the prior"
    """What to try if no split is ever accepted."""
    called: ClassVar[str] = "a prior"
    """The prior, in words."""

    @property
    def file_input(self) -> Input:
        """What the columns of its files hold."""
        return self.input

    @staticmethod
    def fitting(fields: dict[str, Any]) -> dict[str, Any]:
        """Fields of a file as a prior takes them."""
        return fields

    @staticmethod
    def n_parameters(dim: int) -> int:
        """Numbers that describe one cluster."""
        return dim

    @staticmethod
    def is_costly(dim: int) -> bool:
        """Whether an iteration takes long in this many dimensions."""
        return False

    @staticmethod
    def rows_per_cluster(dim: int) -> int:
        """Rows that tell the shape of a cluster, about."""
        return 1

    @staticmethod
    def is_wide(X: Points) -> bool:
        """Whether there are so few rows for each column that halves of all rows say little: then a chain begins with
        many clusters."""
        return False

    def filled(self, X: Points, labels: IntArray, seed: int) -> tuple[Points, float]:
        """Of a batch of posteriors: rows with their missing values drawn given what is observed and their cluster, and
        the log density of these; the rows themselves where statistics do with what is observed."""
        return X, 0.0

    def counting_observed(self, statistics: Statistics) -> Statistics:
        """Statistics that also count the observed values, feature by feature: those of rows with gaps add to them. The
        statistics themselves where they always do, or never."""
        return statistics

    def estimates(self) -> dict[str, Float64Array]:
        """What a fitted model shows of the clusters' parameters, by name, (K, ...)."""
        return {}

    def compute_both(self, subclusters: Statistics) -> ClusterPosteriors:
        """Posteriors and log marginal likelihoods of clusters and subclusters, from the statistics of the latter."""
        every = self.with_unions(subclusters)
        count = len(subclusters.counts) // 2
        return ClusterPosteriors(take(every, slice(0, count)), take(every, slice(count, None)), *self.compute(every))

    @property
    def tail_freedoms(self) -> Float64Array | None:
        """Degrees of freedom of each distribution's tails; None where all are Gaussian."""
        return None

    def draw_tail_freedoms(self, clusters: int, rng: Generator) -> Float64Array | None:
        """Of a prior: such degrees of freedom for some clusters."""
        return None

    def describe_tails(self, clusters: int) -> str | None:
        """Of a batch of posteriors: how many of the first clusters have tails; None where none can have any."""
        return None

    @property
    @abstractmethod
    def dim(self) -> int:
        """Features of a point."""

    @abstractmethod
    def points(
        self, X: Points, n_jobs: int, stretch: Any = None, missing: bool | None = None, weights: Any = None
    ) -> Any:
        """Points with the family's loops over them (`families.points.FamilyPoints`). Where they are only some of the
        rows, `stretch` says which, and `missing` whether values are missing in any row. With weights, a row of weight w
        is w equal rows that stay together."""

    @abstractmethod
    def posterior(self, statistics: Statistics) -> Any:
        """The posteriors given each cluster's statistics, as one batch."""

    @abstractmethod
    def compute(self, statistics: Statistics) -> PosteriorBatch:
        """The posteriors, and the log marginal likelihood of each cluster."""

    @abstractmethod
    def log_marginal_likelihood(self, statistics: Statistics, posterior: Any = None) -> Float64Array:
        """log f(x; prior) of each cluster; pass the posterior if it is at hand."""

    @abstractmethod
    def with_unions(self, subclusters: Statistics) -> Statistics:
        """Statistics of K clusters, then of their 2K subclusters, from the latter."""

    @abstractmethod
    def log_predictive(self, X: Points) -> Float64Array:
        """log density of each distribution's posterior predictive at each row: (K, N)."""

    @abstractmethod
    def sample(self, components: IntArray, rng: Generator) -> Any:
        """A new point from the predictive of each of these distributions of the batch."""

    @abstractmethod
    def statistics(
        self, X: Points, labels: IntArray | None = None, n_clusters: int | None = None, weights: Any = None
    ) -> Statistics:
        """The statistics of rows grouped by label (negative labels are left out); of one cluster without labels. A row
        counts as often as its weight says."""

    @abstractmethod
    def origin(self, X: Points) -> Any:
        """About which `plain_sums` are taken; None where it does not matter."""

    @abstractmethod
    def plain_sums(self, X: Points, labels: IntArray, n_clusters: int, origin: Any) -> tuple[Any, ...]:
        """Sums over rows, in double precision, that can be added up."""

    @abstractmethod
    def statistics_from_sums(self, sums: tuple[Any, ...], origin: Any) -> Statistics:
        """The statistics, from such sums."""

    @abstractmethod
    def shifted(self, offset: FloatArray) -> Any:
        """The same prior for data from which `offset` has been subtracted."""

    def embedder(self, X: Points) -> Embedder:
        """From rows of the data to coordinates (dense or sparse) in which k-means makes sense."""
        raise NotImplementedError

    def replaced(self, rows: IntArray, other: Any) -> Any:
        """This batch with other distributions in some rows: outlier components and draws need it."""
        raise NotImplementedError

    def outliers(self, X: Points, n_rows: int | None = None) -> Any:
        """A broad prior for a component that collects outliers; X may be a sample of `n_rows` rows."""
        raise NotImplementedError


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


class PosteriorBatch(NamedTuple):
    """Posteriors of clusters, and their log marginal likelihoods."""

    posterior: Any
    log_marginal: Float64Array


def take(statistics: SomeStatistics, index: Any) -> SomeStatistics:
    """The rows of some clusters."""
    return type(statistics)(*(array[index] for array in statistics))


def nothing_like(statistics: SomeStatistics, count: int) -> SomeStatistics:
    """The statistics of `count` clusters without points."""
    return type(statistics)(*(np.zeros((count, *array.shape[1:]), array.dtype) for array in statistics))


def concatenate(parts: Sequence[SomeStatistics]) -> SomeStatistics:
    """The rows of several statistics, one after the other."""
    return type(parts[0])(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))


def put(statistics: tuple[Any, ...], rows: Any, others: tuple[Any, ...]) -> None:
    """Overwrite the rows of some clusters."""
    for own, other in zip(statistics, others, strict=True):
        own[rows] = other


def grouped(labels: IntArray | None, rows: int, n_clusters: int | None) -> tuple[IntArray, int]:
    """Labels of all rows and how many clusters they name; one cluster without labels."""
    if labels is None:
        return np.zeros(rows, np.int32), 1
    return labels, int(labels.max(initial=-1)) + 1 if n_clusters is None else n_clusters


def counts_of(labels: IntArray, count: int, weights: Any = None) -> Float64Array:
    """How many rows each label has, or how much they weigh; negative labels are left out."""
    kept = labels >= 0
    return np.bincount(labels[kept], None if weights is None else weights[kept], count).astype(np.float64)


def sums_by_label(values: Float64Array, labels: IntArray, count: int) -> Float64Array:
    """The sum of each label's rows; negative labels are left out."""
    order = np.argsort(labels, kind="stable")
    edges = np.searchsorted(labels[order], np.arange(count + 1))
    present = np.flatnonzero(np.diff(edges))
    sums = np.zeros((count, values.shape[1]))
    if len(present):
        sums[present] = np.add.reduceat(values[order[: edges[-1]]], edges[present], axis=0)
    return sums


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
