"""Families whose log density is linear in features of a point. Their statistics are a count and sums of features.

This covers all families with conjugate priors except the full-covariance Gaussian. The features of a numeric column are
x and x^2, those of counts are the counts, and those of a categorical column are one indicator per level. A product of
such families is such a family. With a further indicator of observed values, a missing value contributes nothing, which
is exact if values are missing at random.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np


class LinearStatistics(NamedTuple):
    """Sufficient statistics of K clusters: counts (K,), sums of features (K, F)."""

    counts: Any
    sums: Any

    def scaled(self, factor: float) -> LinearStatistics:
        """Statistics as if every row had this weight."""
        return LinearStatistics(factor * self.counts, factor * self.sums)


def union(left: LinearStatistics, right: LinearStatistics) -> LinearStatistics:
    """Statistics of the unions of pairs of clusters."""
    return LinearStatistics(left.counts + right.counts, left.sums + right.sums)


def with_unions(subclusters: LinearStatistics) -> LinearStatistics:
    """Statistics of K clusters followed by those of their 2K subclusters, from the latter."""
    counts, sums = subclusters
    clusters = len(counts) // 2
    # In place, since each array is large if the data are wide.
    every = np.empty((3 * clusters, sums.shape[1]))
    np.add(sums[0::2], sums[1::2], out=every[:clusters])
    every[clusters:] = sums
    return LinearStatistics(np.concatenate([counts[0::2] + counts[1::2], counts]), every)
