"""R-hat and effective sample sizes, and what is said about them."""

from __future__ import annotations

import math
import warnings

import numpy as np
import pytest

from dpmmwrap.posterior.diagnostics import Diagnostic, diagnose, diagnostic, disagreement, interval
from dpmmwrap.sampler.draws import Draws


def draws_of(n_clusters: np.ndarray, alpha: float | np.ndarray = 1.0) -> Draws:
    n_clusters = np.asarray(n_clusters)
    rng = np.random.default_rng(0)
    n_moves = np.ones(n_clusters.shape, int)
    weights = rng.dirichlet(np.full(5, 20.0), n_clusters.shape)
    log_posterior = rng.normal(size=n_clusters.shape)
    alphas = np.broadcast_to(alpha, n_clusters.shape)
    return Draws(n_clusters, alphas, log_posterior, weights, n_moves, n_moves, n_moves, n_moves)


def autocorrelated(chains: int, length: int, rho: float, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    noise = rng.normal(size=(chains, length)) * math.sqrt(1 - rho**2)
    values = np.empty((chains, length))
    values[:, 0] = rng.normal(size=chains)
    for t in range(1, length):
        values[:, t] = rho * values[:, t - 1] + noise[:, t]
    return values


def test_the_same_as_arviz() -> None:
    arviz = pytest.importorskip("arviz")
    values = autocorrelated(4, 300, 0.7)
    found = diagnostic("log_posterior", values)
    assert found.r_hat == pytest.approx(float(arviz.rhat(values)), rel=1e-10)
    assert found.ess_bulk == pytest.approx(float(arviz.ess(values, method="bulk")), rel=1e-10)
    assert found.ess_tail == pytest.approx(float(arviz.ess(values, method="tail")), rel=1e-6)
    assert (found.mean, found.sd) == pytest.approx((values.mean(), values.std(ddof=1)))


def test_effective_size_of_an_autoregression() -> None:
    # 1 of (1 + rho) / (1 - rho) draws counts.
    found = diagnostic("log_posterior", autocorrelated(4, 20_000, 0.5))
    assert found.ess_bulk == pytest.approx(80_000 / 3, rel=0.1)
    assert abs(found.r_hat - 1) < 0.005


def test_weights_go_by_size_and_a_fixed_concentration_is_left_out() -> None:
    n_clusters = np.random.default_rng(1).integers(4, 7, (2, 100))
    draws = draws_of(n_clusters)
    found = {row.name: row for row in diagnose(draws)}
    assert list(found) == ["n_clusters", "log_posterior", "weight_1", "weight_2", "weight_3"]
    assert found["weight_1"].mean == pytest.approx(draws.weights.max(axis=2).mean())
    assert found["weight_2"].mean == pytest.approx(np.median(np.sort(draws.weights)[..., 3:4], axis=2).mean())
    assert "alpha" in {row.name for row in diagnose(draws_of(n_clusters, np.arange(100.0)))}


def test_few_clusters_have_few_weights() -> None:
    draws = draws_of(np.ones((2, 50), int))
    one = np.zeros((2, 50, 5))
    one[..., 3] = 1.0
    names = [row.name for row in diagnose(Draws(**draws.arrays() | {"weights": one}))]
    assert names == ["n_clusters", "log_posterior", "weight_1"]


@pytest.mark.parametrize("chains", [1, 4])
def test_the_same_value_everywhere_is_agreement(chains: int) -> None:
    found = diagnostic("n_clusters", np.full((chains, 100), 7.0))
    assert found == Diagnostic("n_clusters", 7.0, 0.0, 1.0, 100.0 * chains, 100.0 * chains)


def test_chains_that_stay_at_different_values_never_met() -> None:
    assert diagnostic("n_clusters", np.repeat([[3.0], [4.0]], 50, axis=1)).r_hat == math.inf
    # One that jumps in the middle is as bad.
    assert diagnostic("n_clusters", np.repeat([[3.0, 4.0]], 50, axis=1)).r_hat == math.inf


def test_two_values_at_equal_shares_raise_no_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = diagnostic("n_clusters", np.tile([3.0, 4.0], (4, 50)))
    assert found.r_hat == pytest.approx(1, abs=0.02)


def test_one_chain_is_compared_with_itself() -> None:
    steady = autocorrelated(1, 400, 0.0)
    assert diagnostic("log_posterior", steady).r_hat < 1.02
    assert diagnostic("log_posterior", steady + np.linspace(0, 3, 400)).r_hat > 1.2


@pytest.mark.parametrize("shape", [(4, 3), (1, 1), (2, 1)])
def test_too_few_draws_say_nothing(shape: tuple[int, int]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = diagnose(draws_of(np.arange(shape[0] * shape[1]).reshape(shape)))
    assert all(math.isnan(row.r_hat) and math.isnan(row.ess_bulk) for row in found)
    assert "too few draws" in str(disagreement(found, shape[0]))


def test_what_is_said() -> None:
    rng = np.random.default_rng(0)
    n_clusters = rng.integers(5, 9, (4, 500))
    assert disagreement(diagnose(draws_of(n_clusters)), 4) == []
    (apart,) = disagreement(diagnose(draws_of(n_clusters + 4 * np.arange(4)[:, None])), 4)
    assert apart.startswith("the chains disagree: R-hat of the number of clusters is") and "max_iter" in apart
    (drifting,) = disagreement(diagnose(draws_of(n_clusters[:1] + np.arange(500) // 50)), 1)
    assert drifting.startswith("the chain has not converged") and "several chains" in drifting
    (few,) = disagreement(diagnose(draws_of(n_clusters[:, :20])), 4)
    assert "effective sample size" in few and "draw more" in few


def test_the_worst_is_named_and_not_a_number_is_passed_over() -> None:
    fine = Diagnostic("log_posterior", 0.0, 1.0, 1.0, 900.0, 900.0)
    unknown = Diagnostic("n_clusters", 0.0, 1.0, math.nan, math.nan, math.nan)
    worst = Diagnostic("weight_2", 0.0, 1.0, math.inf, 4.0, 4.0)
    assert disagreement([unknown, fine], 2) == []
    for order in ([unknown, fine, worst], [worst, fine, unknown]):
        assert "the second largest cluster's weight is infinite" in str(disagreement(order, 2))
    slow = fine._replace(name="alpha", ess_tail=31.4)
    assert "effective sample size of the concentration is only 31," in str(disagreement([fine, slow], 2))


@pytest.mark.parametrize(
    ("values", "level", "expected"),
    [
        ([3] * 50, 0.95, (3, 3)),
        (range(1, 101), 0.9, (6, 95)),
        (range(1, 101), 1.0, (1, 100)),
        # 24 of 1,000 may lie outside at each end, and do; 26 may not.
        ([1] * 24 + [5] * 976, 0.95, (5, 5)),
        ([1] * 26 + [5] * 974, 0.95, (1, 5)),
        ([5] * 974 + [9] * 26, 0.95, (5, 9)),
        ([4], 0.95, (4, 4)),
    ],
)
def test_interval(values: list[int], level: float, expected: tuple[int, int]) -> None:
    shuffled = np.random.default_rng(0).permutation(list(values))
    assert interval(shuffled.reshape(1, -1), level) == expected
    low, high = interval(shuffled, level)
    assert ((shuffled >= low) & (shuffled <= high)).mean() >= level


def test_interval_refuses_nonsense() -> None:
    with pytest.raises(ValueError, match="level"):
        interval(np.array([3]), 95)
    with pytest.raises(ValueError, match="at least one draw"):
        interval(np.array([], int))
