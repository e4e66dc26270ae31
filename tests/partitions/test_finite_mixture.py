"""Mixtures of finite mixtures: V_N(t) against sums of fractions, and the number of components without points."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.special import gammaln

from dpmmwrap.partitions import FiniteMixture
from dpmmwrap.partitions.finite_mixture import log_v


def exact_log_v(gamma: Fraction, rate: Fraction, points: int, clusters: int, terms: int = 80) -> float:
    """V_N(t) / exp(-rate) by its definition, in fractions: the sum over k of p(k) k (k-1) ... (k-t+1) / (gamma k)^(N),
    a rising factorial."""
    total = Fraction(0)
    for k in range(clusters, clusters + terms):
        falling, rising = Fraction(1), Fraction(1)
        for i in range(clusters):
            falling *= k - i
        for i in range(points):
            rising *= gamma * k + i
        total += rate ** (k - 1) / math.factorial(k - 1) * falling / rising
    return math.log(total.numerator) - math.log(total.denominator) - float(rate)


@pytest.mark.parametrize(("gamma", "rate"), [("1", "1"), ("1/2", "3"), ("3", "1/5")])
@pytest.mark.parametrize("points", [1, 5, 82])
def test_v_is_the_sum_of_its_series(gamma: str, rate: str, points: int) -> None:
    found = log_v(float(Fraction(gamma)), float(Fraction(rate)), points, 8)
    for clusters in range(1, min(points, 8) + 1):
        expected = exact_log_v(Fraction(gamma), Fraction(rate), points, clusters)
        assert found[clusters - 1] == pytest.approx(expected, rel=1e-12, abs=1e-11)


def test_v_of_many_points() -> None:
    """V_N(t) = (N + gamma t) V_{N+1}(t) + gamma V_{N+1}(t+1) (Miller and Harrison 2018, proposition 3.2); and all but
    nothing is left of it beyond its first term, k = t."""
    gamma, rate, points, t = 0.7, 2.0, 1_000_000, np.arange(1, 8)
    now, then = log_v(gamma, rate, points, 8), log_v(gamma, rate, points + 1, 8)
    both = np.logaddexp(np.log(points + gamma * t) + then[:-1], np.log(gamma) + then[1:])
    np.testing.assert_allclose(both, now[:-1], rtol=1e-14)
    first = np.log(t) + (t - 1) * np.log(rate) - rate + gammaln(gamma * t) - gammaln(gamma * t + points)
    np.testing.assert_allclose(now[:-1] - first, 0.0, atol=1e-2)


def test_components_without_points_are_drawn_given_the_clusters() -> None:
    """p(k | t, N) is proportional to p(k) k! / (k - t)! Gamma(gamma k) / Gamma(gamma k + N)."""
    prior, points, clusters = FiniteMixture(0.2, 5.0), 12, 2
    k = np.arange(clusters, 40)
    logs = (k - 1) * math.log(5.0) - gammaln(k) + gammaln(k + 1) - gammaln(k - clusters + 1)
    logs += gammaln(0.2 * k) - gammaln(0.2 * k + points)
    shares = np.exp(logs - np.logaddexp.reduce(logs))
    drawn = [prior.rest(np.uint64(7919 * key), points, clusters) / 0.2 for key in range(5000)]
    found = np.bincount(np.round(drawn).astype(int), minlength=len(k)) / 5000
    np.testing.assert_allclose(drawn, np.round(drawn), atol=1e-9)
    assert 0.5 * np.abs(found - shares).sum() < 0.03


def test_clusters_of_many_points_are_the_components() -> None:
    found = FiniteMixture(1.0, 1.0).cluster_probabilities(10**6)
    poisson = np.exp(-1.0) / np.array([math.factorial(k) for k in range(6)])
    np.testing.assert_allclose(found[1:7], poisson, atol=1e-4)
    near, far = (FiniteMixture(0.5, 3.0).cluster_probabilities(points) for points in (500, 501))
    np.testing.assert_allclose(near, far, atol=1e-3)
