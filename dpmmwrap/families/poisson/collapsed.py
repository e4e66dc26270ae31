"""Event counts with integrated rates: negative binomials, from sums of events and of exposure."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.collapsed import register
from dpmmwrap.families.multinomial.collapsed import log_rising
from dpmmwrap.numerics.special import log_gamma


class EventClusters(NamedTuple):
    """Sums of each column's events and, in the last column, of exposure (C, D + 1); the Gamma prior of each column."""

    counts: Any
    sums: Any
    shapes: Any
    rates: Any
    logs: Any
    """Log of each column's posterior rate parameter (C, D), valid after `prepare`."""


def prepare(clusters: Any, k: int) -> None:
    """O(D)."""
    dim = len(clusters.shapes)
    for j in range(dim):
        clusters.logs[k, j] = math.log(clusters.rates[j] + clusters.sums[k, dim])


def log_predictive(clusters: Any, k: int, X: Any, row: int, weight: Any) -> Any:
    """Without factorials and other terms that are the same for all clusters. O(D)."""
    dim, total = len(clusters.shapes), 0.0
    exposure = weight * np.float64(X[row, dim])
    after = clusters.sums[k, dim] + exposure
    for j in range(dim):
        x, shape = weight * np.float64(X[row, j]), clusters.shapes[j] + clusters.sums[k, j]
        total += shape * clusters.logs[k, j] - (shape + x) * math.log(clusters.rates[j] + after)
        if x > 0.0:
            total += log_rising(shape, x)
    return total


def add_point(clusters: Any, k: int, X: Any, row: int, sign: Any) -> None:
    for j in range(X.shape[1]):
        clusters.sums[k, j] += sign * np.float64(X[row, j])


def log_marginal(clusters: Any, k: int) -> Any:
    dim, total = len(clusters.shapes), 0.0
    exposure = clusters.sums[k, dim]
    for j in range(dim):
        shape, rate, events = clusters.shapes[j], clusters.rates[j], clusters.sums[k, j]
        total += shape * math.log(rate) - (shape + events) * math.log(rate + exposure)
        if events > 0.0:
            total += log_gamma(shape + events) - log_gamma(shape)
    return total


register(EventClusters, log_predictive, add_point, log_marginal, prepare=prepare)
