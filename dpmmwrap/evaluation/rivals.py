"""Other methods: scikit-learn's, and bnpy's variational Bayes.

Those that depend on units get columns of variance one if the settings say so; rows of counts become tf-idf.
"""

from __future__ import annotations

import contextlib
import inspect
import math
import tempfile
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse

from dpmmwrap.evaluation.fits import Clock, FitSettings, MethodFit, classes_in, finish
from dpmmwrap.families.base import Points
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.numerics.arrays import Float64Array, IntArray

KMEANS_STARTS = 10
SEARCH_STARTS = 3
"""Starts of k-means if many numbers of clusters are compared."""
MOST_CLUSTERS = 100
PATIENCE = 5
"""The search ends after this many numbers of components without a better BIC."""
SILHOUETTE_SAMPLE = 3_000
"""The points for a silhouette, whose time is quadratic in them."""
LEAST_CLUSTER = 10
"""The smallest cluster of HDBSCAN."""
DPGMM_ITERATIONS = 1_000
"""A limit that its stopping rule does not reach."""
POINTS_PER_COMPONENT = 20
"""DPGMM with its own prior begins with at most one component per this many points. With as many components as points it
would not leave its start from k-means."""
BATCHES = 10
"""Parts of the points for bnpy."""


def given_prior(X: Points, truth: IntArray, settings: FitSettings, seed: int) -> MethodFit:
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
    return timed(model, X, X.astype(np.float64), settings)


def own_prior(X: Points, truth: IntArray, settings: FitSettings, seed: int) -> MethodFit:
    """scikit-learn's Dirichlet process mixture with its default prior and stopping rule."""
    from sklearn.mixture import BayesianGaussianMixture

    components = max(min(settings.upper_bound, len(X) // POINTS_PER_COMPONENT), 2)
    model = BayesianGaussianMixture(n_components=components, max_iter=DPGMM_ITERATIONS, random_state=seed)
    return timed(model, X, in_one_unit(X, settings), settings)


def expectation_maximisation(X: Points, truth: IntArray, settings: FitSettings, seed: int) -> MethodFit:
    """scikit-learn's Gaussian mixture with full covariances and original units, given the true number of clusters."""
    from sklearn.mixture import GaussianMixture

    stopping = {} if settings.own_rules else {"max_iter": settings.iterations, "tol": 0.0}
    model = GaussianMixture(classes_in(truth), random_state=seed, **stopping)
    return timed(model, X, X.astype(np.float64), settings)


def kmeans(X: Points, truth: IntArray, settings: FitSettings, seed: int) -> MethodFit:
    from sklearn.cluster import KMeans

    stopping = {} if settings.own_rules else {"max_iter": settings.iterations}
    model = KMeans(classes_in(truth), n_init=KMEANS_STARTS, random_state=seed, **stopping)
    return timed(model, X, in_one_unit(X, settings), settings)


def timed(model: Any, X: Points, points: Any, settings: FitSettings) -> MethodFit:
    """Fit one of scikit-learn's estimators, in double precision: in single precision a covariance may not factorise."""
    # It warns about convergence and repeated points.
    with warnings.catch_warnings(action="ignore"), Clock() as clock:
        labels = model.fit_predict(points)
    return finish(X, labels, settings, clock, int(getattr(model, "n_iter_", 1)))


Clustering = tuple[float, IntArray]
"""The value of a criterion, of which more is better, and labels."""


def kmeans_silhouette(X: Points, truth: IntArray, settings: FitSettings, seed: int) -> MethodFit:
    """k-means with the number of clusters, of a grid, that has the highest mean silhouette."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_score

    points, candidates = in_one_unit(X, settings), list[Clustering]()
    n = points.shape[0]
    with warnings.catch_warnings(action="ignore"), Clock() as clock:
        for count in cluster_grid(min(MOST_CLUSTERS, n - 1)):
            labels = KMeans(count, n_init=SEARCH_STARTS, random_state=seed).fit_predict(points)
            # The sample is the same each time.
            value = silhouette_score(points, labels, sample_size=min(n, SILHOUETTE_SAMPLE), random_state=seed)
            candidates.append((float(value), labels))
    return finish(X, best(candidates), settings, clock, len(candidates))


def cluster_grid(most: int) -> Iterator[int]:
    """Numbers of clusters from 2: all up to 20, then an eighth more each time."""
    count = 2
    while count <= most:
        yield count
        count = count + 1 if count < 20 else count + count // 8


def bayesian_information(X: Points, truth: IntArray, settings: FitSettings, seed: int) -> MethodFit:
    """Gaussian mixtures by EM, full and diagonal, with the number of components that has the best BIC.

    Components are added until several numbers in a row do not improve the BIC.
    """
    from sklearn.mixture import GaussianMixture

    points, candidates = in_one_unit(X, settings), list[Clustering]()
    with warnings.catch_warnings(action="ignore"), Clock() as clock:
        for kind in ("full", "diag"):
            highest, since = -math.inf, 0
            for count in range(1, min(MOST_CLUSTERS, len(points) - 1) + 1):
                model = GaussianMixture(count, covariance_type=kind, random_state=seed)
                try:
                    labels = model.fit_predict(points)
                except ValueError:
                    # A component has collapsed to a point. With more components, this is even more likely.
                    break
                value = -float(model.bic(points))
                candidates.append((value, labels))
                since = 0 if value > highest else since + 1
                highest = max(highest, value)
                if since == PATIENCE:
                    break
    return finish(X, best(candidates), settings, clock, len(candidates))


def best(candidates: list[Clustering]) -> IntArray:
    if not candidates:
        raise ValueError("every number of clusters failed")
    return max(candidates, key=lambda candidate: candidate[0])[1]


def density_tree(X: Points, truth: IntArray, settings: FitSettings, seed: int) -> MethodFit:
    """scikit-learn's HDBSCAN; points outside all clusters are noise (-1)."""
    from sklearn.cluster import HDBSCAN

    # Without copy, scikit-learn before 1.10 warns.
    model = HDBSCAN(min_cluster_size=min(LEAST_CLUSTER, len(X)), copy=False)
    return timed(model, X, in_one_unit(X, settings), settings)


def memoized(X: Points, truth: IntArray, settings: FitSettings, seed: int) -> MethodFit:
    """Memoized variational Bayes with birth and merge moves: the same model and prior, by bnpy."""
    points, prior = in_prior_units(X.astype(np.float64), settings.niw(X)), settings.niw(X)
    # bnpy was written for the Python and NumPy of 2017.
    with (
        Clock() as clock,
        old_names(),
        warnings.catch_warnings(action="ignore"),
        tempfile.TemporaryDirectory() as folder,
    ):
        import bnpy

        data = bnpy.data.XData(points)
        model, info = bnpy.run(
            data,
            "DPMixtureModel",
            "Gauss",
            "memoVB",
            output_path=folder,
            nLap=settings.iterations,
            nTask=1,
            nBatch=min(BATCHES, len(X)),
            K=1,
            gamma0=settings.alpha,
            kappa=float(prior.mean_strength),
            nu=int(prior.degrees_of_freedom),
            ECovMat="eye",
            MMat="zero",
            moves="birth,merge,shuffle",
            initname="randexamples",
            algseed=seed,
            dataorderseed=seed,
            printEvery=-1,
            doWriteStdOut=False,
        )
        labels = model.calc_local_params(data)["resp"].argmax(axis=1)
    return finish(X, labels, settings, clock, int(np.max(info["lap_history"])))


def in_one_unit(X: Points, settings: FitSettings) -> Any:
    """Points in double precision, scaled to variance one if the settings say so; counts as tf-idf. O(N D)."""
    if issparse(X):
        from sklearn.feature_extraction.text import TfidfTransformer

        return TfidfTransformer().fit_transform(X)
    if settings.scale:
        from sklearn.preprocessing import StandardScaler

        return StandardScaler().fit_transform(X.astype(np.float64))
    return X.astype(np.float64)


def in_prior_units(X: Float64Array, prior: NIW) -> Float64Array:
    """The points in coordinates in which the prior has mean 0 and expected covariance I, as bnpy's options need it."""
    factor = np.linalg.cholesky(prior.mean_covariance()[0])
    return np.ascontiguousarray(np.linalg.solve(factor, (X - prior.mean).T).T)


@contextlib.contextmanager
def old_names() -> Iterator[None]:
    """While bnpy runs, provide names that NumPy and Python have since dropped."""
    dropped: list[tuple[Any, str, Any]] = [
        (np, "float", float),
        (np, "int", int),
        (np, "float_", np.float64),
        (np, "bool8", np.bool_),
        (np, "product", np.prod),
        (np, "asscalar", np.ndarray.item),
        (np, "Inf", np.inf),
        (inspect, "getargspec", lambda function: tuple(inspect.getfullargspec(function)[:4])),
    ]
    lacking = [(module, name, value) for module, name, value in dropped if name not in vars(module)]
    for module, name, value in lacking:
        setattr(module, name, value)
    try:
        yield
    finally:
        for module, name, _ in lacking:
            delattr(module, name)
