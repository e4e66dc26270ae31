"""Mixed tables: numeric columns (diagonal Gaussian) and categorical columns, independent within a cluster."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from dpmmwrap.families.base import Input, PosteriorBatch
from dpmmwrap.families.categorical.prior import CategoricalDirichlet
from dpmmwrap.families.diagonal.prior import NIG, Posteriors
from dpmmwrap.families.learned.base import LearnedPrior, Start, Summary
from dpmmwrap.families.learned.hyperprior import STEPS
from dpmmwrap.families.linear.prior import LinearPrior
from dpmmwrap.families.linear.statistics import LinearStatistics
from dpmmwrap.families.tables import Columns, TablePoints
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.cells import Embedder, sample_rows, standardiser


@dataclass(frozen=True)
class Mixed(LinearPrior):
    """A normal-inverse-gamma prior for the numeric columns and a Dirichlet prior for each categorical one."""

    numeric: NIG
    categorical: CategoricalDirichlet
    family: ClassVar[str] = "mixed"
    input: ClassVar[Input] = "table"
    coordinates: ClassVar[str] = "standardised columns and categories"
    numeric_kind: ClassVar[str] = NIG.family
    """The name of the prior of the numeric columns."""
    FIELDS: ClassVar[tuple[str, ...]] = (*NIG.FIELDS, *CategoricalDirichlet.FIELDS)

    @classmethod
    def of_columns(cls, columns: Columns, numeric: NIG | None) -> Mixed:
        """Add the default prior of the categorical columns; `numeric` is None if there are no numeric columns."""
        return cls(no_columns() if numeric is None else numeric, CategoricalDirichlet.from_levels(columns.levels))

    @staticmethod
    def learned(numeric: LearnedPrior) -> LearnedPrior:
        """Combine the learned prior of the numeric columns with the fixed prior of the categorical ones."""
        return MixedHyperprior(numeric)

    @classmethod
    def from_fields(cls, *fields: Any) -> Mixed:
        count = len(NIG.FIELDS)
        return cls(NIG(*fields[:count]), CategoricalDirichlet(*fields[count:]))

    def __getattr__(self, name: str) -> Any:
        # Files store the fields of both parts.
        if name in NIG.FIELDS:
            return getattr(self.__dict__["numeric"], name)
        if name in CategoricalDirichlet.FIELDS:
            return getattr(self.__dict__["categorical"], name)
        raise AttributeError(name)

    @property
    def dim(self) -> int:
        return self.numeric.dim + self.categorical.dim

    @cached_property
    def levels_total(self) -> int:
        return int(self.categorical.levels.sum())

    @property
    def parts(self) -> tuple[NIG, CategoricalDirichlet]:
        """The prior of each kind of columns."""
        return self.numeric, self.categorical

    def make_parts(self, X: TablePoints) -> list[Any]:
        return [*self.numeric.make_parts(X.numeric), *self.categorical.make_parts(X.codes)]

    def divided(self, statistics: LinearStatistics) -> tuple[LinearStatistics, LinearStatistics]:
        """Split statistics into those of the numeric and those of the categorical columns."""
        split = statistics.sums.shape[1] - self.levels_total
        # Compiled loops expect contiguous arrays.
        sums = (np.ascontiguousarray(statistics.sums[:, :split]), np.ascontiguousarray(statistics.sums[:, split:]))
        return LinearStatistics(statistics.counts, sums[0]), LinearStatistics(statistics.counts, sums[1])

    def compute(self, statistics: LinearStatistics) -> PosteriorBatch:
        numeric, categorical = self.divided(statistics)
        one, two = self.numeric.compute(numeric), self.categorical.compute(categorical)
        return PosteriorBatch(Mixed(one.posterior, two.posterior), one.log_marginal + two.log_marginal)

    def union_log_marginals(self, statistics: LinearStatistics, one: IntArray, other: IntArray) -> Float64Array:
        numeric, categorical = self.divided(statistics)
        found = self.numeric.union_log_marginals(numeric, one, other)
        return found + self.categorical.union_log_marginals(categorical, one, other)

    def log_predictive(self, X: TablePoints) -> Float64Array:
        return self.numeric.log_predictive(X.numeric) + self.categorical.log_predictive(X.codes)

    def log_predictive_of(self, X: TablePoints, k: int) -> Float64Array:
        """Log density of one distribution's predictive at each row."""
        return self.numeric.log_predictive_of(X.numeric, k) + self.categorical.log_predictive_of(X.codes, k)

    def log_predictive_at(self, X: TablePoints, rows: IntArray, components: IntArray) -> Float64Array:
        """Log density at pairs of a row and a distribution."""
        numeric = self.numeric.log_predictive_at(X.numeric, rows, components)
        return numeric + self.categorical.log_predictive_at(X.codes, rows, components)

    def upper_bounds(self, X: TablePoints) -> Float32Array:
        """Upper bounds on the log density of each predictive at each row (N, K); NaN where a number is missing."""
        found = self.numeric.upper_bounds(X.numeric)
        for codes in X.codes.T:
            found += self.categorical.log_shares.astype(np.float32)[codes]
        return found

    def sample(self, components: IntArray, rng: Generator) -> TablePoints:
        return TablePoints(self.numeric.sample(components, rng), self.categorical.sample(components, rng))

    def statistics(
        self, X: TablePoints, labels: IntArray | None = None, n_clusters: int | None = None, weights: Any = None
    ) -> LinearStatistics:
        numeric = self.numeric.statistics(X.numeric, labels, n_clusters, weights)
        categorical = self.categorical.statistics(X.codes, labels, n_clusters, weights)
        return LinearStatistics(numeric.counts, np.concatenate([numeric.sums, categorical.sums], axis=1))

    def counting_observed(self, statistics: LinearStatistics) -> LinearStatistics:
        numeric, categorical = self.divided(statistics)
        numeric = self.numeric.counting_observed(numeric)
        return LinearStatistics(numeric.counts, np.concatenate([numeric.sums, categorical.sums], axis=1))

    def replaced(self, rows: IntArray, other: Mixed) -> Mixed:
        return Mixed(self.numeric.replaced(rows, other.numeric), self.categorical.replaced(rows, other.categorical))

    def shifted(self, offset: FloatArray) -> Mixed:
        return Mixed(self.numeric.shifted(offset), self.categorical)

    def embedder(self, X: TablePoints) -> Embedder:
        """Standardise numeric columns and use an indicator per level, so that two different levels are as far apart as
        two random values of a numeric column: a squared distance of 2."""
        scale = standardiser(X.numeric[sample_rows(len(X), 0)])
        width = self.levels_total

        def embed(rows: TablePoints) -> Float32Array:
            indicators = np.zeros((len(rows), width + 1), np.float32)
            np.put_along_axis(indicators, rows.codes.astype(np.int64), 1.0, axis=1)
            return np.concatenate([scale(rows.numeric), indicators[:, :width]], axis=1)

        return embed

    def outliers(self, X: TablePoints, n_rows: int | None = None) -> Mixed:
        return Mixed(self.numeric.outliers(X.numeric, n_rows), self.categorical.outliers(X.codes, n_rows))


@dataclass(frozen=True)
class MixedHyperprior:
    """The hyperprior of mixed tables. Only the prior of the numeric columns is learned."""

    numeric: LearnedPrior

    def unrestricted(self) -> MixedHyperprior:
        return MixedHyperprior(self.numeric.unrestricted())

    def identity(self) -> list[float | None]:
        return self.numeric.identity()

    def summary(self, prior: Any) -> Summary:
        return self.numeric.summary(prior.numeric)

    def scaled(self, prior: Any, name: str, factor: float) -> Any:
        return replace(prior, numeric=self.numeric.scaled(prior.numeric, name, factor))

    def log_density(self, prior: Any) -> float:
        return self.numeric.log_density(prior.numeric)

    def draw(self, prior: Any, statistics: Any, rng: np.random.Generator) -> Any:
        return replace(prior, numeric=self.numeric.draw(prior.numeric, prior.divided(statistics)[0], rng))

    def relearned(self, prior: Any, X: TablePoints) -> Start:
        start = self.numeric.relearned(prior.numeric, X.numeric)
        return Start(replace(prior, numeric=start.prior), MixedHyperprior(start.hyperprior), None)

    def climb(self, prior: Any, statistics: Any, steps: int = STEPS) -> Any:
        return replace(prior, numeric=self.numeric.climb(prior.numeric, prior.divided(statistics)[0], steps))


def no_columns() -> NIG:
    """The prior of a table without numeric columns."""
    return NIG._unchecked(  # type: ignore[no-any-return]
        Posteriors(np.zeros((1, 0)), np.full((1, 1), 1.0), np.zeros((1, 0)), np.full((1, 1), 3.0))
    )
