"""Categorical columns as a part of a linear family's points."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.families.categorical import kernels
from dpmmwrap.families.categorical.collapsed import CodeClusters
from dpmmwrap.families.linear.parts import Part, log_tables, read_only, sides_of
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, IntArray
from dpmmwrap.numerics.digests import rows_digest


class CodePart(Part):
    """Categorical columns, as codes that number the levels of all columns."""

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

    def draw_tables(self, posterior: Any, key: Any, clusters: int) -> tuple[Any, Float64Array]:
        drawn = posterior.draw_tables(key)
        return log_tables(drawn, clusters, by_feature=True), np.zeros(len(drawn))

    def add_scores(self, begin: int, end: int, tables: Any, scores: Float32Array) -> None:
        kernels.add_scores(self.codes[begin:end], tables.clusters, scores)

    def add_subcluster_scores(
        self, begin: int, end: int, rows: Any, starts: Any, tables: Any, logs: Float32Array
    ) -> None:
        kernels.add_pair_scores(self.codes[begin:end], rows, starts, *sides_of(starts), tables.subclusters, logs)

    def add_pair_scores(self, rows: IntArray, one: int, other: int, tables: Any, logs: Float32Array) -> None:
        pair = np.array([one]), np.array([other])
        kernels.add_pair_scores(self.codes, rows, np.array([0, len(rows)]), *pair, tables.clusters, logs)

    def add_statistics(
        self, begin: int, end: int, rows: Any, starts: Any, weights: Float64Array, sums: Float64Array
    ) -> None:
        kernels.add_statistics(self.codes[begin:end], rows, starts, weights, sums)
