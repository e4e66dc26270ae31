"""Which cluster of a draw corresponds to which cluster of a reference, and how sure each point's cluster is.

The numbers of clusters are arbitrary in each draw. Labels are at least -1; -1 is an outlier.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.numerics.labels import contingency

MANY_LABELS = 1000


def contingency_table(labels: IntArray, reference: IntArray) -> IntArray:
    """The number of points with each pair of labels (K + 1, K_reference + 1); outliers are in the last row and column.
    O(N)."""
    labels, reference = checked_labels(labels), checked_labels(reference)
    if len(labels) != len(reference):
        raise ValueError(f"both should label the same points, got {len(labels):,} labels and {len(reference):,}")
    return unchecked_table(labels, reference, n_labels(reference))


def unchecked_table(labels: IntArray, reference: IntArray, n_reference: int) -> IntArray:
    """The contingency table of int32 labels of equal length."""
    table = np.zeros((n_labels(labels) + 1, n_reference + 1), np.int64)
    # -1 counts from the end, in compiled loops too: outliers fall into the last row and column.
    contingency(labels, reference, table)
    return table


def match(labels: IntArray, reference: IntArray) -> IntArray:
    """For each cluster of `labels`, the corresponding cluster of the reference; -1 if there is none.

    One-to-one, with the largest total overlap; clusters left over correspond to the one that they overlap most.
    """
    return match_table(contingency_table(labels, reference)[:-1, :-1])


def match_table(table: IntArray) -> IntArray:
    """`match`, from the clusters' contingency table (K, K_reference)."""
    from scipy.optimize import linear_sum_assignment

    if table.shape[1] == 0:
        return np.full(len(table), -1, np.int32)
    matched: Any = np.where(table.any(axis=1), table.argmax(axis=1), -1).astype(np.int32)
    clusters, partners = linear_sum_assignment(table, maximize=True)
    # A pair without a common point is not a match.
    overlap = table[clusters, partners] > 0
    matched[clusters[overlap]] = partners[overlap]
    return np.asarray(matched)


def confidence(draws: IntArray, reference: IntArray) -> Float64Array:
    """For each point, the share of draws in which its cluster corresponds to its cluster of the reference (N,).

    For an outlier of the reference, the share of draws in which it is one. O(N) per draw, one draw at a time.
    """
    reference = checked_labels(reference)
    check_draws(draws, len(reference))
    clusters = n_labels(reference)
    agreeing = np.zeros(len(reference), np.int32)
    for draw in draws:
        labels = small_labels(draw)
        matched = match_table(unchecked_table(labels, reference, clusters)[:-1, :-1])
        # Unmatched clusters agree with nothing; outliers, at -1, agree with outliers.
        matched[matched < 0] = clusters
        agreeing += np.append(matched, np.int32(-1))[labels] == reference
    return agreeing / len(draws)


def checked_labels(labels: Any) -> IntArray:
    """One draw's labels as int32."""
    labels = np.asarray(labels)
    if labels.ndim != 1 or labels.dtype.kind not in "iu" or not len(labels):
        kind = f"{labels.dtype} of shape {labels.shape}"
        raise ValueError(f"labels should be a row of whole numbers, one per point, got {kind}")
    if labels.min() < -1:
        raise ValueError(f"labels should be at least -1 (outliers), got {labels.min()}")
    return np.ascontiguousarray(labels, dtype=np.int32)


def check_draws(draws: Any, points: int | None = None) -> None:
    """Check the shape (draws, points); the values are not read, as they may be larger than memory."""
    if getattr(draws, "ndim", 0) != 2 or draws.dtype.kind not in "iu" or 0 in draws.shape:
        raise ValueError(
            f"draws should be whole numbers of shape (draws, points), got {getattr(draws, 'dtype', type(draws))} of "
            f"shape {getattr(draws, 'shape', ())}"
        )
    if points is not None and draws.shape[1] != points:
        raise ValueError(f"draws of {points:,} points were expected, got {draws.shape[1]:,} points")


def small_labels(draw: Any) -> IntArray:
    """One draw's labels, renumbered without gaps if large ones would make tables large."""
    labels = checked_labels(draw)
    return labels if n_labels(labels) <= MANY_LABELS else without_gaps(labels)


def without_gaps(labels: IntArray) -> IntArray:
    """The same clusters, numbered from 0 without gaps; outliers stay -1. O(N)."""
    numbers, names = numbered(labels)
    return np.asarray(numbers - int(names[0] < 0), np.int32)


def numbered(labels: IntArray) -> tuple[IntArray, IntArray]:
    """Labels from 0 without gaps, outliers first, and the original label of each. O(N)."""
    labels = checked_labels(labels)
    if labels.max() > 2 * len(labels):
        names, numbers = np.unique(labels, return_inverse=True)
        return numbers, names
    occurs = np.zeros(labels.max() + 2, bool)
    occurs[labels + 1] = True
    return (np.cumsum(occurs) - 1)[labels + 1], np.flatnonzero(occurs) - 1


def largest_first(labels: IntArray) -> IntArray:
    """The same clusters, numbered from 0 by decreasing size; outliers stay -1. O(N)."""
    return renumbered(labels, order_by_size(np.bincount(labels[labels >= 0])))


def order_by_size(sizes: Any) -> IntArray:
    """The numbers of clusters, the largest first."""
    return np.argsort(-sizes, kind="stable")


def renumbered(labels: IntArray, order: IntArray) -> IntArray:
    """Labels by the positions of their clusters in an order."""
    numbers = np.empty(len(order) + 1, labels.dtype)
    numbers[order] = np.arange(len(order))
    # The last entry is for -1.
    numbers[-1] = -1
    return np.asarray(numbers[labels])


def count_clusters(labels: IntArray) -> int:
    """The number of clusters, without the outliers. O(N)."""
    _, names = numbered(labels)
    return int((names >= 0).sum())


def n_labels(labels: IntArray) -> int:
    """One more than the largest label."""
    return int(labels.max()) + 1
