"""DPMM, the scikit-learn estimator: validate, choose a backend, expose the fitted attributes."""

from __future__ import annotations

import math
import numbers
from pathlib import Path
from typing import Any

import numpy as np
from joblib import effective_n_jobs
from sklearn.base import BaseEstimator, ClusterMixin, DensityMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from dpmmwrap.arrays import Float32Array, Float64Array, FloatArray, IntArray
from dpmmwrap.backends import FULL_RATIOS, MERGE_RATIOS, Backend, Progress, Settings, make_backend
from dpmmwrap.cells import many_clusters
from dpmmwrap.families.gaussian import NIW, Statistics
from dpmmwrap.mixture import Mixture
from dpmmwrap.starts import Initializer, Start, make_initializer

CHUNK = 1 << 16
FRESH_START_AFTER = 10
"""Iterations in a rejected split after which subclusters begin anew."""


class DPMM(ClusterMixin, DensityMixin, BaseEstimator):  # type: ignore[misc]
    """Dirichlet process Gaussian mixture, sampled by split and merge moves: finds the number of clusters.

    Parameters
    ----------
    alpha : concentration of the Dirichlet process; more of it means more clusters.
    init : how a new cluster's two subclusters begin: "splitnet", "kmeans", "random", or a callable from
        the points of a cluster to sublabels 0 and 1.
    max_iter : iterations of the sampler.
    prior : None or "data" (tied to how wide the data are locally), "reference" (mean 0, identity), or an `NIW`.
    backend : "native" (the built-in sampler), "julia" (DPMMSubClusters.jl), or "auto": Julia where it is set up.
    burnout : iterations before a new cluster may split or merge.
    init_clusters : a number, "many" (small ones, that then merge), a label per point, or "auto": one with the built-in
        sampler's own ratio, many with the reference's, by which splits alone do not find overlapping clusters.
    max_clusters : no splits beyond this number of clusters.
    outlier_weight : share of a broad component that collects outliers, labelled -1; `outlier_prior` is its `NIW`.
    merge_ratio : how splits and merges are judged: "jain-neal", "reference", "printed", or "auto", the first with the
        built-in sampler and the second with Julia; see the README.
    fresh_start_after : iterations in a rejected split after which subclusters begin anew; None for never. The
        built-in sampler looks every twentieth iteration.
    n_jobs : threads, as in scikit-learn. The result does not depend on it.
    device : where SplitNet runs: "auto", "cpu", "cuda".
    random_state : seed.
    verbose : 1 prints a line every tenth iteration.
    checkpoint, checkpoint_every : a file to go on from if it exists, written every so many iterations.
    workers, machines : worker processes and a machine file for the Julia backend.
    """

    labels_: IntArray
    mixture_: Mixture

    def __init__(
        self,
        alpha: float = 10.0,
        init: Start | Initializer = "splitnet",
        max_iter: int = 100,
        prior: NIW | str | None = None,
        backend: str = "auto",
        burnout: int = 3,
        init_clusters: int | str | IntArray = "auto",
        max_clusters: int | None = None,
        outlier_weight: float = 0.0,
        outlier_prior: NIW | None = None,
        merge_ratio: str = "auto",
        fresh_start_after: int | None = FRESH_START_AFTER,
        n_jobs: int | None = None,
        device: str = "auto",
        random_state: Any = None,
        verbose: int = 0,
        checkpoint: str | Path | None = None,
        checkpoint_every: int = 50,
        workers: int = 0,
        machines: str | Path | None = None,
    ) -> None:
        self.alpha = alpha
        self.init = init
        self.max_iter = max_iter
        self.prior = prior
        self.backend = backend
        self.burnout = burnout
        self.init_clusters = init_clusters
        self.max_clusters = max_clusters
        self.outlier_weight = outlier_weight
        self.outlier_prior = outlier_prior
        self.merge_ratio = merge_ratio
        self.fresh_start_after = fresh_start_after
        self.n_jobs = n_jobs
        self.device = device
        self.random_state = random_state
        self.verbose = verbose
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.workers = workers
        self.machines = machines

    def fit(self, X: Any, y: Any = None, *, truth: Any = None, progress: Progress | None = None) -> DPMM:
        """Cluster the rows of X. `truth` only adds the NMI to the trace; y is not looked at."""
        self._check_parameters()
        came_as = str(getattr(X, "dtype", type(X).__name__))
        # Stored as it came where it can be: a memory-mapped float32 array is never copied.
        X = validate_data(self, X, dtype=[np.float32, np.float64], order="C", ensure_min_samples=2)
        backend = self._backend()
        seed = int(check_random_state(self.random_state).randint(2**31 - 1))
        points, offset = as_float32(X)
        prior = resolve_prior(self.prior, points, offset)
        outlier_prior = self._outlier_prior(points, prior, offset)
        settings = Settings(
            alpha=float(self.alpha),
            prior=prior,
            initializer=self._initializer(),
            max_iter=int(self.max_iter),
            burnout=int(self.burnout),
            seed=seed,
            init_clusters=self._first_clusters(points, seed, backend.name),
            max_clusters=self.max_clusters,
            outlier_weight=float(self.outlier_weight),
            outlier_prior=outlier_prior,
            merge_ratio=self.merge_ratio,  # type: ignore[arg-type]
            fresh_start_after=self.fresh_start_after,
            n_jobs=effective_n_jobs(self.n_jobs),
            truth=None if truth is None else truth_labels(truth, len(points)),
            progress=self._progress(progress),
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            checkpoint_every=int(self.checkpoint_every),
            workers=int(self.workers),
            machines=None if self.machines is None else Path(self.machines),
        )
        result = backend.fit(points, settings)
        result.trace.converted_from = None if came_as == "float32" else came_as
        mixture = Mixture.from_labels(points, result.labels, prior, settings.outlier_weight, outlier_prior)
        self._keep(mixture.shifted(-offset), result, backend.name)
        return self

    def _keep(self, mixture: Mixture, result: Any, backend: str) -> None:
        self.mixture_ = mixture
        self.labels_ = result.labels
        self.sublabels_ = result.sublabels
        self.n_clusters_ = mixture.n_clusters
        self.weights_ = mixture.weights
        self.means_ = mixture.means
        self.covariances_ = mixture.covariances
        self.trace_ = result.trace
        self.log_posterior_ = float(result.trace.log_posterior[-1])
        self.n_iter_ = len(result.trace)
        self.interrupted_ = result.interrupted
        self.backend_ = backend

    def fit_predict(self, X: Any, y: Any = None, **options: Any) -> IntArray:
        """Fit and return the label of each row."""
        return self.fit(X, y, **options).labels_

    def predict(self, X: Any) -> IntArray:
        """The most probable cluster of each row under the posterior predictive of each cluster."""
        rows = self._rows(X)
        return self.mixture_.predict(rows)

    def predict_proba(self, X: Any) -> Float64Array:
        """The probability of each cluster for each row."""
        rows = self._rows(X)
        return self.mixture_.predict_proba(rows)

    def score_samples(self, X: Any) -> Float64Array:
        """log predictive density of each row."""
        rows = self._rows(X)
        return self.mixture_.score_samples(rows)

    def score(self, X: Any, y: Any = None) -> float:
        """Mean log predictive density."""
        return float(self.score_samples(X).mean())

    def sample(self, n_samples: int = 1) -> tuple[Float64Array, IntArray]:
        """New points from the fitted mixture, and the cluster of each."""
        check_is_fitted(self)
        if not isinstance(n_samples, numbers.Integral) or n_samples < 1:
            raise ValueError(f"n_samples should be a whole number of at least 1, not {n_samples!r}")
        seed = check_random_state(self.random_state).randint(2**31 - 1)
        return self.mixture_.sample(int(n_samples), np.random.default_rng(seed))

    def save(self, path: str | Path) -> None:
        """Write the fitted mixture to a file that cannot execute code; `dpmmwrap.load` reads it."""
        check_is_fitted(self)
        self.mixture_.save(path)

    def _rows(self, X: Any) -> FloatArray:
        check_is_fitted(self)
        rows: FloatArray = validate_data(self, X, dtype=[np.float32, np.float64], reset=False)
        return rows

    def _check_parameters(self) -> None:
        check_number("alpha", self.alpha, above=0.0)
        for name, least in (("max_iter", 1), ("burnout", 1), ("checkpoint_every", 1), ("workers", 0)):
            check_whole(name, getattr(self, name), least)
        for name in ("max_clusters", "fresh_start_after"):
            if getattr(self, name) is not None:
                check_whole(name, getattr(self, name), 1)
        weight = self.outlier_weight
        if not isinstance(weight, numbers.Real) or not 0 <= float(weight) < 1:
            raise ValueError(f"outlier_weight should be a number from 0 up to, not including, 1, not {weight!r}")
        if self.merge_ratio not in MERGE_RATIOS:
            raise ValueError(f"merge_ratio should be one of {', '.join(MERGE_RATIOS)}, not {self.merge_ratio!r}")

    def _backend(self) -> Backend:
        return make_backend(
            self.backend,
            checkpoint=None if self.checkpoint is None else Path(self.checkpoint),
            merge_ratio=self.merge_ratio,
            workers=self.workers > 0 or self.machines is not None,
        )

    def _initializer(self) -> Initializer:
        if self.init == "splitnet":
            return make_initializer("splitnet", device=self.device, alpha=float(self.alpha))
        return make_initializer(self.init)

    def _first_clusters(self, X: Float32Array, seed: int, backend: str) -> int | IntArray:
        first = self.init_clusters
        if isinstance(first, str):
            if first not in ("auto", "many"):
                raise ValueError(f"init_clusters should be auto, many, a number or an array of labels, not {first!r}")
            splits_suffice = backend == "native" and self.merge_ratio in FULL_RATIOS
            return 1 if first == "auto" and splits_suffice else many_clusters(X, seed)
        if isinstance(first, numbers.Integral):
            check_whole("init_clusters", first, 1)
            return min(int(first), len(X))
        return truth_labels(first, len(X), name="init_clusters")

    def _outlier_prior(self, X: Float32Array, prior: NIW, offset: Float64Array) -> NIW | None:
        if self.outlier_weight == 0:
            return None
        if self.outlier_prior is not None:
            return resolve_prior(self.outlier_prior, X, offset)
        # Twice as wide as the data, and as sure of it as of the data, so that it stays so whatever it collects.
        moments = Statistics.of(X)
        covariance = moments.scatters[0] / len(X) + np.diag(np.diagonal(prior.scale)) * 1e-6
        strength = float(len(X))
        return NIW(moments.means[0], strength, 4 * strength * covariance, strength + X.shape[1] + 1)

    def _progress(self, progress: Progress | None) -> Progress | None:
        if progress is not None or not self.verbose:
            return progress

        def print_line(number: int, iteration: Any) -> None:
            if number % 10 == 0 or number == self.max_iter or self.verbose > 1:
                print(
                    f"iteration {number}: {iteration.n_clusters} clusters, log posterior {iteration.log_posterior:.1f}"
                )

        return print_line


def check_number(name: str, value: Any, above: float) -> None:
    if not isinstance(value, numbers.Real) or not float(value) > above or not math.isfinite(value):
        raise ValueError(f"{name} should be a finite number above {above:g}, not {value!r}")


def check_whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} should be a whole number of at least {least}, not {value!r}")


def as_float32(X: FloatArray) -> tuple[Float32Array, Float64Array]:
    """The rows as float32, and the offset that was taken off first so that float64 data keep their digits."""
    if X.dtype == np.float32:
        return np.asanyarray(X, dtype=np.float32), np.zeros(X.shape[1])
    offset = X.mean(axis=0)
    points = np.empty(X.shape, np.float32)
    for begin in range(0, len(X), CHUNK):
        np.subtract(X[begin : begin + CHUNK], offset, out=points[begin : begin + CHUNK], casting="same_kind")
    if not np.isfinite(points).all():
        raise ValueError("the data span more than single precision holds (about 3e38); rescale them")
    return points, offset


def resolve_prior(prior: NIW | str | None, X: Float32Array, offset: Float64Array) -> NIW:
    """The prior in the coordinates of X, from which `offset` has been taken off."""
    if prior is None or prior == "data":
        return NIW.from_data(X)
    if isinstance(prior, str):
        if prior != "reference":
            raise ValueError(f"prior should be data, reference or an NIW, not {prior!r}")
        prior = NIW.reference(X.shape[1])
    if not isinstance(prior, NIW):
        raise ValueError(f"prior should be data, reference or an NIW, not {prior!r}")
    if prior.mean.shape != (X.shape[1],):
        raise ValueError(f"the prior has {prior.dim} dimensions, but the data have {X.shape[1]}")
    return prior.shifted(offset)


def truth_labels(labels: Any, rows: int, name: str = "truth") -> IntArray:
    """Labels as whole numbers from 0 without gaps."""
    array = np.asarray(labels)
    if array.shape != (rows,):
        raise ValueError(f"{name} should be {rows} labels, one per point, not an array of shape {array.shape}")
    return np.unique(array, return_inverse=True)[1].astype(np.int32)
