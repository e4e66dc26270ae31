"""Default priors from data, by the evidence of small bins.

How wide a cluster may be is what the data cannot say by themselves. So the data are cut into bins by k-means, and the
prior expects clusters `prior_width` times as wide as bins. How sure it is of that, its degrees of freedom, is what
makes the bins' own points most probable.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.bins import kmeans_bins, sample_rows
from dpmmwrap.families.diagonal import NIG
from dpmmwrap.families.gaussian import NIW
from dpmmwrap.families.inverse_gamma import Posteriors
from dpmmwrap.families.spherical import SphericalNIG

BINS = 50
POINTS_PER_BIN = 20
"""Bins of fewer points would be narrower than any cluster, and so would the prior."""
PRIOR_WIDTH = 2.0
"""The default prior's scale over its degrees of freedom, in units of the variance within bins."""
MEAN_STRENGTH = 0.1
"""The default prior's kappa. 1, as in the reference package, expects clusters within a deviation or two of the data's
mean, and widens those that are far out: two that overlap there then pass for one."""
FREEDOMS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0)
"""Degrees of freedom that are tried, beyond the least that a covariance needs."""
WIDTHS = tuple(2.0**power for power in range(-8, 5))
FEW_CLUSTERS = 20
"""With fewer points than so many clusters have parameters, the width is learned, too."""


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
    """Cut a sample of the data into bins of twenty points or so, and see how wide they are."""
    sample = np.asarray(X[sample_rows(len(X), 0)], dtype=np.float64)
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
    """Variances of which none is zero: constant features get the mean of the others, and it is said so, once.

    A feature counts as constant when it varies by less than single precision can tell from its mean.
    """
    constant = variances <= 1e-13 * mean**2
    if not constant.any():
        return variances
    instead = 1.0 if constant.all() else float(variances[~constant].mean())
    warnings.warn(
        f"degenerate data: {int(constant.sum())} of {len(variances)} features are constant and tell nothing; "
        f"the prior gives them a variance of {instead:.3g}; better leave them out",
        UserWarning,
        stacklevel=4,
    )
    return np.where(constant, instead, variances)


class Scored(NamedTuple):
    """A prior, and the log marginal likelihood of the bins under it."""

    prior: Any
    evidence: float


def best_prior(
    found: Bins, covariance_type: str, prior_width: float | None = None, learn_width: bool | None = None
) -> Scored:
    """Of the priors that are tried, the one that makes the bins most probable.

    How sure it is is always learned. How wide it is, is a matter of resolution where clusters have points enough to
    speak for themselves, and stays what it is; where a full covariance has more parameters than a cluster has points,
    it decides whether any cluster is found at all, and is learned, too.
    """
    if learn_width is None:
        learn_width = prior_width is None and covariance_type == "full" and has_few_points(found)
    widths = WIDTHS if learn_width else (prior_width or PRIOR_WIDTH,)
    tried = (make_prior(found, covariance_type, freedom, width) for width in widths for freedom in FREEDOMS)
    statistics = None
    scored = []
    for prior in tried:
        statistics = prior.statistics(found.sample, found.labels) if statistics is None else statistics
        scored.append(Scored(prior, float(prior.log_marginal_likelihood(statistics).sum())))
    return max(scored, key=lambda entry: entry.evidence)


def has_few_points(found: Bins) -> bool:
    """Whether a full covariance has more parameters than a twentieth of the data has points."""
    return found.n_rows < FEW_CLUSTERS * parameters("full", len(found.mean))


def parameters(covariance_type: str, dim: int) -> int:
    """Numbers that describe one cluster."""
    return {"full": dim * (dim + 3) // 2, "diag": 2 * dim, "spherical": dim + 1}[covariance_type]


def make_prior(found: Bins, covariance_type: str, freedom: float, prior_width: float) -> Any:
    """A prior with so many degrees of freedom more than a covariance needs."""
    dim, variances = len(found.mean), prior_width * found.variances
    if covariance_type == "full":
        return NIW(found.mean, MEAN_STRENGTH, np.diag((dim + freedom) * variances), dim + freedom)
    if covariance_type == "diag":
        return NIG(found.mean, MEAN_STRENGTH, freedom * variances, freedom)
    return SphericalNIG(found.mean, MEAN_STRENGTH, freedom * variances.mean(keepdims=True), freedom)


def no_columns() -> NIG:
    """The prior of a table without numeric columns."""
    return NIG._unchecked(  # type: ignore[no-any-return]
        Posteriors(np.zeros((1, 0)), np.full((1, 1), MEAN_STRENGTH), np.zeros((1, 0)), np.full((1, 1), 3.0))
    )
