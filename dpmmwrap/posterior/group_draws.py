"""How sure groups are: the groups of each draw, each with other half samples.

The components of each draw are joined like those of the answer (`separation.py`), but with half samples that are drawn
again, with replacement: so groups vary with the posterior of the components, and with the half samples. Without draws,
the components are always those of the answer, and each row's component is drawn from its probabilities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from dpmmwrap.mixture import Mixture
from dpmmwrap.numerics.arrays import Float64Array, IntArray, evenly_spaced
from dpmmwrap.numerics.categorical_draws import draw_columns
from dpmmwrap.posterior.averaging import draws_averaged
from dpmmwrap.posterior.credible_ball import CredibleBall, credible_ball
from dpmmwrap.posterior.groups import group_components
from dpmmwrap.posterior.matching import confidence, count_clusters
from dpmmwrap.posterior.representative import coclustering
from dpmmwrap.posterior.separation import GroupEvidence, Half, Shape

WITHOUT_DRAWS = 30
"""Choices of half samples without draws."""
MOST_NUMBERS = 10_000_000
"""Probabilities (rows times components of all draws) to hold in memory. If there would be more, fewer rows are used,
evenly spaced."""


class GroupDraws(NamedTuple):
    """The groups of the rows in several draws."""

    labels: IntArray
    """(S, N), -1 for outliers."""
    groups: IntArray
    """The suggested groups of the rows (N,)."""

    @property
    def n_groups(self) -> dict[int, float]:
        """The probability of each number of groups."""
        counts = Counter(count_clusters(labels) for labels in self.labels)
        return {count: counts[count] / len(self.labels) for count in sorted(counts)}

    @property
    def confidence(self) -> Float64Array:
        """For each row, the share of draws in which it is in its suggested group (N,)."""
        return confidence(self.labels, self.groups)

    def coclustering(self, rows: Any = None) -> Float64Array:
        """The probability that two rows share a group, for some rows or for all."""
        return coclustering(self.labels, rows)

    def credible_ball(self, level: float = 0.95) -> CredibleBall:
        """How far the groups of draws are from the suggested ones."""
        return credible_ball(self.labels, self.groups, level)


class Components(NamedTuple):
    """The components of a draw: the probabilities of rows, and where both lie if they are Gaussian."""

    tau: Float64Array
    shape: Shape | None


def components_of_draws(mixture: Mixture, points: Any) -> Iterator[Components]:
    """The components of each draw that predictions are averaged over, without outliers."""
    averaged = mixture.averaged
    assert averaged is not None
    shares, _ = averaged._shares(points)
    gaussian = mixture.is_gaussian and bool(np.isfinite(points).all())
    covariances = np.asarray(averaged.posterior.mean_covariance()) if gaussian else None
    ends = np.append(averaged.starts[1:], len(averaged.clusters)) - int(mixture.outlier_weight > 0)
    for begin, end in zip(averaged.starts, ends, strict=True):
        shape = None
        if covariances is not None:
            means = np.asarray(averaged.posterior.mean)[begin:end]
            shape = Shape(np.asarray(points, np.float64), means, covariances[begin:end])
        yield Components(shares[:, begin:end], shape)


def group_draws(
    mixture: Mixture,
    points: Any,
    rows: IntArray,
    draws: IntArray | None,
    groups: IntArray,
    seen: GroupEvidence,
    labels: IntArray,
) -> GroupDraws:
    """Join the components of each draw. `points` are the rows that the model keeps, from which half samples are taken,
    `rows` their numbers among all rows; `labels` are the clusters of all rows, `groups` their suggested groups, `draws`
    the labels of all draws."""
    n_components = mixture.n_clusters if mixture.averaged is None else len(mixture.averaged.clusters)
    used, rng = evenly_spaced(points.shape[0], MOST_NUMBERS // n_components), np.random.default_rng(0)
    halves = [restricted(half, used) for half in seen.halves]
    every = without_draws(mixture, points, rows, labels, used, rng)
    if draws is not None:
        parts = components_of_draws(mixture, points[used])
        every = zip((np.asarray(draws[draw]) for draw in draws_averaged(len(draws))), parts, strict=True)
    drawn = []
    for clusters, (tau, shape) in every:
        chosen = tuple(halves[half] for half in rng.integers(max(len(halves), 1), size=len(halves)))
        evidence = seen._replace(shape=shape, halves=chosen)
        drawn.append(group_components(tau, "separation", seen=evidence).of_points(clusters))
    return GroupDraws(np.array(drawn), groups)


def without_draws(
    mixture: Mixture, points: Any, rows: IntArray, labels: IntArray, used: IntArray, rng: Generator
) -> Iterator[tuple[IntArray, Components]]:
    """The components of the mixture, several times, with a drawn component for each kept row that is no outlier."""
    tau, shape = mixture.predict_proba(points)[:, : mixture.n_clusters], mixture._shape(points[used])
    inside = labels[rows] >= 0
    for _ in range(WITHOUT_DRAWS):
        clusters = labels.copy()
        clusters[rows[inside]] = draw_columns(tau, rng)[inside]
        yield clusters, Components(tau[used], shape)


def restricted(half: Half, used: IntArray) -> Half:
    """The part of a half sample that is among the used rows, by their positions there."""
    inside = np.isin(half.rows, used)
    return Half(np.searchsorted(used, half.rows[inside]), half.labels[inside])
