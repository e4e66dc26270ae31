"""How far the draws are from the representative partition (Wade and Ghahramani 2018), and several answers: if the
draws come from distinct modes, a partition for each, with its share of the draws.

An average of two modes resembles neither. As in Balocchi and Wade (2025), "Understanding uncertainty in Bayesian
cluster analysis", a few partitions represent the draws: each draw is assigned to the nearest, by the variation of
information, and each partition has the least expected loss over its draws.
"""

from __future__ import annotations

import math
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
ROUNDING = 1e-9
"""Distances to the same partition with other numbers may differ by less than this."""


class OneAnswer(NamedTuple):
    """A partition that represents some of the draws."""

    labels: IntArray
    """From 0 in order of decreasing size (N,); -1 for outliers."""
    n_clusters: int
    share: float
    """The share of the draws that it represents."""
    spread: float
    """The mean distance of its draws from it."""

    def __repr__(self) -> str:
        return f"OneAnswer({self.n_clusters} clusters, {self.share:.0%} of the draws)"


def answers(draws: IntArray, most: int = 3, loss: Loss = "vi", seed: int = 0) -> list[OneAnswer]:
    """The partitions that represent the draws (S, N), the one with the largest share first; only one unless the draws
    have distinct modes. O(N) for each pair of draws."""
    check_draws(draws)
    if most < 1:
        raise ValueError(f"most should be at least 1, not {most}")
    used = np.asarray(draws[evenly_spaced(len(draws), MOST_DRAWS)])
    away = np.zeros((len(used), len(used)))
    for index in range(len(used) - 1):
        away[index, index + 1 :] = distances(used[index], used[index + 1 :], loss)
    parts = distinct_parts(away + away.T, most)
    several = []
    for part in range(parts.max() + 1):
        members = used[parts == part]
        best = representative(members, loss, seed)
        share = len(members) / len(used)
        several.append(OneAnswer(best.labels, count_clusters(best.labels), share, best.expected_loss))
    return sorted(several, key=lambda one: -one.share)


def distinct_parts(away: Float64Array, most: int) -> IntArray:
    """The mode of each draw, for the largest number of modes, up to `most`, that are distinct."""
    for count in range(min(most, len(away) - 1), 1, -1):
        parts = medoids(away, count)
        large = np.bincount(parts, minlength=count).min() >= SMALLEST * len(away)
        if large and silhouette_score(away, parts, metric="precomputed") >= DISTINCT:
            return parts
    return np.zeros(len(away), int)


def medoids(away: Float64Array, count: int) -> IntArray:
    """For each draw, the nearest of `count` central draws, by k-medoids from draws that are far apart."""
    centres = [int(away.sum(axis=1).argmin())]
    while len(centres) < count:
        centres.append(int(away[:, centres].min(axis=1).argmax()))
    for _ in range(ROUNDS):
        nearest = away[:, centres].argmin(axis=1)
        members = [np.flatnonzero(nearest == k) for k in range(count)]
        better = [
            int(some[away[np.ix_(some, some)].sum(axis=1).argmin()]) if len(some) else centre
            for some, centre in zip(members, centres, strict=True)
        ]
        if better == centres:
            break
        centres = better
    return np.asarray(away[:, centres].argmin(axis=1))


class Bound(NamedTuple):
    """A draw on the edge of the ball."""

    labels: IntArray
    """The labels of the draw (N,)."""
    n_clusters: int
    """Without the outliers."""
    distance: float
    """From the centre."""
    draw: int
    """The number of the draw."""

    def __repr__(self) -> str:
        points = f"{len(self.labels):,} points"
        return f"Bound(draw {self.draw}: {counted(self.n_clusters)} of {points}, distance {self.distance:.3g})"


class CredibleBall(NamedTuple):
    """The smallest ball around a partition that contains a given share of the draws."""

    radius: float
    level: float
    n_inside: int
    n_draws: int
    n_clusters: int
    """Clusters of the centre, without the outliers."""
    horizontal: Bound
    """The draw in the ball that is farthest from the centre."""
    upper: Bound
    """Among the draws in the ball with the fewest clusters, the farthest."""
    lower: Bound
    """Among the draws in the ball with the most clusters, the farthest."""
    loss: Loss

    def __repr__(self) -> str:
        edges = {"horizontal": self.horizontal, "upper": self.upper, "lower": self.lower}
        lines = "".join(f"\n  {name}: {bound!r}" for name, bound in edges.items())
        return f"CredibleBall({self}){lines}"

    def __str__(self) -> str:
        if self.loss == "vi":
            radius = f"{self.radius:.3g} nats of variation of information"
        else:
            radius = f"a Binder loss of {self.radius:.3g}"
        fewest, most = self.upper.n_clusters, self.lower.n_clusters
        reach = counted(most) if fewest == most else f"{fewest} to {counted(most)}"
        return (
            f"{self.n_inside / self.n_draws:.0%} of the draws lie within {radius} of the partition into "
            f"{counted(self.n_clusters)}; they have {reach}"
        )


def counted(clusters: int) -> str:
    """The number of clusters in words."""
    return f"{clusters} cluster{'' if clusters == 1 else 's'}"


def credible_ball(draws: IntArray, centre: IntArray, level: float = 0.95, loss: Loss = "vi") -> CredibleBall:
    """The smallest ball around `centre` with at least `level` of the draws. O(N) per draw, one draw at a time."""
    if not 0 < level <= 1:
        raise ValueError(f"level should be above 0 and at most 1, got {level}")
    away = distances(centre, draws, loss)
    radius = float(np.sort(away)[math.ceil(level * len(away) - ROUNDING) - 1])
    inside = np.flatnonzero(away <= radius + ROUNDING)
    n_clusters = np.array([count_clusters(draws[draw]) for draw in inside])

    def farthest(among: IntArray) -> Bound:
        index = among[away[inside[among]].argmax()]
        draw = int(inside[index])
        return Bound(np.array(draws[draw]), int(n_clusters[index]), float(away[draw]), draw)

    return CredibleBall(
        radius=radius,
        level=level,
        n_inside=len(inside),
        n_draws=len(away),
        n_clusters=count_clusters(centre),
        horizontal=farthest(np.arange(len(inside))),
        upper=farthest(np.flatnonzero(n_clusters == n_clusters.min())),
        lower=farthest(np.flatnonzero(n_clusters == n_clusters.max())),
        loss=loss,
    )
