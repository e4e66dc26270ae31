"""The model of a fit: the prior that was asked for, or the family's default, with full or diagonal covariances.

Which covariances suit the data is asked of the data: a short chain with each, on a sample, and the log posterior that
it reaches. Both are densities of the same points, so the numbers can be compared.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.arrays import FloatArray
from dpmmwrap.backends import Settings
from dpmmwrap.dirichlet_process import ALPHA_PRIOR
from dpmmwrap.families import defaults
from dpmmwrap.families.gaussian import NIW
from dpmmwrap.families.ties import spread_ties, tied_columns
from dpmmwrap.inputs import Read
from dpmmwrap.starts import make_initializer

SHORT_CHAIN, SHORT_SAMPLE = 30, 4000
"""Iterations and points of a chain that only compares."""
MANY_DIMENSIONS, CLUSTERS = 30, 20
"""In more dimensions full covariances are tried only where so many clusters would have twice as many points as
dimensions each: with fewer, most of a covariance is what the prior says."""
WORTH_IT = 0.01
"""There they cost much, and have to raise the log posterior by this share of it."""
LARGEST_FULL_DIM = 200
"""Beyond, they are not tried at all: an iteration would take seconds."""


def concentration(alpha: float | str) -> dict[str, Any]:
    """The settings of a concentration that is fixed, or learned ("auto")."""
    if isinstance(alpha, str):
        return {"alpha": 1.0, "alpha_prior": ALPHA_PRIOR}
    return {"alpha": float(alpha)}


class Choice(NamedTuple):
    """The points and the prior of a fit, and what there is to say about them."""

    read: Read
    prior: Any
    reason: str
    """Why the covariances are full or diagonal."""
    notes: tuple[str, ...] = ()


def choose_model(
    prior: Any, read: Read, family: str, covariance_type: str, alpha: float | str, only_full: bool = False
) -> Choice:
    """The prior that was asked for, in the coordinates of the points, or the default of the family."""
    if prior is not None and not isinstance(prior, str):
        checked = own_prior(prior, family, covariance_type, read.points)
        return Choice(read, checked.shifted(read.offset), "the prior is given")
    if prior not in (None, "data", "reference"):
        raise ValueError(f"prior should be data, reference or a prior such as NIW, not {prior!r}")
    if prior == "reference":
        if family != "gaussian" or covariance_type not in ("auto", "full"):
            raise ValueError("the reference prior is for full covariances")
        reference = NIW.reference(read.points.shape[1]).shifted(read.offset)
        return Choice(read, reference, "the reference prior has full covariances")
    if family == "multinomial":
        from dpmmwrap.families.multinomial import Dirichlet

        return Choice(read, Dirichlet.from_data(read.points), "counts are multinomial")
    if family == "mixed":
        return mixed_model(read)
    return gaussian_model(read, covariance_type, alpha, only_full)


def own_prior(prior: Any, family: str, covariance_type: str, points: Any) -> Any:
    """A prior of the user's own, if it fits the data and the rest of the settings."""
    kinds = {"gaussian": ("full", "diag", "spherical"), "multinomial": ("multinomial",), "mixed": ("mixed",)}[family]
    own = getattr(prior, "family", None)
    if own not in kinds or covariance_type not in ("auto", own):
        wanted = family if covariance_type == "auto" else f"{family}, {covariance_type}"
        raise ValueError(f"prior should be data, reference, or a prior of the family {wanted}, not {own or prior!r}")
    if prior.dim != points.shape[1]:
        raise ValueError(f"the prior has {prior.dim} dimensions, but the data have {points.shape[1]}")
    return prior


def mixed_model(read: Read) -> Choice:
    """A mixed table: numeric columns by the evidence of bins, categorical ones by their levels."""
    from dpmmwrap.families.categorical import CategoricalDirichlet
    from dpmmwrap.families.mixed import Mixed, MixedPoints

    assert read.columns is not None
    numeric, notes = read.points.numeric, tuple[str, ...]()
    if numeric.shape[1]:
        numeric, found, notes = without_ties(numeric)
        own = defaults.best_prior(found, "diag").prior
    else:
        own = defaults.no_columns()
    points = MixedPoints(numeric, read.points.codes)
    prior = Mixed(own, CategoricalDirichlet.from_levels(read.columns.levels))
    return Choice(read._replace(points=points), prior, "mixed tables have diagonal covariances", notes)


def gaussian_model(read: Read, covariance_type: str, alpha: float | str, only_full: bool) -> Choice:
    points, found, notes = without_ties(read.points)
    read = read._replace(points=points)
    if covariance_type != "auto":
        return Choice(read, defaults.best_prior(found, covariance_type).prior, "it was asked for", notes)
    if only_full:
        return Choice(read, defaults.best_prior(found, "full").prior, "Julia's sampler has full covariances", notes)
    prior, reason = choose_covariance(points, found, read.n_missing, alpha)
    return Choice(read, prior, reason, notes)


def without_ties(points: Any) -> tuple[Any, defaults.Bins, tuple[str, ...]]:
    """The points, with columns of few values spread over their steps; their bins; and what was done."""
    found = defaults.bins_of(points)
    steps, count = tied_columns(points, found.variances)
    if not count:
        return points, found, ()
    points = spread_ties(points, steps)
    note = (
        f"{count} of {len(steps)} columns take few values: noise of half a step was added to them, "
        "so that no cluster has a width of zero"
    )
    return points, defaults.bins_of(points), (note,)


def choose_covariance(points: FloatArray, found: defaults.Bins, n_missing: int, alpha: float | str) -> tuple[Any, str]:
    """Full or diagonal covariances, by the log posterior of short chains, and why."""
    dim = len(found.mean)
    if n_missing:
        return defaults.best_prior(found, "diag").prior, "values are missing, which full covariances do not allow"
    if dim == 1:
        return defaults.best_prior(found, "full").prior, "with one feature both are the same"
    if dim > LARGEST_FULL_DIM or (dim > MANY_DIMENSIONS and len(points) < 2 * dim * CLUSTERS):
        few = f"{len(points):,} points are too few" if dim <= LARGEST_FULL_DIM else "it takes too long"
        reason = f"with {dim} features {few} for full covariances"
        return defaults.best_prior(found, "diag").prior, reason
    full = tried(points, defaults.best_prior(found, "full").prior, alpha)
    diag = tried(points, defaults.best_prior(found, "diag").prior, alpha)
    if defaults.has_few_points(found):
        # Then full covariances learn their width, and diagonal ones may, too.
        learned = tried(points, defaults.best_prior(found, "diag", learn_width=True).prior, alpha)
        diag = max(diag, learned, key=lambda entry: entry.log_posterior)
    gain = full.log_posterior - diag.log_posterior
    nats = f"{abs(gain):,.0f} nats in short chains"
    if gain > (WORTH_IT * abs(full.log_posterior) if dim > MANY_DIMENSIONS else 0.0):
        return full.prior, f"they make the data more probable than diagonal ones, by {nats}"
    if gain > 0:
        return diag.prior, f"full ones make the data more probable by no more than {nats}, and take much longer"
    return diag.prior, f"they make the data more probable than full ones, by {nats}"


class Tried(NamedTuple):
    """A prior, and the log posterior of a short chain with it."""

    prior: Any
    log_posterior: float


def tried(points: FloatArray, prior: Any, alpha: float | str) -> Tried:
    return Tried(prior, short_log_posterior(points, prior, alpha))


def short_log_posterior(points: FloatArray, prior: Any, alpha: float | str) -> float:
    """The best log posterior of a short chain on a sample."""
    from dpmmwrap.backends.native import NativeBackend

    rows = np.arange(len(points))
    if len(points) > SHORT_SAMPLE:
        rows = np.sort(np.random.default_rng(0).choice(len(points), SHORT_SAMPLE, replace=False))
    settings = Settings(
        **concentration(alpha), prior=prior, initializer=make_initializer("kmeans"), max_iter=SHORT_CHAIN,
        min_cluster_age=3, seed=0, restart_after=10,
    )  # fmt: skip
    return float(NativeBackend().fit(np.ascontiguousarray(points[rows]), settings).trace.log_posterior.max())
