"""Student-t clusters whose scale matrices are diagonal or multiples of the identity.

The loops over points are those of full scale matrices, at the same cost; only the prior is specific.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.random import Generator
from scipy.special import gammaln

from dpmmwrap.families.diagonal.prior import NIG, Posteriors
from dpmmwrap.families.diagonal.spherical import SphericalNIG
from dpmmwrap.families.student.prior import HeavyTails, log_over_scales
from dpmmwrap.families.student.statistics import Statistics
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.loops import Loops

diagonal_loops = Loops("dpmmwrap.families.student.diagonal_points")


@dataclass(frozen=True)
class StudentNIG(HeavyTails, NIG):  # type: ignore[misc]
    """Normal-inverse-gamma prior of Student-t clusters with diagonal scale matrices. `heaviness` as in `StudentNIW`."""

    heaviness: float | Float64Array = -1.0
    family: ClassVar[str] = "student-diag"
    called: ClassVar[str] = "a normal-inverse-gamma prior with tails"
    numeric_kind: ClassVar[str] = "diag"
    FIELDS: ClassVar[tuple[str, ...]] = (*NIG.FIELDS, "heaviness")
    upper_bounds: ClassVar[Any] = None
    """The bounds for Gaussian clusters do not hold."""

    @staticmethod
    def of_cells() -> Any:
        """k-means cells have no tails."""
        return NIG

    def gaussians(self, statistics: Any) -> Posteriors:
        counts, masses, means, scatters = statistics[:4]
        strength, gaps = float(self.mean_strength), means - self.mean
        strengths, shares = strength + masses[:, None], masses[:, None] / (strength + masses[:, None])
        own = scatters if scatters.ndim == 2 else np.diagonal(scatters, axis1=1, axis2=2)
        squares, freedoms = own + strength * shares * gaps**2, counts[:, None]
        if self.tied:
            squares, freedoms = squares.sum(axis=1, keepdims=True), self.dim * freedoms
        freedoms = float(self.degrees_of_freedom) + freedoms
        return Posteriors(self.mean + shares * gaps, strengths, self.scale + squares, freedoms)

    @cached_property
    def log_normaliser(self) -> Float64Array:
        means, strengths, scales, freedoms = self.batch
        terms = np.broadcast_to(gammaln(freedoms / 2) - freedoms / 2 * np.log(scales), scales.shape).sum(axis=1)
        return np.asarray(terms - 0.5 * np.log(np.broadcast_to(strengths, means.shape)).sum(axis=1))

    def union_log_marginals(self, statistics: Any, one: IntArray, other: IntArray) -> Float64Array:
        counts, masses, means, scatters, logs, ones = statistics
        squares, total = np.diagonal(scatters, axis1=1, axis2=2), masses[one] + masses[other]
        gaps, share = means[other] - means[one], (masses[other] / total)[:, None]
        between = masses[one][:, None] * share * gaps**2
        means, squares = means[one] + share * gaps, squares[one] + squares[other] + between
        plain = (own[one] + own[other] for own in (logs, ones))
        return self.log_marginal_likelihood(Statistics(counts[one] + counts[other], total, means, squares, *plain))

    def precision_roots(self, rows: IntArray) -> Float64Array:
        means, _, scales, freedoms = self.batch
        roots = np.sqrt(np.broadcast_to(freedoms / scales, means.shape))[rows]
        return np.asarray(roots[:, :, None] * np.eye(self.dim))

    def points(
        self, X: FloatArray, n_jobs: int, stretch: Any = None, missing: bool | None = None, weights: Any = None
    ) -> Any:
        return diagonal_loops.DiagonalStudentPoints(X, n_jobs, stretch, weights)

    def log_predictive(self, X: FloatArray) -> Float64Array:
        return self.over_tails(X) if self.is_prior else super().log_predictive(X)

    def log_predictive_of(self, X: FloatArray, k: int) -> Float64Array:
        """If the cluster has tails, an integral over the scale, which all features share."""
        heaviness = float(np.atleast_1d(self.heaviness)[k])
        if heaviness == 0:
            return super().log_predictive_of(X, k)
        means, strengths, scales, freedoms = (value[k] for value in self.batch)
        squares = (np.asarray(X, np.float64) - means) ** 2 / scales
        observed = ~np.isnan(squares)
        dims, squares = observed.sum(axis=1), np.where(observed, squares, 0.0)
        powers: Any = 0.5 * (freedoms[0] + 1)
        constants = dims * (gammaln(powers) - gammaln(powers - 0.5))
        if self.tied:
            powers, squares = 0.5 * (freedoms[0] + dims), squares.sum(axis=1, keepdims=True)
            constants = gammaln(powers) - gammaln(0.5 * freedoms[0])
        constants = constants - 0.5 * (observed * np.log(math.pi * scales)).sum(axis=1)
        return np.asarray(constants + log_over_scales(squares, dims, powers, float(strengths[0]), heaviness))

    def sample(self, components: IntArray, rng: Generator) -> Float64Array:
        """Draw a point from the predictive of each of these distributions: a scale, then Student's t given it."""
        means, strengths, scales, freedoms = (value[components] for value in self.batch)
        spread = scales * (1 / strengths + 1 / self.draw_scales(components, rng)[:, None])
        chosen = np.broadcast_to(freedoms, (len(components), scales.shape[1]))
        return np.asarray(means + np.sqrt(spread / rng.chisquare(chosen)) * rng.standard_normal(means.shape))


@dataclass(frozen=True)
class StudentSphericalNIG(StudentNIG, SphericalNIG):  # type: ignore[misc]
    """`StudentNIG` with one variance for all features."""

    family: ClassVar[str] = "student-spherical"
    called: ClassVar[str] = "a normal-inverse-gamma prior with one variance and tails"
    numeric_kind: ClassVar[str] = "spherical"
    covariances: ClassVar[str] = "spherical"
    tied: ClassVar[bool] = True

    @staticmethod
    def of_cells() -> Any:
        return SphericalNIG
