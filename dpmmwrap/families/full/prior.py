"""The normal-inverse-Wishart prior: posterior, marginal likelihood, predictive, draws.

The compiled loops are in `wishart.py`. An `NIW` is one distribution or a batch of them, one per cluster, whose fields
all have a leading axis. `scale` is the usual scatter matrix; the paper and the reference package write it as nu * Psi.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from scipy.special import digamma

from dpmmwrap.families.base import PosteriorBatch, Prior, grouped, put_rows
from dpmmwrap.families.full import predictive
from dpmmwrap.families.full.expected import column_means, draw_given_labels, expected_statistics
from dpmmwrap.families.full.predictive import Student, Whitening
from dpmmwrap.families.full.statistics import (
    Gaussians,
    Posteriors,
    PriorFields,
    Statistics,
    covariances_of,
    moments_of,
    plain_sums,
    statistics_from_sums,
    statistics_of,
)
from dpmmwrap.families.learned.base import Moments
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.cells import Embedder, has_missing, sample_rows, standardiser
from dpmmwrap.numerics.loops import Loops

wishart = Loops("dpmmwrap.families.full.wishart")
loops = Loops("dpmmwrap.families.full.points")
MANY_DIMENSIONS = 30


@dataclass(frozen=True)
class NIW(Prior):
    """Normal-inverse-Wishart: Sigma ~ IW(scale, degrees_of_freedom), mu | Sigma ~ N(mean, Sigma / mean_strength).

    The prior of clusters with full covariances.

    Parameters
    ----------
    mean : array, shape (D,)
        Expected location of clusters.
    mean_strength : float
        kappa: how many points the prior location counts as.
    scale : array, shape (D, D)
        A positive definite matrix; divided by the degrees of freedom it is roughly the expected covariance.
    degrees_of_freedom : float
        nu, above D - 1: how certain the prior is of the covariance.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmmwrap import DPMM, NIW
    >>> X = np.concatenate([np.random.default_rng(0).normal(size=(50, 2)) + 9 * k for k in range(2)])
    >>> prior = NIW(mean=np.zeros(2), mean_strength=0.1, scale=5 * np.eye(2), degrees_of_freedom=5)
    >>> DPMM(prior=prior, init="kmeans", n_chains=1, random_state=0).fit(X).n_clusters_
    2
    """

    mean: Float64Array
    mean_strength: float | Float64Array
    scale: Float64Array
    degrees_of_freedom: float | Float64Array
    family: ClassVar[str] = "full"
    covariances: ClassVar[str] = "full"
    correlated: ClassVar[bool] = True
    called: ClassVar[str] = "a normal-inverse-Wishart prior"
    other: ClassVar[str] = "covariance_type='diag'"
    FIELDS: ClassVar[tuple[str, ...]] = ("mean", "mean_strength", "scale", "degrees_of_freedom")
    STATISTICS: ClassVar[type[tuple[Any, ...]]] = Statistics

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
        """Lower Cholesky factors of the scale, with the batch along the last axis, and half their log determinants."""
        found: tuple[Float64Array, Float64Array] = wishart.factorise(self.scale.reshape(-1, self.dim, self.dim))
        return found

    @cached_property
    def cholesky(self) -> Float64Array:
        """Lower Cholesky factors of the scale (K, D, D), computed without numba for predictions; all NaN if any scale
        is not positive definite."""
        scales = self.scale.reshape(-1, self.dim, self.dim)
        try:
            return np.asarray(np.linalg.cholesky(scales), dtype=np.float64)
        except np.linalg.LinAlgError:
            return np.full_like(scales, np.nan)

    @property
    def half_log_determinant(self) -> Float64Array:
        return self.factors[1]

    @classmethod
    def reference(cls, dim: int) -> NIW:
        """The default prior of DPMMSubClusters.jl: mean 0, kappa 1, nu D + 3, Psi I.

        Parameters
        ----------
        dim : int
            Number of features.

        Returns
        -------
        NIW
            The prior.
        """
        return cls(np.zeros(dim), 1.0, (dim + 3) * np.eye(dim), float(dim + 3))

    @classmethod
    def from_data(cls, X: FloatArray, prior_width: float | None = None) -> NIW:
        """The initial prior of a chain by default, kept fixed: the most probable prior if k-means cells of the data
        were clusters (see `families.learned.defaults`). It adapts to the units of each feature.

        Parameters
        ----------
        X : array, shape (N, D)
            The data.
        prior_width : float, default=None
            Width of clusters as a share of each feature's variance; None takes it from the cells.

        Returns
        -------
        NIW
            The prior.
        """
        from dpmmwrap.families.learned.defaults import DataScale, FixedHyperparameters

        prior: NIW = DataScale(X).start("full", FixedHyperparameters(width=prior_width)).prior
        return prior

    @staticmethod
    def n_parameters(dim: int) -> int:
        return dim * (dim + 3) // 2

    @staticmethod
    def is_costly(dim: int) -> bool:
        """The cost per point is quadratic in the dimension."""
        return dim > MANY_DIMENSIONS

    @staticmethod
    def rows_per_cluster(dim: int) -> int:
        return dim

    def estimates(self) -> dict[str, Float64Array]:
        return {"means": self.mean, "covariances": self.mean_covariance()}

    @classmethod
    def of_cells(cls) -> Any:
        """The class of the priors computed from k-means cells."""
        return cls

    @staticmethod
    def pooled(scales: Float64Array) -> Float64Array:
        """Convert the features' scales to the form that this family uses."""
        return scales

    def posterior(self, statistics: Statistics) -> NIW:
        """The posterior of each cluster given its statistics, as one batched NIW."""
        return NIW._unchecked(wishart.posteriors(self.fields, statistics)[0])

    def compute(self, statistics: Statistics) -> PosteriorBatch:
        """Posterior and log marginal likelihood of each cluster."""
        found, log_marginal = wishart.posteriors(self.fields, statistics)
        return PosteriorBatch(NIW._unchecked(found), log_marginal)

    @staticmethod
    def with_unions(subclusters: Statistics) -> Statistics:
        """Statistics of K clusters followed by those of their 2K subclusters, from the latter."""
        found: Statistics = wishart.with_unions(subclusters)
        return found

    def points(
        self, X: FloatArray, n_jobs: int, stretch: Any = None, missing: bool | None = None, weights: Any = None
    ) -> Any:
        """Wrap the points with the compiled loops. If X holds only some rows, `stretch` says which."""
        return loops.FullPoints(X, n_jobs, stretch, weights)

    @staticmethod
    def origin(X: FloatArray) -> Float64Array:
        """The mean of a sample, about which plain sums lose few digits."""
        return column_means(X[sample_rows(len(X), 0)])

    @staticmethod
    def plain_sums(X: FloatArray, labels: IntArray, n_clusters: int, origin: Float64Array) -> tuple[Any, ...]:
        return plain_sums(X, labels, n_clusters, origin)

    @staticmethod
    def statistics_from_sums(sums: tuple[Any, ...], origin: Float64Array) -> Statistics:
        counts, totals, squares = sums
        return statistics_from_sums(counts, totals, squares, origin)

    @cached_property
    def fields(self) -> PriorFields:
        """The fields of a single distribution, as the compiled loops take them."""
        strength, freedom = float(self.mean_strength), float(self.degrees_of_freedom)
        return PriorFields(self.mean, strength, self.scale, freedom, float(self.log_normaliser[0]))

    @classmethod
    def _unchecked(cls, found: Posteriors) -> NIW:
        """Build a batch from the result of `wishart.posteriors` without validation."""
        batch = object.__new__(cls)
        batch.__dict__.update(
            mean=found.means, mean_strength=found.strengths, scale=found.scales, degrees_of_freedom=found.freedoms,
            factors=(found.factors, found.halves), log_normaliser=found.log_normalisers, batch=found,
        )  # fmt: skip
        return batch

    @cached_property
    def batch(self) -> Posteriors:
        """The fields of a batch, as the compiled loops take them."""
        strengths, freedoms = np.atleast_1d(self.mean_strength, self.degrees_of_freedom)
        return Posteriors(self.mean, strengths, self.scale, freedoms, *self.factors, self.log_normaliser)

    def log_marginal_likelihood(self, statistics: Statistics, posterior: NIW | None = None) -> Float64Array:
        """log f(x; prior) of each cluster. Pass the posterior if it is already available."""
        posterior = self.posterior(statistics) if posterior is None else posterior
        constant = -0.5 * statistics.counts * self.dim * math.log(math.pi)
        return np.asarray(constant + posterior.log_normaliser - self.log_normaliser)

    @cached_property
    def log_normaliser(self) -> Float64Array:
        """Log of Gamma_D(nu/2) |scale|^(-nu/2) kappa^(-D/2), the part of the normaliser that depends on the data."""
        freedom = np.atleast_1d(np.asarray(self.degrees_of_freedom, dtype=np.float64))
        strength = np.atleast_1d(np.asarray(self.mean_strength, dtype=np.float64))
        return np.asarray(wishart.log_normalisers(freedom, strength, self.half_log_determinant, self.dim))

    def log_predictive(self, X: FloatArray) -> Float64Array:
        """Log density of each distribution's Student-t predictive at the observed values of each row: (K, N)."""
        return predictive.log_predictive(self, X)

    def log_predictive_complete(self, X: FloatArray) -> Float64Array:
        """`log_predictive` for rows without gaps."""
        return predictive.log_student(self, X)

    def log_predictive_of(self, X: FloatArray, k: int) -> Float64Array:
        """Log density of one distribution's predictive at rows without gaps."""
        return predictive.log_student_of(self, X, k)

    def log_predictive_at(self, X: FloatArray, rows: IntArray, components: IntArray) -> Float64Array:
        """Log density at pairs of a row without gaps and a distribution."""
        found, order = np.empty(len(rows)), np.argsort(components, kind="stable")
        for own in np.split(order, np.flatnonzero(np.diff(components[order])) + 1) if len(rows) else ():
            found[own] = predictive.log_student_of(self, X[rows[own]], components[own[0]])
        return found

    def upper_bounds(self, X: FloatArray) -> Float32Array | None:
        """Upper bounds on the log density of each predictive at each row (N, K). None if computing all densities is
        faster, or if there are gaps."""
        return None if not self.is_costly(self.dim) or has_missing(X) else predictive.upper_bounds(self, X)

    @cached_property
    def student(self) -> Student:
        """Parameters of the Student-t predictives."""
        return predictive.student_of(self)

    @cached_property
    def bounding(self) -> Float32Array:
        """Coefficients of the bounds on the predictives."""
        return predictive.bounding_of(self)

    @cached_property
    def whitening(self) -> Whitening:
        """Whitening that turns the distances of all distributions into one product."""
        return predictive.whitening_of(self)

    def marginal(self, columns: IntArray) -> NIW:
        """The distribution of some columns: its covariance is inverse Wishart with fewer degrees of freedom."""
        means = self.mean.reshape(-1, self.dim)[:, columns]
        scales = self.scale.reshape(-1, self.dim, self.dim)[:, columns[:, None], columns]
        strengths, freedoms = np.atleast_1d(self.mean_strength, self.degrees_of_freedom)
        made = object.__new__(NIW)
        made.__dict__.update(
            mean=means, mean_strength=strengths, scale=scales, degrees_of_freedom=freedoms - self.dim + len(columns)
        )
        return made

    def draw(self, rng: Generator) -> Gaussians:
        """Draw (mu, Sigma) once from each distribution, by Bartlett's decomposition.

        For lower triangular T, T'T ~ Wishart(nu, I) if the squared diagonal is chi-square with nu - D + 1, ..., nu
        degrees of freedom and the entries below it are standard normal. Then W = T L^-1 with L L' = scale is lower
        triangular, too, and W'W is a draw of the precision, so no matrix is inverted.
        """
        centres = self.mean.reshape(-1, self.dim)
        count, dim = centres.shape
        strengths, freedoms = np.atleast_1d(self.mean_strength, self.degrees_of_freedom)
        gammas = rng.standard_gamma((freedoms - np.arange(dim - 1, -1, -1)[:, None]) / 2)
        normals = rng.standard_normal((dim * (dim + 1) // 2, count))
        return Gaussians(*wishart.bartlett(centres, strengths, self.factors[0], gammas, normals))

    def draw_gaussians(self, rng: Generator) -> tuple[Float64Array, Float64Array]:
        """Means (K, D) and covariances (K, D, D), one draw from each distribution of the batch."""
        drawn = self.draw(rng)
        return drawn.means, covariances_of(drawn)

    def drawn_moments(self, origin: Float64Array, rng: Generator) -> Moments:
        """Moments of one draw of (mu, Sigma) from each distribution."""
        means, factors, _ = self.draw(rng)
        precisions = np.einsum("kij,kil->kjl", factors, factors)
        halves = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum()
        return moments_of(means - origin, precisions, -2.0 * float(halves))

    def expected_moments(self, origin: Float64Array) -> Moments:
        """Expectations of `drawn_moments`."""
        means, strengths, scales, freedoms, _, halves, _ = self.batch
        precisions = freedoms[:, None, None] * np.linalg.inv(scales)
        digammas = digamma((freedoms[:, None] - np.arange(self.dim)) / 2).sum() + len(means) * self.dim * math.log(2)
        found = moments_of(means - origin, precisions, float(2 * halves.sum() - digammas))
        return found._replace(square=found.square + self.dim * float((1 / strengths).sum()))

    def sample(self, components: IntArray, rng: Generator) -> Float64Array:
        """Draw one point from the Student-t predictive of each of these distributions."""
        freedom = np.atleast_1d(self.degrees_of_freedom) - self.dim + 1
        strength = np.atleast_1d(self.mean_strength)
        spread = np.sqrt((strength + 1) / (strength * freedom))[:, None, None] * self.cholesky
        normal = rng.standard_normal((len(components), self.dim))
        tails = np.sqrt(freedom[components] / rng.chisquare(freedom[components]))
        steps = np.einsum("nij,nj->ni", spread[components], normal * tails[:, None])
        return np.asarray(self.mean.reshape(-1, self.dim)[components] + steps)

    def impute(self, X: FloatArray, components: IntArray, rng: Generator | None) -> Float64Array:
        """Fill the missing values of each row with their expectations, or with draws if there is a generator, given the
        observed values, under the predictive of one distribution per row."""
        return predictive.impute(self, X, components, rng)

    def mean_covariance(self) -> Float64Array:
        """The expected covariance of each distribution, or scale / nu if the expectation does not exist."""
        freedom = np.atleast_1d(np.asarray(self.degrees_of_freedom)) - self.dim - 1
        divisor = np.where(freedom > 0, freedom, freedom + self.dim + 1)
        return np.asarray(self.scale.reshape(-1, self.dim, self.dim) / divisor[:, None, None])

    def replaced(self, rows: IntArray, other: NIW) -> NIW:
        """This batch with some rows replaced by other distributions, keeping cached results of the rest."""
        # Factors have the batch along their last axis: move it to the front while rows are written.
        own, others = (some.batch._replace(factors=some.factors[0].transpose(2, 0, 1)) for some in (self, other))
        found = Posteriors(*(put_rows(mine, rows, theirs) for mine, theirs in zip(own, others, strict=True)))
        return NIW._unchecked(found._replace(factors=np.ascontiguousarray(found.factors.transpose(1, 2, 0))))

    def shifted(self, offset: FloatArray) -> NIW:
        """The same prior for data from which `offset` has been subtracted."""
        return NIW(self.mean - offset, self.mean_strength, self.scale, self.degrees_of_freedom)

    @staticmethod
    def statistics(
        X: FloatArray, labels: IntArray | None = None, n_clusters: int | None = None, weights: Any = None
    ) -> Statistics:
        """With missing values, these are expected statistics (`full.expected`)."""
        if has_missing(X):
            own, count = grouped(labels, len(X), n_clusters)
            return expected_statistics(X, own, count)
        return statistics_of(X, labels, n_clusters, weights)

    def filled(self, X: FloatArray, labels: IntArray, seed: int) -> tuple[FloatArray, float]:
        return draw_given_labels(X, labels, self, seed) if has_missing(X) else (X, 0.0)

    def embedder(self, X: FloatArray) -> Embedder:
        """Divide each feature by its standard deviation."""
        return standardiser(X[sample_rows(len(X), 0)])

    def outliers(self, X: FloatArray, n_rows: int | None = None) -> NIW:
        """Twice as wide as the data and as certain as all of the data, so that no outliers can change it much."""
        whole = self.statistics(X)
        covariance = whole.scatters[0] / len(X) + np.diag(np.diagonal(self.scale)) * 1e-6
        strength = float(n_rows or len(X))
        return NIW(whole.means[0], strength, 4 * strength * covariance, strength + X.shape[1] + 1)
