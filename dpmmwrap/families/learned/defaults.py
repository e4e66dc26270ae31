"""The initial default prior: the data's means and variances, and k-means cells of a sample.

The number of cells is the one that makes the sample most probable if each cell were a cluster. A chain starts with the
most probable prior given these cells, and then learns every hyperparameter (`hyperprior.py`).
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families import prior_named
from dpmmwrap.families.base import sums_by_label
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.learned.base import Start
from dpmmwrap.families.learned.hyperprior import Hyperparameters, Hyperprior
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.cells import NearestCentre, nested_rules, sample_rows, winsorized
from dpmmwrap.numerics.weights import rows_by_weight
from dpmmwrap.partitions import DirichletProcess

CELLS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256)
"""Numbers of cells to try."""
DOZEN = 12
"""Least number of cells that limit how narrow clusters may be: if the evidence favours fewer, clusters may still
overlap."""
SAMPLE, POINTS_PER_CELL = 2500, 8
"""Size of the sample, and least average number of points per cell."""
CELL_STEPS = 5
"""Steps towards the most probable prior of the cells, enough to compare numbers of cells."""


class FixedHyperparameters(NamedTuple):
    """Hyperparameters that are given and not learned."""

    kappa: float | None = None
    width: float | None = None
    strength: float | None = None


NOTHING_FIXED = FixedHyperparameters()


class Cells(NamedTuple):
    """A sample partitioned into k-means cells."""

    labels: IntArray
    size: int
    within: Float64Array
    """The variance of each feature within cells."""


class DataScale:
    """A sample of the data, its means and variances, and its k-means cells."""

    def __init__(self, X: FloatArray, weights: Float64Array | None = None) -> None:
        rows = sample_rows(len(X), 0) if weights is None else rows_by_weight(weights, SAMPLE)
        if len(rows) > SAMPLE:
            rows = np.sort(np.random.default_rng(0).choice(rows, SAMPLE, replace=False))
        self.sample = winsorized(without_gaps(np.asarray(X[rows], dtype=np.float64)))
        with warnings.catch_warnings():
            # A column may have no values at all.
            warnings.simplefilter("ignore", RuntimeWarning)
            self.mean = np.nan_to_num(np.nanmean(self.sample, axis=0))
            self.variances = floored(np.nan_to_num(np.nanvar(self.sample, axis=0)), self.mean)
        self._starts: dict[tuple[str, FixedHyperparameters], Start] = {}

    @property
    def dim(self) -> int:
        return len(self.mean)

    @cached_property
    def rules(self) -> list[NearestCentre]:
        """Rules that assign points to 1, 2, ... cells, as long as there are enough points per cell."""
        most = max(len(self.sample) // POINTS_PER_CELL, 1)
        return nested_rules(self.sample, [count for count in CELLS if count <= most], seed=0)

    @cached_property
    def cells(self) -> list[Cells]:
        """The cells of the sample by each of the rules."""
        return [self._cells(rule(self.sample)) for rule in self.rules]

    def _cells(self, labels: IntArray) -> Cells:
        count, observed = int(labels.max(initial=0)) + 1, ~np.isnan(self.sample)
        sums = sums_by_label(np.where(observed, self.sample, 0.0), labels, count)
        means = sums / np.maximum(sums_by_label(observed.astype(np.float64), labels, count), 1)
        squares = np.nansum((self.sample - means[labels]) ** 2, axis=0)
        return Cells(labels, count, squares / np.maximum(observed.sum(axis=0), 1))

    def cut(self, points: FloatArray, count: int) -> IntArray:
        """Assign other points to the cells of the partition into `count` cells."""
        return next(rule for rule, cells in zip(self.rules, self.cells, strict=True) if cells.size == count)(points)

    def within_at_least(self, count: int) -> Float64Array:
        """The variance of each feature within the smallest partition of at least `count` cells, or the largest."""
        return next((cells for cells in self.cells if cells.size >= count), self.cells[-1]).within

    def start(self, kind: str, fixed: FixedHyperparameters = NOTHING_FIXED) -> Start:
        """The most probable prior of this covariance type given the cells, for the number of cells that makes the
        sample most probable."""
        if (kind, fixed) not in self._starts:
            family = prior_named(kind)
            of_cells = family.of_cells()
            free = Hyperprior(of_cells, self.mean, family.pooled(self.variances), *fixed)
            best = self._best_cells(free)
            count = best.size
            hyperprior = replace(free, cells=family.pooled(self.within_at_least(max(count, DOZEN))))
            # Climbing with a single cell would give a prior that is certain that clusters are as wide as the data.
            prior = self._prior_of(hyperprior, best, of_cells.statistics(self.sample, best.labels), count > 1)
            if of_cells is not family:
                hyperprior = replace(hyperprior, kind=family)
                prior = hyperprior.make(hyperprior.values(prior))
            self._starts[kind, fixed] = Start(prior, hyperprior, count)
        return self._starts[kind, fixed]

    def _best_cells(self, hyperprior: Hyperprior) -> Cells:
        """The cells that make the sample most probable. Diagonal covariances stand in for full ones in many dimensions,
        which would take seconds."""
        if hyperprior.kind.is_costly(self.dim):
            hyperprior = replace(hyperprior, kind=NIG)
        return max(self.cells, key=lambda cells: self._log_joint(hyperprior, cells))

    def _log_joint(self, hyperprior: Hyperprior, cells: Cells) -> float:
        """Log probability of the cells, their points and the most probable prior."""
        labels = cells.labels
        statistics = hyperprior.kind.statistics(self.sample, labels)
        prior = self._prior_of(hyperprior, cells, statistics)
        sample, log_missing = prior.posterior(statistics).filled(self.sample, labels, 0)
        if sample is not self.sample:
            statistics = hyperprior.kind.statistics(sample, labels)
        log_marginals = prior.log_marginal_likelihood(statistics)
        log_joint = DirichletProcess(1.0).log_joint(statistics.counts, log_marginals)
        return float(log_joint + hyperprior.log_density(prior) - log_missing)

    def _prior_of(self, hyperprior: Hyperprior, cells: Cells, statistics: Any, climbs: bool = True) -> Any:
        """A prior from the width of the cells, optionally moved towards the most probable one given their
        statistics."""
        share = float(np.exp(np.log(floored(cells.within, self.mean) / self.variances).mean()))
        widths = np.maximum(hyperprior.variances * (hyperprior.width or share), hyperprior.floors[0])
        first = Hyperparameters(self.mean, hyperprior.kappa or share, widths, float(hyperprior.strengths[0]))
        return hyperprior.climb(hyperprior.make(first), statistics, CELL_STEPS if climbs else 0)


def without_gaps(rows: Float64Array) -> Float64Array:
    """The rows without missing values if these are at least half of all rows, otherwise all rows. They suffice for an
    initial prior, and full covariances of rows with gaps take many steps."""
    complete = ~np.isnan(rows).any(axis=1)
    return rows[complete] if 2 * complete.sum() >= len(rows) else rows


def floored(variances: Float64Array, mean: Float64Array) -> Float64Array:
    """Replace zero variances by the mean of the others, so that all are positive.

    A variance counts as zero if single precision cannot tell it from rounding of the mean. Constant columns are
    removed before the fit reaches this point unless all columns are constant.
    """
    constant = variances <= 1e-13 * mean**2
    if not constant.any():
        return variances
    return np.where(constant, 1.0 if constant.all() else float(variances[~constant].mean()), variances)
