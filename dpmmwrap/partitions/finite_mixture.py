"""Mixtures of finite mixtures (Miller and Harrison 2018): a fixed but unknown number of components."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.random import SFC64, Generator

from dpmmwrap.numerics.arrays import Float64Array
from dpmmwrap.partitions.base import PartitionPrior, check_parameter, is_auto
from dpmmwrap.partitions.growth import FEW, grown


@dataclass(frozen=True)
class FiniteMixture(PartitionPrior):
    """A finite mixture with an unknown number of components: one less is a Poisson variable.

    Components without points are no clusters. For any number of points, there are no more clusters than components.

    Parameters
    ----------
    gamma : float, default=1.0
        The parameter of the symmetric Dirichlet distribution of the components' weights.
    rate : float, default=1.0
        The mean of the number of components, minus one.

    Examples
    --------
    >>> from dpmmwrap.partitions import FiniteMixture
    >>> FiniteMixture().cluster_probabilities(3).round(3).tolist()
    [0.0, 0.578, 0.357, 0.065]
    """

    gamma: float = 1.0
    rate: float = 1.0

    name = "finite"
    parameters = ("gamma",)

    def __post_init__(self) -> None:
        for name in ("gamma", "rate"):
            if is_auto(getattr(self, name)):
                raise ValueError(f"{name} should be a number: a finite mixture learns no parameters")
            check_parameter(name, getattr(self, name), 0.0)
            object.__setattr__(self, name, float(getattr(self, name)))

    @property
    def values(self) -> tuple[float, ...]:
        return (self.gamma,)

    def at(self, values: tuple[float, ...]) -> FiniteMixture:
        return replace(self, gamma=float(values[0]))

    @property
    def learned(self) -> tuple[str, ...]:
        return ()

    @property
    def shift(self) -> float:
        return self.gamma

    @property
    def side(self) -> float:
        return self.gamma

    def log_new(self, points: float, clusters: int) -> Float64Array:
        found = np.zeros(clusters)
        # The very first cluster costs nothing.
        found[1:] = np.diff(self._log_v(points, clusters)) + math.log(self.gamma)
        return found

    def log_one_cluster(self, points: float) -> float:
        return float(self._log_v(points, 1)[0]) + math.log(self.gamma)

    def rest(self, key: Any, points: float, clusters: int) -> float:
        """gamma for each component without points, whose number is drawn given the partition."""
        terms = log_terms(self.gamma, self.rate, points or 1.0, np.arange(clusters, clusters + 1))[0]
        cumulative = np.cumsum(np.exp(terms - terms.max()))
        drawn = Generator(SFC64(int(key))).random() * cumulative[-1]
        return self.gamma * int(np.searchsorted(cumulative, drawn, side="right"))

    def cluster_probabilities(self, points: int) -> Float64Array:
        """p(K | N). Beyond a few hundred points, each empty component gets its first point independently of the others:
        exact up to terms of one over that number."""
        from scipy import stats
        from scipy.special import gammaln

        most = 1 + int(stats.poisson(self.rate).ppf(1 - 1e-9))
        components = np.arange(1.0, most + 1)[:, None]

        def chance(n: int, clusters: Float64Array) -> Any:
            return np.maximum(components - clusters, 0.0) * self.gamma / (components * self.gamma + n)

        few = min(points, FEW)
        found = grown(few, chance, most)[:, : most + 1]
        if points > few:
            total = components[:, 0] * self.gamma
            logs = gammaln(total + few) - gammaln(total + few - self.gamma)
            logs += gammaln(total + points - self.gamma) - gammaln(total + points)
            found = np.array([filled(row, k + 1, math.exp(logs[k])) for k, row in enumerate(found)])
        weights = stats.poisson(self.rate).pmf(np.arange(most))
        return np.asarray(weights / weights.sum() @ found)

    def _log_v(self, points: float, clusters: int) -> Float64Array:
        return log_v(self.gamma, self.rate, points, 1 << max(clusters - 1, 1).bit_length())[:clusters]


@lru_cache(maxsize=64)
def log_v(gamma: float, rate: float, points: float, clusters: int) -> Float64Array:
    """log V_N(t) for t = 1, ..., `clusters` (Miller and Harrison 2018, equation 3.2).

    V_N(t) is the sum over the number k of components of p(k) k! / (k - t)! Gamma(gamma k) / Gamma(gamma k + N). As
    k - 1 is a Poisson variable, the terms decrease like its probabilities at k - t.
    """
    terms = log_terms(gamma, rate, points, np.arange(1, clusters + 1))
    largest = terms.max(axis=1)
    found = largest + np.log(np.exp(terms - largest[:, None]).sum(axis=1)) - math.lgamma(points)
    found.setflags(write=False)
    return np.asarray(found)


def log_terms(gamma: float, rate: float, points: float, clusters: Any) -> Float64Array:
    """log of the terms of V_N(t), times Gamma(N), for these numbers t of clusters and 0, 1, ... empty components."""
    from scipy.special import betaln, gammaln

    empty = np.arange(int(rate + 12 * math.sqrt(rate) + 40))
    components = np.maximum(np.asarray(clusters)[:, None] + empty, 1)
    poisson = (components - 1) * math.log(rate) - rate - gammaln(empty + 1)
    return np.asarray(poisson + np.log(components) + betaln(gamma * components, points))


def filled(row: Float64Array, components: int, stays: float) -> Float64Array:
    """p(K) if each empty component stays empty with this probability, independently of the others."""
    from scipy import stats

    found = np.zeros_like(row)
    for clusters in range(1, components + 1):
        empty = np.arange(components - clusters + 1)
        found[components - empty] += row[clusters] * stats.binom(components - clusters, stays).pmf(empty)
    return found
