"""Several answers: where the draws come from distinct modes, a partition for each, with its share of the draws.

One average of two modes resembles neither. As in Balocchi and Wade (2025), "Understanding uncertainty in Bayesian
cluster analysis", a few partitions stand for the draws: each draw goes to the nearest, by the variation of information,
and each is the partition of least expected loss of its draws.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from sklearn.metrics import silhouette_score

from dpmmwrap.numerics.arrays import Float64Array, IntArray, evenly_spaced
from dpmmwrap.posterior.matching import check_draws, count_clusters
from dpmmwrap.posterior.representative import Loss, distances, representative

MOST_DRAWS, ROUNDS = 100, 20
"""Draws that are compared with one another, evenly spaced, and rounds of the search for centres."""
DISTINCT, SMALLEST = 0.5, 0.05
"""The silhouette from which draws have distinct modes: "a reasonable structure" (Kaufman and Rousseeuw 1990). The least
share of the draws that counts as a mode."""


class OneAnswer(NamedTuple):
    """A partition that stands for some of the draws."""

    labels: IntArray
    """From 0 in order of decreasing size (N,); -1 for outliers."""
    n_clusters: int
    share: float
    """Of the draws."""
    spread: float
    """The mean distance of its draws from it."""

    def __repr__(self) -> str:
        return f"OneAnswer({self.n_clusters} clusters, {self.share:.0%} of the draws)"


def answers(draws: IntArray, most: int = 3, loss: Loss = "vi", seed: int = 0) -> list[OneAnswer]:
    """The partitions that stand for the draws (S, N), the one with the largest share first; a single one unless the
    draws have distinct modes. O(N) for each pair of draws."""
    check_draws(draws)
    if most < 1:
        raise ValueError(f"most should be at least 1, not {most}")
    used = np.asarray(draws[evenly_spaced(len(draws), MOST_DRAWS)])
    parts = distinct_parts(pairwise_distances(used, loss), most)
    found = []
    for part in range(parts.max() + 1):
        own = used[parts == part]
        best = representative(own, loss, seed)
        found.append(OneAnswer(best.labels, count_clusters(best.labels), len(own) / len(used), best.expected_loss))
    return sorted(found, key=lambda one: -one.share)


def pairwise_distances(draws: IntArray, loss: Loss) -> Float64Array:
    """Between all draws (S, S)."""
    away = np.zeros((len(draws), len(draws)))
    for index in range(len(draws) - 1):
        away[index, index + 1 :] = distances(draws[index], draws[index + 1 :], loss)
    return away + away.T


def distinct_parts(away: Float64Array, most: int) -> IntArray:
    """The mode of each draw: of as many modes, at most `most`, as are distinct."""
    for count in range(min(most, len(away) - 1), 1, -1):
        parts = medoids(away, count)
        large = np.bincount(parts, minlength=count).min() >= SMALLEST * len(away)
        if large and silhouette_score(away, parts, metric="precomputed") >= DISTINCT:
            return parts
    return np.zeros(len(away), int)


def medoids(away: Float64Array, count: int) -> IntArray:
    """The nearest of `count` central draws of each draw: k-medoids, begun with draws that are far from one another."""
    centres = [int(away.sum(axis=1).argmin())]
    while len(centres) < count:
        centres.append(int(away[:, centres].min(axis=1).argmax()))
    for _ in range(ROUNDS):
        own = away[:, centres].argmin(axis=1)
        members = [np.flatnonzero(own == k) for k in range(count)]
        better = [
            int(some[away[np.ix_(some, some)].sum(axis=1).argmin()]) if len(some) else centre
            for some, centre in zip(members, centres, strict=True)
        ]
        if better == centres:
            break
        centres = better
    return np.asarray(away[:, centres].argmin(axis=1))
