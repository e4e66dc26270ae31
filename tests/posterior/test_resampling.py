"""Fits to samples of the rows, and when the result rests on them."""

from __future__ import annotations

from itertools import islice

import numpy as np
import pytest
from scipy.stats import sem
from sklearn.metrics import adjusted_rand_score
from sklearn.metrics.cluster import contingency_matrix

from dpmmwrap import DPMM, NIG, Native, load
from dpmmwrap.backends.native import NativeBackend
from dpmmwrap.families.learned.defaults import DataScale, FixedHyperparameters
from dpmmwrap.mixture import Mixture
from dpmmwrap.posterior import resampling
from dpmmwrap.sampler.evidence import log_evidence


def balls(points: int = 60) -> np.ndarray:
    rng = np.random.default_rng(0)
    return np.concatenate([rng.normal(9.0 * k, 1.0, (points, 2)) for k in range(3)])


def diamonds(points: int = 400) -> tuple[np.ndarray, np.ndarray]:
    """Two uniform squares that touch at their corners."""
    rng = np.random.default_rng(1)
    corners = rng.uniform(-1, 1, (2 * points, 2)) @ np.array([[1.0, 1.0], [-1.0, 1.0]]) / 2
    classes = np.repeat([0, 1], points)
    return corners + np.outer(classes, [2.05, 0.0]), classes


def test_samples_are_nested_quarters():
    three_quarters, halves, quarters, eighths = islice(resampling.nested_samples(101, seed=3), 4)
    every = set(range(101))
    for left_out, quarter in zip(three_quarters, quarters, strict=True):
        assert set(left_out) == every - set(quarter)
    assert sorted(np.concatenate(quarters)) == sorted(every)
    assert set(halves[0]) | set(halves[1]) == every
    assert not set(halves[0]) & set(halves[1])
    assert all(set(small) <= set(large) for small, large in zip(eighths, quarters, strict=True))
    sizes = [len(samples[0]) for samples in resampling.nested_samples(101, seed=3)]
    assert sizes == sorted(sizes, reverse=True)


def test_agreement_is_the_mean_over_samples_and_single_clusters_agree_on_nothing():
    labels, *fits = np.random.default_rng(0).integers(0, 3, (5, 50))
    each = [adjusted_rand_score(labels, fit) for fit in fits]
    found = resampling.reproducibility(labels, np.array(fits), 25)
    assert found == (25, pytest.approx(np.mean(each)), pytest.approx(sem(each)), 3)
    alone = np.zeros(50, int)
    assert resampling.reproducibility(alone, np.stack([alone] * 4), 25).agreement == 0.0
    assert resampling.reproducibility(labels, np.stack([labels] * 4), 25)[1:3] == (pytest.approx(1.0), pytest.approx(0))


def test_a_smaller_size_has_to_be_better_by_more_than_chance():
    whole = resampling.Reproducibility(100, 0.8, 0.03, 7)
    assert resampling.Reproducibility(50, 0.86, 0.04, 4).is_better(whole)
    assert not resampling.Reproducibility(50, 0.84, 0.04, 4).is_better(whole)
    assert resampling.Reproducibility(50, 0.97, 0.04, 4).is_complete
    assert not whole.is_complete


def test_clusters_are_joined_and_never_divided():
    clusters = np.array([0, 0, 0, 1, 1, 2, 2, 2, 3], np.int32)
    labels = np.array([5, 5, 1, 5, 5, 1, 1, 5, 0], np.int32)
    np.testing.assert_array_equal(resampling.joined(clusters, labels), [5, 5, 5, 5, 5, 1, 1, 1, 0])


def test_nothing_is_repeated_if_the_data_follow_the_model():
    model = DPMM(random_state=0).fit(balls())
    assert model.n_clusters_ == 3 and model.fit_check().fits
    assert model.reproducibility_ == ()
    assert not any("samples of" in note for note in model.notes_)


def squares() -> np.ndarray:
    """They are not Gaussian, but all samples find them, as they are far apart."""
    return np.random.default_rng(0).uniform(-2, 2, (180, 2)) + 9.0 * np.repeat(np.arange(3), 60)[:, None]


def test_clusters_that_samples_find_again_stay_as_they_are():
    model = DPMM(random_state=0).fit(squares())
    assert model.n_clusters_ == 3 and not model.fit_check().fits
    assert [size[0] for size in model.reproducibility_] == [180, 135]
    assert all(size[1:] == (pytest.approx(1.0), pytest.approx(0.0), 3) for size in model.reproducibility_)
    assert not any("samples of" in note for note in model.notes_)


def test_pieces_of_a_class_that_samples_do_not_reproduce_are_joined(tmp_path):
    X, classes = diamonds()
    model = DPMM(random_state=0, covariance_type="diag").fit(X)
    whole, *sizes = model.reproducibility_
    best = max(sizes, key=lambda size: size.agreement)
    assert best.agreement > whole.agreement and best.n_clusters == model.n_clusters_ == 2
    assert adjusted_rand_score(classes, model.labels_) > 0.95
    assert any(f"{whole.n_clusters} clusters are joined into 2" in note for note in model.notes_)
    assert model.mixture_.counts.sum() == len(X)
    # The clusters of all rows cut the squares into pieces.
    assert DPMM(random_state=0, covariance_type="diag", n_chains=1).fit(X).n_clusters_ > 2


def test_the_density_of_joined_clusters_is_that_of_their_components(tmp_path):
    X, _ = diamonds()
    prior = NIG(np.zeros(2), 0.1, np.full(2, 0.2), 4.0)
    model = DPMM(random_state=0, prior=prior).fit(X)
    components = model._components
    table = contingency_matrix(model.labels_, components)
    assert table.shape[0] == model.n_clusters_ < table.shape[1]
    assert (np.count_nonzero(table, axis=0) == 1).all(), "clusters are joined, never divided"
    whole = Mixture.from_labels(X, components, prior)
    np.testing.assert_allclose(model.score_samples(X), whole.score_samples(X), atol=1e-4)
    expected = whole.predict_proba(X) @ (table > 0).T
    np.testing.assert_allclose(model.predict_proba(X), expected, atol=1e-4)
    assert f"{table.shape[1]} components" in repr(model.mixture_)
    evidence = log_evidence(model._prior, model._some_points, components, model.partition_prior_)
    assert model.log_evidence_ == pytest.approx(evidence)
    model.save(tmp_path / "model.npz")
    np.testing.assert_allclose(load(tmp_path / "model.npz").predict_proba(X), model.predict_proba(X))


def test_threads_do_not_matter():
    X, _ = diamonds(150)
    fits = [DPMM(random_state=0, backend=Native(n_jobs=jobs)).fit(X) for jobs in (1, 2)]
    assert np.array_equal(fits[0].labels_, fits[1].labels_)
    assert fits[0].reproducibility_ == fits[1].reproducibility_


@pytest.mark.parametrize("options", [{"n_chains": 1}, {"n_draws": 5, "n_chains": 2}, {"max_iter": 20}])
def test_no_samples_without_a_refined_search(options):
    assert DPMM(random_state=0, covariance_type="full", **options).fit(balls(20)).reproducibility_ == ()


def test_ctrl_c_keeps_the_search(monkeypatch):
    fit = NativeBackend.fit

    def interrupted(self, X, settings, outer=None):
        if len(X) == 135:
            outer.requested = True
        return fit(self, X, settings, outer)

    monkeypatch.setattr(NativeBackend, "fit", interrupted)
    model = DPMM(random_state=0, covariance_type="full")
    with pytest.raises(KeyboardInterrupt):
        model.fit(squares())
    assert model.n_clusters_ == 3
    assert model.interrupted_
    assert model.reproducibility_ == ()


def test_a_sample_learns_its_own_prior():
    X = balls().astype(np.float32)
    start = DataScale(X).start("diag", FixedHyperparameters(kappa=0.5))
    again = start.hyperprior.relearned(start.prior, X[::2])
    expected = DataScale(X[::2]).start("diag", FixedHyperparameters(kappa=0.5))
    assert again.n_cells == expected.n_cells
    assert again.hyperprior.identity() == [0.5, None, None]
    assert np.array_equal(again.prior.scale, expected.prior.scale)
    assert not np.array_equal(again.prior.scale, start.prior.scale)


@pytest.mark.parametrize("rows", [2, 3])
def test_a_few_equal_rows_are_one_cluster(rows: int):
    # There are no samples of so few rows to fit.
    assert DPMM(random_state=0, backend="native").fit(np.ones((rows, 2)) * [1.0, 2.0]).n_clusters_ == 1
