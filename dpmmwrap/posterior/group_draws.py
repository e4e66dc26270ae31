"""How sure groups are: the groups of each draw, each with half samples of its own.

A draw has components of its own, which are joined as those of the answer are (`separation.py`), but with half samples
that are chosen anew, with replacement: so groups vary with the posterior of the components, and with what half samples
happen to show. Without draws, the components are always those of the answer, and each row's component is drawn from
its probabilities.
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
from dpmmwrap.posterior.matching import confidence
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
        counts = Counter(len(np.unique(own[own >= 0])) for own in self.labels)
        return {count: counts[count] / len(self.labels) for count in sorted(counts)}

    @property
    def confidence(self) -> Float64Array:
        """For each row, the share of draws in which its group is that of the suggested groups (N,)."""
        return confidence(self.labels, self.groups)

    def coclustering(self, rows: Any = None) -> Float64Array:
        """The probability that two rows share a group, for some rows or for all."""
        return coclustering(self.labels, rows)

    def credible_ball(self, level: float = 0.95) -> CredibleBall:
        """How far the groups of draws are from the suggested ones."""
        return credible_ball(self.labels, self.groups, level)


class Components(NamedTuple):
    """The components of a draw, as some rows see them."""

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
    places: IntArray,
    draws: IntArray | None,
    groups: IntArray,
    seen: GroupEvidence,
    labels: IntArray,
) -> GroupDraws:
    """Join the components of each draw. `points` are the rows that are kept, `places` their numbers among all rows, and
    the half samples are of them; `labels` are the clusters of all rows, `groups` their suggested groups, `draws` the
    labels of all draws."""
    n_components = mixture.n_clusters if mixture.averaged is None else len(mixture.averaged.clusters)
    used, rng = evenly_spaced(points.shape[0], MOST_NUMBERS // n_components), np.random.default_rng(0)
    halves = [restricted(half, used) for half in seen.halves]
    every = without_draws(mixture, points, places, labels, used, rng)
    if draws is not None:
        parts = components_of_draws(mixture, points[used])
        every = zip((np.asarray(draws[draw]) for draw in draws_averaged(len(draws))), parts, strict=True)
    found = []
    for own, (tau, shape) in every:
        chosen = tuple(halves[half] for half in rng.integers(max(len(halves), 1), size=len(halves)))
        known = seen._replace(shape=shape, halves=chosen)
        found.append(group_components(tau, "separation", seen=known).of_points(own))
    return GroupDraws(np.array(found), groups)


def without_draws(
    mixture: Mixture, points: Any, places: IntArray, labels: IntArray, used: IntArray, rng: Generator
) -> Iterator[tuple[IntArray, Components]]:
    """The components of the mixture, several times, with a component drawn for each row that is kept and no outlier."""
    tau, shape = mixture.predict_proba(points)[:, : mixture.n_clusters], mixture._shape(points[used])
    inside = labels[places] >= 0
    for _ in range(WITHOUT_DRAWS):
        own = labels.copy()
        own[places[inside]] = draw_columns(tau, rng)[inside]
        yield own, Components(tau[used], shape)


def restricted(half: Half, used: IntArray) -> Half:
    """A half sample of those rows alone that are used, by their positions among them."""
    inside = np.isin(half.rows, used)
    return Half(np.searchsorted(used, half.rows[inside]), half.labels[inside])
