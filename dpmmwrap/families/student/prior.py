"""The prior of Student-t clusters: normal-inverse-Wishart, with the degrees of freedom of the tails on a grid.

Given the scales u of its points (`tails.py`), a cluster is Gaussian with points weighted by their scales: kappa
increases by the sum of u and the degrees of freedom of the covariance by the number of points, so the Gaussian formulas
apply. Results that do not depend on the scales, such as those of a fitted model, use their expectations. `HeavyTails`
has what all shapes of scale matrices share; full ones are here, others in `diagonal.py`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from scipy.special import gammainccinv, gammaln, logsumexp

from dpmmwrap.families.base import PosteriorBatch, put_rows
from dpmmwrap.families.full import statistics as gaussian
from dpmmwrap.families.full.prior import NIW, wishart
from dpmmwrap.families.full.statistics import Posteriors
from dpmmwrap.families.student.statistics import (
    ScaledPoints,
    Statistics,
    Tails,
    expected_scales,
    given_scales,
    group,
    tails_of,
)
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.loops import Loops

grid = Loops("dpmmwrap.families.student.tails")
loops = Loops("dpmmwrap.families.student.points")
STEP, BELOW, ABOVE, NEGLIGIBLE = 0.5, -28, 10, 1e-8
"""The predictive is integrated over log u by the trapezoidal rule. The step in standard deviations, the number of steps
below the mode, the least number above it, and the mass that may be left out."""


class HeavyTails:
    """Methods shared by the priors of Student-t clusters. It must precede the Gaussian prior among the base classes."""

    heaviness: float | Float64Array
    mean: Any
    mean_strength: Any
    scale: Any
    degrees_of_freedom: Any
    dim: Any
    log_normaliser: Any
    """Log normaliser of each Gaussian distribution, as it enters the marginal likelihood, up to powers of pi."""
    _unchecked: Any
    other: ClassVar[str] = "tails='gaussian'"
    ones: ClassVar[str] = "ones with tails"
    STATISTICS: ClassVar[type[tuple[Any, ...]]] = Statistics

    @classmethod
    def with_tails(cls, found: Any, heaviness: Any) -> Any:
        """A batch of Gaussian posteriors with the heaviness of each cluster's tails."""
        batch = cls._unchecked(found)
        batch.__dict__.update(heaviness=heaviness)
        return batch

    @staticmethod
    def is_costly(dim: int) -> bool:
        """The loops over points are those of full covariances."""
        return NIW.is_costly(dim)

    @cached_property
    def tails(self) -> Tails:
        """The possible degrees of freedom of a cluster's tails."""
        return tails_of(float(self.heaviness))

    def gaussians(self, statistics: Any) -> Any:
        """The Gaussian posterior of each cluster given its statistics, as the loops take it."""
        raise NotImplementedError

    def precision_roots(self, rows: IntArray) -> Float64Array:
        """Factors W of the expected precisions W'W of some distributions (K, D, D)."""
        raise NotImplementedError

    def posterior(self, statistics: Any) -> Any:
        return self.with_tails(self.gaussians(statistics), grid.most_probable(self.tails, statistics))

    def compute(self, statistics: Any) -> PosteriorBatch:
        found = self.posterior(statistics)
        return PosteriorBatch(found, self.log_marginal_likelihood(statistics, found))

    def log_marginal_likelihood(self, statistics: Any, posterior: Any = None) -> Float64Array:
        """Log density of each cluster's points and their scales."""
        posterior = self.posterior(statistics) if posterior is None else posterior
        of_points = 0.5 * self.dim * (statistics.logs - statistics.counts * math.log(math.pi))
        of_scales = grid.log_evidences(self.tails, statistics)
        return np.asarray(of_points + posterior.log_normaliser - self.log_normaliser + of_scales)

    @staticmethod
    def with_unions(subclusters: Any) -> Any:
        counts, masses, means, scatters, logs, ones = subclusters
        weighted = wishart.with_unions(gaussian.Statistics(masses, means, scatters))
        plain = (np.concatenate([own[0::2] + own[1::2], own]) for own in (counts, logs, ones))
        every, log_sums, every_one = plain
        return Statistics(every, weighted.counts, weighted.means, weighted.scatters, log_sums, every_one)

    def points(
        self, X: FloatArray, n_jobs: int, stretch: Any = None, missing: bool | None = None, weights: Any = None
    ) -> Any:
        return loops.StudentPoints(X, n_jobs, stretch, weights)

    def statistics(
        self, X: Any, labels: IntArray | None = None, n_clusters: int | None = None, weights: Any = None
    ) -> Statistics:
        """With the scales of the points if they have any, otherwise with expected scales."""
        own, count = group(labels, len(X.X if isinstance(X, ScaledPoints) else X), n_clusters)
        if isinstance(X, ScaledPoints):
            return given_scales(X, own, count)
        return expected_scales(X, own, count, self)

    def counting_observed(self, statistics: Statistics) -> Statistics:
        """There are no missing values."""
        return statistics

    def filled(self, X: FloatArray, labels: IntArray, seed: int) -> tuple[Any, float]:
        """For a batch of posteriors: draw scales of the points given their clusters; return the scaled points and the
        log density of the scales."""
        rng, dim = np.random.default_rng(seed), self.dim
        heaviness = np.asarray(self.heaviness)[labels]
        scales, heavy = np.ones(len(X)), heaviness > 0
        halves = 0.5 / heaviness[heavy]
        shapes, rates = halves + 0.5 * dim, halves + 0.5 * self.squares(X[heavy], labels[heavy])
        drawn = rng.standard_gamma(shapes) / rates
        scales[heavy] = drawn
        logs = shapes * np.log(rates) - gammaln(shapes) + (shapes - 1) * np.log(drawn) - rates * drawn
        return ScaledPoints(X, scales), float(logs.sum())

    def squares(self, X: FloatArray, labels: IntArray) -> Float64Array:
        """Squared distances of rows in the metric of their cluster's expected precision."""
        found, present = np.empty(len(X)), np.unique(labels)
        for k, root in zip(present, self.precision_roots(present), strict=True):
            own = labels == k
            whitened = (np.asarray(X[own], np.float64) - self.mean[k]) @ root.T
            found[own] = (whitened**2).sum(axis=1)
        return found

    def over_tails(self, X: FloatArray) -> Float64Array:
        """Log predictive density of a prior, whose tails may be any of the grid, at each row (1, N)."""
        every = [replace(self, heaviness=float(own)).log_predictive(X) for own in self.tails.heaviness]  # type: ignore
        return np.asarray(logsumexp(self.tails.log_priors[:, None, None] + every, axis=0))

    @property
    def is_prior(self) -> bool:
        """Whether the tails may be any of the grid."""
        return bool(np.ndim(self.heaviness) == 0 and self.heaviness < 0)

    def draw_scales(self, components: IntArray, rng: Generator) -> Float64Array:
        """Draw scales of new points of these distributions."""
        heaviness = np.atleast_1d(self.heaviness)[components]
        if (heaviness < 0).any():
            heaviness = rng.choice(self.tails.heaviness, len(components), p=np.exp(self.tails.log_priors))
        scales, heavy = np.ones(len(components)), heaviness > 0
        scales[heavy] = rng.standard_gamma(0.5 / heaviness[heavy]) * 2 * heaviness[heavy]
        return scales

    def estimates(self) -> dict[str, Float64Array]:
        return super().estimates() | {"tails": self.tail_freedoms}  # type: ignore

    @property
    def tail_freedoms(self) -> Float64Array:
        with np.errstate(divide="ignore"):
            return np.asarray(1 / np.asarray(self.heaviness, np.float64))

    def draw_tail_freedoms(self, clusters: int, rng: Generator) -> Float64Array:
        with np.errstate(divide="ignore"):
            return np.asarray(1 / rng.choice(self.tails.heaviness, clusters, p=np.exp(self.tails.log_priors)))

    def describe_tails(self, clusters: int) -> str:
        """How many clusters have heavy tails, and their degrees of freedom."""
        heavy = np.sort(self.tail_freedoms[:clusters][np.isfinite(self.tail_freedoms[:clusters])])
        if not len(heavy):
            return "no cluster has heavy tails"
        least, most = f"{heavy[0]:g}", f"{heavy[-1]:g}"
        freedoms = least if least == most else f"{least} to {most}"
        ending = "" if freedoms == "1" else "s"
        have = "has" if len(heavy) == 1 else "have"
        which = f"{len(heavy)} of {clusters} clusters {have}" if clusters > 1 else "the cluster has"
        return f"{which} heavy tails ({freedoms} degree{ending} of freedom)"

    def replaced(self, rows: IntArray, other: Any) -> Any:
        found = super().replaced(rows, other).batch  # type: ignore
        return self.with_tails(found, put_rows(self.heaviness, rows, other.heaviness))

    def shifted(self, offset: FloatArray) -> Any:
        fields = (self.mean_strength, self.scale, self.degrees_of_freedom, self.heaviness)
        return type(self)(self.mean - offset, *fields)  # type: ignore

    def impute(self, X: FloatArray, components: IntArray, rng: Generator | None) -> Float64Array:
        raise ValueError("the family student does not impute missing values; gaussian and mixed do")

    def outliers(self, X: FloatArray, n_rows: int | None = None) -> Any:
        raise ValueError("the family student takes no outlier_weight, as its tails account for outliers")


@dataclass(frozen=True)
class StudentNIW(HeavyTails, NIW):  # type: ignore[misc]
    """Normal-inverse-Wishart prior of Student-t clusters: x ~ t with mean mu, scale matrix Sigma and heavy tails.

    Parameters
    ----------
    mean : array, shape (D,)
        Expected location of clusters.
    mean_strength : float
        kappa: how many points the prior location counts as.
    scale : array, shape (D, D)
        A positive definite matrix; divided by the degrees of freedom it is roughly the expected scale matrix.
    degrees_of_freedom : float
        nu, above D - 1: how certain the prior is of the scale matrix.
    heaviness : float, default=-1.0
        One over the degrees of freedom of the tails of all clusters; 0 for Gaussian clusters. -1 learns them for each
        cluster: 1, 2, 3, 4, 6, 8, 12, 16 or 32, or Gaussian, which has a prior probability of one half.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmmwrap import DPMM, StudentNIW
    >>> X = np.concatenate([np.random.default_rng(0).standard_t(2, size=(99, 2)) + 30 * k for k in range(2)])
    >>> prior = StudentNIW(mean=np.zeros(2), mean_strength=0.01, scale=5 * np.eye(2), degrees_of_freedom=5)
    >>> DPMM(family="student", prior=prior, init="kmeans", n_chains=1, random_state=0).fit(X).n_clusters_
    2
    """

    heaviness: float | Float64Array = -1.0
    family: ClassVar[str] = "student"
    called: ClassVar[str] = "a normal-inverse-Wishart prior with tails"
    numeric_kind: ClassVar[str] = "full"
    """The name of its covariances in summaries."""
    FIELDS: ClassVar[tuple[str, ...]] = (*NIW.FIELDS, "heaviness")

    @staticmethod
    def of_cells() -> Any:
        """k-means cells have no tails."""
        return NIW

    def gaussians(self, statistics: Any) -> Posteriors:
        counts, masses, means, scatters, _, _ = statistics
        strength, dim = float(self.mean_strength), self.dim
        strengths, freedoms = strength + masses, float(self.degrees_of_freedom) + counts
        share, gaps = masses / strengths, means - self.mean
        pulls = (strength * share)[:, None, None] * gaps[:, :, None] * gaps[:, None, :]
        scales = self.scale + scatters + pulls
        factors, halves = wishart.factorise(scales)
        normalisers = wishart.log_normalisers(freedoms, strengths, halves, dim)
        return Posteriors(self.mean + share[:, None] * gaps, strengths, scales, freedoms, factors, halves, normalisers)

    def precision_roots(self, rows: IntArray) -> Float64Array:
        inverses: Any = np.linalg.inv(np.moveaxis(self.factors[0], 2, 0)[rows])
        return np.asarray(np.sqrt(np.atleast_1d(self.degrees_of_freedom)[rows])[:, None, None] * inverses)

    def upper_bounds(self, X: FloatArray) -> None:
        """No bounds: all densities are computed."""

    def log_predictive_complete(self, X: FloatArray) -> Float64Array:
        """Log predictive density: Student's t if the cluster is Gaussian, otherwise a mixture of these over the
        scale."""
        if self.is_prior:
            return self.over_tails(X)
        found, dim = super().log_predictive_complete(X), self.dim
        freedoms, strengths, heaviness = np.atleast_1d(self.degrees_of_freedom, self.mean_strength, self.heaviness)
        for k in np.flatnonzero(heaviness > 0):
            factor, power = self.whitening.factors[k], 0.5 * (freedoms[k] + 1)
            whitened = factor @ (np.asarray(X, np.float64) - self.whitening.centre).T - self.whitening.means[k][:, None]
            constant = gammaln(power) - gammaln(power - 0.5 * dim) - 0.5 * dim * math.log(math.pi)
            constant -= np.log(np.diagonal(self.cholesky[k])).sum()
            squares = (whitened**2).sum(axis=0)[:, None]
            found[k] = constant + log_over_scales(squares, np.full(len(X), dim), power, strengths[k], heaviness[k])
        return found

    def sample(self, components: IntArray, rng: Generator) -> Float64Array:
        """Draw a point from the predictive of each of these distributions: a scale, then Student's t given it."""
        scales, (freedoms, strengths) = (
            self.draw_scales(components, rng), np.atleast_1d(self.degrees_of_freedom, self.mean_strength)
        )  # fmt: skip
        spread = (1 / strengths[components] + 1 / scales) / rng.chisquare(freedoms[components] - self.dim + 1)
        steps = np.einsum("nij,nj->ni", self.cholesky[components], rng.standard_normal((len(components), self.dim)))
        return np.asarray(self.mean.reshape(-1, self.dim)[components] + np.sqrt(spread)[:, None] * steps)

    def marginal(self, columns: IntArray) -> StudentNIW:
        made: Any = object.__new__(StudentNIW)
        made.__dict__.update(vars(super().marginal(columns)), heaviness=self.heaviness)
        found: StudentNIW = made
        return found


def log_over_scales(squares: Float64Array, dims: Any, power: Any, strength: float, heaviness: float) -> Float64Array:
    """Log of the integral over u of its density times w^(D/2) times the product of (1 + w squares)^-power over columns,
    where w = strength u / (strength + u), for each row. This is the part of the predictive of a cluster with tails that
    depends on the squared distances (N, F) in the metric of its scale matrix. `dims` are the numbers of observed values
    (N,)."""
    half = 0.5 / heaviness
    constant = half * math.log(half) - gammaln(half)
    shapes, totals = half + 0.5 * dims, squares.sum(axis=1)
    steps, middles = STEP / np.sqrt(shapes), np.log(shapes / (half + power * totals))
    # Above the mode the density falls like this power of u, unless the prior of u falls first.
    powers, end = power - shapes, math.log(gammainccinv(half, NEGLIGIBLE) / half)
    ends = np.where(powers > 0, -math.log(NEGLIGIBLE) / np.where(powers > 0, powers, 1.0), np.inf)
    if squares.shape[1] > 1:
        ends = np.full(len(ends), np.inf)
    above = (np.minimum(end - middles, ends) / steps).max(initial=0.0)
    nodes = np.arange(BELOW, max(ABOVE, math.ceil(above)) + 1)
    logs = np.empty((len(nodes), len(squares)))
    for number, node in enumerate(nodes):
        log_scale = middles + node * steps
        scale = np.exp(log_scale)
        weight = strength * scale / (strength + scale)
        logs[number] = half * (log_scale - scale) + 0.5 * dims * np.log(weight)
        logs[number] -= power * np.log1p(weight[:, None] * squares).sum(axis=1)
    return np.asarray(constant + logsumexp(logs, axis=0) + np.log(steps))
