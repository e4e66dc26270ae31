"""Default priors from data: how wide a few bins are, and a grid of widths and strengths about that.

The data are cut into bins by k-means, as many as evidence says. The prior expects clusters `width` times as wide (in
variance) as bins, feature by feature, and is as sure of that as `strength` points would make it. Both are learned from
the clusters (`hyperprior.py`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.bins import drawn_in, kmeans_bins, sample_rows
from dpmmwrap.dirichlet_process import log_joint
from dpmmwrap.families.diagonal import NIG
from dpmmwrap.families.gaussian import NIW
from dpmmwrap.families.hyperprior import FIRST, Hyperprior, Place
from dpmmwrap.families.inverse_gamma import Posteriors
from dpmmwrap.families.spherical import SphericalNIG

BIN_COUNTS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Numbers of bins that are tried."""
MOST_OF_GAIN = 0.9
"""Finer bins are not worth their while for what is left: clusters that are not quite of the family would fall apart."""
SAMPLE = 2500
"""Points that are cut into bins."""
POINTS_PER_BIN = 20
"""Bins of fewer points would be narrower than any cluster, and so would the prior."""
PRIOR_WIDTH = 2.0
"""Where a chain begins: the prior's scale over its degrees of freedom, in units of the variance within bins."""
BIN_WIDTHS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""Widths of the priors by which numbers of bins are compared."""
SMALLEST_VARIANCE = 1e-3
"""The least variance within bins, as a share of a feature's whole variance."""
LEAST_BINS = 12
"""Bins that say how wide clusters are, at least, if there are points enough for them."""
MANY_DIMENSIONS = 30
MANY_BINS, FEW_BINS = 48, 16
"""Bins that columns of few values are told by; and bins where points are few for the number of parameters."""
MEAN_STRENGTH = 0.1
"""The default prior's kappa. 1, as in the reference package, expects clusters within a deviation or two of the data's
mean, and widens those that are far out: two that overlap there then pass for one."""
STRENGTHS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0)
"""Degrees of freedom that are tried, beyond the least that a covariance needs."""
NARROWEST, WIDEST = 1, 4
"""Widths of the hyperprior, as powers of two: from twice as wide as bins, where a chain begins, to sixteen times."""
NARROWEST_OF_FEW = -8
"""The same where points are few for the number of parameters: there the prior decides whether any cluster is found."""
FEW_CLUSTERS = 20
"""With fewer points than so many clusters have parameters, points are few."""


class Bins(NamedTuple):
    """A sample of the data, cut into bins."""

    sample: FloatArray
    labels: IntArray
    mean: Float64Array
    variances: Float64Array
    """Of each feature within bins; none is zero."""
    n_rows: int
    """Of all data."""

    @property
    def n_bins(self) -> int:
        return int(self.labels.max(initial=0)) + 1


class Cuts:
    """A sample of the data, cut into bins in several ways."""

    def __init__(self, X: FloatArray) -> None:
        rows = sample_rows(len(X), 0)
        if len(rows) > SAMPLE:
            rows = np.sort(np.random.default_rng(0).choice(rows, SAMPLE, replace=False))
        self.sample = drawn_in(np.asarray(X[rows], dtype=np.float64))
        self.n_rows = len(X)
        with warnings.catch_warnings():
            # A column without any value.
            warnings.simplefilter("ignore", RuntimeWarning)
            self.mean = np.nan_to_num(np.nanmean(self.sample, axis=0))
            self.total = np.nan_to_num(np.nanvar(self.sample, axis=0))
        self._log_joints: dict[str, list[float]] = {}

    @property
    def dim(self) -> int:
        return len(self.mean)

    @cached_property
    def every(self) -> list[Bins]:
        """From one bin to as many as have points enough."""
        most = max(len(self.sample) // POINTS_PER_BIN, 1)
        return [self.into(count) for count in BIN_COUNTS if count <= most]

    def into(self, count: int) -> Bins:
        """The sample in so many bins, by k-means."""
        labels = kmeans_bins(self.sample, count, seed=0)
        within = np.zeros(self.dim)
        for k in range(int(labels.max(initial=0)) + 1):
            members = self.sample[labels == k]
            if len(members):
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)
                    within += np.nansum((members - np.nanmean(members, axis=0)) ** 2, axis=0)
        observed = np.maximum((~np.isnan(self.sample)).sum(axis=0), 1)
        variances = floored(np.maximum(within / observed, SMALLEST_VARIANCE * self.total), self.mean)
        return Bins(self.sample, labels, self.mean, variances, self.n_rows)

    def log_joints(self, covariance_type: str) -> list[float]:
        """How probable each of the ways makes the sample, with each bin a cluster of the family; in many dimensions
        full covariances are passed over, which would take seconds."""
        if is_costly(covariance_type, self.dim):
            covariance_type = "diag"
        if covariance_type not in self._log_joints:
            self._log_joints[covariance_type] = [log_joint_of(bins, covariance_type) for bins in self.every]
        return self._log_joints[covariance_type]

    def best(self, covariance_type: str) -> Bins:
        """The bins that make the sample most probable."""
        return self.every[int(np.argmax(self.log_joints(covariance_type)))]

    def coarse(self, covariance_type: str) -> Bins:
        """The fewest bins that have most of what the best ones gain over a single one, and not too few: where clusters
        overlap, a single bin may be as good as any."""
        logs = self.log_joints(covariance_type)
        least = logs[0] + MOST_OF_GAIN * (max(logs) - logs[0])
        found = next(bins for bins, log in zip(self.every, logs, strict=True) if log >= least)
        return max(found, self.nearest(LEAST_BINS), key=lambda bins: bins.n_bins)

    def nearest(self, count: int) -> Bins:
        """About so many bins."""
        return min(self.every, key=lambda bins: abs(bins.n_bins - count))

    @property
    def has_few_points(self) -> bool:
        """Whether a full covariance has more parameters than a twentieth of the data has points."""
        return self.n_rows < FEW_CLUSTERS * parameters("full", self.dim)


def log_joint_of(bins: Bins, covariance_type: str) -> float:
    """log probability of the bins and their points, under the prior about their own width that makes them most so."""
    grid = Hyperprior(BIN_WIDTHS, STRENGTHS, partial(make_prior, bins, covariance_type), FIRST)
    statistics = grid.prior(FIRST).statistics(bins.sample, bins.labels)
    place = grid.best(grid.place_of(1.0, STRENGTHS[0]), statistics)
    return float(log_joint(1.0, statistics.counts, grid.prior(place).log_marginal_likelihood(statistics)))


def floored(variances: Float64Array, mean: Float64Array) -> Float64Array:
    """Variances of which none is zero: a feature that does not vary gets the mean of the others.

    That is so when it varies by less than single precision can tell from its mean. Constant columns are left out of a
    fit before they come here, if there are others.
    """
    constant = variances <= 1e-13 * mean**2
    if not constant.any():
        return variances
    return np.where(constant, 1.0 if constant.all() else float(variances[~constant].mean()), variances)


def hyperprior_of(
    cuts: Cuts, covariance_type: str, prior_width: float | None = None, prior_strength: float | None = None
) -> Hyperprior:
    """The default prior of a family, with a grid of widths and strengths to learn; those that are given are fixed.

    A chain begins with the narrowest width, and the strength that makes the bins most probable. Where points are few,
    the narrowest width is the one that makes them most probable, too: there the prior decides whether any cluster is
    found at all.
    """
    few = covariance_type == "full" and cuts.has_few_points
    found = cuts.nearest(FEW_BINS) if few else cuts.coarse(covariance_type)
    strengths = STRENGTHS if prior_strength is None else (float(prior_strength),)
    make = partial(make_prior, found, covariance_type)
    if prior_width is not None:
        return begun(Hyperprior((float(prior_width),), strengths, make, FIRST), found, range(1))
    narrowest = float(NARROWEST)
    if few:
        every = Hyperprior(powers_of_two(NARROWEST_OF_FEW), strengths, make, FIRST)
        every = begun(every, found, range(len(every.widths)))
        narrowest = min(narrowest, math.log2(every.widths[every.start.width]))
    return begun(Hyperprior(powers_of_two(narrowest), strengths, make, FIRST), found, range(1))


def powers_of_two(narrowest: float) -> tuple[float, ...]:
    """Widths from the narrowest to the widest, two for each doubling."""
    return tuple(2.0 ** (power / 2) for power in range(round(2 * narrowest), 2 * WIDEST + 1))


def begun(grid: Hyperprior, found: Bins, widths: Sequence[int]) -> Hyperprior:
    """The grid with its start where the bins are most probable, among some of its widths."""
    places = [Place(width, strength) for width in widths for strength in range(len(grid.strengths))]
    statistics = grid.prior(places[0]).statistics(found.sample, found.labels)
    return replace(grid, start=places[int(grid.log_evidence(places, statistics).argmax())])


def default_prior(cuts: Cuts, covariance_type: str, prior_width: float | None = None) -> Any:
    """The prior with which a chain begins."""
    grid = hyperprior_of(cuts, covariance_type, prior_width)
    return grid.prior(grid.start)


def parameters(covariance_type: str, dim: int) -> int:
    """Numbers that describe one cluster."""
    return {"full": dim * (dim + 3) // 2, "diag": 2 * dim, "spherical": dim + 1}[covariance_type]


def is_costly(covariance_type: str, dim: int) -> bool:
    """Whether an iteration takes long: a point of a full covariance takes the square of its dimensions."""
    return covariance_type == "full" and dim > MANY_DIMENSIONS


def make_prior(found: Bins, covariance_type: str, width: float, strength: float) -> Any:
    """A prior that expects clusters so many times as wide as bins, with so many degrees of freedom more than a
    covariance needs."""
    dim, variances = len(found.mean), width * found.variances
    if covariance_type == "full":
        return NIW(found.mean, MEAN_STRENGTH, np.diag((dim + strength) * variances), dim + strength)
    if covariance_type == "diag":
        return NIG(found.mean, MEAN_STRENGTH, strength * variances, strength)
    return SphericalNIG(found.mean, MEAN_STRENGTH, strength * variances.mean(keepdims=True), strength)


def no_columns() -> NIG:
    """The prior of a table without numeric columns."""
    return NIG._unchecked(  # type: ignore[no-any-return]
        Posteriors(np.zeros((1, 0)), np.full((1, 1), MEAN_STRENGTH), np.zeros((1, 0)), np.full((1, 1), 3.0))
    )
