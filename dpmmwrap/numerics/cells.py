"""Bins of k-means on a sample: what the default priors learn from, and where a chain of many clusters may begin."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.arrays import Float32Array, Float64Array, IntArray
from dpmmwrap.numerics.interrupt import postponed

MOST = 150
"""More clusters than most data have; data with more find the rest by splits."""
POINTS_PER_CLUSTER = 20
SAMPLE = 10_000
SEEDING = 10
"""Points per bin among which k-means++ looks for the first centres (a thousand at least): more of them find no better
ones, but slowly."""
STEPS = 8
"""Steps of k-means on a full sample; a small one costs little, and k-means runs until it has converged."""
FAR_OUT = 8.0
"""Robust deviations from a column's median: values further out count as if they were there. A typing error or a heavy
tail does not decide how wide a column is."""
CHUNK = 1 << 13
ROWS_AT_A_TIME = 1 << 14

Embedder = Callable[[Any], Any]
"""From rows of the data to coordinates (dense, or sparse) in which distances mean something."""


def many_clusters(X: Any, seed: int, embed: Embedder | None = None, columns: int | None = None) -> Any:
    """A label per point to begin with: as many clusters as there are groups that show a shape, up to MOST."""
    rows, features = X.shape
    return kmeans_cells(X, min(MOST, rows // max(POINTS_PER_CLUSTER, 2 * (columns or features))), seed, embed)


def sample_rows(rows: int, seed: int) -> IntArray:
    """At most SAMPLE row numbers, in order."""
    if rows <= SAMPLE:
        return np.arange(rows)
    return np.sort(np.random.default_rng(seed).choice(rows, SAMPLE, replace=False))


def kmeans_cells(X: Any, count: int, seed: int, embed: Embedder | None = None) -> Any:
    """A label per point: the nearest of `count` centres, with each feature divided by its deviation; of points that are
    elsewhere, the rule that gives it."""
    if count < 2:
        return 1 if is_remote(X) else np.zeros(X.shape[0], np.int32)
    (rule,) = nested_rules(X, [count], seed, embed)
    # Points that are elsewhere are labelled there.
    return rule if is_remote(X) else rule(X)


def nested_rules(X: Any, counts: list[int], seed: int, embed: Embedder | None = None) -> list[NearestCentre]:
    """The rules for several numbers of cells: the first centres of k-means++ for many are those for few."""
    from sklearn.cluster import KMeans, kmeans_plusplus
    from sklearn.exceptions import ConvergenceWarning

    some_rows = X[sample_rows(X.shape[0], seed)]
    embed = embed or standardiser(some_rows)
    points = embed(some_rows)
    shuffled = np.random.default_rng(seed).permutation(points.shape[0])
    some = points[shuffled[: max(SEEDING * max(counts), 1000)]]
    steps, rules = STEPS * max(1, SAMPLE // points.shape[0]), []
    # Many small steps: more threads than idle cores make them a hundred times slower.
    with thread_pools().limit(limits=1), warnings.catch_warnings():
        # Fewer different points than cells: then some cells are empty, and that is fine.
        warnings.simplefilter("ignore", ConvergenceWarning)
        centres, _ = kmeans_plusplus(some, max(counts), random_state=seed % 2**32)
        for count in counts:
            model = KMeans(count, init=centres[:count], n_init=1, max_iter=steps).fit(points)
            rules.append(NearestCentre(model.cluster_centers_.astype(np.float32), embed))
    return rules


def is_remote(X: Any) -> bool:
    """Whether points are on other machines (`backends.dask`): then some rows of them can be had, never all."""
    return bool(getattr(X, "is_remote", False))


class NearestCentre(NamedTuple):
    """A label per point: the number of the nearest centre, in the coordinates of an embedding."""

    centres: Float32Array
    embed: Embedder

    def __call__(self, X: Any) -> IntArray:
        return nearest(X, self.centres, self.embed)


def winsorized(values: Float64Array) -> Float64Array:
    """The values of each column, winsorized: those that are far out become FAR_OUT robust deviations from its median.

    A robust deviation is from the middle half of a column; if that is one value, from the middle nine tenths. A column
    in which even these are one value stays as it is.
    """
    if not values.size:
        return values
    with warnings.catch_warnings():
        # A column without any value.
        warnings.simplefilter("ignore", RuntimeWarning)
        percentiles = np.nanpercentile if np.isnan(values).any() else np.percentile
        low, quarter, middle, three_quarters, high = percentiles(values, (5, 25, 50, 75, 95), axis=0)
    # In deviations of a normal distribution.
    spread = np.where(three_quarters > quarter, (three_quarters - quarter) / 1.349, (high - low) / 3.29)
    reach = np.where(spread > 0, FAR_OUT * spread, np.inf)
    return np.asarray(np.clip(values, middle - reach, middle + reach))


def standardiser(sample: Any) -> Embedder:
    """Each feature from its mean, by its deviation, both without regard to values far out; where a value is missing,
    the mean stands for it."""
    values = winsorized(np.asarray(sample, dtype=np.float64))
    with warnings.catch_warnings():
        # A column without any value.
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
    """The thread pools of this process's libraries; looked up once, which takes longer than the steps that they do."""
    return find_thread_pools()


def find_thread_pools() -> Any:
    """The thread pools of the libraries that are loaded by now."""
    from threadpoolctl import ThreadpoolController

    # It calls back from C, where an exception would be lost.
    with postponed():
        return ThreadpoolController()


def nearest(X: Any, centres: Float32Array, embed: Embedder) -> IntArray:
    """The number of the nearest centre to each point, a chunk of points at a time: whatever other points there are."""
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
    """Whether any value is missing; NaN stands for it. Points that are elsewhere know it of themselves."""
    known = getattr(X, "missing", None)
    if known is not None:
        return bool(known)
    return any(bool(np.isnan(X[begin : begin + ROWS_AT_A_TIME]).any()) for begin in range(0, len(X), ROWS_AT_A_TIME))
