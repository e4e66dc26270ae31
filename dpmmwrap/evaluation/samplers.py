"""The methods of this package: the SubC sampler with the paper's settings, and `DPMM` with its defaults."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from dpmmwrap.backends import Julia, Native
from dpmmwrap.estimator import DPMM
from dpmmwrap.evaluation.fits import Clock, FitSettings, Method, MethodFit, finish
from dpmmwrap.families.base import Points
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.numerics.arrays import IntArray

TRUTH = "truth"
FAMILIES: dict[str, dict[str, Any]] = {
    "DPMM-full": {"covariance_type": "full"},
    "DPMM-diag": {"covariance_type": "diag"},
    "DPMM-spherical": {"covariance_type": "spherical"},
    "DPMM-multinomial": {"family": "multinomial"},
}
STARTS: dict[str, dict[str, Any]] = {
    "DPMM-random": {"init": "random"},
    "DPMM-kmeans": {"init": "kmeans"},
    "DPMM-splitnet": {"init": "splitnet"},
}
FIRST_CLUSTERS: dict[str, dict[str, Any]] = {
    "DPMM-from-one": {"init_clusters": 1},
    "DPMM-from-many": {"init_clusters": "many"},
    "DPMM-from-truth": {"init_clusters": TRUTH},
}
DEFAULTS: dict[str, dict[str, Any]] = {"DPMM": {}, **FAMILIES, **STARTS, **FIRST_CLUSTERS}
"""By name, the settings that differ from the defaults."""


def subclusters(start: str, backend: str) -> Method:
    """The SubC sampler with one of the three starts."""

    def fit(X: Points, truth: IntArray, settings: FitSettings, seed: int) -> MethodFit:
        # Loads torch if it is needed, before the clock runs; `prepare` has started Julia before that.
        model = make_sampler(start, backend, settings, settings.niw(X), seed)
        clock = timed_fit(model, X, truth if settings.watch else None)
        names = ("n_clusters", "log_posterior", "seconds", *(("nmi",) if settings.watch else ()))
        trace = {name: np.asarray(model.trace_[name], dtype=np.float64) for name in names}
        if settings.watch and backend == "native":
            trace["ari"] = np.array(model.backend.aris)
        return finish(X, model.labels_, settings, clock, len(model.trace_), trace)

    return fit


def make_sampler(start: str, backend: str, settings: FitSettings, prior: NIW, seed: int) -> Any:
    """One chain with the prior of all methods, which is not learned, so that log posteriors compare."""
    from dpmmwrap.starts import make_initializer

    options = {"weights": settings.weights} if start == "splitnet" else {}
    ratio = settings.ratio
    # The paper's table is about the reference package, which runs on Julia.
    if ratio == "reference" or (ratio == "auto" and backend == "julia"):
        accepted: dict[str, Any] = {"ratio": "reference", "restart_after": None}
    else:
        accepted = {"ratio": ratio}
    sampler: Any = Julia(**accepted) if backend == "julia" else Native(n_jobs=1, **accepted)
    if settings.watch and backend == "native":
        from dpmmwrap.evaluation.watching import NativeWithAri

        sampler = NativeWithAri(n_jobs=1, **accepted)
    return DPMM(
        alpha=settings.alpha,
        covariance_type="full",
        init=make_initializer(start, **options),
        max_iter=settings.iterations,
        prior=prior,
        backend=sampler,
        init_clusters=settings.init_clusters,
        n_chains=1,
        random_state=seed,
    )


def timed_fit(model: Any, X: Points, truth: IntArray | None = None) -> Clock:
    with Clock() as clock, warnings.catch_warnings():
        # Hundreds of fits would print their notes.
        warnings.simplefilter("ignore", UserWarning)
        model.fit(X, truth=truth)
    if model.interrupted_:
        raise KeyboardInterrupt
    return clock


def by_default(changed: Mapping[str, Any]) -> Method:
    """The built-in sampler with default settings but these; counts in a sparse matrix are multinomial."""

    def fit(X: Points, truth: IntArray, settings: FitSettings, seed: int) -> MethodFit:
        options = dict(changed)
        if options.get("init_clusters") == TRUTH:
            options["init_clusters"] = truth
        if issparse(X):
            options["family"] = "multinomial"
        model = DPMM(**options, backend=Native(n_jobs=1), random_state=seed)
        clock = timed_fit(model, X)
        done = finish(X, model.labels_, settings, clock, int(model.n_iter_))
        if not settings.own_rules:
            return done
        # Default priors depend on the points alone, so the family identifies the model.
        family, reached = str(model.mixture_.family), float(model.log_posterior_)
        return replace(done, log_posterior=reached, model=family, groups=model.groups_)

    return fit
