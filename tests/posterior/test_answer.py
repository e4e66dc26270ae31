"""What a fitted model says from its draws."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.special import gammaln
from scipy.stats import gamma

from dpmmwrap import DPMM, Native, load
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.multinomial.prior import Dirichlet
from dpmmwrap.partitions.dirichlet_process import ALPHA_PRIOR
from dpmmwrap.posterior.fitted import join_singletons
from dpmmwrap.posterior.matching import match
from dpmmwrap.posterior.representative import expected_loss

ROWS, CHAINS, DRAWS = 150, 2, 40


@pytest.fixture(scope="module")
def X() -> np.ndarray:
    """Three clusters, two of which overlap, far from the origin."""
    rng = np.random.default_rng(0)
    centres = np.array([[0, 0], [3.6, 0], [14, 0]])
    return (rng.normal(size=(ROWS, 2)) + centres[np.arange(ROWS) % 3] + [500, -200]).astype(np.float32)


def fitted(X: Any, **changes: Any) -> DPMM:
    options: dict[str, Any] = {
        "n_draws": DRAWS, "n_chains": CHAINS, "thin": 2, "max_iter": 20, "init": "kmeans", "random_state": 0,
        "backend": Native(n_jobs=1), "covariance_type": "full",
    }  # fmt: skip
    with warnings.catch_warnings():
        # So few draws are worth a warning.
        warnings.simplefilter("ignore", UserWarning)
        return DPMM(**options | changes).fit(X)


@pytest.fixture(scope="module")
def model(X: np.ndarray) -> DPMM:
    return fitted(X, prior=PRIOR)


PRIOR = NIW(np.array([504.0, -200.0]), 0.1, 4 * np.eye(2), 6.0)


def draws_of(model: DPMM) -> np.ndarray:
    assert model.draws_ is not None
    return np.asarray(model.draws_.kept_labels)


def test_draws_and_what_they_add_up_to(model: DPMM) -> None:
    draws = model.draws_
    assert draws is not None and draws.labels is not None
    assert draws.labels.shape == (CHAINS, DRAWS, ROWS)
    assert len(np.unique(draws.n_clusters)) > 1
    assert model.alpha_ == pytest.approx(draws.alpha.mean())
    assert model.labels_.shape == (ROWS,) and model.n_clusters_ == len(np.unique(model.labels_))
    assert len(model.traces_) == CHAINS and model.n_iter_ == 20
    assert {found.name for found in model.diagnostics_ or ()} >= {"n_clusters", "log_posterior", "alpha", "weight_1"}


@pytest.mark.parametrize("loss", ["vi", "binder"])
def test_labels_represent_the_draws(X: np.ndarray, loss: Any) -> None:
    """No draw would do better."""
    model = fitted(X, loss=loss)
    draws = draws_of(model)
    own = expected_loss(model.labels_, draws, loss)
    assert own <= min(expected_loss(draw, draws, loss) for draw in np.unique(draws, axis=0)) + 1e-12


def test_log_posterior_is_that_of_the_labels(model: DPMM, X: np.ndarray) -> None:
    labels, alpha = model.labels_, model.alpha_
    counts = np.bincount(labels)
    expected = PRIOR.log_marginal_likelihood(PRIOR.statistics(X, labels)).sum()
    expected += len(counts) * np.log(alpha) + gammaln(counts).sum() + gammaln(alpha) - gammaln(alpha + ROWS)
    expected += gamma(ALPHA_PRIOR[0], scale=1 / ALPHA_PRIOR[1]).logpdf(alpha)
    assert model.log_posterior_ == pytest.approx(expected, abs=1e-2)


def test_log_posteriors_of_draws_are_those_of_their_labels(model: DPMM, X: np.ndarray) -> None:
    draws = model.draws_
    assert draws is not None and draws.labels is not None
    for chain, draw in ((0, 0), (1, DRAWS - 1)):
        labels, alpha = draws.labels[chain, draw], draws.alpha[chain, draw]
        counts = np.bincount(labels)
        expected = PRIOR.log_marginal_likelihood(PRIOR.statistics(X, labels)).sum()
        expected += len(counts) * np.log(alpha) + gammaln(counts).sum() + gammaln(alpha) - gammaln(alpha + ROWS)
        expected += gamma(ALPHA_PRIOR[0], scale=1 / ALPHA_PRIOR[1]).logpdf(alpha)
        assert draws.log_posterior[chain, draw] == pytest.approx(expected, abs=1e-2)


def test_confidence_is_how_often_a_point_is_in_its_cluster(model: DPMM) -> None:
    agreeing = np.mean([match(draw, model.labels_)[draw] == model.labels_ for draw in draws_of(model)], axis=0)
    np.testing.assert_allclose(model.confidence_, agreeing)
    # The cluster that stands apart is sure; between the others there is doubt.
    assert model.confidence_ is not None
    apart = np.arange(ROWS) % 3 == 2
    assert model.confidence_[apart].mean() > model.confidence_[~apart].mean()


def test_pair_probabilities(model: DPMM) -> None:
    draws = draws_of(model)
    expected = np.mean(draws[:, :, None] == draws[:, None, :], axis=0)
    np.testing.assert_allclose(model.coclustering(), expected)
    rows = [3, 140, 17]
    np.testing.assert_allclose(model.coclustering(rows), expected[np.ix_(rows, rows)])


def test_credible_ball(model: DPMM) -> None:
    small, ball = model.credible_ball(0.5), model.credible_ball()
    assert ball.level == 0.95 and ball.n_draws == CHAINS * DRAWS and ball.n_inside >= 0.95 * ball.n_draws
    assert small.radius <= ball.radius
    assert ball.upper.n_clusters <= ball.n_clusters or ball.lower.n_clusters >= ball.n_clusters
    np.testing.assert_array_equal(ball.horizontal.labels, draws_of(model)[ball.horizontal.draw])


def test_groups_with_the_data_or_with_what_was_kept(model: DPMM, X: np.ndarray) -> None:
    kept, given = model.groups(), model.groups(X)
    np.testing.assert_allclose(kept.criterion, given.criterion, atol=1e-5)
    assert kept.n_components == model.n_clusters_
    assert len(np.unique(kept.of_points(model.labels_))) == kept.suggested
    assert model.groups(X, method="entropy").method == "entropy"


def test_draws_for_arviz(model: DPMM) -> None:
    pytest.importorskip("arviz")
    found, draws = model.to_arviz(), model.draws_
    assert draws is not None
    np.testing.assert_array_equal(found.posterior["n_clusters"], draws.n_clusters)
    np.testing.assert_array_equal(found.sample_stats["lp"], draws.log_posterior)


def test_probabilities_of_rows(model: DPMM, X: np.ndarray) -> None:
    """Averaged over draws: they agree with how often a point is in each cluster, as far as new points can."""
    found = model.predict_proba(X)
    assert found.shape == (ROWS, model.n_clusters_)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_array_equal(model.predict(X), found.argmax(axis=1))
    shares = np.zeros_like(found)
    for draw in draws_of(model):
        shares[np.arange(ROWS), match(draw, model.labels_)[draw]] += 1 / (CHAINS * DRAWS)
    assert np.abs(found - shares).mean() < 0.1
    assert np.isfinite(model.score_samples(X)).all()


def test_a_saved_model_has_draws_and_predictions(model: DPMM, X: np.ndarray, tmp_path: Path) -> None:
    model.save(tmp_path / "model.npz")
    found = load(tmp_path / "model.npz")
    np.testing.assert_allclose(found.predict_proba(X), model.predict_proba(X))
    assert found.draws is not None and model.draws_ is not None
    for name, array in model.draws_.arrays().items():
        np.testing.assert_array_equal(getattr(found.draws, name), array)
    with np.load(tmp_path / "model.npz", allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    np.savez(tmp_path / "damaged.npz", **arrays | {"draws_alpha": arrays["draws_alpha"][:1]})
    with pytest.raises(ValueError, match="do not belong together"):
        load(tmp_path / "damaged.npz")


def test_the_same_seed_gives_the_same_answer(model: DPMM, X: np.ndarray) -> None:
    again = fitted(X, prior=PRIOR, backend=Native(n_jobs=2))
    np.testing.assert_array_equal(draws_of(again), draws_of(model))
    np.testing.assert_array_equal(again.labels_, model.labels_)


def test_without_labels_of_draws(X: np.ndarray) -> None:
    model = fitted(X, loss=None)
    assert model.draws_ is not None and model.draws_.labels is None and model.confidence_ is None
    assert model.mixture_.averaged is None and model.labels_.shape == (ROWS,)
    assert model.diagnostics_ is not None
    for ask in (model.coclustering, model.credible_ball):
        with pytest.raises(ValueError, match="loss should be vi or binder"):
            ask()


def test_without_draws(X: np.ndarray) -> None:
    model = fitted(X, n_draws=0)
    assert model.draws_ is None and model.confidence_ is None and model.diagnostics_ is None
    assert model.groups().n_components == model.n_clusters_
    for ask in (model.coclustering, model.credible_ball, model.to_arviz):
        with pytest.raises(ValueError, match="n_draws should be above 0"):
            ask()


def test_outliers_have_the_last_column(X: np.ndarray) -> None:
    stray = np.concatenate([X, np.random.default_rng(1).uniform(400, 600, (6, 2))]).astype(np.float32)
    model = fitted(stray, outlier_weight=0.05, n_chains=1)
    assert (model.labels_[ROWS:] == -1).mean() > 0.5 and (model.labels_[:ROWS] == -1).mean() < 0.1
    found = model.predict_proba(stray)
    assert found.shape == (ROWS + 6, model.n_clusters_ + 1)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    assert found[ROWS:, -1].mean() > 0.5
    assert model.confidence_ is not None and model.confidence_.min() >= 0
    together = model.coclustering([ROWS, ROWS + 1, 0])
    assert together[0, 1] < 0.5


@pytest.mark.parametrize("n_draws", [0, 5])
def test_when_all_are_outliers_it_is_said(X: np.ndarray, n_draws: int) -> None:
    with pytest.raises(ValueError, match=r"^all 150 points are outliers: outlier_weight should be smaller$"):
        fitted(X, outlier_weight=0.999999, n_draws=n_draws)


def test_counts_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    y = np.arange(80) % 2
    counts = rng.multinomial(20, np.array([[0.6, 0.3, 0.1], [0.1, 0.2, 0.7]])[y])
    model = fitted(
        counts, family="multinomial", covariance_type="auto", prior=Dirichlet(np.ones(3)), init_clusters=1, n_chains=1
    )
    assert model.n_clusters_ > 1 and draws_of(model).shape == (DRAWS, 80)
    model.save(tmp_path / "model.npz")
    np.testing.assert_allclose(load(tmp_path / "model.npz").predict_proba(counts), model.predict_proba(counts))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"n_draws": -1}, "n_draws should be a whole number"),
        ({"thin": 0}, "thin should be a whole number"),
        ({"n_chains": 0}, "n_chains should be auto or a whole number"),
        ({"loss": "other"}, "loss should be"),
        ({"backend": "julia"}, "draws and several chains need the built-in sampler"),
    ],
)
def test_what_makes_no_sense_is_told(X: np.ndarray, changes: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        fitted(X, **changes)


def test_chains_that_disagree_are_told(X: np.ndarray) -> None:
    """Two chains of four draws."""
    with pytest.warns(UserWarning, match="chain"):
        DPMM(n_draws=3, n_chains=2, max_iter=5, init="kmeans", random_state=0, backend="native").fit(X)


def test_a_row_between_clusters_goes_to_the_likelier_one() -> None:
    draws = np.repeat([[0, 0, 0, 1, 1, 1, 0]], 10, axis=0)
    draws[6:, 6] = 1
    draws[9, 6] = 2
    apart = np.array([0, 0, 0, 1, 1, 1, 2], np.int32)
    labels, rows = join_singletons(draws, apart)
    assert labels.tolist() == [0, 0, 0, 1, 1, 1, 0] and rows == 1


def test_a_row_that_is_alone_stays_alone() -> None:
    draws = np.repeat([[0, 0, 0, 1, 1, 1, 2]], 10, axis=0)
    draws[:4, 6] = 0
    labels, rows = join_singletons(draws, np.array([1, 1, 1, 2, 2, 2, 0], np.int32))
    assert labels.tolist() == [1, 1, 1, 2, 2, 2, 0] and rows == 0


def test_outliers_and_gaps_in_the_numbers() -> None:
    draws = np.repeat([[-1, 0, 0, 1, 1, 1]], 4, axis=0)
    labels, rows = join_singletons(draws, np.array([-1, 1, 1, 2, 2, 0], np.int32))
    assert labels.tolist() == [-1, 0, 0, 1, 1, 1] and rows == 1


def test_nothing_but_singletons_is_left_as_it_is() -> None:
    single = np.arange(3, dtype=np.int32)
    labels, rows = join_singletons(np.zeros((5, 3), np.int32), single)
    assert labels is single and rows == 0
