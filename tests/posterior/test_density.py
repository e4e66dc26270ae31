"""Densities with bands, and draws from the prior: against SciPy's distributions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpmmwrap import DPMM
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.diagonal.spherical import SphericalNIG
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.multinomial.prior import Dirichlet
from dpmmwrap.mixture import Mixture
from dpmmwrap.model.redundant import ColumnMap
from dpmmwrap.posterior.averaging import AveragedMixture
from dpmmwrap.posterior.density import prior_predictive

PRIORS = {
    "full": NIW(np.zeros(2), 0.5, 5 * np.eye(2), 5.0),
    "diag": NIG(np.zeros(2), 0.5, np.full(2, 4.0), 4.0),
    "spherical": SphericalNIG(np.zeros(2), 0.5, np.array([4.0]), 4.0),
}


def some_mixture(family: str, draws: bool = False, outliers: float = 0.0) -> tuple[Mixture, np.ndarray]:
    rng, labels = np.random.default_rng(0), np.repeat([0, 1], [30, 15]).astype(np.int32)
    X = rng.normal(size=(45, 2)) @ [[1, 0.6], [0, 0.8]] + 3.0 * labels[:, None]
    broad = PRIORS[family].outliers(X) if outliers else None
    mixture = Mixture.from_labels(X, labels, PRIORS[family], outliers, broad)
    if not draws:
        return mixture, X
    own = np.stack([labels, np.zeros_like(labels), rng.permutation(labels)])
    averaged = AveragedMixture.of(X, own, labels, [PRIORS[family]] * 3, outliers, broad)
    return Mixture(mixture.counts, mixture.posterior, outliers, averaged=averaged), X


@pytest.mark.parametrize("outliers", [0.0, 0.2])
@pytest.mark.parametrize("draws", [False, True])
@pytest.mark.parametrize("family", PRIORS)
def test_its_mean_is_the_predictive(family: str, draws: bool, outliers: float, monkeypatch: Any) -> None:
    monkeypatch.setattr("dpmmwrap.posterior.density.MIXTURES", 6000)
    mixture, X = some_mixture(family, draws, outliers)
    found = mixture.density(X[::5], (0.0, 0.1, 0.9))
    np.testing.assert_allclose(found.mean, np.exp(mixture.score_samples(X[::5])), rtol=0.06)
    assert (np.diff(found.quantiles, axis=0) > 0).all()


def test_the_band_of_one_cluster_is_that_of_drawn_normals(monkeypatch: Any) -> None:
    monkeypatch.setattr("dpmmwrap.posterior.density.MIXTURES", 8000)
    X = np.random.default_rng(1).normal(2, 3, size=(12, 1))
    prior = NIG(np.zeros(1), 0.5, np.full(1, 4.0), 4.0)
    mixture = Mixture.from_labels(X, np.zeros(12, np.int32), prior)
    n, total = 12, X.sum()
    strength, freedom = 0.5 + n, 4.0 + n
    scale = 4.0 + ((X - X.mean()) ** 2).sum() + 0.5 * n / strength * X.mean() ** 2
    variances = stats.invgamma(freedom / 2, scale=scale / 2).rvs(20_000, random_state=2)
    means = stats.norm(total / strength, np.sqrt(variances / strength)).rvs(random_state=3)
    at = np.array([-1.0, 1.0, 2.5, 5.0])
    expected = np.quantile(stats.norm.pdf(at, means[:, None], np.sqrt(variances)[:, None]), [0.05, 0.5, 0.95], axis=0)
    np.testing.assert_allclose(mixture.density(at[:, None]).quantiles, expected, rtol=0.06)


@pytest.mark.parametrize("family", PRIORS)
def test_columns_have_their_marginal_densities(family: str, monkeypatch: Any) -> None:
    monkeypatch.setattr("dpmmwrap.posterior.density.MIXTURES", 3000)
    mixture, _ = some_mixture(family)
    along = np.linspace(-15, 20, 700)
    alone = mixture.density(along[:, None], columns=[1]).mean
    assert np.trapezoid(alone, along) == pytest.approx(1, abs=0.01)
    # The other column integrated out.
    across = np.linspace(-15, 20, 150)
    grid = np.stack(np.meshgrid(across, along[250:400:30]), axis=-1).reshape(-1, 2)
    both = np.exp(mixture.score_samples(grid)).reshape(5, 150)
    np.testing.assert_allclose(alone[250:400:30], np.trapezoid(both, across, axis=1), rtol=0.06)


def test_a_copy_of_a_column_has_its_density() -> None:
    mixture, _ = some_mixture("full")
    restored = ColumnMap(np.array([0, 1]), np.array([[1.0, 0], [0, 1], [0, 2]]), np.array([0.0, 0, 5]))
    whole = Mixture(mixture.counts, mixture.posterior, restored=restored, feature_names=("a", "b", "c"))
    at = np.array([[0.0], [2.0]])
    one, other = whole.density(at, columns=["b"]), whole.density(5 + 2 * at, columns=["c"])
    np.testing.assert_allclose(one.mean, 2 * other.mean)
    np.testing.assert_allclose(one.quantiles, 2 * other.quantiles)


def test_what_makes_no_sense_is_refused() -> None:
    mixture, X = some_mixture("diag")
    with pytest.raises(ValueError, match="quantiles should be from 0 to 1"):
        mixture.density(X, (1.5,))
    with pytest.raises(ValueError, match=r"X should have the shape \(n, 1\)"):
        mixture.density(X, columns=[0])
    with pytest.raises(ValueError, match="columns names the column 'size'"):
        mixture.density(X, columns=["size"])
    counts = Mixture.from_labels(np.ones((4, 2)), np.zeros(4, np.int32), Dirichlet(np.ones(2)))
    with pytest.raises(ValueError, match="Gaussian clusters, not the family multinomial"):
        counts.density(np.ones((4, 2)))


def test_samples_of_a_mixture_with_draws_follow_all_of_them() -> None:
    mixture, _ = some_mixture("full", draws=True)
    X, labels = mixture.sample(20_000, np.random.default_rng(0))
    assert set(labels.tolist()) <= {0, 1}
    inside = (np.abs(X) < 1).all(axis=1).mean()
    side = np.linspace(-1, 1, 61)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    expected = 4 * np.exp(mixture.score_samples(grid)).mean()
    assert inside == pytest.approx(expected, rel=0.06)


@pytest.mark.parametrize("family", PRIORS)
def test_the_prior_predictive(family: str) -> None:
    prior, rng = PRIORS[family], np.random.default_rng(0)
    sets = [prior_predictive(prior, 2.0, 30, rng) for _ in range(800)]
    clusters = [labels.max() + 1 for _, labels in sets]
    assert np.mean(clusters) == pytest.approx(sum(2 / (2 + i) for i in range(30)), abs=0.3)
    # Each point alone follows the prior's predictive, a t.
    last = np.array([X[-1, 0] for X, _ in sets])
    freedom = 4.0
    width = np.sqrt((5.0 if family == "full" else 4.0) * 1.5 / (0.5 * freedom))
    assert stats.kstest(last, stats.t(freedom, scale=width).cdf).pvalue > 1e-3
    # Points of one cluster share a mean: they are nearer to one another.
    same = [(X[labels == 0, 0].var(), X[:, 0].var()) for X, labels in sets if (labels == 0).sum() > 5]
    assert np.median([own / whole for own, whole in same]) < 0.8


def test_of_a_fitted_model() -> None:
    X = np.concatenate([np.random.default_rng(0).normal(size=(60, 2)) + 9 * k for k in range(2)])
    settings: dict[str, Any] = {"init": "kmeans", "covariance_type": "full", "n_chains": 2, "random_state": 0}
    model = DPMM(n_draws=10, **settings).fit(X)
    low, high = model.density(X[:5], (0.05, 0.95)).quantiles
    assert (low < np.exp(model.score_samples(X[:5]))).all() and (np.exp(model.score_samples(X[:5])) < high).all()
    pytest.importorskip("matplotlib").use("agg")
    from matplotlib import pyplot

    assert model.plot_density([0], X).get_xlabel() == "column 1"
    assert model.plot_density([0, -1], X).get_ylabel() == "column 2"
    with pytest.raises(ValueError, match="one or two columns"):
        model.plot_density([0, 1, 0])
    by_columns = model.plot(X, names=["left", "right"], columns=["right", 0])
    assert (by_columns.get_xlabel(), by_columns.get_ylabel()) == ("right", "left")
    with pytest.raises(ValueError, match="columns names the column 'middle'"):
        model.plot(X, names=["left", "right"], columns=["middle"])
    pyplot.close("all")
