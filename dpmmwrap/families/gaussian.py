"""The normal-inverse-Wishart prior: posterior, marginal likelihood, predictive, draws.

The home of the conjugate maths; its loops are in `conjugate`. An `NIW` may stand for one distribution or for a batch
of them (one per cluster): then every field has a leading axis. `scale` is the usual scatter matrix; the paper and the
reference package write it as nu * Psi.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.random import Generator
from scipy.special import gammaln

from dpmmwrap.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.cells import cells
from dpmmwrap.families import wishart

CHUNK_ROWS = 1 << 16
SAMPLE = 10_000
CELLS = 50
POINTS_PER_CELL = 5
WIDTHS = 2.0
"""The default prior's scale over nu, in units of the variance within cells (see `NIW.from_data`)."""
MEAN_STRENGTH = 0.1
"""The default prior's kappa. 1, as in the reference package, expects clusters within a deviation or two of the data's
mean, and widens those that are far out: two that overlap there then pass for one."""


@dataclass(frozen=True)
class Statistics:
    """Sufficient statistics of K clusters: counts (K,), means (K, D), scatters about those means (K, D, D)."""

    counts: Float64Array
    means: Float64Array
    scatters: Float64Array

    @classmethod
    def of(cls, X: FloatArray, labels: IntArray | None = None, n_clusters: int | None = None) -> Statistics:
        """The statistics of rows grouped by label (negative labels are left out); one cluster without labels."""
        rows, dim = X.shape
        if labels is None:
            labels, n_clusters = np.zeros(rows, dtype=np.int8), 1
        if n_clusters is None:
            n_clusters = int(labels.max(initial=-1)) + 1
        shift = np.asarray(X[:CHUNK_ROWS], dtype=np.float64).mean(axis=0) if rows else np.zeros(dim)
        counts = np.zeros(n_clusters)
        sums = np.zeros((n_clusters, dim))
        squares = np.zeros((n_clusters, dim, dim))
        for begin in range(0, rows, CHUNK_ROWS):
            chunk = np.asarray(X[begin : begin + CHUNK_ROWS], dtype=np.float64) - shift
            chunk_labels = labels[begin : begin + CHUNK_ROWS]
            for k in np.flatnonzero(np.bincount(chunk_labels[chunk_labels >= 0])):
                members = chunk[chunk_labels == k]
                counts[k] += len(members)
                sums[k] += members.sum(axis=0)
                squares[k] += members.T @ members
        return cls.from_sums(counts, sums, squares, shift)

    @classmethod
    def from_sums(
        cls, counts: Float64Array, sums: Float64Array, squares: Float64Array, shift: FloatArray
    ) -> Statistics:
        """From plain sums of x - shift and of (x - shift)(x - shift)'."""
        means = sums / np.maximum(counts, 1.0)[:, None]
        scatters = squares - sums[:, :, None] * means[:, None, :]
        return cls(counts, means + shift, scatters)

    def __add__(self, other: Statistics) -> Statistics:
        """The statistics of the unions, pair by pair."""
        sides = ((self.counts, other.counts), (self.means, other.means), (self.scatters, other.scatters))
        in_turn = (np.stack(pair, axis=1).reshape(-1, *pair[0].shape[1:]) for pair in sides)
        return Statistics(*wishart.with_unions(*in_turn))[: len(self)]

    def __getitem__(self, index: IntArray | slice) -> Statistics:
        return Statistics(self.counts[index], self.means[index], self.scatters[index])

    def __len__(self) -> int:
        return len(self.counts)


def concatenate(parts: list[Statistics]) -> Statistics:
    return Statistics(
        np.concatenate([part.counts for part in parts]),
        np.concatenate([part.means for part in parts]),
        np.concatenate([part.scatters for part in parts]),
    )


@dataclass(frozen=True)
class Gaussians:
    """Gaussians by mean and lower triangular whitening factor W, with W'W the precision."""

    means: Float64Array
    whitening: Float64Array

    @classmethod
    def worked_out(cls, means: Float64Array, whitening: Float64Array, log_normalisers: Float64Array) -> Gaussians:
        """With what `wishart.bartlett` found along with them."""
        gaussians = object.__new__(cls)
        gaussians.__dict__.update(means=means, whitening=whitening, log_normalisers=log_normalisers)
        return gaussians

    @cached_property
    def covariances(self) -> Float64Array:
        inverse = np.linalg.inv(self.whitening)
        return np.asarray(inverse @ np.swapaxes(inverse, 1, 2))

    @cached_property
    def log_normalisers(self) -> Float64Array:
        """log of (2 pi)^(-D/2) |W|, the density's value at the mean."""
        halves = np.log(np.diagonal(self.whitening, axis1=1, axis2=2)).sum(axis=1)
        return np.asarray(halves - 0.5 * self.means.shape[1] * wishart.LOG_2_PI)


FIELDS = ("mean", "mean_strength", "scale", "degrees_of_freedom")


@dataclass(frozen=True)
class NIW:
    """Normal-inverse-Wishart: Sigma ~ IW(scale, degrees_of_freedom), mu | Sigma ~ N(mean, Sigma / mean_strength)."""

    mean: Float64Array
    mean_strength: float | Float64Array
    scale: Float64Array
    degrees_of_freedom: float | Float64Array

    def __post_init__(self) -> None:
        mean = np.ascontiguousarray(self.mean, dtype=np.float64)
        scale = np.ascontiguousarray(self.scale, dtype=np.float64)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "scale", scale)
        dim = mean.shape[-1] if mean.ndim else 0
        if dim == 0 or scale.shape != (*mean.shape, dim):
            raise ValueError(
                f"a prior needs a mean of D numbers and a scale of D x D, not shapes {mean.shape} and {scale.shape}"
            )
        if not np.all(np.asarray(self.mean_strength) > 0):
            raise ValueError(f"the prior's mean_strength should be positive, not {self.mean_strength}")
        if not np.all(np.asarray(self.degrees_of_freedom) > dim - 1):
            raise ValueError(
                f"the prior's degrees_of_freedom should be above D - 1 = {dim - 1}, not {self.degrees_of_freedom}"
            )
        if mean.ndim == 1 and not np.isfinite(self.half_log_determinant).all():
            raise ValueError("the prior's scale should be a positive definite matrix")

    @property
    def dim(self) -> int:
        return int(self.mean.shape[-1])

    @cached_property
    def factors(self) -> tuple[Float64Array, Float64Array]:
        """Lower Cholesky factors of the scale, the batch along the last axis, and their log determinants."""
        return wishart.factorise(self.scale.reshape(-1, self.dim, self.dim))  # type: ignore[no-any-return]

    @property
    def cholesky(self) -> Float64Array:
        """Lower Cholesky factors of the scale, with a leading axis even for one distribution."""
        return np.moveaxis(self.factors[0], 2, 0)

    @property
    def half_log_determinant(self) -> Float64Array:
        return self.factors[1]

    @classmethod
    def reference(cls, dim: int) -> NIW:
        """The default of DPMMSubClusters.jl: mean 0, kappa 1, nu D + 3, Psi I."""
        return cls(np.zeros(dim), 1.0, (dim + 3) * np.eye(dim), float(dim + 3))

    @classmethod
    def from_data(cls, X: FloatArray, widths: float = WIDTHS) -> NIW:
        """The default prior: the mean of X, kappa 0.1, nu D + 3, a diagonal scale from how wide the data are locally.

        The data are cut into CELLS cells by k-means; the scale over nu is `widths` times the variance of each
        feature within cells. Each feature follows its own units, so the same data in other units gives the same
        clustering. The README shows how the number of clusters depends on `widths`.
        """
        dim = X.shape[1]
        sample = X if len(X) <= SAMPLE else X[np.sort(np.random.default_rng(0).choice(len(X), SAMPLE, replace=False))]
        labels = cells(np.asarray(sample), min(CELLS, len(sample) // POINTS_PER_CELL), seed=0)
        whole = Statistics.of(X)
        within = np.diagonal(Statistics.of(sample, labels).scatters.sum(axis=0)) / max(len(sample), 1)
        total = np.diagonal(whole.scatters[0]) / max(len(X), 1)
        variances = filled(np.maximum(within, 0.01 * total), whole.means[0])
        freedom = float(dim + 3)
        return cls(whole.means[0], MEAN_STRENGTH, np.diag(freedom * widths * variances), freedom)

    def posterior(self, statistics: Statistics) -> NIW:
        """The posteriors given each cluster's statistics, as one batched NIW."""
        return NIW.worked_out(
            *wishart.posteriors(self.fields, statistics.counts, statistics.means, statistics.scatters)
        )

    @cached_property
    def fields(self) -> tuple[Float64Array, float, Float64Array, float]:
        """Of one distribution, as the compiled loops take them."""
        return self.mean, float(self.mean_strength), self.scale, float(self.degrees_of_freedom)

    @classmethod
    def worked_out(cls, *found: Any) -> NIW:
        """A batch whose fields need no more checks, from what `wishart.posteriors` found."""
        batch = object.__new__(cls)
        mean, strength, scale, freedom, factors, halves, log_partition = found
        batch.__dict__.update(
            mean=mean, mean_strength=strength, scale=scale, degrees_of_freedom=freedom, factors=(factors, halves),
            log_partition=log_partition,
        )  # fmt: skip
        return batch

    def log_marginal_likelihood(self, statistics: Statistics, posterior: NIW | None = None) -> Float64Array:
        """log f(x; prior) of each cluster; pass the posterior if it is at hand."""
        posterior = self.posterior(statistics) if posterior is None else posterior
        constant = -0.5 * statistics.counts * self.dim * math.log(math.pi)
        return np.asarray(constant + posterior.log_partition - self.log_partition)

    @cached_property
    def log_partition(self) -> Float64Array:
        """log of Gamma_D(nu/2) |scale|^(-nu/2) kappa^(-D/2): all of the normaliser that the data can change."""
        freedom = np.atleast_1d(np.asarray(self.degrees_of_freedom, dtype=np.float64))
        strength = np.atleast_1d(np.asarray(self.mean_strength, dtype=np.float64))
        return np.asarray(wishart.log_partitions(freedom, strength, self.half_log_determinant, self.dim))

    def log_predictive(self, X: FloatArray) -> Float64Array:
        """log density of the Student-t predictive of each distribution at each row: (K, N)."""
        means = self.mean.reshape(-1, self.dim)
        freedom = np.atleast_1d(np.asarray(self.degrees_of_freedom)) - self.dim + 1
        strength = np.atleast_1d(np.asarray(self.mean_strength))
        spread = (strength + 1) / (strength * freedom)
        constants = (
            gammaln((freedom + self.dim) / 2)
            - gammaln(freedom / 2)
            - 0.5 * self.dim * np.log(freedom * math.pi * spread)
            - self.half_log_determinant
        )
        densities = np.empty((len(means), len(X)))
        rows = np.asarray(X, dtype=np.float64)
        for k, factor in enumerate(np.linalg.inv(self.cholesky)):
            whitened = (rows - means[k]) @ factor.T
            squares = np.einsum("ij,ij->i", whitened, whitened) / (spread[k] * freedom[k])
            densities[k] = constants[k] - 0.5 * (freedom[k] + self.dim) * np.log1p(squares)
        return densities

    def draw(self, rng: Generator) -> Gaussians:
        """One draw of (mu, Sigma) from each distribution, by Bartlett's decomposition.

        With T lower triangular, T'T ~ Wishart(nu, I) when its squared diagonal is chi-square with
        nu - D + 1, ..., nu degrees of freedom and the rest below it is standard normal. Then W = T L^-1, with
        L L' = scale, is again lower triangular and W'W a draw of the precision: no matrix is inverted.
        """
        centres = self.mean.reshape(-1, self.dim)
        count, dim = centres.shape
        strengths, freedoms = np.atleast_1d(self.mean_strength, self.degrees_of_freedom)
        gammas = rng.standard_gamma((freedoms - np.arange(dim - 1, -1, -1)[:, None]) / 2)
        normals = rng.standard_normal((dim * (dim + 1) // 2, count))
        return Gaussians.worked_out(*wishart.bartlett(centres, strengths, self.factors[0], gammas, normals))

    def mean_covariance(self) -> Float64Array:
        """The expected covariance of each distribution (the scale over nu where the mean does not exist)."""
        freedom = np.atleast_1d(np.asarray(self.degrees_of_freedom)) - self.dim - 1
        divisor = np.where(freedom > 0, freedom, freedom + self.dim + 1)
        return np.asarray(self.scale.reshape(-1, self.dim, self.dim) / divisor[:, None, None])

    def replaced(self, rows: IntArray, other: NIW) -> NIW:
        """This batch with other distributions in some rows; what has been worked out for the rest is kept."""
        fields = tuple(put_rows(getattr(self, name), rows, getattr(other, name)) for name in FIELDS)
        factors = self.factors[0].copy()
        factors[:, :, rows] = other.factors[0]
        halves = put_rows(self.half_log_determinant, rows, other.half_log_determinant)
        log_partition = put_rows(self.log_partition, rows, other.log_partition)
        return NIW.worked_out(*fields, factors, halves, log_partition)

    def shifted(self, offset: FloatArray) -> NIW:
        """The same prior for data from which `offset` has been subtracted."""
        return NIW(self.mean - offset, self.mean_strength, self.scale, self.degrees_of_freedom)


def put_rows(values: Float64Array, rows: IntArray, others: Float64Array) -> Float64Array:
    values = np.array(values)
    values[rows] = others
    return values


def filled(variances: Float64Array, mean: Float64Array) -> Float64Array:
    """Variances of which none is zero: constant features get the mean of the others, and it is said so, once.

    A feature counts as constant when it varies by less than single precision can tell from its mean.
    """
    constant = variances <= 1e-13 * mean**2
    if not constant.any():
        return variances
    instead = 1.0 if constant.all() else float(variances[~constant].mean())
    warnings.warn(
        f"degenerate data: {int(constant.sum())} of {len(variances)} features are constant and tell nothing; "
        f"the prior gives them a variance of {instead:.3g}, and leaving them out gives the same clusters faster",
        UserWarning,
        stacklevel=3,
    )
    return np.where(constant, instead, variances)
