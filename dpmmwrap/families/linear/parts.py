"""The kinds of columns of linear families, each with its loops: numeric ones, counts (dense or sparse), categories."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from dpmmwrap.families.base import Points
from dpmmwrap.families.collapsed import CodeClusters, CountClusters, NumericClusters
from dpmmwrap.families.diagonal import kernels as numeric_loops
from dpmmwrap.families.diagonal.prior import has_missing
from dpmmwrap.families.multinomial import kernels as count_loops
from dpmmwrap.families.multinomial.kernels import SparseRows
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, IntArray
from dpmmwrap.numerics.digests import digest, rows_digest


class Part(Protocol):
    """A kind of columns, with the loops over them."""

    exact: bool
    """Whether `kernels.collapsed` knows it, so that exact moves can be made."""
    bytes_per_row: int
    width: int
    """Sums of features that it keeps."""

    def draw_tables(self, posterior: Any, key: Any, clusters: int) -> tuple[Any, Float64Array]:
        """Parameters of K clusters, and of their 2K subclusters if the posterior has them, as the loops take them, and
        the log densities' constants."""

    def search_tables(self, posterior: Any, key: Any, clusters: int) -> tuple[Any, Float64Array]:
        """The same for the search, which need not be drawn."""

    def add_scores(self, begin: int, end: int, tables: Any, scores: Float32Array) -> None:
        """Add the log densities (n, K) of the rows begin to end."""

    def add_subcluster_scores(
        self, begin: int, end: int, rows: Any, starts: Any, tables: Any, logs: Float32Array
    ) -> None:
        """Add the log densities (n, 2) of each row's subclusters, for rows in order of their cluster."""

    def add_pair_scores(self, rows: IntArray, one: int, other: int, tables: Any, logs: Float32Array) -> None:
        """Add the log densities (n, 2) of two clusters for any rows."""

    def add_statistics(self, begin: int, end: int, rows: Any, starts: Any, sums: Float64Array) -> None:
        """Add the features of rows in order of their group to that group's sums."""

    @property
    def points(self) -> Any:
        """As compiled loops take them."""

    def bundle(self, prior: Any, counts: Float64Array, sums: Float64Array) -> Any:
        """Clusters with their parameters integrated out, from their sums."""

    def sums_of(self, bundle: Any, count: int) -> Float64Array:
        """The sums of the first clusters of a bundle."""

    def digest(self) -> str:
        """A word that no other data have."""


def make_parts(X: Points, prior: Any, missing: bool | None = None) -> list[Part]:
    """The kinds of columns that a family's points have; of some rows, `missing` says whether any of all have gaps."""
    parts = PARTS[prior.family](X, prior)
    for part in parts:
        if missing is not None and isinstance(part, NumericPart):
            part.expect(missing)
    return parts


def parts_of(posterior: Any) -> list[Any]:
    """The posterior of each part, in the order of `make_parts`."""
    return list(posterior.parts) if hasattr(posterior, "parts") else [posterior]


def read_only(array: Any) -> Any:
    """Always read-only: the kernels are then compiled once, for arrays and memory maps alike."""
    array = array.view(np.ndarray)
    array.setflags(write=False)
    return array


class NumericPart:
    """Numeric columns with a variance each, or one for all; NaN stands for a missing value."""

    exact = True

    def __init__(self, X: Float32Array) -> None:
        self.X = read_only(X)
        self.bytes_per_row = 4 * max(X.shape[1], 1)
        self.expect(has_missing(X))

    def expect(self, missing: bool) -> None:
        """Whether values are missing: then those that are observed are counted."""
        self.missing = missing
        self.width = (3 if missing else 2) * self.X.shape[1]

    def digest(self) -> str:
        return rows_digest(self.X)

    @property
    def points(self) -> Any:
        return self.X

    def bundle(self, prior: Any, counts: Float64Array, sums: Float64Array) -> Any:
        if not self.missing:
            # The loops count observed values feature by feature.
            sums = np.concatenate([sums, np.repeat(counts[:, None], self.X.shape[1], axis=1)], axis=1)
        tables, pooled = np.empty((len(counts), 4, self.X.shape[1])), np.empty((len(counts), 2))
        return NumericClusters(counts, sums, prior.fields, prior.tied, tables, pooled)

    def sums_of(self, bundle: Any, count: int) -> Float64Array:
        return np.ascontiguousarray(bundle.sums[:count, : self.width])

    def draw_tables(self, posterior: Any, key: Any, clusters: int) -> tuple[Any, Float64Array]:
        return posterior.draw_tables(key, self.missing)  # type: ignore[no-any-return]

    search_tables = draw_tables

    def add_scores(self, begin: int, end: int, tables: Any, scores: Float32Array) -> None:
        numeric_loops.add_scores(self.X[begin:end], tables.factors, tables.offsets, tables.missing, scores)

    def add_subcluster_scores(
        self, begin: int, end: int, rows: Any, starts: Any, tables: Any, logs: Float32Array
    ) -> None:
        clusters = len(starts) - 1
        first = np.arange(clusters, 3 * clusters, 2)
        numeric_loops.add_pair_scores(
            self.X[begin:end], rows, starts, first, first + 1, tables.factors, tables.offsets, tables.missing, logs
        )

    def add_pair_scores(self, rows: IntArray, one: int, other: int, tables: Any, logs: Float32Array) -> None:
        numeric_loops.add_pair_scores(
            self.X, rows, np.array([0, len(rows)]), np.array([one]), np.array([other]), tables.factors,
            tables.offsets, tables.missing, logs,
        )  # fmt: skip

    def add_statistics(self, begin: int, end: int, rows: Any, starts: Any, sums: Float64Array) -> None:
        numeric_loops.add_statistics(self.X[begin:end], rows, starts, self.missing, sums)


class CountTables(NamedTuple):
    """Drawn log proportions, less what all clusters (both subclusters) share: (features, clusters), or the other way
    round for dense counts."""

    clusters: Float32Array
    subclusters: Float32Array


def count_tables(log_proportions: Float32Array, clusters: int, by_feature: bool) -> CountTables:
    own, halves = log_proportions[:clusters], log_proportions[clusters:]
    # What is the same for all changes no label, but costs digits.
    own = own - own.mean(axis=0)
    middle = 0.5 * (halves[0::2] + halves[1::2])
    halves = halves - np.repeat(middle, 2, axis=0)
    if by_feature:
        return CountTables(np.ascontiguousarray(own.T), np.ascontiguousarray(halves.T))
    return CountTables(own, halves)


def count_clusters(prior: Any, counts: Float64Array, sums: Float64Array) -> CountClusters:
    return CountClusters(counts, sums, sums.sum(axis=1), prior.concentration, float(prior.concentration.sum()))


def sides_of(starts: Any) -> tuple[IntArray, IntArray]:
    """The columns of each cluster's left and right subcluster."""
    first = np.arange(0, 2 * (len(starts) - 1), 2)
    return first, first + 1


class CountPart:
    """Rows of counts."""

    exact = True
    by_feature: ClassVar[bool]
    """Whether tables are (features, clusters)."""
    X: Any

    @property
    def points(self) -> Any:
        return self.X

    def bundle(self, prior: Any, counts: Float64Array, sums: Float64Array) -> Any:
        return count_clusters(prior, counts, sums)

    def sums_of(self, bundle: Any, count: int) -> Float64Array:
        return np.array(bundle.sums[:count])

    def draw_tables(self, posterior: Any, key: Any, clusters: int) -> tuple[Any, Float64Array]:
        drawn = posterior.draw_tables(key)
        return count_tables(drawn, clusters, self.by_feature), np.zeros(len(drawn))

    def search_tables(self, posterior: Any, key: Any, clusters: int) -> tuple[Any, Float64Array]:
        """The search takes the expected proportions of a cluster, not drawn ones: a draw for a word that a cluster has
        never seen is many nats below its mean, and a document with one such word could never join."""
        expected = posterior.expected_tables()
        return count_tables(expected, clusters, self.by_feature), np.zeros(len(expected))


class DenseCountPart(CountPart):
    """Dense rows of counts."""

    by_feature = False

    def __init__(self, X: Float32Array) -> None:
        self.X = read_only(X)
        self.width = X.shape[1]
        self.bytes_per_row = 4 * X.shape[1]

    def digest(self) -> str:
        return rows_digest(self.X)

    def add_scores(self, begin: int, end: int, tables: Any, scores: Float32Array) -> None:
        count_loops.add_dense_scores(self.X[begin:end], tables.clusters, scores)

    def add_subcluster_scores(
        self, begin: int, end: int, rows: Any, starts: Any, tables: Any, logs: Float32Array
    ) -> None:
        count_loops.add_dense_pair_scores(self.X[begin:end], rows, starts, *sides_of(starts), tables.subclusters, logs)

    def add_pair_scores(self, rows: IntArray, one: int, other: int, tables: Any, logs: Float32Array) -> None:
        pair = np.array([one]), np.array([other])
        count_loops.add_dense_pair_scores(self.X, rows, np.array([0, len(rows)]), *pair, tables.clusters, logs)

    def add_statistics(self, begin: int, end: int, rows: Any, starts: Any, sums: Float64Array) -> None:
        count_loops.add_dense_statistics(self.X[begin:end], rows, starts, sums)


class SparseCountPart(CountPart):
    """Sparse rows of counts: never made dense."""

    by_feature = True

    def __init__(self, X: Any) -> None:
        starts, columns = (np.ascontiguousarray(array) for array in (X.indptr, X.indices))
        self.X = SparseRows(read_only(starts), read_only(columns), read_only(X.data.astype(np.float32, copy=False)))
        self.width = X.shape[1]
        self.bytes_per_row = max(4, 8 * X.nnz // max(X.shape[0], 1))

    def digest(self) -> str:
        return " ".join(digest(array) for array in self.X)

    def add_scores(self, begin: int, end: int, tables: Any, scores: Float32Array) -> None:
        count_loops.add_sparse_scores(self.X, begin, tables.clusters, scores)

    def add_subcluster_scores(
        self, begin: int, end: int, rows: Any, starts: Any, tables: Any, logs: Float32Array
    ) -> None:
        count_loops.add_sparse_pair_scores(self.X, begin, rows, starts, *sides_of(starts), tables.subclusters, logs)

    def add_pair_scores(self, rows: IntArray, one: int, other: int, tables: Any, logs: Float32Array) -> None:
        pair = np.array([one]), np.array([other])
        count_loops.add_sparse_pair_scores(self.X, 0, rows, np.array([0, len(rows)]), *pair, tables.clusters, logs)

    def add_statistics(self, begin: int, end: int, rows: Any, starts: Any, sums: Float64Array) -> None:
        count_loops.add_sparse_statistics(self.X, begin, rows, starts, sums)


class CodePart:
    """Categorical columns, as codes over all columns' levels."""

    exact = True

    def __init__(self, codes: IntArray, levels: int) -> None:
        self.codes = read_only(codes)
        self.width = levels
        self.bytes_per_row = 4 * codes.shape[1]

    def digest(self) -> str:
        return rows_digest(self.codes)

    @property
    def points(self) -> Any:
        return self.codes

    def bundle(self, prior: Any, counts: Float64Array, sums: Float64Array) -> Any:
        return CodeClusters(counts, sums, prior.concentration, prior.edges, np.empty_like(sums))

    def sums_of(self, bundle: Any, count: int) -> Float64Array:
        return np.array(bundle.sums[:count])

    def draw_tables(self, posterior: Any, key: Any, clusters: int) -> tuple[Any, Float64Array]:
        drawn = posterior.draw_tables(key)
        return count_tables(drawn, clusters, by_feature=True), np.zeros(len(drawn))

    search_tables = draw_tables

    def add_scores(self, begin: int, end: int, tables: Any, scores: Float32Array) -> None:
        count_loops.add_code_scores(self.codes[begin:end], tables.clusters, scores)

    def add_subcluster_scores(
        self, begin: int, end: int, rows: Any, starts: Any, tables: Any, logs: Float32Array
    ) -> None:
        count_loops.add_code_pair_scores(
            self.codes[begin:end], rows, starts, *sides_of(starts), tables.subclusters, logs
        )

    def add_pair_scores(self, rows: IntArray, one: int, other: int, tables: Any, logs: Float32Array) -> None:
        pair = np.array([one]), np.array([other])
        count_loops.add_code_pair_scores(self.codes, rows, np.array([0, len(rows)]), *pair, tables.clusters, logs)

    def add_statistics(self, begin: int, end: int, rows: Any, starts: Any, sums: Float64Array) -> None:
        count_loops.add_code_statistics(self.codes[begin:end], rows, starts, sums)


PARTS: dict[str, Callable[[Any, Any], list[Part]]] = {
    "diag": lambda X, prior: [NumericPart(X)],
    "spherical": lambda X, prior: [NumericPart(X)],
    "multinomial": lambda X, prior: [SparseCountPart(X) if hasattr(X, "indptr") else DenseCountPart(X)],
    "mixed": lambda X, prior: [NumericPart(X.numeric), CodePart(X.codes, prior.levels_total)],
}
"""The parts of each linear family's points; a new family is entered here."""
