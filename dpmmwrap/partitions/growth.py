"""p(K | N) of a prior over partitions, from the probability that the next point begins a cluster."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array

FEW = 500
"""Up to this many points, probabilities are exact; above, each prior has its own approximation."""
NODES = 200
"""Values of learned parameters over which probabilities are averaged."""


def grown(points: int, chance: Callable[[int, Float64Array], Any], nodes: int = 1) -> Float64Array:
    """p(K | N), from K = 0 on, at each node (nodes, N + 1). `chance(n, clusters)` is the probability that the point
    after n others begins a cluster, by the number of clusters (nodes, n + 1)."""
    found = np.zeros((nodes, points + 1))
    found[:, 0] = 1.0
    for n in range(points):
        before = found[:, : n + 1]
        new = before * (1.0 if n == 0 else chance(n, np.arange(n + 1.0)))
        found[:, : n + 1] -= new
        found[:, 1 : n + 2] += new
    return found


def shares(nodes: int = NODES) -> tuple[Float64Array, Float64Array]:
    """Pairs of numbers between 0 and 1 that fill the square evenly."""
    places = np.arange(nodes)
    return (places + 0.5) / nodes, np.asarray((0.5 + places * 0.6180339887498949) % 1.0)
