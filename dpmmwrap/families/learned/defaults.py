"""Where the default priors begin: the data's means and variances, and k-means cells of a sample.

As many cells are taken as make the sample most probable, if each were a cluster. A chain begins with the prior that is
then most probable. Everything in it is learned (`hyperprior.py`).
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
"""Numbers of cells that are tried."""
DOZEN = 12
"""Cells that say how narrow clusters may be, at least: where evidence finds fewer, clusters may still overlap."""
SAMPLE, POINTS_PER_CELL = 2500, 8
"""Points that are cut into cells, and points that a cell has on average at least."""
CELL_STEPS = 5
"""Steps towards the most probable prior of cells: enough to tell their numbers apart."""


class FixedHyperparameters(NamedTuple):
    """Hyperparameters that are not learned."""

    kappa: float | None = None
    width: float | None = None
    strength: float | None = None


NOTHING_FIXED = FixedHyperparameters()


class Cells(NamedTuple):
    """A sample cut into k-means cells."""

    labels: IntArray
    size: int
    within: Float64Array
    """The variance of each feature within them."""


class DataScale:
    """A sample of the data, its means and variances, and its k-means cells."""

    def __init__(self, X: FloatArray, weights: Float64Array | None = None) -> None:
        rows = sample_rows(len(X), 0) if weights is None else rows_by_weight(weights, SAMPLE)
        if len(rows) > SAMPLE:
            rows = np.sort(np.random.default_rng(0).choice(rows, SAMPLE, replace=False))
        self.sample = winsorized(without_gaps(np.asarray(X[rows], dtype=np.float64)))
        with warnings.catch_warnings():
            # A column without any value.
            warnings.simplefilter("ignore", RuntimeWarning)
            self.mean = np.nan_to_num(np.nanmean(self.sample, axis=0))
            self.variances = floored(np.nan_to_num(np.nanvar(self.sample, axis=0)), self.mean)
        self._starts: dict[tuple[str, FixedHyperparameters], Start] = {}

    @property
    def dim(self) -> int:
        return len(self.mean)

    @cached_property
    def rules(self) -> list[NearestCentre]:
        """How points are cut into one cell, two, and so on up to as many as have points enough."""
        most = max(len(self.sample) // POINTS_PER_CELL, 1)
        return nested_rules(self.sample, [count for count in CELLS if count <= most], seed=0)

    @cached_property
    def cells(self) -> list[Cells]:
        """The sample cut by each of the rules."""
        return [self._cells(rule(self.sample)) for rule in self.rules]

    def _cells(self, labels: IntArray) -> Cells:
        count, observed = int(labels.max(initial=0)) + 1, ~np.isnan(self.sample)
        sums = sums_by_label(np.where(observed, self.sample, 0.0), labels, count)
        means = sums / np.maximum(sums_by_label(observed.astype(np.float64), labels, count), 1)
        squares = np.nansum((self.sample - means[labels]) ** 2, axis=0)
        return Cells(labels, count, squares / np.maximum(observed.sum(axis=0), 1))

    def cut(self, points: FloatArray, count: int) -> IntArray:
        """A label per point: other points in as many of these cells."""
        return next(rule for rule, cells in zip(self.rules, self.cells, strict=True) if cells.size == count)(points)

    def within_at_least(self, count: int) -> Float64Array:
        """The variance of each feature within `count` cells or more, if there are enough points."""
        return next((cells for cells in self.cells if cells.size >= count), self.cells[-1]).within

    def start(self, kind: str, fixed: FixedHyperparameters = NOTHING_FIXED) -> Start:
        """Of a kind of covariances: the prior that cells make most probable, for the number of cells that makes the
        sample most probable."""
        if (kind, fixed) not in self._starts:
            family = prior_named(kind)
            of_cells = family.of_cells()
            free = Hyperprior(of_cells, self.mean, family.pooled(self.variances), *fixed)
            best = self._best_cells(free)
            count = best.size
            hyperprior = replace(free, cells=family.pooled(self.within_at_least(max(count, DOZEN))))
            # One alone would say that all clusters are as wide as the data, and sure of it.
            prior = self._prior_of(hyperprior, best, of_cells.statistics(self.sample, best.labels), count > 1)
            if of_cells is not family:
                hyperprior = replace(hyperprior, kind=family)
                prior = hyperprior.make(hyperprior.values(prior))
            self._starts[kind, fixed] = Start(prior, hyperprior, count)
        return self._starts[kind, fixed]

    def _best_cells(self, hyperprior: Hyperprior) -> Cells:
        """The cells that make the sample most probable; of full covariances in many dimensions, which would take
        seconds, as of diagonal ones."""
        if hyperprior.kind.is_costly(self.dim):
            hyperprior = replace(hyperprior, kind=NIG)
        return max(self.cells, key=lambda cells: self._log_joint(hyperprior, cells))

    def _log_joint(self, hyperprior: Hyperprior, cells: Cells) -> float:
        """log probability of cells, their points and the most probable prior."""
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
        """A prior from how wide cells are; the most probable one given their statistics, or one near it."""
        share = float(np.exp(np.log(floored(cells.within, self.mean) / self.variances).mean()))
        widths = np.maximum(hyperprior.variances * (hyperprior.width or share), hyperprior.floors[0])
        first = Hyperparameters(self.mean, hyperprior.kappa or share, widths, float(hyperprior.strengths[0]))
        return hyperprior.climb(hyperprior.make(first), statistics, CELL_STEPS if climbs else 0)


def without_gaps(rows: Float64Array) -> Float64Array:
    """The rows without missing values if they are at least half, and otherwise all: to begin with, they tell as much,
    and full covariances of rows with gaps take many steps."""
    complete = ~np.isnan(rows).any(axis=1)
    return rows[complete] if 2 * complete.sum() >= len(rows) else rows


def floored(variances: Float64Array, mean: Float64Array) -> Float64Array:
    """Variances of which none is zero: a feature that does not vary gets the mean of the others.

    That is so when it varies by less than single precision can tell from its mean. Constant columns are left out of a
    fit before they come here, if there are others.
    """
    constant = variances <= 1e-13 * mean**2
    if not constant.any():
        return variances
    return np.where(constant, 1.0 if constant.all() else float(variances[~constant].mean()), variances)
