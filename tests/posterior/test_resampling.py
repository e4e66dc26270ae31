"""Fits to samples of the rows, and when the result rests on them."""

from __future__ import annotations

from itertools import combinations, islice

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score

from dpmmwrap import DPMM, Native
from dpmmwrap.backends.native import NativeBackend
from dpmmwrap.families.learned.defaults import DataScale, Fixed
from dpmmwrap.posterior import resampling
from dpmmwrap.posterior.answer import labels_of_samples
from dpmmwrap.posterior.representative import representative


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


def test_agreement_is_the_mean_of_pairs_and_single_clusters_agree_on_nothing():
    labels = np.random.default_rng(0).integers(0, 3, (4, 50))
    expected = [adjusted_rand_score(one, other) for one, other in combinations(labels, 2)]
    found = resampling.reproducibility(labels, 25)
    assert found.agreement == pytest.approx(np.mean(expected))
    assert found.error > 0
    assert resampling.reproducibility(np.zeros((4, 50), int), 25).agreement == 0.0
    assert resampling.reproducibility(np.stack([labels[0]] * 4), 25) == (25, pytest.approx(1.0), pytest.approx(0.0))


def test_a_smaller_size_has_to_be_better_by_more_than_chance():
    large = resampling.Reproducibility(75, 0.8, 0.03)
    assert resampling.Reproducibility(50, 0.86, 0.04).is_better(large)
    assert not resampling.Reproducibility(50, 0.84, 0.04).is_better(large)


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
    assert model.reproducibility_[0].n_rows == 135
    assert model.reproducibility_[0].agreement == pytest.approx(1.0)
    assert not any("samples of" in note for note in model.notes_)


def test_pieces_of_a_class_that_samples_do_not_reproduce_are_joined():
    X, classes = diamonds()
    model = DPMM(random_state=0, covariance_type="diag").fit(X)
    agreements = [size.agreement for size in model.reproducibility_]
    assert max(agreements) > agreements[0]
    assert adjusted_rand_score(classes, model.labels_) > 0.95
    # The clusters of all rows cut the squares into pieces.
    assert DPMM(random_state=0, covariance_type="diag", n_chains=1).fit(X).n_clusters_ > 2
    assert any("samples of" in note for note in model.notes_)
    assert model.mixture_.counts.sum() == len(X)
    assert np.array_equal(model.predict(X[:50]), model.labels_[:50])


def test_the_result_represents_the_samples_that_agree_best(monkeypatch):
    X, _ = diamonds()
    kept = []

    def remembered(points, settings, result):
        kept.append(found := resampling.resample(points, settings, result))
        return found

    monkeypatch.setattr("dpmmwrap.estimator.resample", remembered)
    model = DPMM(random_state=0, covariance_type="diag").fit(X)
    assert kept[0].labels is not None
    expected = representative(kept[0].labels).labels
    assert adjusted_rand_score(expected, model.labels_) == 1.0


def test_samples_that_only_add_boundaries_are_not_the_result():
    """Each sample cuts the rows elsewhere: the partition that represents them is finer than each of them."""
    rows = np.arange(120)
    samples = np.array([(rows + shift) // 40 % 3 for shift in (0, 10, 20, 30)], np.int32)
    finer = representative(samples).labels
    count = len(np.unique(finer))
    assert np.array_equal(labels_of_samples(samples, "vi", 0, count), finer)
    assert labels_of_samples(samples, "vi", 0, count - 1) is None


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
    start = DataScale(X).start("diag", Fixed(kappa=0.5))
    again = start.hyperprior.relearned(start.prior, X[::2])
    expected = DataScale(X[::2]).start("diag", Fixed(kappa=0.5))
    assert again.n_cells == expected.n_cells
    assert again.hyperprior.identity() == [0.5, None, None]
    assert np.array_equal(again.prior.scale, expected.prior.scale)
    assert not np.array_equal(again.prior.scale, start.prior.scale)


@pytest.mark.parametrize("rows", [2, 3])
def test_a_few_equal_rows_are_one_cluster(rows: int):
    # There are no samples of so few rows to fit.
    assert DPMM(random_state=0, backend="native").fit(np.ones((rows, 2)) * [1.0, 2.0]).n_clusters_ == 1
