"""Where a chain may begin: many small clusters from k-means on a sample, so that merges do the first work."""

from __future__ import annotations

import warnings
from functools import lru_cache
from typing import Any

import numpy as np

from dpmmwrap.arrays import Float32Array, Float64Array, IntArray

MOST = 150
"""More clusters than most data have; data with more find the rest by splits."""
POINTS_PER_CLUSTER = 20
SAMPLE = 10_000
SEEDING = 10
"""Points per cell among which k-means++ looks for the first centres (a thousand at least): more of them find no better
ones, but slowly."""
STEPS = 8
"""Steps of k-means on a full sample; a small one, which costs nothing, is gone over until it settles."""
CHUNK = 1 << 13


def many_clusters(X: Float32Array, seed: int) -> IntArray:
    """A label per point to begin with: as many clusters as there are groups that show a shape, up to MOST."""
    return cells(X, min(MOST, len(X) // max(POINTS_PER_CLUSTER, 2 * X.shape[1])), seed)


def cells(X: Float32Array, count: int, seed: int) -> IntArray:
    """A label per point: the nearest of `count` centres, with each feature divided by its deviation."""
    if count < 2:
        return np.zeros(len(X), np.int32)
    from sklearn.cluster import KMeans, kmeans_plusplus
    from sklearn.exceptions import ConvergenceWarning

    rng = np.random.default_rng(seed)
    rows = np.arange(len(X)) if len(X) <= SAMPLE else np.sort(rng.choice(len(X), SAMPLE, replace=False))
    points = np.asarray(X[rows], dtype=np.float64)
    shift, deviations = points.mean(axis=0), points.std(axis=0)
    deviations[deviations == 0] = 1.0
    points = ((points - shift) / deviations).astype(np.float32)
    some = points[rng.permutation(len(points))[: max(SEEDING * count, 1000)]]
    # Many small steps: more threads than idle cores make them a hundred times slower.
    with thread_pools().limit(limits=1), warnings.catch_warnings():
        # Fewer different points than cells: then some cells are empty, and that is fine.
        warnings.simplefilter("ignore", ConvergenceWarning)
        centres, _ = kmeans_plusplus(some, count, random_state=seed % 2**32)
        model = KMeans(count, init=centres, n_init=1, max_iter=STEPS * max(1, SAMPLE // len(points))).fit(points)
    return nearest(X, model.cluster_centers_ * deviations + shift, deviations)


@lru_cache(maxsize=1)
def thread_pools() -> Any:
    """The thread pools of this process's libraries; found once, as it takes longer than the steps that they do."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def nearest(X: Float32Array, centres: Float64Array, deviations: Float64Array) -> IntArray:
    """The number of the nearest centre to each point, a chunk of points at a time."""
    shift = centres.mean(axis=0)
    scaled = ((centres - shift) / deviations).astype(np.float32)
    half_squares = 0.5 * (scaled * scaled).sum(axis=1)
    labels = np.empty(len(X), np.int32)
    for begin in range(0, len(X), CHUNK):
        points = ((X[begin : begin + CHUNK] - shift) / deviations).astype(np.float32)
        labels[begin : begin + CHUNK] = (points @ scaled.T - half_squares).argmax(axis=1)
    return labels
