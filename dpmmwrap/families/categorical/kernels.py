"""Compiled loops over categorical columns: a point's log density is a sum of entries of a table (levels, clusters) of
log proportions."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.numerics.special import compiled


@compiled
def add_scores(codes: Any, table: Any, scores: Any) -> None:
    """Add the log proportions of each row's levels. Codes (n, C) number the levels of all columns; -1 is missing. O(n C
    K)."""
    for i in range(len(codes)):
        own = scores[i]
        for column in range(codes.shape[1]):
            code = codes[i, column]
            if code >= 0:
                line = table[code]
                for k in range(len(own)):
                    own[k] += line[k]


@compiled
def add_pair_scores(codes: Any, rows: Any, starts: Any, first: Any, second: Any, table: Any, logs: Any) -> None:
    for group in range(len(first)):
        i, j = first[group], second[group]
        for at in range(starts[group], starts[group + 1]):
            a = b = np.float32(0)
            for column in range(codes.shape[1]):
                code = codes[rows[at], column]
                if code >= 0:
                    a += table[code, i]
                    b += table[code, j]
            logs[at, 0] += a
            logs[at, 1] += b


@compiled
def add_statistics(codes: Any, rows: Any, starts: Any, weights: Any, sums: Any) -> None:
    """Count the levels of the rows starts[g] to starts[g + 1] in sums[g], by weight if any. O(n C)."""
    for group in range(len(starts) - 1):
        total = sums[group]
        for at in range(starts[group], starts[group + 1]):
            weight = weights[rows[at]] if len(weights) > 0 else 1.0
            for column in range(codes.shape[1]):
                code = codes[rows[at], column]
                if code >= 0:
                    total[code] += weight
