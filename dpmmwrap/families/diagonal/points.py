"""Numeric columns with one variance each, or one for all, as a part of a linear family's points."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.families.diagonal import kernels
from dpmmwrap.families.diagonal.collapsed import NumericClusters
from dpmmwrap.families.linear.parts import Part, read_only
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, IntArray
from dpmmwrap.numerics.cells import has_missing
from dpmmwrap.numerics.digests import rows_digest


class NumericPart(Part):
    """Numeric columns with one variance each, or one for all. Missing values are NaN."""

    exact = True

    def __init__(self, X: Float32Array) -> None:
        self.X = read_only(X)
        self.bytes_per_row = 4 * max(X.shape[1], 1)
        self.expect(has_missing(X))

    def expect(self, missing: bool) -> None:
        """Set whether values are missing; if so, observed values are counted."""
        self.missing = missing
        self.width = (3 if missing else 2) * self.X.shape[1]

    def digest(self) -> str:
        return rows_digest(self.X)

    @property
    def points(self) -> Any:
        return self.X

    def bundle(self, prior: Any, counts: Float64Array, sums: Float64Array) -> Any:
        if not self.missing:
            # The compiled loops expect counts of observed values for each feature.
            sums = np.concatenate([sums, np.repeat(counts[:, None], self.X.shape[1], axis=1)], axis=1)
        tables, pooled = np.empty((len(counts), 4, self.X.shape[1])), np.empty((len(counts), 2))
        return NumericClusters(counts, sums, prior.fields, prior.tied, tables, pooled)

    def sums_of(self, bundle: Any, count: int) -> Float64Array:
        return np.ascontiguousarray(bundle.sums[:count, : self.width])

    def draw_tables(self, posterior: Any, key: Any, clusters: int) -> tuple[Any, Float64Array]:
        return posterior.draw_tables(key, self.missing)  # type: ignore[no-any-return]

    def add_scores(self, begin: int, end: int, tables: Any, scores: Float32Array) -> None:
        kernels.add_scores(self.X[begin:end], tables.factors, tables.offsets, tables.missing, scores)

    def add_subcluster_scores(
        self, begin: int, end: int, rows: Any, starts: Any, tables: Any, logs: Float32Array
    ) -> None:
        clusters = len(starts) - 1
        first = np.arange(clusters, 3 * clusters, 2)
        kernels.add_pair_scores(
            self.X[begin:end], rows, starts, first, first + 1, tables.factors, tables.offsets, tables.missing, logs
        )

    def add_pair_scores(self, rows: IntArray, one: int, other: int, tables: Any, logs: Float32Array) -> None:
        kernels.add_pair_scores(
            self.X, rows, np.array([0, len(rows)]), np.array([one]), np.array([other]), tables.factors,
            tables.offsets, tables.missing, logs,
        )  # fmt: skip

    def add_statistics(
        self, begin: int, end: int, rows: Any, starts: Any, weights: Float64Array, sums: Float64Array
    ) -> None:
        kernels.add_statistics(self.X[begin:end], rows, starts, self.missing, weights, sums)
