"""Learning the default prior of Gaussian clusters: hyperpriors on location, kappa, widths and strength.

A cluster's covariance is centred on the expected widths w, one per feature (one for all features if covariances are
spherical), with nu degrees of freedom. Its mean is centred on the location m, and varies the more, the wider the
cluster and the smaller kappa:

    Sigma_k ~ IW(nu diag(w), nu),    mu_k ~ N(m, Sigma_k / kappa).

As in Rasmussen (2000) and Görür and Rasmussen (2010), these have weak hyperpriors in units of the data, whose features
have means m0 and variances v:

    m_j ~ N(m0_j, v_j),    kappa ~ chi-square(1),    w_j / v_j ~ chi-square(1),    log strength ~ uniform.

The strength is nu minus the degrees of freedom that a covariance needs to exist. It is above 2, so that covariances
have an expectation.

The data alone cannot limit how narrow clusters may get: if a class is not exactly Gaussian, ever narrower clusters
describe ever finer details of it. Widths and strength are therefore restricted so that the prior expects at most a
share NARROW of the clusters to be narrower, in any feature, than k-means cells of the data. The evidence sets the
number of cells (`defaults.py`).

Given the means and covariances of the clusters, each hyperparameter has a standard conditional distribution. Drawing
means and covariances from their posterior and then the hyperparameters given them leaves the posterior of labels and
hyperparameters invariant. With expectations in place of draws, the same sums climb to the most probable
hyperparameters (expectation maximisation).
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.special import chdtri, gammaincc, gammainccinv, gammaln, logsumexp

from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.learned.base import Moments, Start, Summary
from dpmmwrap.numerics.arrays import Float64Array, FloatArray

STRENGTHS = 2.0 ** (np.arange(3, 27) / 2)
"""The grid of strengths, two per doubling, from the least for which covariances have an expectation to nearly equal
covariances."""
NARROW = 0.01
"""Largest share of clusters that the prior may expect to be narrower than a cell in a feature."""
HALF = 0.5
"""Shape and rate of the chi-square distribution with one degree of freedom."""
STEPS, CLOSE = 50, 1e-3
"""Most steps of a climb, and the relative change of widths and kappa at which it stops."""
LEAST_WIDTH = 1e-9
"""Least width of a cluster in units of the data's variances. If features depend on each other, widths would vanish."""
FAR_OUT = 1e-100
"""Tail probability below which quantiles are not accurate."""


class Hyperparameters(NamedTuple):
    """Hyperparameters of a prior of Gaussian clusters."""

    location: Float64Array
    kappa: float
    widths: Float64Array
    """One per feature (D,), or one for all (1,)."""
    strength: float


@dataclass(frozen=True)
class Hyperprior:
    """A distribution over the priors of a Gaussian family. Hyperparameters that are given are fixed."""

    kind: type[NIW] | type[NIG]
    mean: Float64Array
    variances: Float64Array
    """Variances of the data, (D,), or (1,) for spherical covariances. With `mean` they set the units of all
    hyperparameters."""
    kappa: float | None = None
    width: float | None = None
    """Common to all features, in units of their variances."""
    strength: float | None = None
    cells: Float64Array | None = None
    """Variances within k-means cells, (D,) or (1,), below which clusters seldom fall; None for no such restriction."""

    @property
    def dim(self) -> int:
        return len(self.mean)

    @property
    def is_full(self) -> bool:
        return self.kind.correlated

    @property
    def least_freedom(self) -> int:
        """Degrees of freedom that a covariance needs to exist."""
        return self.dim - 1 if self.is_full else 0

    @cached_property
    def strengths(self) -> Float64Array:
        """The possible strengths (S,)."""
        return STRENGTHS if self.strength is None else np.array([self.strength])

    @cached_property
    def floors(self) -> Float64Array:
        """The least widths at each strength (S, W).

        The variance of a feature in a cluster is nu w divided by a chi-square variable with `strength` degrees of
        freedom.
        """
        if self.width is not None:
            return np.zeros((len(self.strengths), len(self.variances)))
        cells = np.zeros(len(self.variances)) if self.cells is None else self.cells
        quantiles = chdtri(self.strengths, NARROW) / (self.least_freedom + self.strengths)
        return np.maximum(np.outer(quantiles, cells), LEAST_WIDTH * self.variances)

    def make(self, hyperparameters: Hyperparameters) -> Any:
        """The prior with these hyperparameters."""
        location, kappa, widths, strength = hyperparameters
        freedom = self.least_freedom + strength
        scale = freedom * widths
        return self.kind(location, kappa, np.diag(scale) if self.is_full else scale, freedom)

    def values(self, prior: Any) -> Hyperparameters:
        """The hyperparameters of a prior made by `make`."""
        freedom = float(prior.degrees_of_freedom)
        widths = (np.diagonal(prior.scale) if self.is_full else prior.scale) / freedom
        return Hyperparameters(prior.mean, float(prior.mean_strength), widths, freedom - self.least_freedom)

    def summary(self, prior: Any) -> Summary:
        _, kappa, widths, strength = self.values(prior)
        return Summary(kappa, float(np.exp(np.log(widths / self.variances).mean())), strength)

    def unrestricted(self) -> Hyperprior:
        """This distribution without the restriction by k-means cells."""
        return replace(self, cells=None)

    def identity(self) -> list[float | None]:
        """The fixed hyperparameters. All else follows from the data."""
        return [self.kappa, self.width, self.strength]

    def scaled(self, prior: Any, name: str, factor: float) -> Any:
        """The prior with its "kappa" or "width" multiplied by a factor."""
        values = self.values(prior)
        if name == "kappa":
            return self.make(values._replace(kappa=factor * values.kappa))
        return self.make(values._replace(widths=factor * values.widths))

    def log_density(self, prior: Any) -> float:
        """Log density of the location, log kappa, the log widths and the strength; up to a constant if there is a
        restriction."""
        return self.log_density_of(self.values(prior))

    def log_density_of(self, hyperparameters: Hyperparameters) -> float:
        """`log_density` of the prior with these hyperparameters."""
        location, kappa, widths, _ = hyperparameters
        scale = np.broadcast_to(self.variances, location.shape)
        total = -HALF * float(((location - self.mean) ** 2 / scale + np.log(2 * np.pi * scale)).sum())
        for fixed, values in ((self.kappa, np.array([kappa])), (self.width, widths / self.variances)):
            if fixed is None:
                total += float((HALF * np.log(HALF * values) - HALF * values - gammaln(HALF)).sum())
        return total - math.log(len(self.strengths))

    def draw(self, prior: Any, statistics: Any, rng: np.random.Generator) -> Any:
        """Draw the means and covariances of clusters with these statistics, then each hyperparameter given them from
        its conditional distribution."""
        location, kappa, widths, _ = self.values(prior)
        moments = prior.posterior(statistics).drawn_moments(location, rng)
        precision, pull = self._location_terms(moments, kappa, location)
        step: Any
        if self.is_full:
            factor = np.linalg.cholesky(precision)
            step = np.linalg.solve(factor.T, np.linalg.solve(factor, pull) + rng.standard_normal(self.dim))
        else:
            step = pull / precision + rng.standard_normal(self.dim) / np.sqrt(precision)
        if self.kappa is None:
            shape, rate = self._kappa_terms(moments, step)
            kappa = rng.standard_gamma(shape) / rate
        logs = self._strength_logs(moments, np.broadcast_to(widths, self.floors.shape))
        number = int(rng.choice(len(logs), p=np.exp(logs - logsumexp(logs))))
        if self.width is None:
            shapes, rates = self._width_terms(moments)
            widths = truncated_gamma(shapes[number], rates[number], self.floors[number], rng)
        return self.make(Hyperparameters(location + step, float(kappa), widths, float(self.strengths[number])))

    def relearned(self, prior: Any, X: FloatArray) -> Start:
        """The start of a fit to other points, with the same hyperparameters fixed."""
        from dpmmwrap.families.learned.defaults import DataScale, FixedHyperparameters

        return DataScale(X).start(self.kind.family, FixedHyperparameters(self.kappa, self.width, self.strength))

    def climb(self, prior: Any, statistics: Any, steps: int = STEPS) -> Any:
        """Climb to a prior that is at least as probable given clusters with these statistics; with enough steps, to a
        local maximum."""
        for _ in range(steps):
            before = self.values(prior)
            moments = prior.posterior(statistics).expected_moments(before.location)
            precision, pull = self._location_terms(moments, before.kappa, before.location)
            step: Float64Array = np.linalg.solve(precision, pull) if self.is_full else pull / precision
            kappa = before.kappa
            if self.kappa is None:
                shape, rate = self._kappa_terms(moments, step)
                kappa = shape / rate
            every = np.broadcast_to(before.widths, self.floors.shape)
            if self.width is None:
                shapes, rates = self._width_terms(moments)
                every = np.maximum(shapes / rates, self.floors)
            number = int(self._strength_logs(moments, every).argmax())
            widths, strength = every[number], float(self.strengths[number])
            prior = self.make(Hyperparameters(before.location + step, kappa, widths, strength))
            changes = np.log(np.append(widths / before.widths, kappa / before.kappa))
            if strength == before.strength and np.abs(changes).max() < CLOSE:
                break
        return prior

    def _location_terms(self, moments: Moments, kappa: float, origin: Float64Array) -> tuple[Any, Any]:
        """Precision, and precision times mean, of the conditional distribution of the location relative to `origin`."""
        own = 1 / np.broadcast_to(self.variances, origin.shape)
        precision = kappa * moments.precision + (np.diag(own) if self.is_full else own)
        return precision, kappa * moments.pull + own * (self.mean - origin)

    def _kappa_terms(self, moments: Moments, location: Float64Array) -> tuple[float, float]:
        """Shape and rate of kappa's conditional Gamma distribution, given a location relative to the moments'
        origin."""
        spread = moments.precision @ location if self.is_full else moments.precision * location
        square = float(moments.square - 2 * location @ moments.pull + location @ spread)
        return HALF + HALF * moments.clusters * self.dim, HALF + HALF * max(square, 0.0)

    def _width_terms(self, moments: Moments) -> tuple[Float64Array, Float64Array]:
        """Shapes (S, 1) and rates (S, W) of the widths' conditional Gamma distributions at each strength."""
        freedoms = (self.least_freedom + self.strengths)[:, None]
        precisions = np.diagonal(moments.precision) if self.is_full else moments.precision[: len(self.variances)]
        return HALF + HALF * moments.clusters * freedoms, HALF / self.variances + HALF * freedoms * precisions

    def _strength_logs(self, moments: Moments, widths: Float64Array) -> Float64Array:
        """Log probability of each strength with its widths (S, W), up to a constant."""
        freedoms, count = self.least_freedom + self.strengths, widths.shape[1]
        normalisers = log_multigamma(freedoms / 2, self.dim) if self.is_full else count * gammaln(freedoms / 2)
        logs = moments.clusters * (HALF * count * freedoms * np.log(HALF * freedoms) - normalisers)
        logs -= HALF * freedoms * moments.log_variance * (1 if self.is_full else count / self.dim)
        shapes, rates = self._width_terms(moments)
        logs += (shapes * np.log(widths) - rates * widths).sum(axis=1)
        # The tolerance is for rounding: a width may lie exactly on its floor.
        return np.where((widths < self.floors * (1 - 1e-9)).any(axis=1), -np.inf, logs)


def truncated_gamma(
    shape: Float64Array, rates: Float64Array, floors: Float64Array, rng: np.random.Generator
) -> Float64Array:
    """Gamma variables truncated to values above their floors; the shape (1,) is at least 1."""
    tails = gammaincc(shape, rates * floors)
    found = gammainccinv(shape, rng.random(len(rates)) * tails) / rates
    # Far in the tail, reject from the exponential that touches the density at the floor and exceeds it elsewhere.
    for far in np.flatnonzero(tails < FAR_OUT):
        slope = rates[far] - (shape[0] - 1) / floors[far]
        while True:
            ratio = rng.standard_exponential() / (slope * floors[far])
            if -rng.standard_exponential() < (shape[0] - 1) * (math.log1p(ratio) - ratio):
                break
        found[far] = floors[far] * (1 + ratio)
    return np.asarray(np.maximum(found, floors))


def log_multigamma(values: Float64Array, dim: int) -> Float64Array:
    """Log of the multivariate gamma function of each value, up to a constant."""
    return np.asarray(gammaln(values[:, None] - HALF * np.arange(dim)).sum(axis=1))


def hyperprior_arrays(hyperprior: Any) -> dict[str, Any]:
    """The hyperprior as plain arrays for a file; empty for None."""
    if hyperprior is None:
        return {}
    own = getattr(hyperprior, "numeric", hyperprior)
    found = {"mean": own.mean, "variances": own.variances, "fixed": np.array(own.identity(), dtype=np.float64)}
    return found if own.cells is None else found | {"cells": own.cells}


def hyperprior_from(prior: Any, arrays: dict[str, Any], prefix: str) -> Any:
    """The hyperprior of a prior, from arrays made by `hyperprior_arrays`; None if they hold none."""
    if f"{prefix}mean" not in arrays:
        return None
    fixed = [None if math.isnan(value) else float(value) for value in arrays[f"{prefix}fixed"]]
    kind = type(getattr(prior, "numeric", prior))
    names = dict(zip(("kappa", "width", "strength"), fixed, strict=True))
    cells = arrays.get(f"{prefix}cells")
    own = Hyperprior(kind, arrays[f"{prefix}mean"], arrays[f"{prefix}variances"], cells=cells, **names)
    return prior.learned(own) if hasattr(prior, "learned") else own
