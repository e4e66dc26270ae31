"""Counts, dense or sparse, with integrated proportions: Dirichlet-multinomials from sums."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.collapsed import register
from dpmmwrap.numerics.special import inner_float64 as inner
from dpmmwrap.numerics.special import log_gamma


class CountClusters(NamedTuple):
    """Clusters of counts: sums (C, V), their totals, and the Dirichlet prior."""

    counts: Any
    sums: Any
    totals: Any
    concentration: Any
    whole: Any
    """The sum of the prior's concentration."""


class SparseCountClusters(NamedTuple):
    """`CountClusters` for sparse rows."""

    counts: Any
    sums: Any
    totals: Any
    concentration: Any
    whole: Any


@inner
def log_rising(base: Any, count: Any) -> Any:
    """Log of Gamma(base + count) / Gamma(base). Most counts are 1."""
    return math.log(base) if count == 1.0 else log_gamma(base + count) - log_gamma(base)


def dense_log_predictive(clusters: Any, k: int, X: Any, row: int, weight: Any) -> Any:
    total, n = 0.0, 0.0
    for v in range(X.shape[1]):
        x = weight * np.float64(X[row, v])
        if x > 0.0:
            total += log_rising(clusters.concentration[v] + clusters.sums[k, v], x)
            n += x
    return total - log_rising(clusters.whole + clusters.totals[k], n) if n > 0.0 else 0.0


def sparse_log_predictive(clusters: Any, k: int, X: Any, row: int, weight: Any) -> Any:
    total, n = 0.0, 0.0
    for entry in range(X.starts[row], X.starts[row + 1]):
        v, x = X.columns[entry], weight * np.float64(X.values[entry])
        if x > 0.0:
            total += log_rising(clusters.concentration[v] + clusters.sums[k, v], x)
            n += x
    return total - log_rising(clusters.whole + clusters.totals[k], n) if n > 0.0 else 0.0


def dense_add_point(clusters: Any, k: int, X: Any, row: int, sign: Any) -> None:
    for v in range(X.shape[1]):
        clusters.sums[k, v] += sign * np.float64(X[row, v])
        clusters.totals[k] += sign * np.float64(X[row, v])


def sparse_add_point(clusters: Any, k: int, X: Any, row: int, sign: Any) -> None:
    for entry in range(X.starts[row], X.starts[row + 1]):
        clusters.sums[k, X.columns[entry]] += sign * np.float64(X.values[entry])
        clusters.totals[k] += sign * np.float64(X.values[entry])


def log_marginal(clusters: Any, k: int) -> Any:
    total = -log_rising(clusters.whole, clusters.totals[k]) if clusters.totals[k] > 0.0 else 0.0
    for v in range(clusters.sums.shape[1]):
        if clusters.sums[k, v] > 0.0:
            total += log_rising(clusters.concentration[v], clusters.sums[k, v])
    return total


def add_cluster(clusters: Any, k: int, others: Any, m: int, sign: float) -> None:
    own, its = clusters.sums[k], others.sums[m]
    for v in range(len(own)):
        own[v] += sign * its[v]
    clusters.totals[k] += sign * others.totals[m]


def copy_cluster(clusters: Any, k: int, others: Any, m: int) -> None:
    own, its = clusters.sums[k], others.sums[m]
    for v in range(len(own)):
        own[v] = its[v]
    clusters.totals[k] = others.totals[m]


def clear(clusters: Any, k: int) -> None:
    own = clusters.sums[k]
    for v in range(len(own)):
        own[v] = 0.0
    clusters.totals[k] = 0.0


SHARED: Any = {
    "fields": ("sums", "totals"), "add_cluster": add_cluster, "copy_cluster": copy_cluster, "clear": clear
}  # fmt: skip
register(CountClusters, dense_log_predictive, dense_add_point, log_marginal, **SHARED)
register(SparseCountClusters, sparse_log_predictive, sparse_add_point, log_marginal, **SHARED)
