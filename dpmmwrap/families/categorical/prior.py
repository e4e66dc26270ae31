"""Categorical columns: proportions of the levels of each column, with a Dirichlet prior."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator

from dpmmwrap.families.base import PosteriorBatch, counts_of, grouped, put_rows
from dpmmwrap.families.linear.prior import LinearPrior
from dpmmwrap.families.linear.statistics import LinearStatistics
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.numerics.loops import Loops

level_loops = Loops("dpmmwrap.families.categorical.levels")
loops = Loops("dpmmwrap.families.categorical.points")


@dataclass(frozen=True)
class CategoricalDirichlet(LinearPrior):
    """For each column, proportions ~ Dir(concentration of its levels).

    `levels` is the number of levels of each column; the concentrations of all columns' levels are concatenated. Points
    are codes (N, columns): the index of the level among the levels of all columns, or -1 where a value is missing.
    """

    levels: IntArray
    concentration: Float64Array
    family: ClassVar[str] = "categorical"
    FIELDS: ClassVar[tuple[str, ...]] = ("levels", "concentration")

    def __post_init__(self) -> None:
        levels = np.ascontiguousarray(self.levels, dtype=np.int64)
        concentration = np.ascontiguousarray(self.concentration, dtype=np.float64)
        object.__setattr__(self, "levels", levels)
        object.__setattr__(self, "concentration", concentration)
        if levels.ndim != 1 or (levels < 1).any() or concentration.shape[-1] != levels.sum():
            raise ValueError("a categorical prior needs a concentration for every level of every column")
        if not (concentration > 0).all():
            raise ValueError("the prior's concentration should be positive")

    @property
    def dim(self) -> int:
        return len(self.levels)

    @cached_property
    def edges(self) -> IntArray:
        """The index of each column's first level, and the total number of levels."""
        return np.concatenate([[0], np.cumsum(self.levels)])

    @classmethod
    def from_levels(cls, levels: IntArray) -> CategoricalDirichlet:
        """The default prior: uniform over the simplex for two levels, and with the same total concentration for
        more."""
        levels = np.asarray(levels, dtype=np.int64)
        return cls(levels, np.repeat(np.minimum(1.0, 2.0 / np.maximum(levels, 1)), levels))

    def compute(self, statistics: LinearStatistics) -> PosteriorBatch:
        found = level_loops.log_marginals(self.concentration, self.edges, statistics.sums)
        return PosteriorBatch(self.posterior(statistics), found)

    def posterior(self, statistics: LinearStatistics) -> CategoricalDirichlet:
        made = object.__new__(CategoricalDirichlet)
        made.__dict__.update(levels=self.levels, concentration=self.concentration + statistics.sums)
        return made

    def log_marginal_likelihood(self, statistics: LinearStatistics, posterior: Any = None) -> Float64Array:
        return np.asarray(level_loops.log_marginals(self.concentration, self.edges, statistics.sums))

    def make_parts(self, codes: IntArray) -> list[Any]:
        return [loops.CodePart(codes, int(self.levels.sum()))]

    def draw_tables(self, key: Any) -> Any:
        """Log proportions (K, F) drawn from each distribution of the batch."""
        return level_loops.draw_log_proportions(key, self.edges, self.concentration)

    @cached_property
    def log_shares(self) -> Float64Array:
        """Log expected proportions of all levels (F + 1, K). The last row is for missing values, with probability
        one."""
        batch = np.atleast_2d(self.concentration)
        totals = np.add.reduceat(batch, self.edges[:-1], axis=1) if self.dim else batch[:, :0]
        shares = np.log(batch / np.repeat(totals, self.levels, axis=1))
        return np.concatenate([shares, np.zeros((len(batch), 1))], axis=1).T

    def log_predictive(self, codes: IntArray) -> Float64Array:
        """Log probability of each row's levels under each distribution (K, N)."""
        return np.stack([self.log_predictive_of(codes, k) for k in range(self.log_shares.shape[1])])

    def log_predictive_of(self, codes: IntArray, k: int) -> Float64Array:
        """Log probability of each row's levels under one distribution."""
        return np.asarray(self.log_shares[:, k][codes].sum(axis=1))

    def log_predictive_at(self, codes: IntArray, rows: IntArray, components: IntArray) -> Float64Array:
        """Log probabilities at pairs of a row and a distribution."""
        return np.asarray(self.log_shares[codes[rows], components[:, None]].sum(axis=1))

    def sample(self, components: IntArray, rng: Generator) -> IntArray:
        """Draw codes from the predictive of each of these distributions."""
        batch = np.atleast_2d(self.concentration)
        codes = np.empty((len(components), self.dim), np.int32)
        for column, (begin, end) in enumerate(zip(self.edges[:-1], self.edges[1:], strict=True)):
            totals = np.cumsum(batch[components, begin:end], axis=1)
            u = rng.random(len(components)) * totals[:, -1]
            codes[:, column] = begin + (totals <= u[:, None]).sum(axis=1)
        return codes

    def statistics(
        self, codes: IntArray, labels: IntArray | None = None, n_clusters: int | None = None, weights: Any = None
    ) -> LinearStatistics:
        labels, count = grouped(labels, len(codes), n_clusters)
        kept = labels >= 0
        sums = np.zeros((count, int(self.levels.sum())))
        for column in range(codes.shape[1]):
            known = kept & (codes[:, column] >= 0)
            np.add.at(sums, (labels[known], codes[known, column]), 1.0 if weights is None else weights[known])
        return LinearStatistics(counts_of(labels, count, weights), sums)

    def replaced(self, rows: IntArray, other: CategoricalDirichlet) -> CategoricalDirichlet:
        made = object.__new__(CategoricalDirichlet)
        made.__dict__.update(levels=self.levels, concentration=put_rows(self.concentration, rows, other.concentration))
        return made

    def outliers(self, codes: IntArray, n_rows: int | None = None) -> CategoricalDirichlet:
        """The proportions of all data, as certain as all of the data."""
        share = len(codes) / (n_rows or len(codes))
        return CategoricalDirichlet(self.levels, self.concentration + self.statistics(codes).sums[0] / share)
