"""Default priors from data, and the choice between full and diagonal covariances: both by the evidence of small cells.

How wide a cluster may be is what the data cannot say by themselves. So the data are cut into cells by k-means, and the
prior expects clusters `prior_width` times as wide as cells. How sure it is of that, its degrees of freedom, is what
makes the cells' own points most probable.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.cells import cells, sample_rows
from dpmmwrap.families.diagonal import NIG
from dpmmwrap.families.gaussian import NIW
from dpmmwrap.families.spherical import SphericalNIG

CELLS = 50
POINTS_PER_CELL = 5
PRIOR_WIDTH = 2.0
"""The default prior's scale over its degrees of freedom, in units of the variance within cells."""
MEAN_STRENGTH = 0.1
"""The default prior's kappa. 1, as in the reference package, expects clusters within a deviation or two of the data's
mean, and widens those that are far out: two that overlap there then pass for one."""
FREEDOMS = (3.0, 10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0)
"""Degrees of freedom that are tried, beyond the least that a covariance needs."""
LARGEST_FULL_DIM = 256
"""Beyond, full covariances are not tried: one cluster's would have more parameters than most data have numbers."""


class Cells(NamedTuple):
    """A sample of the data, cut into cells."""

    sample: FloatArray
    labels: IntArray
    mean: Float64Array
    variances: Float64Array
    """Of each feature within cells; none is zero."""


def cells_of(X: FloatArray) -> Cells:
    """Cut a sample of the data into cells of five points or more, and see how wide they are."""
    sample = np.asarray(X[sample_rows(len(X), 0)], dtype=np.float64)
    labels = cells(sample, min(CELLS, len(sample) // POINTS_PER_CELL), seed=0)
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
    return Cells(sample, labels, mean, variances)


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
    """A prior, and the log marginal likelihood of the cells under it."""

    prior: Any
    evidence: float


def best_prior(found: Cells, covariance_type: str, prior_width: float = PRIOR_WIDTH) -> Scored:
    """Of the priors with all degrees of freedom that are tried, the one that makes the cells most probable."""
    scored = [score(found, make_prior(found, covariance_type, freedom, prior_width)) for freedom in FREEDOMS]
    return max(scored, key=lambda entry: entry.evidence)


def make_prior(found: Cells, covariance_type: str, freedom: float, prior_width: float) -> Any:
    """A prior with so many degrees of freedom more than a covariance needs."""
    dim, variances = len(found.mean), prior_width * found.variances
    if covariance_type == "full":
        return NIW(found.mean, MEAN_STRENGTH, np.diag((dim + freedom) * variances), dim + freedom)
    if covariance_type == "diag":
        return NIG(found.mean, MEAN_STRENGTH, freedom * variances, freedom)
    return SphericalNIG(found.mean, MEAN_STRENGTH, freedom * variances.mean(keepdims=True), freedom)


def score(found: Cells, prior: Any) -> Scored:
    return Scored(prior, float(prior.log_marginal_likelihood(prior.statistics(found.sample, found.labels)).sum()))


class Choice(NamedTuple):
    """The prior of a fit, and why it is this one."""

    prior: Any
    reason: str


def choose_prior(prior: Any, read: Any, family: str, covariance_type: str, only_full: bool = False) -> Choice:
    """The prior that was asked for, in the coordinates of the points, or the default of the family."""
    points = read.points
    if prior is not None and not isinstance(prior, str):
        return Choice(own_prior(prior, family, covariance_type, points).shifted(read.offset), "the prior is given")
    if prior not in (None, "data", "reference"):
        raise ValueError(f"prior should be data, reference or a prior such as NIW, not {prior!r}")
    if prior == "reference":
        if family != "gaussian" or covariance_type not in ("auto", "full"):
            raise ValueError("the reference prior is for full covariances")
        return Choice(NIW.reference(points.shape[1]).shifted(read.offset), "the reference prior has full covariances")
    if family == "multinomial":
        from dpmmwrap.families.multinomial import Dirichlet

        return Choice(Dirichlet.from_data(points), "counts are multinomial")
    if family == "mixed":
        return Choice(mixed_prior(read), "mixed tables have diagonal covariances")
    if covariance_type != "auto":
        return Choice(best_prior(cells_of(points), covariance_type).prior, "it was asked for")
    if only_full:
        return Choice(best_prior(cells_of(points), "full").prior, "Julia's sampler has full covariances")
    return choose_covariance(points, read.n_missing)


def own_prior(prior: Any, family: str, covariance_type: str, points: Any) -> Any:
    """A prior of the user's own, if it fits the data and the rest of the settings."""
    kinds = {"gaussian": ("full", "diag", "spherical"), "multinomial": ("multinomial",), "mixed": ("mixed",)}[family]
    own = getattr(prior, "family", None)
    if own not in kinds or covariance_type not in ("auto", own):
        wanted = family if covariance_type == "auto" else f"{family}, {covariance_type}"
        raise ValueError(f"prior should be data, reference, or a prior of the family {wanted}, not {prior!r}")
    if prior.dim != points.shape[1]:
        raise ValueError(f"the prior has {prior.dim} dimensions, but the data have {points.shape[1]}")
    return prior


def mixed_prior(read: Any) -> Any:
    """The default prior of a mixed table: of its numeric columns by evidence, of categorical ones by their levels."""
    from dpmmwrap.families.categorical import CategoricalDirichlet
    from dpmmwrap.families.mixed import Mixed

    numeric = read.points.numeric
    if numeric.shape[1]:
        own = best_prior(cells_of(numeric), "diag").prior
    else:
        own = NIG._unchecked(empty_columns())
    return Mixed(own, CategoricalDirichlet.from_levels(read.columns.levels))


def choose_covariance(points: FloatArray, n_missing: int) -> Choice:
    """Full or diagonal covariances, by the evidence of the cells."""
    found = cells_of(points)
    diag = best_prior(found, "diag")
    if n_missing:
        return Choice(diag.prior, "values are missing, which full covariances do not allow")
    if len(found.mean) == 1:
        return Choice(best_prior(found, "full").prior, "with one feature both are the same")
    if len(found.mean) > LARGEST_FULL_DIM:
        return Choice(diag.prior, f"with {len(found.mean)} features a full covariance has too many parameters")
    full = best_prior(found, "full")
    gain = full.evidence - diag.evidence
    if gain > 0:
        return Choice(full.prior, f"correlations make small cells of the data more probable, by {gain:,.0f} nats")
    return Choice(diag.prior, f"correlations do not make small cells of the data more probable ({gain:,.0f} nats)")


def empty_columns() -> Any:
    from dpmmwrap.families.inverse_gamma import Posteriors

    return Posteriors(np.zeros((1, 0)), np.full((1, 1), MEAN_STRENGTH), np.zeros((1, 0)), np.full((1, 1), 3.0))
