"""Compiled loops over sparse counts: a point's log density is a sum of log proportions.

Tables are (features, clusters), vectorised over clusters. The cost of a row is proportional to its nonzero entries.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.special import compiled


class SparseRows(NamedTuple):
    """A sparse matrix in CSR format, as the loops take it."""

    starts: Any
    columns: Any
    values: Any


@compiled
def add_sparse_scores(X: Any, begin: Any, table: Any, scores: Any) -> None:
    """Add the rows of a chunk, which starts at row `begin`, times the table (V, K) to the scores (n, K). O(entries
    K)."""
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
    """Add the log densities of clusters first[g] and second[g] for the rows starts[g] to starts[g + 1], which are
    relative to row `begin`. O(entries)."""
    for group in range(len(first)):
        i, j = first[group], second[group]
        for at in range(starts[group], starts[group + 1]):
            row = begin + rows[at]
            a = b = np.float32(0)
            for entry in range(X.starts[row], X.starts[row + 1]):
                value, line = X.values[entry], table[X.columns[entry]]
                a += value * line[i]
                b += value * line[j]
            logs[at, 0] += a
            logs[at, 1] += b


@compiled
def add_sparse_statistics(X: Any, begin: Any, rows: Any, starts: Any, weights: Any, sums: Any) -> None:
    """Add the rows starts[g] to starts[g + 1], which are relative to row `begin`, to sums[g], in float64 and by weight.
    O(entries)."""
    for group in range(len(starts) - 1):
        total = sums[group]
        for at in range(starts[group], starts[group + 1]):
            row = begin + rows[at]
            weight = weights[rows[at]] if len(weights) > 0 else 1.0
            for entry in range(X.starts[row], X.starts[row + 1]):
                total[X.columns[entry]] += weight * np.float64(X.values[entry])
