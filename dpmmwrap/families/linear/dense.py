"""Compiled loops over dense rows whose log density is a product with a table (clusters, features), vectorised over
features."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.families.linear.parts import Part, read_only, sides_of
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, IntArray
from dpmmwrap.numerics.digests import rows_digest
from dpmmwrap.numerics.special import compiled


@compiled
def add_scores(X: Any, table: Any, scores: Any) -> None:
    """Add X (n, V) times the table (K, V) to the scores (n, K), in tiles of four rows by two clusters. O(n V K)."""
    rows, dim = X.shape
    count = scores.shape[1]
    whole, pairs = rows // 4 * 4, count // 2 * 2
    for i in range(0, whole, 4):
        x0, x1, x2, x3 = X[i], X[i + 1], X[i + 2], X[i + 3]
        for k in range(0, pairs, 2):
            one, two = table[k], table[k + 1]
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = np.float32(0)
            for v in range(dim):
                a0 += x0[v] * one[v]
                a1 += x1[v] * one[v]
                a2 += x2[v] * one[v]
                a3 += x3[v] * one[v]
                b0 += x0[v] * two[v]
                b1 += x1[v] * two[v]
                b2 += x2[v] * two[v]
                b3 += x3[v] * two[v]
            scores[i, k] += a0
            scores[i + 1, k] += a1
            scores[i + 2, k] += a2
            scores[i + 3, k] += a3
            scores[i, k + 1] += b0
            scores[i + 1, k + 1] += b1
            scores[i + 2, k + 1] += b2
            scores[i + 3, k + 1] += b3
        for k in range(pairs, count):
            for row in range(i, i + 4):
                scores[row, k] += _dot(X[row], table[k])
    for row in range(whole, rows):
        for k in range(count):
            scores[row, k] += _dot(X[row], table[k])


@compiled
def _dot(x: Any, line: Any) -> Any:
    total = np.float32(0)
    for v in range(len(x)):
        total += x[v] * line[v]
    return total


@compiled
def add_pair_scores(X: Any, rows: Any, starts: Any, first: Any, second: Any, table: Any, logs: Any) -> None:
    """Add the log densities of clusters first[g] and second[g] for the rows starts[g] to starts[g + 1]. O(n V)."""
    for group in range(len(first)):
        one, two = table[first[group]], table[second[group]]
        for at in range(starts[group], starts[group + 1]):
            x = X[rows[at]]
            a = b = np.float32(0)
            for v in range(len(x)):
                a += x[v] * one[v]
                b += x[v] * two[v]
            logs[at, 0] += a
            logs[at, 1] += b


@compiled
def add_statistics(X: Any, rows: Any, starts: Any, weights: Any, sums: Any) -> None:
    """Add the rows starts[g] to starts[g + 1] to sums[g], in float64 and by weight. O(n V)."""
    dim = X.shape[1]
    for group in range(len(starts) - 1):
        begin, end = starts[group], starts[group + 1]
        total = sums[group]
        if len(weights) > 0:
            for place in range(begin, end):
                x, weight = X[rows[place]], weights[rows[place]]
                for v in range(dim):
                    total[v] += weight * np.float64(x[v])
            continue
        whole = begin + (end - begin) // 4 * 4
        for at in range(begin, whole, 4):
            x0, x1, x2, x3 = X[rows[at]], X[rows[at + 1]], X[rows[at + 2]], X[rows[at + 3]]
            for v in range(dim):
                total[v] += (np.float64(x0[v]) + np.float64(x1[v])) + (np.float64(x2[v]) + np.float64(x3[v]))
        for at in range(whole, end):
            x = X[rows[at]]
            for v in range(dim):
                total[v] += np.float64(x[v])


class DensePart(Part):
    """Dense rows. Subclasses define the tables (`LogTables`)."""

    def __init__(self, X: Float32Array) -> None:
        self.X = read_only(X)
        self.width = X.shape[1]
        self.bytes_per_row = 4 * X.shape[1]

    @property
    def points(self) -> Any:
        return self.X

    def digest(self) -> str:
        return rows_digest(self.X)

    def add_scores(self, begin: int, end: int, tables: Any, scores: Float32Array) -> None:
        add_scores(self.X[begin:end], tables.clusters, scores)

    def add_subcluster_scores(
        self, begin: int, end: int, rows: Any, starts: Any, tables: Any, logs: Float32Array
    ) -> None:
        add_pair_scores(self.X[begin:end], rows, starts, *sides_of(starts), tables.subclusters, logs)

    def add_pair_scores(self, rows: IntArray, one: int, other: int, tables: Any, logs: Float32Array) -> None:
        pair = np.array([one]), np.array([other])
        add_pair_scores(self.X, rows, np.array([0, len(rows)]), *pair, tables.clusters, logs)

    def add_statistics(
        self, begin: int, end: int, rows: Any, starts: Any, weights: Float64Array, sums: Float64Array
    ) -> None:
        add_statistics(self.X[begin:end], rows, starts, weights, sums)
