"""Distances between partitions, and the partition that represents the draws best.

Both losses are sums over a contingency table: with n_k the sizes of one partition's clusters, m_l of the other's and
n_kl of their overlaps, the loss is sum f(n_k) + sum f(m_l) - 2 sum f(n_kl), divided by

- N for the variation of information ("vi", Meila 2007), in nats, where f(n) = n log n;
- the number of pairs for Binder's loss ("binder"), where f(n) = n (n - 1) / 2: the share of pairs of points that are
  together in one partition and apart in the other.

Outliers (-1) are a class like any other here.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.numerics.special import compiled
from dpmmwrap.posterior.matching import (
    check_draws,
    checked_labels,
    largest_first,
    n_labels,
    small_labels,
    unchecked_table,
)
from dpmmwrap.posterior.search import read_draws, search

Loss: TypeAlias = Literal["vi", "binder"]

SMALL_TABLE = 100_000
"""Contingency tables with no more cells are always dense."""
TILE = 256
"""Rows and columns of the tiles in which pairs of points are counted, and draws at a time."""


class Representative(NamedTuple):
    """The best partition that the search found."""

    labels: IntArray
    """From 0 in order of decreasing size (N,), int32. A cluster most of whose labels in the draws are -1 is -1."""
    n_clusters: int
    """Without the outliers."""
    expected_loss: float
    """The mean over the draws that the search used."""
    loss: Loss
    n_draws: int
    """The number of draws that the search used."""


def distances(labels: IntArray, draws: IntArray, loss: Loss = "vi") -> Float64Array:
    """The loss between one partition and each draw (M,). O(N) a draw, one draw at a time."""
    check_loss(loss)
    labels = small_labels(labels)
    check_draws(draws, len(labels))
    clusters = n_labels(labels)
    return np.array([loss_between(small_labels(draw), labels, clusters, loss) for draw in draws])


def expected_loss(candidate: IntArray, draws: IntArray, loss: Loss = "vi") -> float:
    """The mean over draws of the loss between a partition and a draw. O(N) a draw."""
    return float(distances(candidate, draws, loss).mean())


def loss_between(one: IntArray, other: IntArray, n_other: int, loss: Loss) -> float:
    """The loss between two partitions."""
    if (n_labels(one) + 1) * (n_other + 1) <= len(one) + SMALL_TABLE:
        table = unchecked_table(one, other, n_other)
        rows, columns = table.sum(axis=1), table.sum(axis=0)
    else:
        # Nearly all pairs of many clusters are empty: count those that occur.
        table = np.unique(one.astype(np.int64) * (n_other + 1) + other, return_counts=True)[1]
        rows, columns = np.bincount(one + 1), np.bincount(other + 1)
    total = summed(rows, loss) + summed(columns, loss) - 2 * summed(table, loss)
    return max(total / (len(one) if loss == "vi" else max(len(one) * (len(one) - 1) / 2, 1)), 0.0)


def summed(counts: IntArray, loss: Loss) -> float:
    """The sum of f over counts."""
    positive = counts[counts > 0].astype(np.float64)
    return float((positive * np.log(positive)).sum() if loss == "vi" else (positive * (positive - 1)).sum() / 2)


def check_loss(loss: str) -> None:
    if loss not in ("vi", "binder"):
        raise ValueError(f"loss should be 'vi' or 'binder', got {loss!r}")


def representative(draws: IntArray, loss: Loss = "vi", seed: int = 0) -> Representative:
    """The partition of least expected loss with no more clusters than the largest draw, by a greedy search.

    The search begins with the best of the draws, and with partitions that are built point by point in random order.
    Each point in turn moves to the cluster, or to a new one, where the expected loss is least, and clusters are merged
    if that lowers it, until nothing changes. It uses at most 400 draws, evenly spaced, and fewer if there are many
    points: O(N S K) per sweep over S draws. On the way, it allows half as many clusters again as the largest draw, or
    8 more: Binder's loss favours clusters of single uncertain points.
    """
    check_loss(loss)
    check_draws(draws)
    data = read_draws(draws, *tabulated(draws.shape[1], loss))
    best = search(data, seed)
    # Clusters in which most of the points' labels in the draws are -1.
    outlying = best.counts[data.outliers].sum(axis=0) > 0.5 * len(data.draws) * best.sizes
    candidates = [np.where(outlying[best.labels], -1, best.labels)]
    # Draws with too many clusters for the search.
    candidates += [np.asarray(draws[draw]) for draw in data.beyond]
    expected = [
        float(np.mean([distances(labels, draws[[draw]], loss) for draw in data.draws])) for labels in candidates
    ]
    least = int(np.argmin(expected))
    labels = largest_first(candidates[least]).astype(np.int32)
    return Representative(labels, n_labels(labels), expected[least], loss, len(data.draws))


def tabulated(points: int, loss: Loss) -> tuple[Float64Array, Float64Array]:
    """f(0), ..., f(N), and f(n + 1) - f(n) for n from 0."""
    n = np.arange(1.0, points + 1)
    if loss == "binder":
        return np.append(0.0, n * (n - 1) / 2), np.append(0.0, n)
    # Not as a difference of large numbers: n log(1 + 1/n) + log(n + 1).
    return np.append(0.0, n * np.log(n)), np.append(0.0, n * np.log1p(1 / n) + np.log(n + 1))


def coclustering(draws: IntArray, rows: IntArray | None = None) -> Float64Array:
    """The share of draws in which two points are in one cluster, for some rows (R, R) or for all (N, N).

    Outliers are in no cluster: each is together with itself only. O(R^2) a draw.
    """
    check_draws(draws)
    points = np.arange(draws.shape[1], dtype=np.int32)
    points = points if rows is None else points[rows]
    together = np.zeros((len(points), len(points)))
    for begin in range(0, len(draws), TILE):
        labels = np.array([checked_labels(draw)[points] for draw in draws[begin : begin + TILE]])
        # Each outlier gets its own label.
        count_together(np.where(labels < 0, -1 - points, labels), together)
    together /= len(draws)
    return together


@compiled
def count_together(labels: Any, together: Any) -> None:
    """Add the draws (S, R) in which two points have the same label. O(S R^2), in tiles that stay in the cache."""
    counts = np.empty((TILE, TILE), np.int32)
    for top in range(0, len(together), TILE):
        height = min(TILE, len(together) - top)
        for left in range(0, top + 1, TILE):
            width = min(TILE, len(together) - left)
            counts[:] = 0
            for draw in range(len(labels)):
                for i in range(height):
                    add_equal(labels[draw, left : left + width], labels[draw, top + i], counts[i])
            for i in range(height):
                for j in range(width):
                    together[top + i, left + j] += counts[i, j]
                    if left < top:
                        together[left + j, top + i] += counts[i, j]


@compiled
def add_equal(labels: Any, label: Any, counts: Any) -> None:
    """Count the points with this label, many at once."""
    for j in range(len(labels)):
        counts[j] += np.int32(labels[j] == label)
