"""The methods that are compared, by one interface: points, truth, settings and a seed in, a `Fit` out."""

from __future__ import annotations

import importlib.util
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from dpmmwrap.arrays import Float32Array, Float64Array, IntArray
from dpmmwrap.estimator import DPMM
from dpmmwrap.evaluation.metrics import log_posterior
from dpmmwrap.families.gaussian import NIW
from dpmmwrap.files import InputError

WARM_UP_POINTS = 200
KMEANS_STARTS = 10


@dataclass(frozen=True)
class FitSettings:
    """What all methods are told alike. Every method runs on one thread, as in the paper."""

    alpha: float = 10.0
    iterations: int = 200
    prior: str = "data"
    init_clusters: int | str = 1
    """Of the SubC samplers: 1 is the paper's setting, "many" begins with small ones, that then merge."""
    upper_bound: int = 100
    """On the number of clusters, for DPGMM."""
    weights: str | None = None
    """A weights file for SplitNet; None for the shipped ones."""
    watch: bool = False
    """Keep NMI and ARI of every iteration. Costs time, so not where time is measured."""

    def niw(self, X: Float32Array) -> NIW:
        return NIW.reference(X.shape[1]) if self.prior == "reference" else NIW.from_data(X)


@dataclass(frozen=True)
class Fit:
    """What a method made of a data set."""

    labels: IntArray
    log_posterior: float
    """Under the settings' prior and concentration, whatever the method itself maximised: so numbers compare."""
    seconds: float
    cpu_seconds: float
    """On a busy machine nearer to what the method needs than the clock on the wall."""
    iterations: int
    trace: dict[str, Float64Array] = field(default_factory=dict)
    """By name, a value per iteration; empty where the method keeps none."""


Method = Callable[[Float32Array, IntArray, FitSettings, int], Fit]


class Clock:
    """The time that passes within this context, on the wall and on the processor."""

    seconds = cpu_seconds = 0.0

    def __enter__(self) -> Clock:
        self.seconds, self.cpu_seconds = -time.perf_counter(), -time.process_time()
        return self

    def __exit__(self, *problem: object) -> None:
        self.seconds += time.perf_counter()
        self.cpu_seconds += time.process_time()


def subclusters(start: str, backend: str) -> Method:
    """The SubC sampler with one of the three starts."""

    def fit(X: Float32Array, truth: IntArray, settings: FitSettings, seed: int) -> Fit:
        # Loads torch where it is needed, before the clock runs; Julia has been started before that (`prepare`).
        model = make_sampler(start, backend, settings, seed)
        with Clock() as clock, warnings.catch_warnings():
            # What a fit notes is for those who look at that fit; here hundreds come, and their numbers are the result.
            warnings.simplefilter("ignore", UserWarning)
            model.fit(X, truth=truth if settings.watch else None)
        if model.interrupted_:
            raise KeyboardInterrupt
        names = ("n_clusters", "log_posterior", "seconds", *(("nmi",) if settings.watch else ()))
        trace = {name: np.asarray(model.trace_[name], dtype=np.float64) for name in names}
        if settings.watch and backend == "native":
            trace["ari"] = np.array(model.aris_)
        return finish(X, model.labels_, settings, clock, len(model.trace_), trace)

    return fit


def make_sampler(start: str, backend: str, settings: FitSettings, seed: int) -> Any:
    from dpmmwrap.starts import make_initializer

    options = {"weights": settings.weights} if start == "splitnet" else {}
    kind: type[DPMM] = DPMM
    if settings.watch and backend == "native":
        from dpmmwrap.evaluation.watching import WatchedDPMM

        kind = WatchedDPMM
    return kind(
        alpha=settings.alpha,
        covariance_type="full",
        init=make_initializer(start, **options),
        max_iter=settings.iterations,
        prior=settings.prior,
        backend=backend,
        init_clusters=settings.init_clusters,
        n_jobs=1,
        random_state=seed,
    )


def variational(X: Float32Array, truth: IntArray, settings: FitSettings, seed: int) -> Fit:
    """scikit-learn's Dirichlet process mixture: the same model and prior, by variational inference."""
    from sklearn.mixture import BayesianGaussianMixture

    prior = settings.niw(X)
    model = BayesianGaussianMixture(
        n_components=min(settings.upper_bound, len(X)),
        weight_concentration_prior_type="dirichlet_process",
        weight_concentration_prior=settings.alpha,
        mean_prior=prior.mean,
        mean_precision_prior=prior.mean_strength,
        degrees_of_freedom_prior=prior.degrees_of_freedom,
        covariance_prior=prior.scale,
        max_iter=settings.iterations,
        tol=0.0,
        random_state=seed,
    )
    return timed(model, X, settings)


def expectation_maximisation(X: Float32Array, truth: IntArray, settings: FitSettings, seed: int) -> Fit:
    """scikit-learn's Gaussian mixture, given the true number of clusters."""
    from sklearn.mixture import GaussianMixture

    clusters = len(np.unique(truth))
    return timed(GaussianMixture(clusters, max_iter=settings.iterations, tol=0.0, random_state=seed), X, settings)


def kmeans(X: Float32Array, truth: IntArray, settings: FitSettings, seed: int) -> Fit:
    """scikit-learn's k-means, given the true number of clusters."""
    from sklearn.cluster import KMeans

    clusters = len(np.unique(truth))
    model = KMeans(clusters, n_init=KMEANS_STARTS, max_iter=settings.iterations, random_state=seed)
    return timed(model, X, settings)


def timed(model: Any, X: Float32Array, settings: FitSettings) -> Fit:
    """Fit one of scikit-learn's estimators. In double precision: in single its covariances may fail to factorise."""
    from sklearn.exceptions import ConvergenceWarning

    points = X.astype(np.float64)
    with warnings.catch_warnings():
        # A fixed number of iterations is what is wanted.
        warnings.simplefilter("ignore", ConvergenceWarning)
        with Clock() as clock:
            labels = model.fit_predict(points)
    return finish(X, labels, settings, clock, int(model.n_iter_))


def memoized(X: Float32Array, truth: IntArray, settings: FitSettings, seed: int) -> Fit:
    """Memoized variational Bayes with birth and merge moves: the same model and prior, by bnpy."""
    from dpmmwrap.evaluation import movb

    points, prior = X.astype(np.float64), settings.niw(X)
    with Clock() as clock:
        labels, laps = movb.fit(points, prior, settings.alpha, settings.iterations, seed)
    return finish(X, labels, settings, clock, laps)


def finish(
    X: Float32Array,
    labels: Any,
    settings: FitSettings,
    clock: Clock,
    iterations: int,
    trace: dict[str, Float64Array] | None = None,
) -> Fit:
    numbers: IntArray = np.unique(labels, return_inverse=True)[1].astype(np.int32)
    reached = log_posterior(X, numbers, settings.alpha, settings.niw(X))
    return Fit(numbers, reached, clock.seconds, clock.cpu_seconds, iterations, trace or {})


JULIA = " (Julia)"
SUBC = ("SubC-Random", "SubC-K-means", "SubC-SplitNet")
GIVEN_K = ("EM-GMM", "K-means")
"""Methods that are told the true number of clusters."""
METHODS: dict[str, Method] = {
    **{name: subclusters(start, "native") for name, start in zip(SUBC, ("random", "kmeans", "splitnet"), strict=True)},
    **{
        name + JULIA: subclusters(start, "julia")
        for name, start in zip(SUBC, ("random", "kmeans", "splitnet"), strict=True)
    },
    "DPGMM": variational,
    "moVB": memoized,
    "EM-GMM": expectation_maximisation,
    "K-means": kmeans,
}


def find_methods(names: Sequence[str]) -> list[str]:
    """The names as they are written here, whatever their case; an InputError for one that there is not."""
    known = {name.lower(): name for name in METHODS}
    for name in names:
        if name.lower() not in known:
            raise InputError(f"a method should be one of {', '.join(METHODS)}, not {name!r}")
    return list(dict.fromkeys(known[name.lower()] for name in names))


def missing(name: str, dim: int, settings: FitSettings) -> str | None:
    """What keeps a method from running here, in one sentence; None if nothing does."""
    if name.endswith(JULIA):
        from dpmmwrap.backends import julia_setup

        problem = julia_setup.find().missing
        if problem is not None:
            return f"The samplers on Julia are left out: {problem}"
    # A mere folder of that name is a "namespace package" without an origin.
    found = importlib.util.find_spec("bnpy") if name == "moVB" else None
    if name == "moVB" and (found is None or found.origin is None):
        return "moVB is left out: bnpy is not installed (pip install bnpy)"
    if name.startswith("SubC-SplitNet") and settings.weights is None and weights_file(dim) is None:
        return f"{name} is left out: no SplitNet weights came with this installation (--weights FILE takes one's own)"
    return None


def weights_file(dim: int) -> Path | None:
    """The shipped weights that SplitNet uses for points of this dimension; None if there are none."""
    from dpmmwrap.splitnet.weights_io import network_dim, shipped_dims, shipped_path

    dims = shipped_dims()
    return shipped_path(network_dim(dim, dims)) if dims else None


def prepare(names: Sequence[str]) -> None:
    """Start Julia if a method needs it: before torch is imported, or Julia may not find its own libraries."""
    if any(name.endswith(JULIA) for name in names):
        from dpmmwrap.backends import make_backend

        make_backend("julia")


@cache
def warm_up(name: str, dim: int, weights: str | None) -> None:
    """Compile and load what a method needs, so that the first run is not slower than the others."""
    from dpmmwrap.datasets import generate

    data = generate(dim, 2, WARM_UP_POINTS, 50.0, 0)
    METHODS[name](data.X, data.y, FitSettings(iterations=20, upper_bound=4, weights=weights), 0)


def run_method(name: str, X: Float32Array, truth: IntArray, settings: FitSettings, seed: int) -> Fit:
    """One fit on one thread, with everything compiled and loaded before."""
    warm_up(name, X.shape[1], settings.weights)
    with threadpool_limits(1):
        return METHODS[name](X, truth, settings, seed)
