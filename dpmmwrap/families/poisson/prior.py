"""Event counts: Poisson counts in each column, with a rate per cluster that has a Gamma prior.

Rows observed for longer, or of a larger population, have more events: with exposure e, counts are Poisson with mean e
times the cluster's rate. Given a cluster's total events S and total exposure E, a Gamma(shape, rate) prior on the rate
becomes Gamma(shape + S, rate + E), and a new count is negative binomial.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from scipy.special import gammaln

from dpmmwrap.families.base import Input, PosteriorBatch, counts_of, grouped, put_rows
from dpmmwrap.families.linear.prior import LinearPrior
from dpmmwrap.families.linear.statistics import LinearStatistics
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.cells import Embedder, nested_rules, sample_rows
from dpmmwrap.numerics.loops import Loops
from dpmmwrap.partitions import DirichletProcess

gamma = Loops("dpmmwrap.families.poisson.gamma")
loops = Loops("dpmmwrap.families.poisson.points")
NO_EXPOSURE = -1
SHAPES = 2.0 ** np.arange(-4, 9)
"""Candidate shapes of the default prior."""
CELLS = (1, 2, 4, 8, 16, 32, 64)
"""Numbers of k-means cells that stand in for clusters when the default prior is chosen."""
SAMPLE, ROWS_PER_CELL = 2500, 8
BLOCK = 1 << 12
"""Number of rows in a block of predictive densities."""


@dataclass(frozen=True)
class GammaPoisson(LinearPrior):
    """Gamma priors on Poisson rates: the rate of column j in a cluster ~ Gamma(shape_j, rate_j).

    Parameters
    ----------
    shape : array, shape (D,)
        Positive, one per column of counts. The smaller, the more clusters may differ.
    rate : array, shape (D,)
        Positive, in units of exposure: shape / rate is the expected rate.
    exposure : int, default=-1
        Index of the exposure among the D + 1 columns of the data; -1 if there is none and every row counts as one unit.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmmwrap import DPMM, GammaPoisson
    >>> X = np.random.default_rng(0).poisson(np.repeat([[9, 1], [1, 20]], 50, axis=0))
    >>> prior = GammaPoisson(shape=np.ones(2), rate=np.full(2, 0.1))
    >>> DPMM(family="poisson", prior=prior, n_chains=1, random_state=0).fit(X).n_clusters_
    2
    """

    shape: Float64Array
    rate: Float64Array
    exposure: Any = NO_EXPOSURE
    family: ClassVar[str] = "poisson"
    input: ClassVar[Input] = "counts"
    coordinates: ClassVar[str] = "square roots of the rates"
    called: ClassVar[str] = "Gamma priors"
    other: ClassVar[str] = "a prior with a smaller shape"
    FIELDS: ClassVar[tuple[str, ...]] = ("exposure", "shape", "rate")

    def __post_init__(self) -> None:
        shape, rate = (np.ascontiguousarray(values, dtype=np.float64) for values in (self.shape, self.rate))
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "rate", rate)
        object.__setattr__(self, "exposure", int(self.exposure))
        if not shape.ndim or shape.shape != rate.shape or not shape.shape[-1]:
            raise ValueError(
                f"a Gamma prior needs a shape and a rate for each column of counts, not {shape.shape} and {rate.shape}"
            )
        if not ((shape > 0).all() and (rate > 0).all()):
            raise ValueError("the prior's shape and rate should be positive")
        if not NO_EXPOSURE <= self.exposure <= shape.shape[-1]:
            raise ValueError(f"there is no column {self.exposure} that could be the exposure")

    @classmethod
    def from_fields(cls, exposure: Any, shape: Any, rate: Any) -> GammaPoisson:
        return cls(shape, rate, exposure)

    @classmethod
    def from_data(cls, X: FloatArray, exposure: int = NO_EXPOSURE) -> GammaPoisson:
        """The default prior. The expected rate of each column is its rate over all data. The shape, common to all
        columns, is the most probable one given k-means cells of a sample, for the most probable number of cells.

        Parameters
        ----------
        X : array, shape (N, D), or (N, D + 1) with exposures
            The data.
        exposure : int, default=-1
            Index of the column of exposures.

        Returns
        -------
        GammaPoisson
            The prior.
        """
        rows = sample_rows(len(X), 0)
        if len(rows) > SAMPLE:
            rows = np.sort(np.random.default_rng(0).choice(rows, SAMPLE, replace=False))
        sample = np.asarray(X[rows], dtype=np.float32)
        totals = with_exposure_last(sample, exposure).sum(axis=0, dtype=np.float64)
        # Add half an event, so that a column without events has a positive rate.
        means = (totals[:-1] + 0.5) / totals[-1]
        tried = [cls(np.full(len(means), shape), shape / means, exposure) for shape in SHAPES]
        most = max(len(sample) // ROWS_PER_CELL, 1)
        best, chosen, found = -np.inf, None, tried[list(SHAPES).index(1.0)]
        for rule in nested_rules(sample, [count for count in CELLS if count <= most], 0, found.embedder(sample)):
            statistics = found.statistics(sample, rule(sample))
            for prior in tried:
                value = DirichletProcess(1.0).log_joint(statistics.counts, prior.log_marginal_likelihood(statistics))
                # A single cell would give a prior that is certain that all clusters are alike.
                if value > best:
                    best, chosen = value, (prior if len(statistics.counts) > 1 else None)
        return chosen or found

    @property
    def file_input(self) -> Input:
        """With exposures, which may be fractional, files contain numbers."""
        return "counts" if self.exposure == NO_EXPOSURE else "numbers"

    @property
    def dim(self) -> int:
        """Number of columns of the data, including the exposure."""
        return int(self.shape.shape[-1] + (self.exposure != NO_EXPOSURE))

    def _batch(self, shape: Any, rate: Any) -> GammaPoisson:
        made = object.__new__(GammaPoisson)
        made.__dict__.update(shape=shape, rate=rate, exposure=self.exposure)
        return made

    @cached_property
    def batch(self) -> tuple[Float64Array, Float64Array]:
        """Shapes and rates (K, D)."""
        return np.atleast_2d(self.shape), np.atleast_2d(self.rate)

    def estimates(self) -> dict[str, Float64Array]:
        """The expected rates (K, D) of each distribution, per unit of exposure."""
        return {"rates": self.batch[0] / self.batch[1]}

    def make_parts(self, X: FloatArray) -> list[Any]:
        return [loops.EventPart(X, self.exposure)]

    def compute(self, statistics: LinearStatistics) -> PosteriorBatch:
        return PosteriorBatch(self.posterior(statistics), self.log_marginal_likelihood(statistics))

    def posterior(self, statistics: LinearStatistics) -> GammaPoisson:
        return self._batch(self.shape + statistics.sums[:, :-1], self.rate + statistics.sums[:, -1:])

    def log_marginal_likelihood(self, statistics: LinearStatistics, posterior: Any = None) -> Float64Array:
        """log f of each cluster without the factorials of its counts and the powers of its exposures, which do not
        depend on the labels."""
        return np.asarray(gamma.log_marginals(self.shape, self.rate, statistics.sums))

    def draw_tables(self, key: Any) -> Any:
        """Draw the rates of each distribution of the batch, in the kernels' layout."""
        return gamma.draw_tables(key, self.shape, self.rate)

    def log_predictive(self, X: FloatArray) -> Float64Array:
        """Log probability of each row under each distribution (K, N): a negative binomial per column."""
        shapes, rates = self.batch
        found = np.empty((len(shapes), len(X)))
        for begin in range(0, len(X), BLOCK):
            rows = with_exposure_last(X[begin : begin + BLOCK], self.exposure).astype(np.float64)
            events, exposure = rows[:, :-1], rows[:, -1:]
            constant = (events * np.log(exposure) - gammaln(events + 1)).sum(axis=1)
            for k, (shape, rate) in enumerate(zip(shapes, rates, strict=True)):
                terms = gammaln(shape + events) - gammaln(shape) + shape * np.log(rate)
                terms -= (shape + events) * np.log(rate + exposure)
                found[k, begin : begin + BLOCK] = constant + terms.sum(axis=1)
        return found

    def sample(self, components: IntArray, rng: Generator) -> Float64Array:
        """Draw a row with one unit of exposure from each of these distributions."""
        shapes, rates = self.batch
        events = rng.poisson(rng.standard_gamma(shapes[components]) / rates[components]).astype(np.float64)
        return events if self.exposure == NO_EXPOSURE else np.insert(events, self.exposure, 1.0, axis=1)

    def statistics(
        self, X: FloatArray, labels: IntArray | None = None, n_clusters: int | None = None, weights: Any = None
    ) -> LinearStatistics:
        labels, count = grouped(labels, len(X), n_clusters)
        kept = labels >= 0
        sums = np.zeros((count, self.shape.shape[-1] + 1))
        rows = with_exposure_last(X, self.exposure)
        np.add.at(sums, labels[kept], (rows if weights is None else rows * weights[:, None])[kept])
        return LinearStatistics(counts_of(labels, count, weights), sums)

    def replaced(self, rows: IntArray, other: GammaPoisson) -> GammaPoisson:
        return self._batch(put_rows(self.shape, rows, other.batch[0]), put_rows(self.rate, rows, other.batch[1]))

    def embedder(self, X: FloatArray) -> Embedder:
        """Square roots of rates, which stabilise the variance of counts."""
        return partial(root_rates, exposure=self.exposure)

    def outliers(self, X: FloatArray, n_rows: int | None = None) -> GammaPoisson:
        """The rates of all data, as certain as all of the data, so that no outliers can change them much."""
        share = len(X) / (n_rows or len(X))
        sums = self.statistics(X).sums[0] / share
        return GammaPoisson(self.shape + sums[:-1], self.rate + sums[-1], self.exposure)


def with_exposure_last(X: Any, exposure: int) -> Any:
    """The columns of counts followed by the column of exposures, or by ones if there is none."""
    if exposure == NO_EXPOSURE:
        return np.column_stack([X, np.ones(len(X), X.dtype)])
    return np.column_stack([np.delete(X, exposure, axis=1), X[:, exposure]])


def root_rates(rows: FloatArray, exposure: int) -> Float32Array:
    """Square roots of each row's rates. A module-level function, so that it can be sent to workers."""
    columns = with_exposure_last(np.asarray(rows), exposure)
    return np.asarray(np.sqrt(columns[:, :-1] / columns[:, -1:]), np.float32)
