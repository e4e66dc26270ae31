"""How well two samplers agree."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from exactness.running import Seen

EVERY = 7
"""Pairs of every so-manieth point are compared."""


class Agreement(NamedTuple):
    one: float
    other: float
    """Mean numbers of clusters."""
    z: float
    """Their difference, in Monte Carlo standard errors of both."""
    clusters: float
    """Total variation distance of p(K | X)."""
    pairs: float
    """The largest difference of a pair's probability, among some pairs."""
    alphas: tuple[float, float]
    """Mean concentrations."""
    sizes: tuple[float, float]
    """Effective sample sizes of the number of clusters."""


def effective_size(values: np.ndarray) -> float:
    """Of the mean of a chain's draws."""
    from arviz_stats.base.array import array_stats

    stats: Any = array_stats
    if np.ptp(values) == 0:
        return float(len(values))
    return min(float(stats.ess(np.asarray(values, float)[None], method="mean")), float(len(values)))


def pair_probabilities(labels: np.ndarray) -> np.ndarray:
    """Of some pairs of points, from labels (draws, N)."""
    some = labels[:, ::EVERY]
    one, other = np.triu_indices(some.shape[1], 1)
    return np.asarray((some[:, one] == some[:, other]).mean(axis=0))


def agreement(one: Seen, other: Seen) -> Agreement:
    numbers = one.n_clusters, other.n_clusters
    most = max(found.max() for found in numbers) + 1
    shares = [np.bincount(found, minlength=most) / len(found) for found in numbers]
    sizes = effective_size(numbers[0]), effective_size(numbers[1])
    means = [float(found.mean()) for found in numbers]
    variance = sum(found.var() / size for found, size in zip(numbers, sizes, strict=True))
    pairs = np.abs(pair_probabilities(one.labels) - pair_probabilities(other.labels))
    return Agreement(
        means[0],
        means[1],
        abs(means[0] - means[1]) / max(float(np.sqrt(variance)), 1e-12),
        0.5 * float(np.abs(shares[0] - shares[1]).sum()),
        float(pairs.max()),
        (float(one.alpha.mean()), float(other.alpha.mean())),
        sizes,
    )
