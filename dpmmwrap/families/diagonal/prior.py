"""The diagonal Gaussian: a mean and a variance per feature, with a normal-inverse-gamma prior."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.random import Generator
from scipy.special import digamma, gammaln

from dpmmwrap.families.base import PosteriorBatch, counts_of, grouped, put_rows, sums_by_label
from dpmmwrap.families.learned.base import Moments
from dpmmwrap.families.linear.prior import LinearPrior
from dpmmwrap.families.linear.statistics import LinearStatistics
from dpmmwrap.families.screening import NEGLIGIBLE, bounding_table, in_blocks, powers
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, FloatArray, IntArray, evenly_spaced
from dpmmwrap.numerics.cells import Embedder, has_missing, sample_rows, standardiser
from dpmmwrap.numerics.loops import Loops

inverse_gamma = Loops("dpmmwrap.families.diagonal.inverse_gamma")
loops = Loops("dpmmwrap.families.diagonal.points")
CHUNK_ROWS = 1 << 14
LEAST_TOUCHING = 1e-6
"""Below this value the differences between a bound's coefficients lose their digits."""
MOST_TRIED, WORTH = 32, 1.5
"""Number of points on which the bounds are compared; number of exact densities per row that take as long as quick
bounds save."""
CALM, ABOUT_CALM = 5.0, 5.001
"""Widths from the centre of all distributions within which quick bounds hold, without and with rounding."""


class Posteriors(NamedTuple):
    """A distribution of mean and variance per cluster and feature: (K, D), or (K, 1) where features share a value."""

    means: Any
    strengths: Any
    scales: Any
    freedoms: Any


class NumericTables(NamedTuple):
    """Drawn Gaussians in the kernels' layout: (w x - offset) is the distance from the mean in standard deviations."""

    factors: Any
    offsets: Any
    missing: Any
    """The part of a feature's log density other than half the squared distance, for missing values; None without
    any."""


class Student(NamedTuple):
    """Student's t per distribution and feature: constants - powers log(1 + precisions (x - means)^2)."""

    means: Float64Array
    precisions: Float64Array
    powers: Float64Array
    constants: Float64Array
    totals: Float64Array
    """Sums of the constants over features."""


class Frame(NamedTuple):
    """Units in which values, and so their powers, are about 1."""

    centre: Float64Array
    widths: Float64Array
    means: Float64Array


@dataclass(frozen=True)
class NIG(LinearPrior):
    """Normal-inverse-gamma, feature by feature: the prior of clusters with diagonal covariances.

    variance ~ IG(degrees_of_freedom / 2, scale / 2), mean | variance ~ N(mean, variance / mean_strength). With a single
    feature it equals the `NIW` with the same fields.

    Parameters
    ----------
    mean : array, shape (D,)
        Expected location of clusters.
    mean_strength : float
        kappa: how many points the prior location counts as.
    scale : array, shape (D,)
        Divided by the degrees of freedom it is roughly the expected variance of each feature.
    degrees_of_freedom : float
        nu, above 0: how certain the prior is of the variances.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmmwrap import DPMM, NIG
    >>> X = np.concatenate([np.random.default_rng(0).normal(size=(50, 2)) + 9 * k for k in range(2)])
    >>> prior = NIG(mean=np.zeros(2), mean_strength=0.1, scale=np.full(2, 3.0), degrees_of_freedom=3.0)
    >>> DPMM(prior=prior, init="kmeans", n_chains=1, random_state=0).fit(X).covariance_type_
    'diag'
    """

    mean: Float64Array
    mean_strength: float | Float64Array
    scale: Float64Array
    degrees_of_freedom: float | Float64Array
    family: ClassVar[str] = "diag"
    covariances: ClassVar[str] = "diagonal"
    called: ClassVar[str] = "a normal-inverse-gamma prior"
    other: ClassVar[str] = "covariance_type='full'"
    tied: ClassVar[bool] = False
    """Whether all features share one variance."""
    FIELDS: ClassVar[tuple[str, ...]] = ("mean", "mean_strength", "scale", "degrees_of_freedom")

    def __post_init__(self) -> None:
        mean, scale = (np.ascontiguousarray(value, dtype=np.float64) for value in (self.mean, self.scale))
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "scale", scale)
        if mean.shape == (0,):
            raise ValueError(f"a prior needs a mean of D numbers, not one of shape {mean.shape}")
        if mean.ndim == 1 and scale.shape != self._scale_shape():
            raise ValueError(f"the prior's scale should have the shape {self._scale_shape()}, not {scale.shape}")
        for name in ("mean_strength", "scale", "degrees_of_freedom"):
            if not np.all(np.asarray(getattr(self, name)) > 0):
                raise ValueError(f"the prior's {name} should be positive, not {getattr(self, name)}")

    def _scale_shape(self) -> tuple[int, ...]:
        return (self.dim,)

    @property
    def dim(self) -> int:
        return int(self.mean.shape[-1])

    @cached_property
    def batch(self) -> Posteriors:
        """The distributions as the compiled loops take them, with a leading axis even for a single one."""
        if self.mean.ndim > 1:
            return Posteriors(self.mean, self.mean_strength, self.scale, self.degrees_of_freedom)
        rows = (np.reshape(np.asarray(value, dtype=np.float64), (1, -1)) for value in self._values())
        return Posteriors(*rows)

    def _values(self) -> tuple[Any, ...]:
        return self.mean, self.mean_strength, self.scale, self.degrees_of_freedom

    @cached_property
    def fields(self) -> Posteriors:
        """A single distribution as the compiled loops take it."""
        return Posteriors(*(rows[0] for rows in self.batch))

    @classmethod
    def _unchecked(cls, batch: Posteriors) -> Any:
        made = object.__new__(cls)
        made.__dict__.update(
            mean=batch.means, mean_strength=batch.strengths, scale=batch.scales, degrees_of_freedom=batch.freedoms,
            batch=batch,
        )  # fmt: skip
        return made

    def compute(self, statistics: LinearStatistics) -> PosteriorBatch:
        """The posterior and the log marginal likelihood of each cluster."""
        batch, log_marginal = inverse_gamma.posteriors(self.fields, self.tied, statistics.counts, statistics.sums)
        return PosteriorBatch(self._unchecked(Posteriors(*batch)), log_marginal)

    @staticmethod
    def n_parameters(dim: int) -> int:
        return 2 * dim

    def estimates(self) -> dict[str, Float64Array]:
        return {"means": self.mean, "covariances": self.mean_covariance()}

    def make_parts(self, X: FloatArray) -> list[Any]:
        return [loops.NumericPart(X)]

    def union_log_marginals(self, statistics: LinearStatistics, one: IntArray, other: IntArray) -> Float64Array:
        """Log marginal likelihoods of the unions of pairs of clusters."""
        found: Float64Array = inverse_gamma.union_log_marginals(
            self.fields, self.tied, statistics.counts, statistics.sums, one, other
        )
        return found

    def draw_tables(self, key: Any, missing: bool) -> tuple[NumericTables, Float64Array]:
        """Draw from each distribution of the batch, in the kernels' layout; return the log densities at the means,
        too."""
        factors, offsets, terms, totals = inverse_gamma.draw(key, self.batch)
        return NumericTables(factors, offsets, terms if missing else None), totals

    def log_predictive(self, X: FloatArray) -> Float64Array:
        """Log density of each distribution's predictive at each row (K, N): Student's t, feature by feature."""
        return np.stack([self.log_predictive_of(X, k) for k in range(len(self.batch.means))])

    def log_predictive_of(self, X: FloatArray, k: int) -> Float64Array:
        """Log density of one distribution's predictive at each row."""
        return in_blocks(self._log_student, X, self.dim, None, k)

    def log_predictive_at(self, X: FloatArray, rows: IntArray, components: IntArray) -> Float64Array:
        """Log density at pairs of a row and a distribution."""
        return in_blocks(self._log_student, X, self.dim, rows, components)

    @cached_property
    def student(self) -> Student:
        """Parameters of the Student-t predictives."""
        means, strengths, scales, freedoms = (np.broadcast_to(v, self.batch.means.shape) for v in self.batch)
        spread = scales * (strengths + 1) / strengths
        constants = gammaln((freedoms + 1) / 2) - gammaln(freedoms / 2) - 0.5 * np.log(math.pi * spread)
        return Student(means, 1 / spread, 0.5 * (freedoms + 1), constants, constants.sum(axis=1))

    def _log_student(self, rows: FloatArray, k: Any) -> Float64Array:
        """Log densities at rows, each under its own distribution or all under the same one."""
        student = self.student
        logs = rows - student.means[k]
        logs *= logs
        logs *= student.precisions[k]
        np.log1p(logs, out=logs)
        found = student.totals[k] - np.einsum("...d,...d->...", student.powers[k], logs)
        if len(gaps := np.flatnonzero(np.isnan(found))):
            constants, powers = (np.broadcast_to(v[k], logs.shape)[gaps] for v in (student.constants, student.powers))
            found[gaps] = np.nansum(constants - powers * logs[gaps], axis=1)
        return np.asarray(found)

    @cached_property
    def frame(self) -> Frame:
        """The centre of all distributions, the typical distance of values from it, and the means in these units."""
        means, _, scales, freedoms = self.batch
        centre = means.mean(axis=0)
        widths = np.sqrt((scales / freedoms).mean(axis=0) + means.var(axis=0))
        return Frame(centre, widths, (means - centre) / widths)

    @cached_property
    def bounding(self) -> Float32Array:
        """Coefficients of upper bounds on the log predictives: polynomials of degree 4.

        a u - b u^2 is below log(1 + u) everywhere if it touches it at 0 and at some u0: the difference is f'''(v) / 6 u
        (u - u0)^2 for some v, and the third derivative of log(1 + u) is positive. u0 is the average of u over all
        clusters.
        """
        student, (_, widths, means) = self.student, self.frame
        precisions = student.precisions * widths**2
        touching = np.maximum(precisions * (1 + means**2), LEAST_TOUCHING)
        slope = np.log1p(touching) / touching
        second = (slope - 1 / (1 + touching)) / touching
        square = -student.powers * (slope + second * touching) * precisions
        fourth = student.powers * second * precisions**2
        first = -2 * square * means - 4 * fourth * means**3
        coefficients = np.stack([first, square + 6 * fourth * means**2, -4 * fourth * means, fourth])
        return bounding_table(coefficients, student.totals + (square * means**2 + fourth * means**4).sum(axis=1))

    def close_bounds(self, X: FloatArray) -> Float32Array:
        """Upper bounds on the log density of each predictive at each row (N, K); NaN where a value is missing."""
        return powers((X - self.frame.centre) / self.frame.widths, 4) @ self.bounding

    @cached_property
    def quick_bounding(self) -> Float32Array:
        """Coefficients of upper bounds for CALM values: polynomials of degree 2, which take half the time.

        log(1 + u) is concave, so it lies above its chord up to the largest u that such values can have.
        """
        student, (_, widths, means) = self.student, self.frame
        precisions = student.precisions * widths**2
        largest = np.maximum(precisions * (ABOUT_CALM + np.abs(means)) ** 2, LEAST_TOUCHING)
        square = -student.powers * np.log1p(largest) / largest * precisions
        return bounding_table(np.stack([-2 * square * means, square]), student.totals + (square * means**2).sum(axis=1))

    def quick_bounds(self, X: FloatArray) -> Float32Array:
        """Looser upper bounds that take less time; close ones for rows with values far out."""
        values = powers((X - self.frame.centre) / self.frame.widths, 2)
        found = np.asarray(values @ self.quick_bounding)
        if len(far := np.flatnonzero(~(values[:, self.dim : 2 * self.dim].max(axis=1, initial=0.0) <= CALM**2))):
            found[far] = self.close_bounds(X[far])
        return found

    @cached_property
    def quick_are_close(self) -> bool:
        """Whether quick bounds exclude about as many distributions as close ones, for points drawn from the batch. With
        few degrees of freedom they exclude far fewer."""
        some = evenly_spaced(len(self.batch.means), MOST_TRIED)
        with np.errstate(over="ignore", invalid="ignore"):
            X = self.sample(some, np.random.default_rng(0))
            least = self.log_predictive_at(X, np.arange(len(some)), some)[:, None] - NEGLIGIBLE
            quick, close = (np.sum(~(bounds(X) < least)) for bounds in (self.quick_bounds, self.close_bounds))
        return bool(quick <= close + WORTH * len(some))

    def upper_bounds(self, X: FloatArray) -> Float32Array:
        """The bounds that are faster overall."""
        return self.quick_bounds(X) if self.quick_are_close else self.close_bounds(X)

    def drawn_moments(self, origin: Float64Array, rng: Generator) -> Moments:
        """Moments of one draw of (mean, variance) from each distribution."""
        means, variances = self.draw_gaussians(rng)
        return moments_of(means - origin, 1 / variances, np.log(variances))

    def expected_moments(self, origin: Float64Array) -> Moments:
        """Expectations of `drawn_moments`."""
        means, strengths, scales, freedoms = self.batch
        found = moments_of(means - origin, freedoms / scales, np.log(scales / 2) - digamma(freedoms / 2))
        return found._replace(square=found.square + float(np.broadcast_to(1 / strengths, means.shape).sum()))

    def sample(self, components: IntArray, rng: Generator) -> Float64Array:
        """Draw one point from the predictive of each of these distributions."""
        means, strengths, scales, freedoms = (np.broadcast_to(v, self.batch.means.shape) for v in self.batch)
        spread = np.sqrt(scales * (strengths + 1) / (strengths * freedoms))
        return np.asarray(means[components] + spread[components] * rng.standard_t(freedoms[components]))

    def impute(self, X: FloatArray, components: IntArray, rng: Generator | None) -> Float64Array:
        """Fill the missing values of each row with their expectations, or with draws if there is a generator, under the
        predictive of one distribution per row. Features are independent, so the observed values do not matter."""
        rest = self.batch.means[components] if rng is None else self.sample(components, rng)
        return np.where(np.isnan(X), rest, X)

    def draw_gaussians(self, rng: Generator) -> tuple[Float64Array, Float64Array]:
        """Means and variances (K, D), one draw from each distribution of the batch."""
        means, strengths, scales, freedoms = self.batch
        variances = scales / (2 * rng.standard_gamma(np.broadcast_to(freedoms / 2, scales.shape)))
        steps = np.sqrt(variances / strengths) * rng.standard_normal(means.shape)
        return means + steps, np.broadcast_to(variances, means.shape)

    @staticmethod
    def statistics(
        X: FloatArray, labels: IntArray | None = None, n_clusters: int | None = None, weights: Any = None
    ) -> LinearStatistics:
        return numeric_statistics(X, labels, n_clusters, has_missing(X), weights)

    def counting_observed(self, statistics: LinearStatistics) -> LinearStatistics:
        counts, sums = statistics
        if sums.shape[1] == 3 * self.dim:
            return statistics
        return LinearStatistics(counts, np.concatenate([sums, np.repeat(counts[:, None], self.dim, axis=1)], axis=1))

    def replaced(self, rows: IntArray, other: Any) -> Any:
        fields = (put_rows(mine, rows, theirs) for mine, theirs in zip(self.batch, other.batch, strict=True))
        return self._unchecked(Posteriors(*fields))

    def shifted(self, offset: FloatArray) -> Any:
        return type(self)(self.mean - offset, self.mean_strength, self.scale, self.degrees_of_freedom)

    def mean_covariance(self) -> Float64Array:
        """The expected variances of each distribution (K, D), or scale / nu if the expectation does not exist."""
        _, _, scales, freedoms = self.batch
        divisor = np.where(freedoms > 2, freedoms - 2, freedoms)
        return np.array(np.broadcast_to(scales / divisor, self.batch.means.shape))

    def embedder(self, X: FloatArray) -> Embedder:
        """Divide each feature by its standard deviation."""
        return standardiser(X[sample_rows(len(X), 0)])

    def outliers(self, X: FloatArray, n_rows: int | None = None) -> Any:
        """Twice as wide as the data and as certain as all of the data, so that no outliers can change it much."""
        whole = numeric_statistics(X, None, 1, missing=True)
        n, total, squares = (whole.sums[0, i * self.dim : (i + 1) * self.dim] for i in (2, 0, 1))
        means = total / np.maximum(n, 1)
        variances = np.maximum(squares / np.maximum(n, 1) - means**2, 1e-6 * np.broadcast_to(self.scale, self.dim))
        strength = float(n_rows or len(X))
        return type(self)(means, strength, self.pooled(4 * strength * variances), strength + 2)

    @classmethod
    def of_cells(cls) -> Any:
        """The class of the priors computed from k-means cells."""
        return cls

    @staticmethod
    def pooled(scales: Float64Array) -> Float64Array:
        """Convert the features' scales to the form that this family uses."""
        return scales


def moments_of(means: Float64Array, precisions: Float64Array, log_variances: Float64Array) -> Moments:
    """Sums over Gaussians with these means (K, D), precisions and log variances, (K, D) or (K, 1)."""
    precisions, log_variances = (np.broadcast_to(values, means.shape) for values in (precisions, log_variances))
    pulls = precisions * means
    sums = precisions.sum(axis=0), pulls.sum(axis=0), float((pulls * means).sum())
    return Moments(len(means), *sums, float(log_variances.sum()))


def numeric_statistics(
    X: FloatArray, labels: IntArray | None, n_clusters: int | None, missing: bool, weights: Any = None
) -> LinearStatistics:
    """Sums by label of x, of x^2 and, if values are missing, of the indicators of observed values."""
    rows, dim = X.shape
    labels, count = grouped(labels, rows, n_clusters)
    sums = np.zeros((count, (3 if missing else 2) * dim))
    # Fewer rows at a time if the data are wide.
    step = min(CHUNK_ROWS, 64 * CHUNK_ROWS // max(dim, 1))
    for begin in range(0, rows, step):
        part = np.asarray(X[begin : begin + step], dtype=np.float64)
        present = np.nan_to_num(part) if missing else part
        features = [present, present * present, ~np.isnan(part)] if missing else [present, present * present]
        values = np.concatenate(features, axis=1)
        if weights is not None:
            values *= weights[begin : begin + step, None]
        sums += sums_by_label(values, labels[begin : begin + step], count)
    return LinearStatistics(counts_of(labels, count, weights), sums)
