"""The prior of Student-t clusters: normal-inverse-Wishart, with degrees of freedom of the tails on a grid.

Given the scales u of its points (`tails.py`), a cluster is a Gaussian whose points count with their scales: kappa grows
by the sum of u, the degrees of freedom of the covariance by the number of points. So all formulas are those of the
full-covariance Gaussian. What is said of a cluster without the scales, as by a fitted model, has their expectations.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from scipy.special import gammainccinv, gammaln, logsumexp

from dpmmwrap.families.base import Computed, put_rows
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
"""The predictive is summed over log u by the trapezoidal rule: its steps, in deviations, how many there are below and
at least above the middle, and what may be left out."""


@dataclass(frozen=True)
class StudentNIW(NIW):
    """Normal-inverse-Wishart prior of Student-t clusters: x ~ t with mean mu, scale matrix Sigma, and tails.

    Parameters
    ----------
    mean : array, shape (D,)
        Where clusters are expected.
    mean_strength : float
        kappa: how sure of that the prior is, in points.
    scale : array, shape (D, D)
        A positive definite matrix; over the degrees of freedom it is about the scale matrix that is expected.
    degrees_of_freedom : float
        nu, above D - 1: how sure of that the prior is.
    heaviness : float, default=-1.0
        One over the degrees of freedom of the tails of all clusters, 0 for Gaussian ones. -1 learns them for each
        cluster: 1, 2, 3, 4, 6, 8, 12, 16 or 32, or (a priori as probable as all of these) a Gaussian.

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
    other: ClassVar[str] = "family='gaussian'"
    numeric_kind: ClassVar[str] = "full"
    """What its covariances are called in summaries."""
    FIELDS: ClassVar[tuple[str, ...]] = (*NIW.FIELDS, "heaviness")

    @staticmethod
    def of_cells() -> Any:
        """k-means cells have no tails."""
        return NIW

    @cached_property
    def tails(self) -> Tails:
        """What the degrees of freedom of a cluster's tails may be."""
        return tails_of(float(self.heaviness))

    def posterior(self, statistics: Any) -> StudentNIW:
        return self._posterior(statistics)

    def compute(self, statistics: Any) -> Computed:
        found = self._posterior(statistics)
        return Computed(found, self.log_marginal_likelihood(statistics, found))

    def _posterior(self, statistics: Any) -> StudentNIW:
        counts, masses, means, scatters, _, _ = statistics
        strength, dim = float(self.mean_strength), self.dim
        strengths, freedoms = strength + masses, float(self.degrees_of_freedom) + counts
        share, gaps = masses / strengths, means - self.mean
        pulls = (strength * share)[:, None, None] * gaps[:, :, None] * gaps[:, None, :]
        scales = self.scale + scatters + pulls
        factors, halves = wishart.factorise(scales)
        normalisers = wishart.log_normalisers(freedoms, strengths, halves, dim)
        centres = self.mean + share[:, None] * gaps
        found = Posteriors(centres, strengths, scales, freedoms, factors, halves, normalisers)
        return StudentNIW._with_tails(found, grid.most_probable(self.tails, statistics))

    @classmethod
    def _with_tails(cls, found: Posteriors, heaviness: Float64Array) -> StudentNIW:
        batch = cls._unchecked(found)
        batch.__dict__.update(heaviness=heaviness)
        return batch  # type: ignore[return-value]

    def log_marginal_likelihood(self, statistics: Any, posterior: Any = None) -> Float64Array:
        """log density of each cluster's points and their scales."""
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

    def statistics(  # type: ignore[override]
        self, X: Any, labels: IntArray | None = None, n_clusters: int | None = None, weights: Any = None
    ) -> Statistics:
        """With their scales, if the points have any, else with expected ones."""
        own, count = group(labels, len(X.X if isinstance(X, ScaledPoints) else X), n_clusters)
        if isinstance(X, ScaledPoints):
            return given_scales(X, own, count)
        return expected_scales(X, own, count, self)

    def filled(self, X: FloatArray, labels: IntArray, seed: int) -> tuple[Any, float]:
        """Of a batch of posteriors: points with scales that are drawn given their cluster, and the log density of
        these."""
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
        found = np.empty(len(X))
        freedoms, factors = np.asarray(self.degrees_of_freedom), self.whitening.factors
        for k in np.unique(labels):
            own = labels == k
            whitened = (np.asarray(X[own], np.float64) - self.mean[k]) @ factors[k].T
            found[own] = freedoms[k] * (whitened**2).sum(axis=1)
        return found

    def upper_bounds(self, X: FloatArray) -> None:
        """All are worked out."""

    def log_predictive_complete(self, X: FloatArray) -> Float64Array:
        """log predictive density: of Gaussian clusters Student's t, of others a mixture of those over the scale."""
        if np.ndim(self.heaviness) == 0 and self.heaviness < 0:
            # A prior, whose tails are any of the grid.
            every = [replace(self, heaviness=float(own)).log_predictive_complete(X) for own in self.tails.heaviness]
            return np.asarray(logsumexp(self.tails.log_priors[:, None, None] + every, axis=0))
        found, (freedoms, strengths, heaviness) = super().log_predictive_complete(X), self._by_cluster
        for k in np.flatnonzero(heaviness > 0):
            factor = self.whitening.factors[k]
            whitened = factor @ (np.asarray(X, np.float64) - self.whitening.centre).T - self.whitening.means[k][:, None]
            squares = (whitened**2).sum(axis=0)
            half_log = np.log(np.diagonal(self.cholesky[k])).sum()
            found[k] = log_over_scales(squares, self.dim, freedoms[k], strengths[k], heaviness[k]) - half_log
        return found

    @property
    def _by_cluster(self) -> tuple[Float64Array, Float64Array, Float64Array]:
        """Degrees of freedom, strengths and heaviness."""
        freedoms, strengths, heaviness = np.atleast_1d(self.degrees_of_freedom, self.mean_strength, self.heaviness)
        return freedoms, strengths, heaviness

    def sample(self, components: IntArray, rng: Generator) -> Float64Array:
        """A new point from the predictive of each of these distributions: a scale, and given it Student's t."""
        freedoms, strengths, heaviness = (values[components] for values in self._by_cluster)
        # Of a prior the tails are any of the grid.
        if (heaviness < 0).any():
            heaviness = rng.choice(self.tails.heaviness, len(components), p=np.exp(self.tails.log_priors))
        scales, heavy = np.ones(len(components)), heaviness > 0
        scales[heavy] = rng.standard_gamma(0.5 / heaviness[heavy]) * 2 * heaviness[heavy]
        spread = (1 / strengths + 1 / scales) / rng.chisquare(freedoms - self.dim + 1)
        steps = np.einsum("nij,nj->ni", self.cholesky[components], rng.standard_normal((len(components), self.dim)))
        return np.asarray(self.mean.reshape(-1, self.dim)[components] + np.sqrt(spread)[:, None] * steps)

    def estimates(self) -> dict[str, Float64Array]:
        return super().estimates() | {"tails": self.tail_freedoms}

    @property
    def tail_freedoms(self) -> Float64Array:
        with np.errstate(divide="ignore"):
            return np.asarray(1 / np.asarray(self.heaviness, np.float64))

    def draw_tail_freedoms(self, clusters: int, rng: Generator) -> Float64Array:
        with np.errstate(divide="ignore"):
            return np.asarray(1 / rng.choice(self.tails.heaviness, clusters, p=np.exp(self.tails.log_priors)))

    def describe_tails(self, clusters: int) -> str:
        """How many clusters have tails, and which."""
        heavy = np.sort(self.tail_freedoms[:clusters][np.isfinite(self.tail_freedoms[:clusters])])
        if not len(heavy):
            return "no cluster has heavy tails"
        least, most = f"{heavy[0]:g}", f"{heavy[-1]:g}"
        freedoms = least if least == most else f"{least} to {most}"
        ending = "" if freedoms == "1" else "s"
        have = "has" if len(heavy) == 1 else "have"
        which = f"{len(heavy)} of {clusters} clusters {have}" if clusters > 1 else "the cluster has"
        return f"{which} heavy tails ({freedoms} degree{ending} of freedom)"

    def replaced(self, rows: IntArray, other: Any) -> StudentNIW:
        heaviness = put_rows(self.heaviness, rows, other.heaviness)
        return StudentNIW._with_tails(super().replaced(rows, other).batch, heaviness)

    def shifted(self, offset: FloatArray) -> StudentNIW:
        mean = self.mean - offset
        return StudentNIW(mean, self.mean_strength, self.scale, self.degrees_of_freedom, self.heaviness)

    def marginal(self, columns: IntArray) -> StudentNIW:
        made: Any = object.__new__(StudentNIW)
        made.__dict__.update(vars(super().marginal(columns)), heaviness=self.heaviness)
        found: StudentNIW = made
        return found

    def impute(self, X: FloatArray, components: IntArray, rng: Generator | None) -> Float64Array:
        raise ValueError("missing values are drawn under the families gaussian and mixed, not under student")

    def outliers(self, X: FloatArray, n_rows: int | None = None) -> StudentNIW:
        raise ValueError("the family student takes no outlier_weight: its tails are for outliers")


def log_over_scales(squares: Float64Array, dim: int, freedom: float, strength: float, heaviness: float) -> Float64Array:
    """log predictive density of a cluster with tails, but for the determinant, at squared distances in the metric of
    its scale matrix: an integral over the logarithm of the scale."""
    half = 0.5 / heaviness
    constant = gammaln(0.5 * (freedom + 1)) - gammaln(0.5 * (freedom - dim + 1)) - 0.5 * dim * math.log(math.pi)
    constant += half * math.log(half) - gammaln(half)
    shape = half + 0.5 * dim
    step, middles = STEP / math.sqrt(shape), np.log(shape / (half + 0.5 * freedom * squares))
    # Beyond the middle the density falls by this power of u, where the prior of u does not end it.
    power, end = 0.5 * (freedom + 1) - shape, math.log(gammainccinv(half, NEGLIGIBLE) / half)
    above = np.minimum(end - middles, -math.log(NEGLIGIBLE) / power if power > 0 else np.inf).max(initial=0.0)
    nodes = step * np.arange(BELOW, max(ABOVE, math.ceil(above / step)) + 1)
    logs = np.empty((len(nodes), len(squares)))
    for node, away in enumerate(nodes):
        log_scale = middles + away
        scale = np.exp(log_scale)
        weight = strength * scale / (strength + scale)
        logs[node] = half * (log_scale - scale) + 0.5 * dim * np.log(weight)
        logs[node] -= 0.5 * (freedom + 1) * np.log1p(weight * squares)
    return np.asarray(constant + logsumexp(logs, axis=0) + math.log(step))
