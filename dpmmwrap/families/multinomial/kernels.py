"""Counts and categories, compiled by numba: a point's log density is a sum of log proportions.

For dense counts a table is (clusters, features), and features lie along the vector lanes; for sparse counts and
categories it is (features, clusters), and clusters do. Sparse rows cost what they hold.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.special import compiled


class SparseRows(NamedTuple):
    """A sparse matrix by rows (CSR), as the loops take it."""

    starts: Any
    columns: Any
    values: Any


@compiled
def add_dense_scores(X: Any, table: Any, scores: Any) -> None:
    """Add X (n, V) times the table (K, V) to the scores (n, K). Four rows by two clusters at a time. O(n V K)."""
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
def add_dense_pair_scores(X: Any, rows: Any, starts: Any, first: Any, second: Any, table: Any, logs: Any) -> None:
    """Add the log densities of two clusters, first[g] and second[g], for rows starts[g] to starts[g + 1]. O(n V)."""
    for group in range(len(first)):
        one, two = table[first[group]], table[second[group]]
        for place in range(starts[group], starts[group + 1]):
            x = X[rows[place]]
            a = b = np.float32(0)
            for v in range(len(x)):
                a += x[v] * one[v]
                b += x[v] * two[v]
            logs[place, 0] += a
            logs[place, 1] += b


@compiled
def add_dense_statistics(X: Any, rows: Any, starts: Any, sums: Any) -> None:
    """Add the rows starts[g] to starts[g + 1] to sums[g], in float64. O(n V)."""
    dim = X.shape[1]
    for group in range(len(starts) - 1):
        begin, end = starts[group], starts[group + 1]
        total = sums[group]
        whole = begin + (end - begin) // 4 * 4
        for place in range(begin, whole, 4):
            x0, x1, x2, x3 = X[rows[place]], X[rows[place + 1]], X[rows[place + 2]], X[rows[place + 3]]
            for v in range(dim):
                total[v] += (np.float64(x0[v]) + np.float64(x1[v])) + (np.float64(x2[v]) + np.float64(x3[v]))
        for place in range(whole, end):
            x = X[rows[place]]
            for v in range(dim):
                total[v] += np.float64(x[v])


@compiled
def add_sparse_scores(X: Any, begin: Any, table: Any, scores: Any) -> None:
    """The same of a chunk's rows, from row `begin` on, of a sparse matrix. O(entries K)."""
    for i in range(len(scores)):
        own = scores[i]
        for entry in range(X.starts[begin + i], X.starts[begin + i + 1]):
            value, line = X.values[entry], table[X.columns[entry]]
            for k in range(len(own)):
                own[k] += value * line[k]


@compiled
def add_sparse_pair_scores(
    X: Any, begin: Any, rows: Any, starts: Any, first: Any, second: Any, table: Any, logs: Any
) -> None:
    """The same of rows, counted from row `begin` on, of a sparse matrix. O(entries)."""
    for group in range(len(first)):
        i, j = first[group], second[group]
        for place in range(starts[group], starts[group + 1]):
            row = begin + rows[place]
            a = b = np.float32(0)
            for entry in range(X.starts[row], X.starts[row + 1]):
                value, line = X.values[entry], table[X.columns[entry]]
                a += value * line[i]
                b += value * line[j]
            logs[place, 0] += a
            logs[place, 1] += b


@compiled
def add_sparse_statistics(X: Any, begin: Any, rows: Any, starts: Any, sums: Any) -> None:
    """The same of rows, counted from row `begin` on, of a sparse matrix. O(entries)."""
    for group in range(len(starts) - 1):
        total = sums[group]
        for place in range(starts[group], starts[group + 1]):
            row = begin + rows[place]
            for entry in range(X.starts[row], X.starts[row + 1]):
                total[X.columns[entry]] += np.float64(X.values[entry])


@compiled
def add_code_scores(codes: Any, table: Any, scores: Any) -> None:
    """Add each row's log proportions of its categories; codes (n, C) number the levels of all columns, -1 where a value
    is missing. O(n C K)."""
    for i in range(len(codes)):
        own = scores[i]
        for column in range(codes.shape[1]):
            code = codes[i, column]
            if code >= 0:
                line = table[code]
                for k in range(len(own)):
                    own[k] += line[k]


@compiled
def add_code_pair_scores(codes: Any, rows: Any, starts: Any, first: Any, second: Any, table: Any, logs: Any) -> None:
    for group in range(len(first)):
        i, j = first[group], second[group]
        for place in range(starts[group], starts[group + 1]):
            a = b = np.float32(0)
            for column in range(codes.shape[1]):
                code = codes[rows[place], column]
                if code >= 0:
                    a += table[code, i]
                    b += table[code, j]
            logs[place, 0] += a
            logs[place, 1] += b


@compiled
def add_code_statistics(codes: Any, rows: Any, starts: Any, sums: Any) -> None:
    """Count the levels of the rows starts[g] to starts[g + 1] in sums[g]. O(n C)."""
    for group in range(len(starts) - 1):
        total = sums[group]
        for place in range(starts[group], starts[group + 1]):
            for column in range(codes.shape[1]):
                code = codes[rows[place], column]
                if code >= 0:
                    total[code] += 1.0
