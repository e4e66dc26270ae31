"""The Dirichlet process: its concentration's update, and the number of clusters that it expects."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from dpmmwrap.partitions.dirichlet_process import DirichletProcess, draw_concentration
from dpmmwrap.sampler.state import next_key


@pytest.mark.parametrize(("clusters", "points"), [(1, 10), (4, 50), (30, 5000)])
def test_alpha_is_drawn_from_its_posterior(clusters: int, points: int) -> None:
    """p(alpha | K) is its prior times alpha^K Gamma(alpha) / Gamma(alpha + N)."""
    shape, rate = 1.5, 0.4
    grid = np.exp(np.linspace(-9, 5, 20_001))
    logs = stats.gamma(shape, scale=1 / rate).logpdf(grid) + clusters * np.log(grid)
    logs += gammaln(grid) - gammaln(grid + points)
    density = np.exp(logs - logs.max()) * grid
    cdf = np.cumsum(density) / density.sum()
    rng, alpha, drawn = np.random.Generator(np.random.SFC64(0)), 1.0, []
    for _ in range(20_000):
        alpha = draw_concentration(next_key(rng), alpha, clusters, points, (shape, rate))
        drawn.append(alpha)
    # Every tenth: neighbours of the chain are alike.
    assert stats.kstest(drawn[::10], lambda x: np.interp(x, grid, cdf)).pvalue > 1e-3


def test_the_prior_object_draws_the_same() -> None:
    counts = np.array([30.0, 0.0, 12.0, 8.0])
    prior = DirichletProcess("auto", (1.5, 0.4))
    found = prior.draw(np.uint64(5), counts).values
    assert found == (draw_concentration(np.uint64(5), 1.0, 3, 50, (1.5, 0.4)),)
    assert DirichletProcess(2.0).draw(np.uint64(5), counts) == DirichletProcess(2.0)


@pytest.mark.parametrize("points", [10, 400, 3000])
def test_the_expected_number_of_clusters(points: int) -> None:
    """The i-th point founds one with probability alpha / (alpha + i - 1); exact up to 500 points."""
    found = DirichletProcess(2.0).cluster_probabilities(points)
    expected = (2.0 / (2.0 + np.arange(points))).sum()
    assert found.sum() == pytest.approx(1.0)
    assert found @ np.arange(len(found)) == pytest.approx(expected, rel=1e-10 if points <= 500 else 1e-3)
