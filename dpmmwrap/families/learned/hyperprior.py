"""The default prior of Gaussian clusters is learned: location, kappa, widths and strength have priors of their own.

A cluster's covariance is drawn about the expected widths w, one for each feature (of balls, one for all), with nu
degrees of freedom, and its mean about the location m, further out the wider the cluster and the smaller kappa is:

    Sigma_k ~ IW(nu diag(w), nu),    mu_k ~ N(m, Sigma_k / kappa).

As in Rasmussen (2000) and Görür and Rasmussen (2010), all of these have weak hyperpriors in the units of the data,
whose features have the means m0 and the variances v:

    m_j ~ N(m0_j, v_j),    kappa ~ chi-square(1),    w_j / v_j ~ chi-square(1),    log strength ~ uniform.

The strength is nu less what a covariance needs to exist, and above 2, so that covariances have an expectation.

One thing the data cannot tell: where a class is not quite Gaussian, ever narrower clusters describe ever finer details
of it. So widths and strength are restricted to where the prior expects few clusters (NARROW) to be narrower in a
feature than k-means cells of the data, as many as evidence says (`defaults.py`).

Given the means and covariances of the clusters, every hyperparameter has a conditional distribution of a known kind. So
a draw of these from their posterior, and then of the hyperparameters, leaves the posterior of labels and
hyperparameters invariant; and with expectations in place of draws the same sums climb to the most probable
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
"""The grid of strengths, two for each doubling: from what gives covariances an expectation to all clusters alike."""
NARROW = 0.01
"""The share of clusters that the prior expects to be narrower than a cell in a feature, at most."""
HALF = 0.5
"""Shape and rate of chi-square distributions with one degree of freedom."""
STEPS, CLOSE = 50, 1e-3
"""Steps of a climb at most, and the share by which widths and kappa may still change at its end."""
LEAST_WIDTH = 1e-9
"""Of any cluster, in the data's variances: where features depend on each other, widths would vanish."""
FAR_OUT = 1e-100
"""A tail of a distribution beyond which its quantiles are not known."""


class Hyperparameters(NamedTuple):
    """Of a prior of Gaussian clusters."""

    location: Float64Array
    kappa: float
    widths: Float64Array
    """Of each feature (D,), or of all (1,)."""
    strength: float


@dataclass(frozen=True)
class Hyperprior:
    """A distribution over the priors of a Gaussian family; hyperparameters that are given are fixed."""

    kind: type[NIW] | type[NIG]
    mean: Float64Array
    variances: Float64Array
    """Of the data, as is the mean: the units of all hyperparameters. (D,), or (1,) of balls."""
    kappa: float | None = None
    width: float | None = None
    """Of all features, in their variances."""
    strength: float | None = None
    cells: Float64Array | None = None
    """The variances within cells, which clusters are seldom below, (D,) or (1,); None without such a restriction."""

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
        """Those that are possible (S,)."""
        return STRENGTHS if self.strength is None else np.array([self.strength])

    @cached_property
    def floors(self) -> Float64Array:
        """The least widths at each strength (S, W).

        A feature's variance in a cluster is nu w over a chi-square variable with as many degrees of freedom as the
        strength.
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
        """The hyperparameters of a prior that this has made."""
        freedom = float(prior.degrees_of_freedom)
        widths = (np.diagonal(prior.scale) if self.is_full else prior.scale) / freedom
        return Hyperparameters(prior.mean, float(prior.mean_strength), widths, freedom - self.least_freedom)

    def summary(self, prior: Any) -> Summary:
        _, kappa, widths, strength = self.values(prior)
        return Summary(kappa, float(np.exp(np.log(widths / self.variances).mean())), strength)

    def unrestricted(self) -> Hyperprior:
        """The same without the restriction to clusters that are not narrower than cells."""
        return replace(self, cells=None)

    def identity(self) -> list[float | None]:
        """What is fixed: of two fits of the same data the rest is the same."""
        return [self.kappa, self.width, self.strength]

    def scaled(self, prior: Any, name: str, factor: float) -> Any:
        """The same prior with its "kappa" or "width" multiplied by a factor."""
        values = self.values(prior)
        if name == "kappa":
            return self.make(values._replace(kappa=factor * values.kappa))
        return self.make(values._replace(widths=factor * values.widths))

    def log_density(self, prior: Any) -> float:
        """Of the location, the logarithms of kappa and the widths, and the strength; with a restriction, up to a
        constant."""
        return self.log_density_of(self.values(prior))

    def log_density_of(self, hyperparameters: Hyperparameters) -> float:
        """The same."""
        location, kappa, widths, _ = hyperparameters
        scale = np.broadcast_to(self.variances, location.shape)
        total = -HALF * float(((location - self.mean) ** 2 / scale + np.log(2 * np.pi * scale)).sum())
        for fixed, values in ((self.kappa, np.array([kappa])), (self.width, widths / self.variances)):
            if fixed is None:
                total += float((HALF * np.log(HALF * values) - HALF * values - gammaln(HALF)).sum())
        return total - math.log(len(self.strengths))

    def draw(self, prior: Any, statistics: Any, rng: np.random.Generator) -> Any:
        """The means and covariances of clusters with these statistics, and given them all hyperparameters, each from
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
        """Where a fit to other points begins, with the same hyperparameters fixed."""
        from dpmmwrap.families.learned.defaults import DataScale, FixedHyperparameters

        return DataScale(X).start(self.kind.family, FixedHyperparameters(self.kappa, self.width, self.strength))

    def climb(self, prior: Any, statistics: Any, steps: int = STEPS) -> Any:
        """A prior that is at least as probable given clusters with these statistics: the most probable one nearby,
        if there are steps enough."""
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
        """Precision and precision times mean of the location's distribution, from an origin."""
        own = 1 / np.broadcast_to(self.variances, origin.shape)
        precision = kappa * moments.precision + (np.diag(own) if self.is_full else own)
        return precision, kappa * moments.pull + own * (self.mean - origin)

    def _kappa_terms(self, moments: Moments, location: Float64Array) -> tuple[float, float]:
        """Shape and rate of kappa's Gamma distribution, given a location from the moments' origin."""
        spread = moments.precision @ location if self.is_full else moments.precision * location
        square = float(moments.square - 2 * location @ moments.pull + location @ spread)
        return HALF + HALF * moments.clusters * self.dim, HALF + HALF * max(square, 0.0)

    def _width_terms(self, moments: Moments) -> tuple[Float64Array, Float64Array]:
        """Shapes (S, 1) and rates (S, W) of the widths' Gamma distributions at each strength."""
        freedoms = (self.least_freedom + self.strengths)[:, None]
        precisions = np.diagonal(moments.precision) if self.is_full else moments.precision[: len(self.variances)]
        return HALF + HALF * moments.clusters * freedoms, HALF / self.variances + HALF * freedoms * precisions

    def _strength_logs(self, moments: Moments, widths: Float64Array) -> Float64Array:
        """log probability of each strength with its widths (S, W), up to a constant."""
        freedoms, count = self.least_freedom + self.strengths, widths.shape[1]
        normalisers = log_multigamma(freedoms / 2, self.dim) if self.is_full else count * gammaln(freedoms / 2)
        logs = moments.clusters * (HALF * count * freedoms * np.log(HALF * freedoms) - normalisers)
        logs -= HALF * freedoms * moments.log_variance * (1 if self.is_full else count / self.dim)
        shapes, rates = self._width_terms(moments)
        logs += (shapes * np.log(widths) - rates * widths).sum(axis=1)
        # Rounding aside: a width may be just at its floor.
        return np.where((widths < self.floors * (1 - 1e-9)).any(axis=1), -np.inf, logs)


def truncated_gamma(
    shape: Float64Array, rates: Float64Array, floors: Float64Array, rng: np.random.Generator
) -> Float64Array:
    """Gamma variables above their floors; of a shape (1,) of at least 1."""
    tails = gammaincc(shape, rates * floors)
    found = gammainccinv(shape, rng.random(len(rates)) * tails) / rates
    # Far out by rejection from the exponential that touches the density at the floor and is above it elsewhere.
    for far in np.flatnonzero(tails < FAR_OUT):
        slope = rates[far] - (shape[0] - 1) / floors[far]
        while True:
            ratio = rng.standard_exponential() / (slope * floors[far])
            if -rng.standard_exponential() < (shape[0] - 1) * (math.log1p(ratio) - ratio):
                break
        found[far] = floors[far] * (1 + ratio)
    return np.asarray(np.maximum(found, floors))


def log_multigamma(values: Float64Array, dim: int) -> Float64Array:
    """log of the multivariate gamma function of each value, up to a constant."""
    return np.asarray(gammaln(values[:, None] - HALF * np.arange(dim)).sum(axis=1))


def hyperprior_arrays(hyperprior: Any) -> dict[str, Any]:
    """A learned prior's distribution as plain arrays, for a file; nothing for none."""
    if hyperprior is None:
        return {}
    own = getattr(hyperprior, "numeric", hyperprior)
    found = {"mean": own.mean, "variances": own.variances, "fixed": np.array(own.identity(), dtype=np.float64)}
    return found if own.cells is None else found | {"cells": own.cells}


def hyperprior_from(prior: Any, arrays: dict[str, Any], prefix: str) -> Any:
    """The distribution of a prior, from such arrays, or None from others."""
    if f"{prefix}mean" not in arrays:
        return None
    fixed = [None if math.isnan(value) else float(value) for value in arrays[f"{prefix}fixed"]]
    kind = type(getattr(prior, "numeric", prior))
    names = dict(zip(("kappa", "width", "strength"), fixed, strict=True))
    cells = arrays.get(f"{prefix}cells")
    own = Hyperprior(kind, arrays[f"{prefix}mean"], arrays[f"{prefix}variances"], cells=cells, **names)
    return prior.learned(own) if hasattr(prior, "learned") else own
