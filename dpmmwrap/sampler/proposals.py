"""Choices that exact moves make before they look at labels: rows, pairs of rows, and the division of a pair's
points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.numerics.cells import Embedder, thread_pools
from dpmmwrap.sampler.kernels import exact

if TYPE_CHECKING:
    from dpmmwrap.sampler.data import Data

ANCHORS, NEIGHBOURS = 2000, 20
"""Number of points from which near pairs are chosen, and number of neighbours of each."""
MOST_SEEDS, SEARCHED = 1000, 20_000
"""Number of likely seeds added to them for draws, and number of points among which their neighbours are searched."""


class Proposal(Protocol):
    """A division of points between two of them, with a known probability."""

    def divide(
        self, points: Any, scratch: Any, rows: IntArray, sides: IntArray, key: Any, draw: bool, log_begun: Any = None
    ) -> float:
        """Log probability of `sides` for `rows`, the first two of which start the two sides. With `draw` the sides are
        drawn first. The statistics of the sides are left in the first two clusters of `scratch`. If kept clusters have
        started the sides, `log_begun` is the log probability of that.

        It may use the points, the rows and the key, but never the labels.
        """


class SequentialAllocation:
    """Allocate one point after the other by the predictives of the sides so far, then blocks of doubling size."""

    def divide(
        self, points: Any, scratch: Any, rows: IntArray, sides: IntArray, key: Any, draw: bool, log_begun: Any = None
    ) -> float:
        begun = log_begun is not None
        found = float(exact.allocate(scratch, points, rows, sides, key, draw, exact.ONE_BY_ONE, begun))
        return found + log_begun if begun else found


class ClusterSeeds(NamedTuple):
    """Rows that are likely to start a cluster, and their cumulative shares."""

    rows: IntArray
    cumulative: Float64Array


NO_CLUSTER_SEEDS = ClusterSeeds(np.empty(0, np.int64), np.empty(0))


class Near(NamedTuple):
    """Points and their neighbours, from which near pairs are chosen. Fixed before a chain, or its draws, start."""

    rows: IntArray
    cumulative: Float64Array
    """Cumulative probabilities of the first row of a pair."""
    neighbours: IntArray
    """Row numbers of each row's neighbours (A, NEIGHBOURS)."""

    @classmethod
    def of(cls, data: Data, embed: Embedder) -> Near:
        """Some points of the data, equally likely."""
        rows = some_rows(data.n_rows, ANCHORS)
        return cls(rows, np.arange(1, len(rows) + 1) / len(rows), neighbours_of(rows, rows, data, embed))

    def joined(self, cluster_seeds: ClusterSeeds, data: Data, embed: Embedder) -> Near:
        """Add likely seeds, around which small clusters come and go. Half of the pairs start at one of them."""
        shares = np.diff(cluster_seeds.cumulative, prepend=0.0)
        first = np.argsort(-shares, kind="stable")[:MOST_SEEDS]
        first = first[shares[first] > 0]
        rows, shares = cluster_seeds.rows[first], shares[first]
        theirs = neighbours_of(rows, some_rows(data.n_rows, SEARCHED), data, embed)
        width = min(theirs.shape[1], self.neighbours.shape[1])
        cumulative = np.concatenate([0.5 * self.cumulative, 0.5 + 0.5 * np.cumsum(shares) / shares.sum()])
        neighbours = np.concatenate([self.neighbours[:, :width], theirs[:, :width]])
        return Near(np.concatenate([self.rows, rows]), cumulative, neighbours)


class NearPairs:
    """Near pairs, computed once for all chains over the same points."""

    def __init__(self) -> None:
        self._points: Any = None
        self._near: Near | None = None

    def of(self, points: Any, data: Data, embed: Embedder) -> Near:
        if self._near is None or points is not self._points:
            self._points, self._near = points, Near.of(data, embed)
        return self._near


NO_NEAR = Near(NO_CLUSTER_SEEDS.rows, NO_CLUSTER_SEEDS.cumulative, np.empty((0, 0), np.int64))


def some_rows(n_rows: int, most: int) -> IntArray:
    """At most this many row numbers, in order and always the same."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False))


def neighbours_of(rows: IntArray, among: IntArray, data: Data, embed: Embedder) -> IntArray:
    """The nearest rows in `among` to each of `rows` (A, NEIGHBOURS)."""
    from sklearn import config_context
    from sklearn.neighbors import NearestNeighbors

    # With more threads than idle cores, threads wait for each other. The working memory limits sparse distances to 8
    # MB.
    with thread_pools().limit(limits=1), config_context(working_memory=8):
        near = NearestNeighbors(n_neighbors=min(NEIGHBOURS + 1, len(among))).fit(embed(data.take(among)))
        nearest = near.kneighbors(embed(data.take(rows)), return_distance=False)
    # The nearest neighbour of a point is itself, or a duplicate.
    return np.asarray(among[nearest[:, 1:]])
