"""Gamma priors of Poisson rates: formulas against SciPy, the default prior, the estimator and the command line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from scipy.special import gammaln
from sklearn.metrics import adjusted_rand_score

from dpmmwrap import DPMM, GammaPoisson, cli, load
from dpmmwrap.families.poisson.prior import NO_EXPOSURE, with_exposure_last


def some_rows(rows: int = 30, seed: int = 0) -> np.ndarray:
    """Two columns of events, and the exposure between them."""
    rng = np.random.default_rng(seed)
    exposure = rng.uniform(0.5, 4, rows)
    return np.column_stack([rng.poisson(3 * exposure), exposure, rng.poisson(exposure)])


def clusters(rows: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows of four clusters whose rates differ in size, too, with an exposure that hides it; and which is whose."""
    rng = np.random.default_rng(seed)
    rates = np.array([[1.0, 2.0, 4.0], [4.0, 8.0, 16.0], [9.0, 1.0, 1.0], [1.0, 20.0, 5.0]])
    y, exposure = rng.integers(0, 4, rows), rng.uniform(0.5, 8, rows)
    return np.column_stack([exposure, rng.poisson(rates[y] * exposure[:, None])]), y


PRIOR = GammaPoisson(np.array([1.5, 0.7]), np.array([0.4, 0.9]), exposure=1)


def test_predictives_are_negative_binomial() -> None:
    X = some_rows()
    posterior = PRIOR.posterior(PRIOR.statistics(X))
    shapes, rates = posterior.batch
    np.testing.assert_allclose(shapes[0], PRIOR.shape + X[:, [0, 2]].sum(axis=0))
    np.testing.assert_allclose(rates[0], PRIOR.rate + X[:, 1].sum())
    expected = sum(
        stats.nbinom(shapes[0, j], rates[0, j] / (rates[0, j] + X[:, 1])).logpmf(X[:, column])
        for j, column in enumerate((0, 2))
    )
    np.testing.assert_allclose(posterior.log_predictive(X)[0], expected)


def test_the_marginal_likelihood_is_the_integral_over_rates() -> None:
    X, total = some_rows(4), 0.0
    for j, column in enumerate((0, 2)):

        def density(rate: float, column: int = column, j: int = j) -> float:
            prior = stats.gamma(PRIOR.shape[j], scale=1 / PRIOR.rate[j]).pdf(rate)
            return float(prior * stats.poisson(rate * X[:, 1]).pmf(X[:, column]).prod())

        total += np.log(integrate.quad(density, 0, 20, epsabs=0, limit=200)[0])
    constant = (X[:, [0, 2]] * np.log(X[:, 1:2]) - gammaln(X[:, [0, 2]] + 1)).sum()
    assert PRIOR.log_marginal_likelihood(PRIOR.statistics(X))[0] + constant == pytest.approx(total, rel=1e-6)


def test_without_an_exposure_every_row_counts_as_one() -> None:
    X = some_rows()
    plain = GammaPoisson(PRIOR.shape, PRIOR.rate)
    ones = np.insert(X[:, [0, 2]], 1, 1.0, axis=1)
    np.testing.assert_allclose(plain.log_predictive(X[:, [0, 2]]), PRIOR.log_predictive(ones))
    assert plain.exposure == NO_EXPOSURE and plain.dim == 2 and PRIOR.dim == 3


def test_drawn_rates_are_gamma() -> None:
    posterior = PRIOR.posterior(PRIOR.statistics(some_rows(), np.arange(30) % 3, 3))
    drawn = np.array([np.exp(posterior.draw_tables(np.uint64(key))[:, :2]) for key in range(400)])
    for k in range(3):
        for j in range(2):
            gamma = stats.gamma(posterior.shape[k, j], scale=1 / posterior.rate[k, j])
            assert stats.kstest(drawn[:, k, j], gamma.cdf).pvalue > 1e-3


def test_points_are_drawn_for_one_unit_of_exposure() -> None:
    posterior = PRIOR.posterior(PRIOR.statistics(some_rows()))
    drawn = posterior.sample(np.zeros(20_000, int), np.random.default_rng(0))
    assert (drawn[:, 1] == 1).all()
    np.testing.assert_allclose(drawn[:, [0, 2]].mean(axis=0), posterior.estimates()["rates"][0], rtol=0.05)


def test_the_default_prior_expects_the_rates_of_the_data_whatever_their_units() -> None:
    X, _ = clusters(1000)
    prior = GammaPoisson.from_data(X, 0)
    np.testing.assert_allclose(prior.shape / prior.rate, X[:, 1:].sum(axis=0) / X[:, 0].sum(), rtol=0.01)
    X[:, 0] *= 365
    np.testing.assert_allclose(GammaPoisson.from_data(X, 0).rate, 365 * prior.rate, rtol=1e-6)
    # Nothing to tell apart: no shape is called certain.
    alike = np.random.default_rng(0).poisson(3.0, (500, 2))
    assert (GammaPoisson.from_data(alike).shape == 1.0).all()


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"shape": np.zeros(2)}, "should be positive"),
        ({"rate": np.ones(3)}, "a shape and a rate for each column"),
        ({"exposure": 4}, "no column 4"),
    ],
)
def test_a_prior_that_makes_no_sense_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        GammaPoisson(**{"shape": np.ones(2), "rate": np.ones(2)} | fields)


@pytest.fixture(scope="module")
def fitted() -> tuple[DPMM, np.ndarray, np.ndarray]:
    X, y = clusters(1200)
    return DPMM(family="poisson", exposure=0, n_draws=20, n_chains=2, random_state=0).fit(X), X, y


class TestFit:
    def test_rates_are_found_behind_exposures(self, fitted: tuple[DPMM, np.ndarray, np.ndarray]) -> None:
        model, X, y = fitted
        assert model.n_clusters_ == 4 and adjusted_rand_score(y, model.labels_) > 0.9
        assert model.rates_.shape == (4, 3) and not hasattr(model, "means_")
        for k in range(4):
            own = X[model.labels_ == k]
            np.testing.assert_allclose(model.rates_[k], own[:, 1:].sum(axis=0) / own[:, 0].sum(), rtol=0.05)
        assert not any("whole" in note for note in model.notes_)

    def test_what_it_says_of_new_rows(self, fitted: tuple[DPMM, np.ndarray, np.ndarray], tmp_path: Path) -> None:
        model, X, _ = fitted
        new, y = clusters(300, seed=5)
        assert adjusted_rand_score(y, model.predict(new)) > 0.8
        np.testing.assert_allclose(model.predict_proba(new).sum(axis=1), 1)
        drawn, _ = model.sample(50)
        assert drawn.shape == (50, 4) and np.isfinite(model.score_samples(drawn)).all()
        model.save(tmp_path / "model.npz")
        loaded = load(tmp_path / "model.npz")
        # The estimator has its rows in single precision.
        np.testing.assert_allclose(loaded.score_samples(new), model.score_samples(new), rtol=1e-5)
        np.testing.assert_array_equal(loaded.predict(new), model.predict(new))
        # Twice as long with twice as many events says the same of rates.
        longer = with_exposure_last(X[:50], 0) * 2
        assert (model.predict(np.roll(longer, 1, axis=1)) == model.predict(X[:50])).mean() > 0.9

    def test_a_prior_of_ones_own_names_its_exposure(self, fitted: tuple[DPMM, np.ndarray, np.ndarray]) -> None:
        _, X, _ = fitted
        prior = GammaPoisson(np.ones(3), np.full(3, 0.2), exposure=0)
        assert DPMM(family="poisson", prior=prior, n_chains=1, max_iter=5, random_state=0).fit(X).n_clusters_ > 0
        with pytest.raises(ValueError, match="exposure is the column 0, but exposure is 1"):
            DPMM(family="poisson", prior=prior, exposure=1).fit(X + 1)

    @pytest.mark.parametrize(
        ("settings", "problem"),
        [
            ({"exposure": "weeks"}, "exposure names the column 'weeks'"),
            ({"exposure": 3, "family": "multinomial"}, "an exposure is for the family poisson"),
            ({"exposure": 1}, "above 0 in every row"),
            ({"exposure": 0, "backend": "julia"}, "poisson needs the built-in sampler"),
        ],
    )
    def test_what_makes_no_sense_is_refused(self, settings: dict[str, Any], problem: str) -> None:
        X, _ = clusters(50)
        X[7, 1] = 0
        with pytest.raises(ValueError, match=problem):
            DPMM(**{"family": "poisson"} | settings).fit(X)


def test_events_on_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    X, _ = clusters(300)
    table, out = str(tmp_path / "events.csv"), tmp_path / "out"
    np.savetxt(table, X, delimiter=",", header="weeks,a,b,c", comments="", fmt="%.4f")
    assert cli.run(["fit", table, "--exposure", "weeks", "--out", str(out), "--seed", "0", "--chains", "1"]) == 0
    said = capsys.readouterr().out
    assert "poisson" in said and "300" in said
    assert "poisson" in (out / "report.html").read_text(encoding="utf-8")
    assert cli.run(["predict", str(out / "model.npz"), table]) == 0
    labels = [int(line) for line in capsys.readouterr().out.split()]
    assert labels == load(out / "model.npz").predict(np.round(X, 4)).tolist()
    assert cli.run(["fit", table, "--exposure", "weeks", "--family", "gaussian"]) == 2
    assert "--exposure is for --family poisson" in capsys.readouterr().err
