"""Rows of counts, dense or sparse, as a part of a linear family's points."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from dpmmwrap.families.linear.dense import DensePart
from dpmmwrap.families.linear.parts import LogTables, Part, log_tables, read_only, sides_of
from dpmmwrap.families.multinomial import kernels
from dpmmwrap.families.multinomial.collapsed import CountClusters, SparseCountClusters
from dpmmwrap.families.multinomial.kernels import SparseRows
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, IntArray
from dpmmwrap.numerics.digests import digest

WHOLE_FLOAT32 = 2.0**24
"""All integers up to this one are exact in single precision."""


class CountPart(Part):
    """Rows of counts."""

    exact = True
    by_feature: ClassVar[bool]
    """Whether tables are (features, clusters)."""
    bundle_kind: ClassVar[type[Any]]

    def bundle(self, prior: Any, counts: Float64Array, sums: Float64Array) -> Any:
        whole = float(prior.concentration.sum())
        return self.bundle_kind(counts, sums, sums.sum(axis=1, dtype=np.float64), prior.concentration, whole)

    def draw_tables(self, posterior: Any, key: Any, clusters: int) -> tuple[Any, Float64Array]:
        drawn = posterior.draw_tables(key)
        return log_tables(drawn, clusters, self.by_feature), np.zeros(len(drawn))

    def search_tables(self, posterior: Any, key: Any, clusters: int) -> tuple[Any, Float64Array]:
        """The search uses the expected proportions of a cluster. A drawn log proportion of a word that the cluster has
        not seen lies many nats below its mean, and a document with one such word could never join."""
        tables = posterior.expected_tables(clusters)
        if not self.by_feature:
            tables = (np.ascontiguousarray(table.T) for table in tables)
        return LogTables(*tables), np.zeros(3 * clusters)


class DenseCountPart(DensePart, CountPart):
    """Dense rows of counts."""

    by_feature = False
    bundle_kind = CountClusters


class SparseCountPart(CountPart):
    """Sparse rows of counts, which are never converted to dense ones."""

    by_feature = True
    bundle_kind = SparseCountClusters
    X: SparseRows

    def __init__(self, X: Any) -> None:
        starts, columns = (np.ascontiguousarray(array) for array in (X.indptr, X.indices))
        self.X = SparseRows(read_only(starts), read_only(columns), read_only(X.data.astype(np.float32, copy=False)))
        self.width = X.shape[1]
        self.bytes_per_row = max(4, 8 * X.nnz // max(X.shape[0], 1))
        self.sum_type = exact_type(X)

    @property
    def points(self) -> Any:
        return self.X

    def tables_for_merges(self, tables: LogTables) -> LogTables:
        # With many thousand columns the tables of the subclusters are the largest arrays of a fit.
        return tables._replace(subclusters=np.empty((0, 0), np.float32))

    def digest(self) -> str:
        return " ".join(digest(array) for array in self.X)

    def add_scores(self, begin: int, end: int, tables: Any, scores: Float32Array) -> None:
        kernels.add_sparse_scores(self.X, begin, tables.clusters, scores)

    def add_subcluster_scores(
        self, begin: int, end: int, rows: Any, starts: Any, tables: Any, logs: Float32Array
    ) -> None:
        kernels.add_sparse_pair_scores(self.X, begin, rows, starts, *sides_of(starts), tables.subclusters, logs)

    def add_pair_scores(self, rows: IntArray, one: int, other: int, tables: Any, logs: Float32Array) -> None:
        pair = np.array([one]), np.array([other])
        kernels.add_sparse_pair_scores(self.X, 0, rows, np.array([0, len(rows)]), *pair, tables.clusters, logs)

    def add_statistics(
        self, begin: int, end: int, rows: Any, starts: Any, weights: Float64Array, sums: Float64Array
    ) -> None:
        kernels.add_sparse_statistics(self.X, begin, rows, starts, weights, sums)


def exact_type(X: Any) -> Any:
    """The smallest type in which all sums of sparse rows are exact: usually single precision, which halves the memory
    for the statistics of many thousand columns."""
    largest = np.asarray(X.sum(axis=0, dtype=np.float64)).max(initial=0.0)
    whole = largest < WHOLE_FLOAT32 and bool((X.data == np.floor(X.data)).all())
    return np.float32 if whole else np.float64


def count_part(X: Any) -> CountPart:
    return SparseCountPart(X) if hasattr(X, "indptr") else DenseCountPart(X)
