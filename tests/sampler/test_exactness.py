"""Draws against a plain collapsed Gibbs sampler, Geweke's joint distribution test, simulation-based calibration; and
that each of them finds out a broken move. `scripts/posterior.py` does the same at length."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from exactness import enumeration, joint
from exactness.broken import BREAKAGES, LEARNING
from exactness.gibbs import plain_gibbs
from exactness.running import Seen, apart, few_of_each, problem_of, run
from exactness.sets import families, measured, prior_of_cells
from exactness.summaries import Agreement, agreement

LEARNED = (1.0, 0.1)


@pytest.mark.parametrize("alpha", [1.0, (2.0, 1.0)])
def test_the_plain_sampler_itself_is_right(alpha: Any) -> None:
    X, prior = families()["full"]
    found = apart(plain_gibbs(X, prior, alpha, 4000, thin=3), enumeration.posterior(X, prior, alpha))
    assert found.z < 5 and found.clusters < 0.04


WIDTHS = {10.0: 0.4, LEARNED: 0.4}
"""Of the prior: so narrow that iris has many clusters, and even the plain sampler gets about."""


@pytest.fixture(scope="module")
def plain() -> dict[Any, Seen]:
    """Of iris."""
    X = measured("iris")
    return {alpha: plain_gibbs(X, prior_of_cells(X, width), alpha, 800, thin=5) for alpha, width in WIDTHS.items()}


def agreement_on_iris(plain: dict[Any, Seen], alpha: Any) -> Agreement:
    X = measured("iris")
    problem = problem_of(X, prior_of_cells(X, WIDTHS[alpha]), alpha)
    return agreement(plain[alpha], run(problem, 1200, thin=2))


@pytest.mark.parametrize("alpha", [10.0, LEARNED])
def test_iris_as_the_plain_sampler_has_it(plain: dict[Any, Seen], alpha: Any) -> None:
    found = agreement_on_iris(plain, alpha)
    assert found.z < 3 and found.clusters < 0.12 and found.pairs < 0.15


@pytest.mark.parametrize("broken", ["log q left out", "clusters may empty"])
def test_the_plain_sampler_finds_out_a_broken_move(plain: dict[Any, Seen], broken: str) -> None:
    with BREAKAGES[broken]():
        found = agreement_on_iris(plain, 10.0)
    assert found.z > 5 and found.clusters > 0.2


@pytest.mark.parametrize("family", ["full", "counts"])
def test_the_joint_distribution(family: str) -> None:
    with few_of_each():
        z = joint.geweke(family, 8, 1500, 1500, seed=0)
    assert np.abs(z).max() < 4


@pytest.mark.parametrize("broken", ["log q left out", "one Gamma for alpha"])
def test_the_joint_distribution_finds_out_a_broken_move(broken: str) -> None:
    with few_of_each(), BREAKAGES[broken]():
        z = joint.geweke("counts", 8, 1000, 1000, seed=0)
    assert np.abs(z).max() > 5


@pytest.mark.parametrize("family", joint.HYPERPRIORS)
def test_the_joint_distribution_of_a_learned_prior(family: str) -> None:
    with few_of_each():
        # Five points: the more there are, the more slowly hyperparameters and data follow each other.
        z = joint.geweke(family, 5, 1500, 1500, seed=0)
    assert len(z) == len(joint.FEATURES + joint.LEARNED_FEATURES) and np.abs(z).max() < 4


@pytest.mark.parametrize("wrong", LEARNING)
def test_the_joint_distribution_finds_out_a_wrong_hyperparameter(wrong: str) -> None:
    with few_of_each(), LEARNING[wrong]():
        z = joint.geweke("full, learned", 5, 600, 600, seed=0)
    assert np.abs(z).max() > 6


# Ranks are slow: enumeration and the joint distribution check the same updates and find each wrong one in less time.


@pytest.mark.slow
@pytest.mark.parametrize("family", joint.HYPERPRIORS)
def test_ranks_of_the_true_hyperparameters_are_uniform(family: str) -> None:
    ranks = joint.calibrate(family, 40, 15, draws=19, thin=8, seed=0)
    assert {"kappa", "width", "strength"} < set(ranks)
    assert min(joint.uniformity(own, 19, 5) for own in ranks.values()) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("wrong", LEARNING)
def test_ranks_find_out_a_wrong_hyperparameter(wrong: str) -> None:
    with LEARNING[wrong]():
        ranks = joint.calibrate("diag, learned above cells", 30, 15, draws=19, thin=8, seed=0)
    assert joint.uniformity(ranks[wrong], 19, 5) < 1e-4


@pytest.mark.slow
def test_ranks_of_the_truth_are_uniform() -> None:
    ranks = joint.calibrate("full", 40, 50, draws=19, thin=6, seed=0)
    assert min(joint.uniformity(own, 19, 5) for own in ranks.values()) > 1e-3


@pytest.mark.slow
def test_ranks_of_the_truth_find_out_a_broken_move() -> None:
    with BREAKAGES["log q left out"]():
        ranks = joint.calibrate("full", 25, 50, draws=19, thin=6, seed=0)
    assert min(joint.uniformity(own, 19, 5) for own in ranks.values()) < 1e-5


def test_uniformity_of_ranks_is_tested_as_it_should_be() -> None:
    even = np.repeat(np.arange(20), 4)
    assert joint.uniformity(even, 19, 5) == 1.0
    assert joint.uniformity(np.zeros(40, int), 19, 5) < 1e-20
    assert joint.uniformity(np.full(40, 19), 19, 5) < 1e-20


def test_partitions_from_the_prior() -> None:
    """The Chinese restaurant's mean number of tables is the sum of alpha / (alpha + i)."""
    rng = np.random.default_rng(0)
    found = [joint.draw_partition(2.0, 20, rng).max() + 1 for _ in range(2000)]
    expected = (2.0 / (2.0 + np.arange(20))).sum()
    assert np.mean(found) == pytest.approx(expected, abs=4 * np.std(found) / np.sqrt(2000))


@pytest.mark.parametrize("family", ["full", "diag"])
def test_points_from_the_prior(family: str) -> None:
    """One point of a cluster follows the prior predictive, Student's t."""
    prior = joint.PRIORS[family]
    points = joint.draw_points(prior, np.arange(4000), np.random.default_rng(0))
    freedom = prior.degrees_of_freedom - (1 if family == "full" else 0)
    scale = prior.scale[0, 0] if family == "full" else prior.scale[0]
    width = np.sqrt(scale * (prior.mean_strength + 1) / (prior.mean_strength * freedom))
    assert stats.kstest(points[:, 0], stats.t(freedom, scale=width).cdf).pvalue > 1e-3
