"""The check of the fit: right about data that follow the model, and about data that do not."""

import numpy as np
import pytest
from scipy.stats import invwishart, multivariate_normal
from sklearn.cluster import KMeans

from dpmmwrap import DPMM, NIG, NIW
from dpmmwrap.mixture import Mixture
from dpmmwrap.numerics.arrays import Float64Array
from dpmmwrap.numerics.categorical_draws import draw_columns
from dpmmwrap.posterior.fit_check import LEVEL, FitCheck, draw_like, fit_check
from dpmmwrap.posterior.matching import without_gaps

MEANS = np.array([[0.0, 0.0], [2.5, 0.0], [0.0, 4.0]])
PRIOR = NIW(np.zeros(2), 0.01, np.eye(2), 3.0)


def gaussians(seed: int, rows: int = 300) -> tuple[Float64Array, Float64Array]:
    """Points of three Gaussians, two of which overlap, and their true probabilities of each."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 2)) + MEANS[rng.integers(3, size=rows)]
    densities = np.column_stack([multivariate_normal(mean).pdf(X) for mean in MEANS])
    return X, densities / densities.sum(axis=1)[:, None]


def p_values(count: int) -> Float64Array:
    return np.array(
        [fit_check(*gaussians(seed), PRIOR, None, np.random.default_rng(seed)).p_value for seed in range(count)]
    )


def test_data_of_the_model_are_refuted_as_seldom_as_it_says() -> None:
    found = p_values(60)
    # Above 8 of 60 with a probability of .001 if each is below the level with that probability.
    assert (found < LEVEL).sum() <= 8
    # Not by saying yes to everything: p-values of data that follow the model are spread out.
    assert 0.3 < np.median(found) < 0.9 and found.min() < 0.3


def test_the_same_rows_in_and_out_would_be_refuted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Why rows are left out: their own clusters know them, the more so the more parameters there are."""
    rng, prior = np.random.default_rng(0), NIW(np.zeros(15), 0.01, np.eye(15), 17.0)
    covariance = invwishart(17.0, np.eye(15)).rvs(random_state=rng)
    X, one = rng.multivariate_normal(np.zeros(15), covariance, 150), np.ones((150, 1))
    assert fit_check(X, one, prior, None, np.random.default_rng(0)).fits
    known = Mixture.from_labels(X, np.zeros(150, np.int32), prior)
    monkeypatch.setattr(Mixture, "from_labels", lambda *_: known)
    assert not fit_check(X, one, prior, None, np.random.default_rng(0)).fits


@pytest.mark.parametrize("shape", ["uniform", "heavy tails"])
def test_other_shapes_are_refuted(shape: str) -> None:
    rng = np.random.default_rng(1)
    X = rng.uniform(size=(1000, 2)) if shape == "uniform" else rng.standard_t(2, size=(1000, 2))
    one_hot = np.eye(4)[KMeans(4, n_init=1, random_state=0).fit_predict(X)]
    assert not fit_check(X, one_hot, PRIOR, None, np.random.default_rng(0)).fits


def test_gaps_are_drawn_as_they_are() -> None:
    X, probabilities = gaussians(3)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    prior = NIG(np.zeros(2), 0.01, np.ones(2), 3.0)
    assert fit_check(X, probabilities, prior, None, np.random.default_rng(0)).fits
    mixture = Mixture.from_labels(X, without_gaps(draw_columns(probabilities, np.random.default_rng(0))), prior)
    rows = draw_like(mixture, X, 20_000, np.random.default_rng(0))
    assert np.isnan(rows).mean(axis=0) == pytest.approx(np.isnan(X).mean(axis=0), abs=0.02)


def test_labels_are_drawn_from_their_probabilities() -> None:
    probabilities = np.tile([0.2, 0.0, 0.8], (5000, 1))
    shares = np.bincount(without_gaps(draw_columns(probabilities, np.random.default_rng(0)))) / 5000
    # The one in the middle has no rows, and numbers have no gaps.
    assert shares == pytest.approx([0.2, 0.8], abs=0.03)


def test_sentences() -> None:
    assert str(FitCheck(0.5, 0.01)) == "the data may well follow the model (p = 0.5)"
    assert "do not follow the model (p = 0.001)" in str(FitCheck(0.001, 0.2))


def test_a_model_checks_its_fit() -> None:
    X, _ = gaussians(0, 1500)
    model = DPMM(random_state=0).fit(X)
    assert model.fit_check().fits
    assert model.groups().suggested == model.n_clusters_
    square = np.random.default_rng(0).uniform(size=(1000, 2))
    model = DPMM(random_state=0).fit(square)
    assert not model.fit_check().fits
    # A ring of Gaussians fits, but no two chains cut it in the same places.
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 600)
    ring = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.05 * np.random.default_rng(1).normal(size=(600, 2))
    model = DPMM(random_state=0).fit(ring)
    assert min(model.chain_agreement_) < 0.9
    assert model.groups().suggested < model.n_clusters_


def test_the_check_of_the_fit_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    X, _ = gaussians(0)
    model = DPMM(random_state=0).fit(X)
    monkeypatch.setattr("dpmmwrap.posterior.mixin.fit_check", None)
    assert model.fit_check().fits
    model.groups()


def test_what_cannot_be_checked_is_said() -> None:
    counts = np.random.default_rng(0).poisson(3.0, size=(60, 4))
    model = DPMM(family="multinomial", random_state=0).fit(counts)
    with pytest.raises(ValueError, match="Gaussian clusters without weights and without an outlier"):
        model.fit_check()
