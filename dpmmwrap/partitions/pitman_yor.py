"""The Pitman-Yor process: the number of clusters grows as a power of the number of points, most of them small."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator

from dpmmwrap.numerics.arrays import Float64Array
from dpmmwrap.numerics.slices import slice_step
from dpmmwrap.partitions.base import PartitionPrior, check_parameter, is_auto, log_gamma_density
from dpmmwrap.partitions.dirichlet_process import ALPHA_PRIOR
from dpmmwrap.partitions.growth import FEW, NODES, grown, shares

FIRST = (1.0, 0.25)
"""Where a learned concentration and discount begin."""
DRAWN, BLOCK = 4000, 0.02
"""For p(K | N) of many points: partitions to draw, and the share by which they grow in a step."""
STEP = 2.0
"""The initial width of a slice of log concentrations."""


@dataclass(frozen=True)
class PitmanYor(PartitionPrior):
    """The Pitman-Yor process (Pitman and Yor 1997); a discount of 0 makes it a Dirichlet process.

    Parameters
    ----------
    concentration : float or "auto", default="auto"
        The weight of a new cluster is the concentration plus the discount times the number of clusters. It is above
        minus the discount. "auto" learns it, with a Gamma prior of shape 1 and rate 1.
    discount : float or "auto", default="auto"
        From 0 up to, not including, 1: subtracted from the weight of every cluster. "auto" learns it, with a uniform
        prior.

    Examples
    --------
    >>> from dpmmwrap.partitions import PitmanYor
    >>> PitmanYor(1.0, 0.5).cluster_probabilities(3).round(3).tolist()
    [0.0, 0.125, 0.375, 0.5]
    """

    concentration: float | str = "auto"
    discount: float | str = "auto"
    now: tuple[float, float] = field(default=(math.nan, math.nan), repr=False, kw_only=True)
    """The current concentration and discount."""

    name = "pitman-yor"
    parameters = ("concentration", "discount")

    def __post_init__(self) -> None:
        if self.discount != 0:
            check_parameter("discount", self.discount, 0.0, 1.0)
        lowest = 0.0 if is_auto(self.discount) else -float(self.discount)
        check_parameter("concentration", self.concentration, lowest)
        now = list(FIRST if math.isnan(self.now[0]) else self.now)
        for index, name in enumerate(self.parameters):
            value: Any = getattr(self, name)
            if not is_auto(value):
                now[index] = float(value)
                object.__setattr__(self, name, now[index])
        object.__setattr__(self, "now", tuple(now))

    @property
    def values(self) -> tuple[float, ...]:
        return self.now

    def at(self, values: tuple[float, ...]) -> PitmanYor:
        concentration, discount = (float(value) for value in values)
        return replace(
            self,
            concentration=self.concentration if is_auto(self.concentration) else concentration,
            discount=self.discount if is_auto(self.discount) else discount,
            now=(concentration, discount),
        )

    @property
    def learned(self) -> tuple[str, ...]:
        return tuple(name for name in self.parameters if is_auto(getattr(self, name)))

    @property
    def shift(self) -> float:
        return -self.now[1]

    @property
    def side(self) -> float:
        return 0.5 * (self.now[0] + self.now[1])

    def log_new(self, points: float, clusters: int) -> Float64Array:
        concentration, discount = self.now
        found = np.zeros(clusters)
        # The very first cluster costs nothing.
        found[1:] = np.log(concentration + discount * np.arange(1, clusters))
        return found

    def log_one_cluster(self, points: float) -> float:
        return math.lgamma(self.now[0] + 1.0) - math.lgamma(self.now[0] + points)

    def rest(self, key: Any, points: float, clusters: int) -> float:
        """Given the partition, weights are Dirichlet with n_k - discount for clusters, and this for the rest (Pitman
        1996, corollary 20)."""
        return max(self.now[0] + clusters * self.now[1], 0.0)

    def log_density(self) -> float:
        return log_gamma_density(self.now[0], ALPHA_PRIOR) if "concentration" in self.learned else 0.0

    def draw(self, key: Any, counts: Float64Array) -> PitmanYor:
        counts = counts[counts > 0]
        if not (self.learned and len(counts)):
            return self
        from scipy.special import gammaln

        points, numbers, rng = float(counts.sum()), np.arange(1, len(counts)), Generator(SFC64(int(key)))
        concentration, discount = self.now

        def of_concentration(log_value: float) -> float:
            value = math.exp(log_value)
            of_prior = log_gamma_density(value, ALPHA_PRIOR) + log_value
            new_clusters = float(np.log(value + discount * numbers).sum())
            return of_prior + self.at((value, discount)).log_one_cluster(points) + new_clusters

        def of_discount(value: float) -> float:
            sizes = float(gammaln(counts - value).sum()) - len(counts) * math.lgamma(1.0 - value)
            return sizes + float(np.log(concentration + value * numbers).sum())

        if "concentration" in self.learned:
            log_value = slice_step(rng, math.log(concentration), of_concentration, STEP, -math.inf, math.inf)
            concentration = math.exp(log_value)
        if "discount" in self.learned:
            discount = slice_step(rng, discount, of_discount, 1.0, max(0.0, -concentration), 1.0)
        return self.at((concentration, discount))

    def cluster_probabilities(self, points: int) -> Float64Array:
        """p(K | N): exact for few points, from drawn partitions for many."""
        if points <= FEW:
            concentrations, discounts = self._nodes(NODES if self.learned else 1)

            def chance(n: int, clusters: Float64Array) -> Any:
                return (concentrations[:, None] + discounts[:, None] * clusters) / (concentrations[:, None] + n)

            return np.asarray(grown(points, chance, len(discounts)).mean(axis=0))
        rng, (concentrations, discounts) = np.random.default_rng(0), self._nodes(DRAWN)
        clusters, n = np.ones(DRAWN), 1
        while n < points:
            end = min(points, max(n + 1, int((1 + BLOCK) * n)))
            # How many of the next points begin a cluster is nearly a Poisson variable.
            if n > 9:
                hazard = np.log((concentrations + end - 0.5) / (concentrations + n - 0.5))
            else:
                hazard = (end - n) / (concentrations + n)
            new = (concentrations + discounts * clusters) * hazard
            clusters += rng.random(DRAWN) < new if end == n + 1 else rng.poisson(new)
            n = end
        return np.asarray(np.bincount(np.minimum(clusters, points).astype(np.int64)) / DRAWN)

    def _nodes(self, count: int) -> tuple[Float64Array, Float64Array]:
        """Concentrations and discounts by their prior, for averages."""
        one, other = shares(count)
        concentrations, discounts = (np.full(count, value) for value in self.now)
        if "concentration" in self.learned:
            from scipy import stats

            concentrations = stats.gamma(ALPHA_PRIOR[0], scale=1 / ALPHA_PRIOR[1]).ppf(one)
        return concentrations, other if "discount" in self.learned else discounts
