"""How far the draws are from the representative partition (Wade and Ghahramani 2018)."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.posterior.matching import count_clusters
from dpmmwrap.posterior.representative import Loss, distances

ROUNDING = 1e-9
"""Distances to the same partition with other numbers may differ by less than this."""


class Bound(NamedTuple):
    """A draw on the edge of the ball."""

    labels: IntArray
    """Of the draw (N,)."""
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
    """Of the centre, without the outliers."""
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
