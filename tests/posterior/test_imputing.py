from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import cumulative_trapezoid

from dpmmwrap import DPMM, NIW
from dpmmwrap.families.diagonal.spherical import SphericalNIG
from dpmmwrap.mixture import Mixture
from dpmmwrap.posterior.imputing import impute

FULL = NIW(np.zeros(3), 0.5, 2 * np.eye(3), 5.0)
BALLS = SphericalNIG(np.zeros(3), 0.5, np.full(1, 2.0), 3.0)


def two_clusters(prior: Any) -> tuple[Mixture, np.ndarray]:
    rng = np.random.default_rng(0)
    shape = np.array([[1.0, 0.0, 0.0], [0.9, 0.4, 0.0], [-0.5, 0.3, 0.6]])
    labels = np.repeat([0, 1], [20, 30])
    X = rng.normal(size=(50, 3)) @ shape.T + np.array([[0.0, 0, 0], [3, -2, 1]])[labels]
    return Mixture.from_labels(X.astype(np.float32), labels, prior), X


def density_along(mixture: Mixture, row: np.ndarray, column: int, grid: np.ndarray) -> np.ndarray:
    """The density of one missing value given the rest, from that of whole rows."""
    rows = np.repeat(row[None], len(grid), axis=0)
    rows[:, column] = grid
    density = np.exp(mixture.score_samples(rows) - mixture.score_samples(row[None]))
    return np.asarray(density)


@pytest.mark.parametrize("prior", [FULL, BALLS])
def test_what_is_observed_has_the_density_of_whole_rows_summed(prior: Any) -> None:
    mixture, X = two_clusters(prior)
    row, grid = X[0].copy(), np.linspace(-60, 60, 60_001)
    row[1] = np.nan
    assert np.trapezoid(density_along(mixture, row, 1, grid), grid) == pytest.approx(1.0, abs=1e-3)


@pytest.mark.parametrize("prior", [FULL, BALLS])
def test_means_and_draws_have_the_conditional_distribution(prior: Any) -> None:
    mixture, _ = two_clusters(prior)
    row, grid = np.array([1.5, np.nan, 0.4]), np.linspace(-60, 60, 60_001)
    density = density_along(mixture, row, 1, grid)
    mean = impute(mixture, row[None], None, np.random.default_rng(0))
    assert mean[0, 1] == pytest.approx(np.trapezoid(grid * density, grid), abs=5e-3)
    draws = impute(mixture, row[None], 4000, np.random.default_rng(1))[:, 0]
    assert (draws[:, [0, 2]] == row[[0, 2]]).all()
    reached = cumulative_trapezoid(density, grid, initial=0.0)
    assert stats.kstest(draws[:, 1], lambda x: np.interp(x, grid, reached)).pvalue > 1e-3


def test_two_gaps_are_drawn_together() -> None:
    mixture, _ = two_clusters(FULL)
    row = np.array([[0.3, np.nan, np.nan]])
    draws = impute(mixture, row, 6000, np.random.default_rng(0))[:, 0]
    # Given the first of the drawn values, the second has the conditional distribution of a row with one gap.
    again = draws.copy()
    again[:, 2] = np.nan
    means = impute(mixture, again, None, np.random.default_rng(0))[:, 2]
    assert np.mean(draws[:, 2] - means) == pytest.approx(0.0, abs=0.05)
    assert abs(np.corrcoef(draws[:, 2] - means, draws[:, 1])[0, 1]) < 0.05


@pytest.mark.parametrize("kind", ["full", "diag", "spherical"])
def test_a_model_fills_gaps(kind: str) -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2)) + np.repeat([[0.0, 0.0], [9.0, 9.0]], 60, axis=0)
    model = DPMM(covariance_type=kind, n_chains=1, max_iter=20, random_state=0, backend="native").fit(X)
    gappy = np.array([[9.0, np.nan], [np.nan, 0.0], [1.0, 2.0], [np.nan, np.nan]])
    found = model.impute(gappy)
    assert found.shape == (4, 2) and (found[2] == gappy[2]).all()
    np.testing.assert_allclose(found[[0, 1], [1, 0]], [9.0, 0.0], atol=0.7)
    np.testing.assert_allclose(found[3], X.mean(axis=0), atol=0.3)
    draws = model.impute(gappy, n_draws=5)
    assert draws.shape == (5, 4, 2) and not np.isnan(draws).any()
    np.testing.assert_array_equal(draws, model.impute(gappy, n_draws=5))


def test_draws_are_averaged_over() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 2)) + np.repeat([[0.0, 0.0], [9.0, 9.0]], 30, axis=0)
    X[3, 1] = np.nan
    settings: dict[str, Any] = {"n_draws": 6, "thin": 1, "n_chains": 2, "max_iter": 20, "backend": "native"}
    with pytest.warns(UserWarning, match="R-hat|effective sample size"):
        model = DPMM(covariance_type="full", random_state=0, **settings).fit(X)
    assert model.impute(X)[3, 1] == pytest.approx(0.0, abs=1.0)
    assert not np.isnan(model.impute(X, n_draws=3)).any()


def test_columns_that_were_left_out_are_filled() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 1)) + np.repeat([[0.0], [9.0]], 50, axis=0)
    X = np.hstack([x, rng.normal(size=(100, 1)), 2 * x + 1])
    model = DPMM(covariance_type="full", n_chains=1, max_iter=20, random_state=0, backend="native").fit(X)
    assert model.impute([[9.0, 0.0, np.nan]])[0, 2] == pytest.approx(19.0, abs=1e-3)


def test_counts_are_not_imputed() -> None:
    counts = np.random.default_rng(0).poisson(3.0, size=(30, 3))
    model = DPMM(family="multinomial", n_chains=1, max_iter=5, random_state=0, backend="native").fit(counts)
    with pytest.raises(ValueError, match="impute needs Gaussian clusters"):
        model.impute(counts)
