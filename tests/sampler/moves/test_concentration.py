"""The concentration's update against its conditional distribution, integrated numerically."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from dpmmwrap.partitions.dirichlet_process import draw_alpha
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
        alpha = draw_alpha(next_key(rng), alpha, clusters, points, (shape, rate))
        drawn.append(alpha)
    # Every tenth: neighbours of the chain are alike.
    assert stats.kstest(drawn[::10], lambda x: np.interp(x, grid, cdf)).pvalue > 1e-3
