"""The kinds of columns of linear families and the loops that each provides."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.arrays import Float32Array, Float64Array, IntArray


class Part(ABC):
    """One kind of columns with its loops."""

    exact: bool = False
    """Whether its bundle has loops (`families.collapsed`), so that exact moves are possible."""
    bytes_per_row: int
    width: int
    """Number of sums of features that it keeps."""
    sum_type: Any = np.float64
    """The type of the sums: one in which they are exact, or double precision."""

    def expect(self, missing: bool) -> None:  # noqa: B027
        """Set whether values are missing anywhere, if these are only some of the rows."""

    @abstractmethod
    def draw_tables(self, posterior: Any, key: Any, clusters: int) -> tuple[Any, Float64Array]:
        """Parameters of K clusters, and of their 2K subclusters if the posterior has them, as the loops take them, and
        the constants of the log densities."""

    def search_tables(self, posterior: Any, key: Any, clusters: int) -> tuple[Any, Float64Array]:
        """Parameters for the search, which need not be drawn."""
        return self.draw_tables(posterior, key, clusters)

    def tables_for_merges(self, tables: Any) -> Any:
        """The part of these tables that `add_pair_scores` needs."""
        return tables

    @abstractmethod
    def add_scores(self, begin: int, end: int, tables: Any, scores: Float32Array) -> None:
        """Add the log densities (n, K) of the rows `begin` to `end`."""

    @abstractmethod
    def add_subcluster_scores(
        self, begin: int, end: int, rows: Any, starts: Any, tables: Any, logs: Float32Array
    ) -> None:
        """Add the log densities (n, 2) of each row's subclusters, for rows ordered by cluster."""

    @abstractmethod
    def add_pair_scores(self, rows: IntArray, one: int, other: int, tables: Any, logs: Float32Array) -> None:
        """Add the log densities (n, 2) of two clusters for arbitrary rows."""

    @abstractmethod
    def add_statistics(
        self, begin: int, end: int, rows: Any, starts: Any, weights: Float64Array, sums: Float64Array
    ) -> None:
        """Add the features of rows, ordered by group, to the sums of their group. `weights` belong to the rows `begin`
        to `end`, or are empty."""

    @property
    @abstractmethod
    def points(self) -> Any:
        """The points as compiled loops take them."""

    def bundle(self, prior: Any, counts: Float64Array, sums: Float64Array) -> Any:
        """Clusters with integrated parameters, from their sums."""
        raise NotImplementedError

    def sums_of(self, bundle: Any, count: int) -> Float64Array:
        """The sums of the first `count` clusters of a bundle."""
        return np.array(bundle.sums[:count])

    @abstractmethod
    def digest(self) -> str:
        """A digest that identifies the data."""


def read_only(array: Any) -> Any:
    """A read-only view, so that the kernels are compiled once for arrays and memory maps."""
    array = array.view(np.ndarray)
    array.setflags(write=False)
    return array


class LogTables(NamedTuple):
    """Drawn log proportions minus what all clusters, or both subclusters, have in common: (features, clusters), or
    transposed for dense counts."""

    clusters: Float32Array
    subclusters: Float32Array


def log_tables(log_proportions: Float32Array, clusters: int, by_feature: bool) -> LogTables:
    """Tables of clusters and subclusters from the log proportions of both; the input is overwritten."""
    own, halves = log_proportions[:clusters], log_proportions[clusters:]
    # A term common to all clusters changes no label but costs precision.
    own -= own.mean(axis=0)
    left, right = halves[0::2], halves[1::2]
    middle = left + right
    middle *= 0.5
    left -= middle
    right -= middle
    del middle
    if by_feature:
        return LogTables(np.ascontiguousarray(own.T), np.ascontiguousarray(halves.T))
    return LogTables(own, halves)


def sides_of(starts: Any) -> tuple[IntArray, IntArray]:
    """The table columns of each cluster's left and right subcluster."""
    first = np.arange(0, 2 * (len(starts) - 1), 2)
    return first, first + 1
