"""The Pitman-Yor process: its parameters' update, and the number of clusters that it expects."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from dpmmwrap.partitions import PitmanYor
from dpmmwrap.sampler.state import next_key

COUNTS = np.array([40.0, 12.0, 0.0, 5.0, 2.0, 1.0, 1.0])


def log_conditional(theta: Any, discount: Any) -> Any:
    """log p(sizes, parameters), by the formula of Pitman (1995): theta is Gamma(1, 1), the discount uniform."""
    sizes = COUNTS[COUNTS > 0]
    logs = sum(np.log(theta + k * discount) for k in range(1, len(sizes))) - theta
    logs = logs - (gammaln(theta + sizes.sum()) - gammaln(theta + 1))
    return logs + sum(gammaln(n - discount) - gammaln(1 - discount) for n in sizes)


@pytest.mark.parametrize("prior", [PitmanYor("auto", 0.3), PitmanYor(1.5, "auto"), PitmanYor()], ids=str)
def test_parameters_are_drawn_from_their_posterior(prior: PitmanYor) -> None:
    log_thetas, discounts = np.linspace(-9, 4, 1301)[:, None], (np.arange(400)[None] + 0.5) / 400
    if prior.concentration != "auto":
        log_thetas = np.log(np.array([[float(prior.concentration)]]))
    if prior.discount != "auto":
        discounts = np.array([[float(prior.discount)]])
    logs = log_conditional(np.exp(log_thetas), discounts) + log_thetas
    shares = np.exp(logs - logs.max())
    shares /= shares.sum()
    rng, drawn = np.random.Generator(np.random.SFC64(0)), []
    for _ in range(12_000):
        prior = prior.draw(next_key(rng), COUNTS)
        drawn.append(prior.values)
    # Every eighth: neighbours of the chain are alike.
    thetas, found = np.array(drawn)[::8].T
    if "concentration" in prior.learned:
        cdf = np.cumsum(shares.sum(axis=1))
        assert stats.kstest(np.log(thetas), lambda x: np.interp(x, log_thetas[:, 0], cdf)).pvalue > 1e-3
    if "discount" in prior.learned:
        cdf = np.cumsum(shares.sum(axis=0))
        assert stats.kstest(found, lambda x: np.interp(x, discounts[0] + 0.5 / 400, cdf)).pvalue > 1e-3


@pytest.mark.parametrize(("theta", "discount"), [(1.0, 0.3), (0.4, 0.7), (-0.3, 0.5)])
def test_the_expected_number_of_clusters(theta: float, discount: float) -> None:
    """E[K] = theta / d ((theta + d)_N / (theta)_N - 1), with rising factorials (Pitman 2006, equation 3.13)."""
    prior = PitmanYor(theta, discount)
    for points in (10, 400, 20_000):
        log_ratio = gammaln(theta + discount + points) - gammaln(theta + discount + 1)
        log_ratio += gammaln(theta + 1) - gammaln(theta + points)
        expected = ((theta + discount) * np.exp(log_ratio) - theta) / discount
        found = prior.cluster_probabilities(points)
        # Exact up to 500 points; else by drawn partitions.
        assert found @ np.arange(len(found)) == pytest.approx(expected, rel=1e-9 if points <= 500 else 0.05)


def test_without_a_discount_it_is_a_dirichlet_process() -> None:
    from dpmmwrap.partitions import DirichletProcess

    one, other = PitmanYor(1.7, 0.0), DirichletProcess(1.7)
    assert one.log_partition(COUNTS) == pytest.approx(other.log_partition(COUNTS))
    np.testing.assert_allclose(one.cluster_probabilities(50), other.cluster_probabilities(50))
    assert one.rest(0, 61, 6) == other.rest(0, 61, 6)
