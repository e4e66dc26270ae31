"""Priors over partitions, as moves and backends use them."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import replace
from typing import Any, ClassVar, Self

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array
from dpmmwrap.partitions.gibbs_type import GibbsType, log_size_terms

NO_NUMBERS: Float64Array = np.empty(0)


class PartitionPrior(ABC):
    """A prior over partitions of Gibbs type (see `gibbs_type`), with the current values of its parameters.

    It is immutable: learning a parameter returns another prior.
    """

    name: ClassVar[str]
    parameters: ClassVar[tuple[str, ...]]
    """Names of the numbers in `values`."""

    @property
    @abstractmethod
    def values(self) -> tuple[float, ...]:
        """The current values of the parameters; the first is called alpha elsewhere."""

    @abstractmethod
    def at(self, values: tuple[float, ...]) -> Self:
        """The same prior with other values of its parameters."""

    @property
    @abstractmethod
    def learned(self) -> tuple[str, ...]:
        """The parameters that are learned."""

    @property
    @abstractmethod
    def shift(self) -> float:
        """A cluster of n points attracts the next one with weight n + shift."""

    @property
    @abstractmethod
    def side(self) -> float:
        """Added to the sizes of the two subclusters when their weights are drawn."""

    @abstractmethod
    def log_new(self, points: float, clusters: int) -> Float64Array:
        """log weights of a new cluster beside 0, ..., `clusters` - 1 others, among `points` in all."""

    @abstractmethod
    def log_one_cluster(self, points: float) -> float:
        """log V(N, 1)."""

    @abstractmethod
    def rest(self, key: Any, points: float, clusters: int) -> float:
        """The shape of the gamma variable for the weight of everything outside of clusters; drawn if it is random."""

    def log_density(self) -> float:
        """log density of the learned parameters, up to a constant."""
        return 0.0

    def draw(self, key: Any, counts: Float64Array) -> Self:
        """The prior with learned parameters drawn given the sizes of the clusters."""
        return self

    @abstractmethod
    def cluster_probabilities(self, points: int) -> Float64Array:
        """p(K | N) before the data are seen, from K = 0 on."""

    @property
    def alpha(self) -> float:
        """The first parameter: the concentration, or gamma of a finite mixture."""
        return self.values[0]

    def scaled(self, factor: float) -> Self:
        """The prior with the first parameter multiplied by a factor, and all parameters fixed."""
        return self.fixed().at((factor * self.values[0], *self.values[1:]))

    def fixed(self) -> Self:
        """The prior with all parameters fixed at their current values."""
        changes = dict(zip(self.parameters, self.values, strict=True))
        return replace(self, **changes)  # type: ignore[type-var]

    def for_moves(self, counts: Float64Array, births: int = 0) -> GibbsType:
        """The prior for moves that begin with clusters of these sizes and create up to `births` more."""
        points, clusters = sizes(counts)
        return self._compiled(self.log_new(points or 1.0, clusters + births + 2), 0.0)

    def for_weights(self, key: Any, counts: Float64Array) -> GibbsType:
        """The prior for draws of the weights of clusters of these sizes."""
        return self._compiled(NO_NUMBERS, self.rest(key, *sizes(counts)))

    def _with(self, **values: Any) -> Self:
        """A copy with other values of some fields, without checks."""
        other = object.__new__(type(self))
        other.__dict__.update(self.__dict__, **values)
        return other

    def _compiled(self, log_new: Float64Array, rest: float) -> GibbsType:
        return GibbsType(log_new, self.shift, math.lgamma(1.0 + self.shift), float(rest), self.side)

    def log_partition(self, counts: Float64Array) -> float:
        """log probability of a partition into clusters of these sizes; empty ones do not count."""
        points, clusters = sizes(counts)
        if not points:
            return 0.0
        prior = self._compiled(self.log_new(points, clusters + 2), 0.0)
        return self.log_one_cluster(points) + float(log_size_terms(prior, counts))

    def log_joint(self, counts: Float64Array, log_marginal: Float64Array) -> float:
        """log probability of a partition and of its clusters' data, whose log marginals come first."""
        return self.log_partition(counts) + float(np.add.reduce(log_marginal[: len(counts)]))


def sizes(counts: Float64Array) -> tuple[float, int]:
    """The number of points, by weight, and of clusters that have any."""
    return float(np.add.reduce(counts)), int(np.count_nonzero(counts))


def log_joint_with_outliers(
    prior: PartitionPrior, counts: Float64Array, log_marginal: Float64Array, outlier_weight: float
) -> float:
    """log p(labels, parameters of the prior, X). With an outlier component, which comes first, each point is an outlier
    with probability `outlier_weight`, independently of the others; the prior is that of the partition of the rest."""
    outliers = int(outlier_weight > 0)
    total = prior.log_joint(counts[outliers:], log_marginal[outliers:]) + prior.log_density()
    if outliers:
        inside = float(counts[1:].sum())
        total += float(log_marginal[0]) + counts[0] * math.log(outlier_weight) + inside * math.log1p(-outlier_weight)
    return total


def log_gamma_density(value: float, prior: tuple[float, float]) -> float:
    """log density of the Gamma distribution with this shape and rate."""
    shape, rate = prior
    return shape * math.log(rate) - math.lgamma(shape) + (shape - 1.0) * math.log(value) - rate * value


def is_auto(value: Any) -> bool:
    return isinstance(value, str) and value == "auto"


def check_parameter(name: str, value: Any, low: float, high: float = math.inf) -> None:
    """Refuse a parameter that is neither "auto" nor a number between `low` and `high`."""
    if is_auto(value):
        return
    number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
    if not number or not low < float(value) < high:
        between = f"above {low:g}" if math.isinf(high) else f"above {low:g} and below {high:g}"
        raise ValueError(f'{name} should be "auto" or a number {between}, not {value!r}')
