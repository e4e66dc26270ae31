"""Families whose log density is linear in features of a point: their statistics are a count and sums of features.

Everything but the full-covariance Gaussian is one. The features of a numeric column are x and x^2, of counts the counts
themselves, of a categorical column one indicator per level; a product of such families is one again. With a further
indicator of what was observed, a missing value contributes nothing, which is exact when values are missing at random.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class LinearStatistics(NamedTuple):
    """Sufficient statistics of K clusters: counts (K,), sums of features (K, F)."""

    counts: Any
    sums: Any

    def scaled(self, factor: float) -> LinearStatistics:
        """As if every row had this weight."""
        return LinearStatistics(factor * self.counts, factor * self.sums)


def union(left: LinearStatistics, right: LinearStatistics) -> LinearStatistics:
    """The statistics of the unions, pair by pair."""
    return LinearStatistics(left.counts + right.counts, left.sums + right.sums)


def with_unions(subclusters: LinearStatistics) -> LinearStatistics:
    """Statistics of K clusters, then of their 2K subclusters, from the latter."""
    counts, sums = subclusters
    clusters = len(counts) // 2
    # Written in place: of wide data each array is large.
    every = np.empty((3 * clusters, sums.shape[1]))
    np.add(sums[0::2], sums[1::2], out=every[:clusters])
    every[clusters:] = sums
    return LinearStatistics(np.concatenate([counts[0::2] + counts[1::2], counts]), every)
