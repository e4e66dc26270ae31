"""Families whose log density is linear in features of a point: their statistics are a count and sums of features.

Everything but the full-covariance Gaussian is one. The features of a numeric column are x and x^2, of counts the counts
themselves, of a categorical column one indicator per level; a product of such families is one again. With a further
indicator of what was observed, a missing value contributes nothing, which is exact when values are missing at random.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.arrays import IntArray


class LinearStatistics(NamedTuple):
    """Sufficient statistics of K clusters: counts (K,), sums of features (K, F)."""

    counts: Any
    sums: Any


def union(left: LinearStatistics, right: LinearStatistics) -> LinearStatistics:
    """The statistics of the unions, pair by pair."""
    return LinearStatistics(left.counts + right.counts, left.sums + right.sums)


def with_unions(subclusters: LinearStatistics) -> LinearStatistics:
    """Statistics of K clusters, then of their 2K subclusters, from the latter."""
    counts, sums = subclusters
    whole = sums[0::2] + sums[1::2]
    return LinearStatistics(np.concatenate([counts[0::2] + counts[1::2], counts]), np.concatenate([whole, sums]))


def grouped(labels: IntArray | None, rows: int, n_clusters: int | None) -> tuple[IntArray, int]:
    """Labels of all rows and how many clusters they name; one cluster without labels."""
    if labels is None:
        return np.zeros(rows, np.int32), 1
    return labels, int(labels.max(initial=-1)) + 1 if n_clusters is None else n_clusters
