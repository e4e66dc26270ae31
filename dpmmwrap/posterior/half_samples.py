"""The clusters of half of the rows, by short chains: true clusters reappear, pieces of one do not.

The prior is that of the fit. One chain begins with a single cluster, another with twice as many k-means cells as there
are clusters, and the more probable result counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from dpmmwrap.families.base import Points, Prior
from dpmmwrap.model.short_chains import short_chain, short_settings
from dpmmwrap.numerics.arrays import IntArray, evenly_spaced
from dpmmwrap.numerics.cells import kmeans_cells
from dpmmwrap.partitions import PartitionPrior
from dpmmwrap.posterior.separation import Half
from dpmmwrap.sampler.settings import Settings

PAIRS = 4
"""How often the rows are divided into two halves."""
MOST_ROWS, ITERATIONS = 4000, 200
"""Limits of the rows, evenly spaced, and of the iterations of a chain, which ends when its log posterior is flat."""
MANY = 40
"""With more cells, a chain from one cluster is not worth its time: it often ends with too few."""


def half_samples(
    points: Points, rows: IntArray, n_clusters: int, prior: Prior, partition_prior: PartitionPrior, outliers: Any
) -> list[Half]:
    """The clusters of halves of these rows; `outliers` are the weight and the prior of outliers."""
    settings = short_settings(
        partition_prior, prior, ITERATIONS, stop_when_flat=True, min_cluster_age=5,
        outlier_weight=outliers[0], outlier_prior=outliers[1],
    )  # fmt: skip
    used, halves = rows[evenly_spaced(len(rows), MOST_ROWS)], list[Half]()
    for pair in range(PAIRS):
        order = np.random.default_rng(pair).permutation(len(used))
        for half in np.array_split(order, 2):
            chosen = used[np.sort(half)]
            labels = best_of_two(points[chosen], 2 * n_clusters, replace(settings, seed=len(halves)))
            halves.append(Half(chosen, labels))
    return halves


def best_of_two(points: Points, cells: int, settings: Settings) -> IntArray:
    """The more probable labels of two chains: from k-means cells and, if these are few, from one cluster."""
    many = kmeans_cells(points, min(cells, points.shape[0]), 0, settings.prior.embedder(points))
    starts = [replace(settings, init_clusters=many), *([settings] if cells <= MANY else [])]
    return max((short_chain(points, start) for start in starts), key=lambda best: best.log_posterior).labels
