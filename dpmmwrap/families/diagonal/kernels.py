"""Compiled loops over numeric columns with one variance each: O(D) per point and cluster, vectorised over features.

The log density of a point is the log peak of its cluster minus half the sum of (w x - offset)^2. This form keeps its
precision however narrow a cluster is and wherever it lies, unlike a sum of terms in x^2 and x.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.numerics.special import compiled, inner

HALF = np.float32(0.5)


@compiled
def add_scores(X: Any, factors: Any, offsets: Any, missing: Any, scores: Any) -> None:
    """Subtract half the squared distance of every row to every cluster from the scores (n, K). Two multiply-adds per
    feature.

    Rows and clusters are processed in tiles of four by two, so that eight loads serve sixteen multiply-adds.
    """
    rows, dim = X.shape
    count = scores.shape[1]
    if missing is not None:
        _add_scores_with_gaps(X, factors, offsets, missing, scores)
        return
    whole = rows // 4 * 4
    pairs = count // 2 * 2
    for i in range(0, whole, 4):
        x0, x1, x2, x3 = X[i], X[i + 1], X[i + 2], X[i + 3]
        for k in range(0, pairs, 2):
            w, v, p, q = factors[k], factors[k + 1], offsets[k], offsets[k + 1]
            a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = np.float32(0)
            for j in range(dim):
                t = x0[j] * w[j] - p[j]
                a0 += t * t
                t = x1[j] * w[j] - p[j]
                a1 += t * t
                t = x2[j] * w[j] - p[j]
                a2 += t * t
                t = x3[j] * w[j] - p[j]
                a3 += t * t
                t = x0[j] * v[j] - q[j]
                b0 += t * t
                t = x1[j] * v[j] - q[j]
                b1 += t * t
                t = x2[j] * v[j] - q[j]
                b2 += t * t
                t = x3[j] * v[j] - q[j]
                b3 += t * t
            scores[i, k] -= HALF * a0
            scores[i + 1, k] -= HALF * a1
            scores[i + 2, k] -= HALF * a2
            scores[i + 3, k] -= HALF * a3
            scores[i, k + 1] -= HALF * b0
            scores[i + 1, k + 1] -= HALF * b1
            scores[i + 2, k + 1] -= HALF * b2
            scores[i + 3, k + 1] -= HALF * b3
        for k in range(pairs, count):
            for row in range(i, i + 4):
                scores[row, k] -= HALF * _square(X[row], factors[k], offsets[k])
    for row in range(whole, rows):
        for k in range(count):
            scores[row, k] -= HALF * _square(X[row], factors[k], offsets[k])


@inner
def _square(x: Any, factor: Any, offset: Any) -> Any:
    total = np.float32(0)
    for j in range(len(x)):
        t = x[j] * factor[j] - offset[j]
        total += t * t
    return total


@inner
def _loss_with_gaps(x: Any, factor: Any, offset: Any, terms: Any) -> Any:
    """Half the squared distance over the observed values, plus the terms of the missing ones."""
    total = np.float32(0)
    for j in range(len(x)):
        t = x[j] * factor[j] - offset[j]
        # NaN is not equal to itself.
        total += HALF * t * t if x[j] == x[j] else terms[j]
    return total


@inner
def _add_scores_with_gaps(X: Any, factors: Any, offsets: Any, missing: Any, scores: Any) -> None:
    for row in range(len(X)):
        for k in range(scores.shape[1]):
            scores[row, k] -= _loss_with_gaps(X[row], factors[k], offsets[k], missing[k])


@compiled
def add_pair_scores(
    X: Any, rows: Any, starts: Any, first: Any, second: Any, factors: Any, offsets: Any, missing: Any, logs: Any
) -> None:
    """Subtract half the squared distances to the clusters first[g] and second[g] from the log densities (n, 2) of the
    rows starts[g] to starts[g + 1]. O(n D)."""
    for group in range(len(first)):
        w, p, v, q = factors[first[group]], offsets[first[group]], factors[second[group]], offsets[second[group]]
        for at in range(starts[group], starts[group + 1]):
            x = X[rows[at]]
            if missing is None:
                a = b = np.float32(0)
                for j in range(len(x)):
                    t = x[j] * w[j] - p[j]
                    a += t * t
                    t = x[j] * v[j] - q[j]
                    b += t * t
                logs[at, 0] -= HALF * a
                logs[at, 1] -= HALF * b
            else:
                logs[at, 0] -= _loss_with_gaps(x, w, p, missing[first[group]])
                logs[at, 1] -= _loss_with_gaps(x, v, q, missing[second[group]])


@compiled
def add_statistics(X: Any, rows: Any, starts: Any, counted: Any, weights: Any, sums: Any) -> None:
    """Add x, x^2 and, with `counted`, the indicator of an observed x for the rows starts[g] to starts[g + 1] to
    sums[g], in float64 and by weight. O(n D). Four rows at a time, so that a sum is read and written once for four
    products."""
    dim = X.shape[1]
    for group in range(len(starts) - 1):
        begin, end = starts[group], starts[group + 1]
        total, squares = sums[group, :dim], sums[group, dim : 2 * dim]
        if counted or len(weights) > 0:
            observed = sums[group, 2 * dim : 3 * dim]
            for at in range(begin, end):
                x, weight = X[rows[at]], weights[rows[at]] if len(weights) > 0 else 1.0
                for j in range(dim):
                    there = x[j] == x[j]
                    value = np.float64(x[j]) if there else 0.0
                    total[j] += weight * value
                    squares[j] += weight * value * value
                    if counted:
                        observed[j] += weight if there else 0.0
        else:
            whole = begin + (end - begin) // 4 * 4
            for at in range(begin, whole, 4):
                x0, x1, x2, x3 = X[rows[at]], X[rows[at + 1]], X[rows[at + 2]], X[rows[at + 3]]
                for j in range(dim):
                    y0, y1, y2, y3 = np.float64(x0[j]), np.float64(x1[j]), np.float64(x2[j]), np.float64(x3[j])
                    total[j] += (y0 + y1) + (y2 + y3)
                    squares[j] += (y0 * y0 + y1 * y1) + (y2 * y2 + y3 * y3)
            for at in range(whole, end):
                x = X[rows[at]]
                for j in range(dim):
                    y = np.float64(x[j])
                    total[j] += y
                    squares[j] += y * y
