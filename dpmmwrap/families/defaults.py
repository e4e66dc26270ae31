"""Default priors from data: how wide a few bins are, and a grid of widths and strengths about that.

The data are cut into a dozen bins by k-means. The prior expects clusters `width` times as wide (in variance) as bins,
feature by feature, and is as sure of that as `strength` points would make it. Both are learned from the clusters
(`hyperprior.py`).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.bins import drawn_in, kmeans_bins, sample_rows
from dpmmwrap.families.diagonal import NIG
from dpmmwrap.families.gaussian import NIW
from dpmmwrap.families.hyperprior import FIRST, Hyperprior, Place
from dpmmwrap.families.inverse_gamma import Posteriors
from dpmmwrap.families.spherical import SphericalNIG

BINS = 16
"""Few, so that bins are as wide as clusters are in data of a dozen groups or fewer. More groups than that are seen by
the chain, which learns a narrower prior."""
POINTS_PER_BIN = 20
"""Bins of fewer points would be narrower than any cluster, and so would the prior."""
PRIOR_WIDTH = 2.0
"""Where a chain begins: the prior's scale over its degrees of freedom, in units of the variance within bins."""
MEAN_STRENGTH = 0.1
"""The default prior's kappa. 1, as in the reference package, expects clusters within a deviation or two of the data's
mean, and widens those that are far out: two that overlap there then pass for one."""
STRENGTHS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0)
"""Degrees of freedom that are tried, beyond the least that a covariance needs."""
NARROWEST, WIDEST = 1, 4
"""Widths of the hyperprior, as powers of two: from half as wide as bins to eight times."""
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


def bins_of(X: FloatArray) -> Bins:
    """Cut a sample of the data into bins, and see how wide they are."""
    sample = drawn_in(np.asarray(X[sample_rows(len(X), 0)], dtype=np.float64))
    labels = kmeans_bins(sample, min(BINS, len(sample) // POINTS_PER_BIN), seed=0)
    with warnings.catch_warnings():
        # A column without any value.
        warnings.simplefilter("ignore", RuntimeWarning)
        mean, total = np.nan_to_num(np.nanmean(sample, axis=0)), np.nan_to_num(np.nanvar(sample, axis=0))
    within = np.zeros(sample.shape[1])
    observed = np.maximum((~np.isnan(sample)).sum(axis=0), 1)
    for k in range(int(labels.max(initial=0)) + 1):
        members = sample[labels == k]
        if len(members):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", RuntimeWarning)
                within += np.nansum((members - np.nanmean(members, axis=0)) ** 2, axis=0)
    variances = floored(np.maximum(within / observed, 0.01 * total), mean)
    return Bins(sample, labels, mean, variances, len(X))


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
    found: Bins, covariance_type: str, prior_width: float | None = None, prior_strength: float | None = None
) -> Hyperprior:
    """The default prior of a family, with a grid of widths and strengths to learn; those that are given are fixed.

    A chain begins with the strength that makes the bins most probable, at a width of PRIOR_WIDTH. Where points are few
    it begins with the width that does so, too: there the prior decides whether any cluster is found at all.
    """
    strengths = STRENGTHS if prior_strength is None else (float(prior_strength),)
    make = partial(make_prior, found, covariance_type)
    if prior_width is not None:
        return begun(Hyperprior((float(prior_width),), strengths, make, FIRST), found, range(1))
    narrowest = float(NARROWEST)
    if covariance_type == "full" and has_few_points(found):
        every = Hyperprior(powers_of_two(NARROWEST_OF_FEW), strengths, make, FIRST)
        every = begun(every, found, range(len(every.widths)))
        narrowest = min(narrowest, math.log2(every.widths[every.start.width]))
    grid = Hyperprior(powers_of_two(narrowest), strengths, make, FIRST)
    return begun(grid, found, [0 if narrowest < NARROWEST else grid.widths.index(PRIOR_WIDTH)])


def powers_of_two(narrowest: float) -> tuple[float, ...]:
    """Widths from the narrowest to the widest, two for each doubling."""
    return tuple(2.0 ** (power / 2) for power in range(round(2 * narrowest), 2 * WIDEST + 1))


def begun(grid: Hyperprior, found: Bins, widths: Sequence[int]) -> Hyperprior:
    """The grid with its start where the bins are most probable, among some of its widths."""
    places = [Place(width, strength) for width in widths for strength in range(len(grid.strengths))]
    statistics = grid.prior(places[0]).statistics(found.sample, found.labels)
    return replace(grid, start=places[int(grid.log_evidence(places, statistics).argmax())])


def default_prior(found: Bins, covariance_type: str, prior_width: float | None = None) -> Any:
    """The prior with which a chain begins."""
    grid = hyperprior_of(found, covariance_type, prior_width)
    return grid.prior(grid.start)


def has_few_points(found: Bins) -> bool:
    """Whether a full covariance has more parameters than a twentieth of the data has points."""
    return found.n_rows < FEW_CLUSTERS * parameters("full", len(found.mean))


def parameters(covariance_type: str, dim: int) -> int:
    """Numbers that describe one cluster."""
    return {"full": dim * (dim + 3) // 2, "diag": 2 * dim, "spherical": dim + 1}[covariance_type]


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
