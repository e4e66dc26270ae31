"""The methods of this package: the SubC sampler with the paper's settings, and `DPMM` with its defaults."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy.sparse import issparse

from dpmmwrap.backends import Julia, Native, Runner, Tell
from dpmmwrap.backends.native import result_of
from dpmmwrap.estimator import DPMM
from dpmmwrap.evaluation.fits import Clock, Fit, FitSettings, MethodFit, finish
from dpmmwrap.families.base import Points
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.numerics.agreement import ari_of_table
from dpmmwrap.numerics.arrays import Float32Array, IntArray
from dpmmwrap.numerics.labels import contingency
from dpmmwrap.sampler.chain import Chain
from dpmmwrap.sampler.settings import Result, Settings
from dpmmwrap.sampler.trace import Iteration

TRUTH = "truth"
VARIANTS: dict[str, dict[str, dict[str, Any]]] = {
    "families": {
        "DPMM-full": {"covariance_type": "full"},
        "DPMM-diag": {"covariance_type": "diag"},
        "DPMM-spherical": {"covariance_type": "spherical"},
        "DPMM-multinomial": {"family": "multinomial"},
    },
    "starts": {
        "DPMM-random": {"init": "random"},
        "DPMM-kmeans": {"init": "kmeans"},
        "DPMM-splitnet": {"init": "splitnet"},
    },
    "first-clusters": {
        "DPMM-from-one": {"init_clusters": 1},
        "DPMM-from-many": {"init_clusters": "many"},
        "DPMM-from-truth": {"init_clusters": TRUTH},
    },
}
CHANGED: dict[str, dict[str, Any]] = {"DPMM": {}}
"""By name, the settings that differ from the defaults."""
for _variants in VARIANTS.values():
    CHANGED |= _variants


def subclusters(start: str, backend: str) -> Fit:
    """The SubC sampler with one of the three starts."""

    def fit(X: Points, truth: IntArray, settings: FitSettings, seed: int) -> MethodFit:
        # This loads torch if needed, before the clock runs; `prepare` has started Julia before that.
        model = make_sampler(start, backend, settings, settings.niw(X), seed)
        clock = timed_fit(model, X, truth if settings.watch else None)
        names = ("n_clusters", "log_posterior", "seconds", *(("nmi",) if settings.watch else ()))
        trace = {name: np.asarray(model.trace_[name], dtype=np.float64) for name in names}
        if settings.watch and backend == "native":
            trace["ari"] = np.array(model.backend.aris)
        return replace(finish(X, model.labels_, settings, clock, len(model.trace_)), trace=trace)

    return fit


def make_sampler(start: str, backend: str, settings: FitSettings, prior: NIW, seed: int) -> Any:
    """One chain with the prior of all methods, which is not learned, so that log posteriors are comparable."""
    from dpmmwrap.starts import make_initializer

    options = {"weights": settings.weights} if start == "splitnet" else {}
    ratio = settings.ratio
    # The paper's table shows the reference package, which runs on Julia.
    if ratio == "reference" or (ratio == "auto" and backend == "julia"):
        accepted: dict[str, Any] = {"ratio": "reference", "restart_after": None}
    else:
        accepted = {"ratio": ratio}
    sampler: Any = Julia(**accepted) if backend == "julia" else Native(n_jobs=1, **accepted)
    if settings.watch and backend == "native":
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
    # Hundreds of fits would print their notes.
    with Clock() as clock, warnings.catch_warnings(action="ignore", category=UserWarning):
        model.fit(X, truth=truth)
    if model.interrupted_:
        raise KeyboardInterrupt
    return clock


def by_default(changed: Mapping[str, Any]) -> Fit:
    """The built-in sampler with default settings except these; sparse counts are multinomial."""

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


@dataclass(frozen=True, kw_only=True, repr=False)
class NativeWithAri(Native):
    """The built-in sampler; `aris` has the ARI of each iteration of its last fit, for figures."""

    aris: list[float] = field(default_factory=list)

    def start(self, tell: Tell | None = None) -> Runner:
        return self

    def fit(self, X: Float32Array, settings: Settings) -> Result:
        truth = settings.truth
        if truth is None:
            raise ValueError("the ARI of iterations needs the true labels")
        self.aris.clear()
        settings.bind(X, settings.full_ratio)
        chain = Chain(X, settings)

        def watch(number: int, iteration: Iteration) -> None:
            table = np.zeros((int(truth.max()) + 1, iteration.n_clusters), np.int64)
            contingency(truth, chain.state.labels, table)
            self.aris.append(ari_of_table(table))

        chain.problem = replace(chain.problem, settings=replace(settings, progress=watch))
        try:
            return result_of([chain.run()])
        finally:
            chain.problem.data.close()
