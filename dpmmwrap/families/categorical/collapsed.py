"""Categorical columns with integrated proportions: counts of levels."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from dpmmwrap.families.collapsed import register
from dpmmwrap.families.multinomial.collapsed import log_rising


class CodeClusters(NamedTuple):
    """Clusters of categorical columns: counts of levels (C, F), the prior's concentration, and the edges of columns."""

    counts: Any
    sums: Any
    concentration: Any
    edges: Any
    logs: Any
    """Log probability of each level (C, F), valid after `prepare`."""


def prepare(clusters: Any, k: int) -> None:
    """O(F)."""
    edges, sums, logs = clusters.edges, clusters.sums[k], clusters.logs[k]
    for column in range(len(edges) - 1):
        whole = 0.0
        for f in range(edges[column], edges[column + 1]):
            whole += clusters.concentration[f] + sums[f]
        for f in range(edges[column], edges[column + 1]):
            logs[f] = math.log((clusters.concentration[f] + sums[f]) / whole)


def log_predictive(clusters: Any, k: int, X: Any, row: int, weight: Any) -> Any:
    total = 0.0
    for column in range(X.shape[1]):
        if X[row, column] >= 0:
            if weight == 1.0:
                total += clusters.logs[k, X[row, column]]
            else:
                whole, level = 0.0, X[row, column]
                for f in range(clusters.edges[column], clusters.edges[column + 1]):
                    whole += clusters.concentration[f] + clusters.sums[k, f]
                total += log_rising(clusters.concentration[level] + clusters.sums[k, level], weight)
                total -= log_rising(whole, weight)
    return total


def add_point(clusters: Any, k: int, X: Any, row: int, sign: Any) -> None:
    for column in range(X.shape[1]):
        if X[row, column] >= 0:
            clusters.sums[k, X[row, column]] += sign


def log_marginal(clusters: Any, k: int) -> Any:
    total, edges = 0.0, clusters.edges
    for column in range(len(edges) - 1):
        whole, n = 0.0, 0.0
        for f in range(edges[column], edges[column + 1]):
            whole += clusters.concentration[f]
            if clusters.sums[k, f] > 0.0:
                n += clusters.sums[k, f]
                total += log_rising(clusters.concentration[f], clusters.sums[k, f])
        total -= log_rising(whole, n) if n > 0.0 else 0.0
    return total


register(CodeClusters, log_predictive, add_point, log_marginal, prepare=prepare)
