"""k-means cells of a sample: the default priors learn from them, and a chain of many clusters may start with them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.arrays import Float32Array, Float64Array, IntArray
from dpmmwrap.numerics.interrupt import postponed

MOST = 150
"""More clusters than most data have. If there are more, splits find the rest."""
POINTS_PER_CLUSTER = 20
SAMPLE = 10_000
SEEDING = 10
"""Points per cell on which k-means++ looks for initial centres (at least a thousand in all). More points take longer
and do not give better centres."""
STEPS = 8
"""Steps of k-means on a full sample. Smaller samples get more steps, in proportion, until convergence."""
FAR_OUT = 8.0
"""Robust standard deviations from a column's median to which more distant values are clipped, so that neither a typing
error nor a heavy tail determines the width of a column."""
CHUNK = 1 << 13
ROWS_AT_A_TIME = 1 << 14

Embedder = Callable[[Any], Any]
"""A map from rows to coordinates (dense or sparse) with meaningful distances."""


def many_clusters(X: Any, seed: int, embed: Embedder | None = None, columns: int | None = None) -> Any:
    """Initial labels with as many clusters as there can be groups large enough to show their shape, up to MOST."""
    rows, features = X.shape
    return kmeans_cells(X, min(MOST, rows // max(POINTS_PER_CLUSTER, 2 * (columns or features))), seed, embed)


def sample_rows(rows: int, seed: int) -> IntArray:
    """At most SAMPLE row numbers, in order."""
    if rows <= SAMPLE:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, SAMPLE, replace=False))


def kmeans_cells(X: Any, count: int, seed: int, embed: Embedder | None = None) -> Any:
    """Label points by the nearest of `count` centres, with standardised features. For remote points, return the rule
    that labels them."""
    if count < 2:
        return 1 if is_remote(X) else np.zeros(X.shape[0], np.int32)
    (rule,) = nested_rules(X, [count], seed, embed)
    # Remote points are labelled where they are.
    return rule if is_remote(X) else rule(X)


def nested_rules(X: Any, counts: list[int], seed: int, embed: Embedder | None = None) -> list[NearestCentre]:
    """The rules for several numbers of cells. The initial centres for few cells are the first ones of those for
    many."""
    from sklearn.cluster import KMeans, kmeans_plusplus
    from sklearn.exceptions import ConvergenceWarning

    some_rows = X[sample_rows(X.shape[0], seed)]
    embed = embed or standardiser(some_rows)
    points = embed(some_rows)
    shuffled = np.random.default_rng(seed).permutation(points.shape[0])
    some = points[shuffled[: max(SEEDING * max(counts), 1000)]]
    steps, rules = STEPS * max(1, SAMPLE // points.shape[0]), []
    # k-means makes many small steps: with more threads than idle cores they take a hundred times longer.
    with thread_pools().limit(limits=1), warnings.catch_warnings():
        # With fewer distinct points than cells some cells are empty, which is harmless.
        warnings.simplefilter("ignore", ConvergenceWarning)
        centres, _ = kmeans_plusplus(some, max(counts), random_state=seed % 2**32)
        for count in counts:
            model = KMeans(count, init=centres[:count], n_init=1, max_iter=steps).fit(points)
            rules.append(NearestCentre(model.cluster_centers_.astype(np.float32), embed))
    return rules


def is_remote(X: Any) -> bool:
    """Whether the points are on other machines (`backends.dask`). Then rows can be fetched, but never all of them."""
    return bool(getattr(X, "is_remote", False))


class NearestCentre(NamedTuple):
    """Label points by the nearest centre in the coordinates of an embedding."""

    centres: Float32Array
    embed: Embedder

    def __call__(self, X: Any) -> IntArray:
        return nearest(X, self.centres, self.embed)


def winsorized(values: Float64Array) -> Float64Array:
    """Winsorize each column: clip values to within FAR_OUT robust standard deviations of the median.

    The robust deviation comes from the interquartile range or, if that is zero, from the 5th and 95th percentiles. If
    these are equal, too, the column is left unchanged.
    """
    if not values.size:
        return values
    with warnings.catch_warnings():
        # A column may have no values at all.
        warnings.simplefilter("ignore", RuntimeWarning)
        percentiles = np.nanpercentile if np.isnan(values).any() else np.percentile
        low, quarter, middle, three_quarters, high = percentiles(values, (5, 25, 50, 75, 95), axis=0)
    # Divided by the ranges of a standard normal distribution.
    spread = np.where(three_quarters > quarter, (three_quarters - quarter) / 1.349, (high - low) / 3.29)
    reach = np.where(spread > 0, FAR_OUT * spread, np.inf)
    return np.asarray(np.clip(values, middle - reach, middle + reach))


def standardiser(sample: Any) -> Embedder:
    """Standardise features by the mean and deviation of the winsorized sample. Missing values are replaced by the
    mean."""
    values = winsorized(np.asarray(sample, dtype=np.float64))
    with warnings.catch_warnings():
        # A column may have no values at all.
        warnings.simplefilter("ignore", RuntimeWarning)
        shift, deviations = np.nanmean(values, axis=0), np.nanstd(values, axis=0)
    shift = np.where(np.isfinite(shift), shift, 0.0)
    deviations = np.where(deviations > 0, deviations, 1.0)
    return partial(standardised, shift=shift, deviations=deviations)


def standardised(rows: Any, shift: Float64Array, deviations: Float64Array) -> Float32Array:
    scaled: Float32Array = ((rows - shift) / deviations).astype(np.float32)
    return np.nan_to_num(scaled, copy=False) if np.isnan(scaled).any() else scaled


@lru_cache(maxsize=1)
def thread_pools() -> Any:
    """The thread pools of this process's libraries. Cached, because finding them takes longer than the steps they
    run."""
    return find_thread_pools()


def find_thread_pools() -> Any:
    """The thread pools of the libraries loaded so far."""
    from threadpoolctl import ThreadpoolController

    # threadpoolctl calls back from C, where an exception such as KeyboardInterrupt would be lost.
    with postponed():
        return ThreadpoolController()


def nearest(X: Any, centres: Float32Array, embed: Embedder) -> IntArray:
    """The index of the centre nearest to each point, chunk by chunk. The result for a point does not depend on
    others."""
    from dpmmwrap.numerics.row_loops import nearest_centres

    centres = centres.astype(np.float32, copy=False)
    half_squares = 0.5 * (centres * centres).sum(axis=1)
    across = np.ascontiguousarray(centres.T)
    labels = np.empty(X.shape[0], np.int32)
    for begin in range(0, X.shape[0], CHUNK):
        points, some = embed(X[begin : begin + CHUNK]), slice(begin, begin + CHUNK)
        if hasattr(points, "indptr"):
            labels[some] = (points @ across - half_squares).argmax(axis=1)
        else:
            nearest_centres(np.ascontiguousarray(points, np.float32), across, half_squares, labels[some])
    return labels


def has_missing(X: Any) -> bool:
    """Whether any value is missing (NaN). Remote points have an attribute that says so."""
    known = getattr(X, "missing", None)
    if known is not None:
        return bool(known)
    return any(bool(np.isnan(X[begin : begin + ROWS_AT_A_TIME]).any()) for begin in range(0, len(X), ROWS_AT_A_TIME))
