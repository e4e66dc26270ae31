"""The Dirichlet process: the number of clusters grows with the logarithm of the number of points."""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array
from dpmmwrap.numerics.special import compiled_float64 as compiled
from dpmmwrap.numerics.special import new_array
from dpmmwrap.numerics.variates import key_from, random_bits, standard_gammas, uniform
from dpmmwrap.partitions.base import PartitionPrior, check_parameter, is_auto, log_gamma_density, sizes
from dpmmwrap.partitions.growth import FEW, NODES, grown, shares

ALPHA_PRIOR = (1.0, 1.0)
"""The default shape and rate of a learned concentration's Gamma prior. With probability 0.9 it expects 1 to 12 clusters
among a hundred points, and 1 to 40 among a million. A hundred clusters in the data cost about twenty nats."""


@dataclass(frozen=True)
class DirichletProcess(PartitionPrior):
    """The Dirichlet process.

    Parameters
    ----------
    concentration : float or "auto", default="auto"
        The weight of a new cluster: more gives more clusters. "auto" learns it.
    prior : (float, float), default=(1, 1)
        Shape and rate of the Gamma prior of a learned concentration.

    Examples
    --------
    >>> from dpmmwrap.partitions import DirichletProcess
    >>> DirichletProcess(1.0).cluster_probabilities(3).round(3).tolist()
    [0.0, 0.333, 0.5, 0.167]
    """

    concentration: float | str = "auto"
    prior: tuple[float, float] = ALPHA_PRIOR
    now: float = field(default=math.nan, repr=False, kw_only=True)
    """The current concentration."""

    name = "dirichlet"
    parameters = ("concentration",)

    def __post_init__(self) -> None:
        check_parameter("concentration", self.concentration, 0.0)
        if np.shape(self.prior) != (2,) or not min(self.prior) > 0:
            raise ValueError(f"prior should be two numbers above 0, a shape and a rate, not {self.prior!r}")
        if not is_auto(self.concentration):
            object.__setattr__(self, "concentration", float(self.concentration))
            object.__setattr__(self, "now", self.concentration)
        elif math.isnan(self.now):
            object.__setattr__(self, "now", 1.0)

    @property
    def values(self) -> tuple[float, ...]:
        return (self.now,)

    def at(self, values: tuple[float, ...]) -> DirichletProcess:
        if is_auto(self.concentration):
            return self._with(now=float(values[0]))
        return replace(self, concentration=float(values[0]))

    @property
    def learned(self) -> tuple[str, ...]:
        return ("concentration",) if is_auto(self.concentration) else ()

    @property
    def shift(self) -> float:
        return 0.0

    @property
    def side(self) -> float:
        return 0.5 * self.now

    def log_new(self, points: float, clusters: int) -> Float64Array:
        return np.full(clusters, math.log(self.now))

    def log_one_cluster(self, points: float) -> float:
        return math.lgamma(self.now + 1.0) - math.lgamma(self.now + points) + math.lgamma(1.0)

    def rest(self, key: Any, points: float, clusters: int) -> float:
        return self.now

    def log_density(self) -> float:
        return log_gamma_density(self.now, self.prior) if self.learned else 0.0

    def draw(self, key: Any, counts: Float64Array) -> DirichletProcess:
        points, clusters = sizes(counts)
        if not (self.learned and points):
            return self
        return self.at((draw_concentration(key, self.now, clusters, points, self.prior),))

    def cluster_probabilities(self, points: int) -> Float64Array:
        """p(K | N), exact for few points. For many, K - 1 is nearly a Poisson variable (Le Cam 1960)."""
        from scipy import stats
        from scipy.special import digamma

        values = np.array([self.now])
        if self.learned:
            values = stats.gamma(self.prior[0], scale=1 / self.prior[1]).ppf(shares(NODES)[0])
        if points <= FEW:
            column = values[:, None]
            return np.asarray(grown(points, lambda n, _: column / (column + n), len(values)).mean(axis=0))
        means = values * (digamma(values + points) - digamma(values)) - 1.0
        most = int(min(points, 1 + stats.poisson(means.max()).ppf(1 - 1e-9)))
        found = stats.poisson(means[:, None]).pmf(np.arange(most)).mean(axis=0)
        return np.append(0.0, found / found.sum())


@compiled
def draw_concentration(key: Any, alpha: Any, clusters: Any, points: Any, prior: Any) -> Any:
    """Draw the concentration given the number of clusters, as Escobar and West (1995): given eta ~ Beta(alpha + 1, N),
    alpha is one of two Gamma variables."""
    shape = prior[0] + clusters
    shapes = new_array(4, np.float64)
    shapes[0], shapes[1], shapes[2], shapes[3] = alpha + 1.0, np.float64(points), shape, shape - 1.0
    gammas = standard_gammas(key, shapes)
    rate = prior[1] - math.log(gammas[0] / (gammas[0] + gammas[1]))
    odds = (shape - 1.0) / (points * rate)
    more = uniform(random_bits(key_from(key, np.uint64(1 << 40)), np.uint64(0))) * (1.0 + odds) < odds
    return (gammas[2] if more else gammas[3]) / rate
