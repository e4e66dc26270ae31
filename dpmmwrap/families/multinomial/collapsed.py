"""Counts (dense or sparse) and categories with their proportions integrated out: Dirichlet-multinomials by sums."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.special import inner_float64 as inner
from dpmmwrap.numerics.special import log_gamma


class CountClusters(NamedTuple):
    """Counts: sums of them (C, V), their totals, and the Dirichlet prior."""

    counts: Any
    sums: Any
    totals: Any
    concentration: Any
    whole: Any
    """The sum of the prior's concentration."""


class CodeClusters(NamedTuple):
    """Categories: how often each level occurs (C, F), the prior's concentration, and each level's column."""

    counts: Any
    sums: Any
    concentration: Any
    edges: Any
    logs: Any
    """log probability of each level (C, F), where prepared."""


@inner
def _rising(base: Any, count: Any) -> Any:
    """log of Gamma(base + count) / Gamma(base); most counts are 1."""
    return math.log(base) if count == 1.0 else log_gamma(base + count) - log_gamma(base)


def dense_log_predictive(clusters: Any, k: int, X: Any, row: int) -> Any:
    total, n = 0.0, 0.0
    for v in range(X.shape[1]):
        x = np.float64(X[row, v])
        if x > 0.0:
            total += _rising(clusters.concentration[v] + clusters.sums[k, v], x)
            n += x
    return total - _rising(clusters.whole + clusters.totals[k], n) if n > 0.0 else 0.0


def sparse_log_predictive(clusters: Any, k: int, X: Any, row: int) -> Any:
    total, n = 0.0, 0.0
    for entry in range(X.starts[row], X.starts[row + 1]):
        v, x = X.columns[entry], np.float64(X.values[entry])
        if x > 0.0:
            total += _rising(clusters.concentration[v] + clusters.sums[k, v], x)
            n += x
    return total - _rising(clusters.whole + clusters.totals[k], n) if n > 0.0 else 0.0


def dense_add_point(clusters: Any, k: int, X: Any, row: int, sign: Any) -> None:
    for v in range(X.shape[1]):
        clusters.sums[k, v] += sign * np.float64(X[row, v])
        clusters.totals[k] += sign * np.float64(X[row, v])


def sparse_add_point(clusters: Any, k: int, X: Any, row: int, sign: Any) -> None:
    for entry in range(X.starts[row], X.starts[row + 1]):
        clusters.sums[k, X.columns[entry]] += sign * np.float64(X.values[entry])
        clusters.totals[k] += sign * np.float64(X.values[entry])


def log_marginal(clusters: Any, k: int) -> Any:
    total = -_rising(clusters.whole, clusters.totals[k]) if clusters.totals[k] > 0.0 else 0.0
    for v in range(clusters.sums.shape[1]):
        if clusters.sums[k, v] > 0.0:
            total += _rising(clusters.concentration[v], clusters.sums[k, v])
    return total


def prepare_codes(clusters: Any, k: int) -> None:
    """O(F)."""
    edges, sums, logs = clusters.edges, clusters.sums[k], clusters.logs[k]
    for column in range(len(edges) - 1):
        whole = 0.0
        for f in range(edges[column], edges[column + 1]):
            whole += clusters.concentration[f] + sums[f]
        for f in range(edges[column], edges[column + 1]):
            logs[f] = math.log((clusters.concentration[f] + sums[f]) / whole)


def codes_log_predictive(clusters: Any, k: int, X: Any, row: int) -> Any:
    total = 0.0
    for column in range(X.shape[1]):
        if X[row, column] >= 0:
            total += clusters.logs[k, X[row, column]]
    return total


def codes_add_point(clusters: Any, k: int, X: Any, row: int, sign: Any) -> None:
    for column in range(X.shape[1]):
        if X[row, column] >= 0:
            clusters.sums[k, X[row, column]] += sign


def codes_log_marginal(clusters: Any, k: int) -> Any:
    total, edges = 0.0, clusters.edges
    for column in range(len(edges) - 1):
        whole, n = 0.0, 0.0
        for f in range(edges[column], edges[column + 1]):
            whole += clusters.concentration[f]
            if clusters.sums[k, f] > 0.5:
                n += clusters.sums[k, f]
                total += _rising(clusters.concentration[f], clusters.sums[k, f])
        total -= _rising(whole, n) if n > 0.5 else 0.0
    return total


# Sums of any kind.


def add_sums(clusters: Any, k: int, others: Any, m: int) -> None:
    own, its = clusters.sums[k], others.sums[m]
    for v in range(len(own)):
        own[v] += its[v]


def add_counts(clusters: Any, k: int, others: Any, m: int) -> None:
    own, its = clusters.sums[k], others.sums[m]
    for v in range(len(own)):
        own[v] += its[v]
    clusters.totals[k] += others.totals[m]


def clear_sums(clusters: Any, k: int) -> None:
    own = clusters.sums[k]
    for v in range(len(own)):
        own[v] = 0.0


def clear_counts(clusters: Any, k: int) -> None:
    own = clusters.sums[k]
    for v in range(len(own)):
        own[v] = 0.0
    clusters.totals[k] = 0.0


def copy_sums(clusters: Any, k: int, others: Any, m: int) -> None:
    own, its = clusters.sums[k], others.sums[m]
    for v in range(len(own)):
        own[v] = its[v]


def copy_counts(clusters: Any, k: int, others: Any, m: int) -> None:
    own, its = clusters.sums[k], others.sums[m]
    for v in range(len(own)):
        own[v] = its[v]
    clusters.totals[k] = others.totals[m]
