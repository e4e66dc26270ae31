"""The fitted mixture against scipy, and its file format."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.files import InputError
from dpmmwrap.mixture import Mixture
from dpmmwrap.model.preparation import Preparation
from dpmmwrap.posterior.averaging import AveragedMixture
from dpmmwrap.posterior.mixture_file import load
from dpmmwrap.posterior.predictor import MOST_ROWS


@pytest.fixture
def mixture() -> Mixture:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(30, 2)), rng.normal(size=(70, 2)) + 6])
    return Mixture.from_labels(X, np.repeat([0, 1], [30, 70]), NIW.reference(2))


def test_density_is_the_weighted_sum_of_student_ts(mixture: Mixture) -> None:
    X = np.random.default_rng(1).normal(size=(10, 2)) * 4
    total = np.zeros(10)
    for k in range(2):
        strength, freedom = mixture.posterior.mean_strength[k], mixture.posterior.degrees_of_freedom[k] - 1
        shape = mixture.posterior.scale[k] * (strength + 1) / (strength * freedom)
        total += mixture.weights[k] * stats.multivariate_t(mixture.means[k], shape, freedom).pdf(X)
    np.testing.assert_allclose(mixture.score_samples(X), np.log(total))


def test_samples_follow_the_density(mixture: Mixture) -> None:
    X, labels = mixture.sample(20_000, np.random.default_rng(2))
    assert stats.binomtest(int((labels == 1).sum()), 20_000, 0.7).pvalue > 1e-3
    strength, freedom = mixture.posterior.mean_strength[0], mixture.posterior.degrees_of_freedom[0] - 1
    scale = np.sqrt(mixture.posterior.scale[0, 0, 0] * (strength + 1) / (strength * freedom))
    t = stats.t(freedom, mixture.means[0, 0], scale)
    assert stats.kstest(X[labels == 0, 0], t.cdf).pvalue > 1e-3


def test_a_file_of_the_first_format_is_a_full_gaussian_mixture(mixture: Mixture, tmp_path: Path) -> None:
    mixture.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as arrays:
        old = {name: array for name, array in arrays.items() if name != "family"}
    np.savez(tmp_path / "old.npz", **old | {"format": np.array("dpmmwrap mixture 1")})
    loaded, X = load(tmp_path / "old.npz"), np.random.default_rng(1).normal(size=(10, 2))
    assert loaded.family == "full"
    np.testing.assert_array_equal(loaded.score_samples(X), mixture.score_samples(X))
    np.savez(tmp_path / "new.npz", **old | {"family": np.array("weibull")})
    with pytest.raises(InputError, match="family 'weibull', which this version does not have"):
        load(tmp_path / "new.npz")


def test_a_file_of_something_else_is_refused(mixture: Mixture, tmp_path: Path) -> None:
    path = tmp_path / "model.npz"
    mixture.save(path)
    whole = path.read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError):
        load(path)
    np.savez(path, X=np.ones(3))
    with pytest.raises(InputError, match="format"):
        load(path)
    mixture.save(path)
    with np.load(path) as arrays:
        changed = {**arrays, "counts": np.ones(5)}
    np.savez(path, **changed)
    with pytest.raises(InputError, match="damaged"):
        load(path)
    np.savez(path, **{**changed, "counts": np.array([{}], dtype=object)})
    with pytest.raises(InputError):
        load(path)


def test_names_and_preparation_are_kept(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(30, 3)), rng.normal(size=(70, 3)) + 6]) * [1, 100, 0.01]
    prepare = Preparation.learn(X, True, 2, ("a", "b", "c"))
    plain = Mixture.from_labels(prepare(X), np.repeat([0, 1], [30, 70]), NIW.reference(2))
    kept = replace(plain, feature_names=prepare.names_out, preparation=prepare)
    kept.save(tmp_path / "m.npz")
    found = load(tmp_path / "m.npz")
    assert (found.feature_names, found.input_names, found.n_inputs) == (("PC1", "PC2"), ("a", "b", "c"), 3)
    np.testing.assert_array_equal(found.predict_proba(X), plain.predict_proba(prepare(X)))
    labels, sure = found.assign(X)
    np.testing.assert_array_equal(labels, found.predict(X))
    np.testing.assert_array_equal(sure, found.predict_proba(X).max(axis=1))
    np.testing.assert_array_equal(found.probability_of(X, labels), sure)
    for wrong, said in ((X[:, :2], "3 columns like the model (a, b, c), but it has 2"), (X[0], "it has 1")):
        with pytest.raises(ValueError, match=re.escape(said)):
            found.predict(wrong)
    replace(kept, feature_names=("x",)).save(tmp_path / "m.npz")
    with pytest.raises(InputError, match="its features are not those that it names"):
        load(tmp_path / "m.npz")
    replace(kept, preparation=replace(prepare, names=("a",))).save(tmp_path / "m.npz")
    with pytest.raises(InputError, match="it names another number of features"):
        load(tmp_path / "m.npz")


def test_standardised_features_may_have_gaps() -> None:
    X = np.array([[1.0, 5.0], [3.0, np.nan], [5.0, 5.0]])
    found = Preparation.learn(X, True, 0)(X)
    np.testing.assert_allclose(found[:, 0], [-np.sqrt(1.5), 0, np.sqrt(1.5)], rtol=1e-6)
    # A column that is the same everywhere stays so.
    np.testing.assert_array_equal(found[:, 1], [0, np.nan, 0])
    with pytest.raises(InputError, match="need at least as many points"):
        Preparation.learn(np.eye(4)[:2], False, 3)


def test_a_loaded_mixture_on_one_screen(mixture: Mixture, tmp_path: Path) -> None:
    assert repr(mixture) == "Mixture(full: 2 clusters of 30, 70 rows; 2 columns)"
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(5_000, 40)), np.arange(5_000) % 200
    many = Mixture.from_labels(X, labels, NIW.reference(40))
    averaged = AveragedMixture.of(X, labels[None], labels, [NIW.reference(40)], 0.0, None)
    replace(many, feature_names=tuple(f"column {k}" for k in range(40)), averaged=averaged).save(tmp_path / "m.npz")
    assert repr(load(tmp_path / "m.npz")) == (
        "Mixture(full: 200 clusters of 25, 25, 25, 25, 25, 25, 25, 25 and 192 more rows; "
        "40 columns (column 0, column 1, column 2, column 3, column 4 and 35 more); 200 components)"
    )


@pytest.mark.parametrize("prior", [NIW.reference(2), NIG(np.zeros(2), 0.1, np.ones(2), 4.0)], ids=["full", "diag"])
@pytest.mark.parametrize("draws", [False, True])
def test_rows_without_any_value(prior: NIW | NIG, draws: bool, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(100, 2)) + 6 * (np.arange(100) >= 30)[:, None], np.repeat([0, 1], [30, 70])
    averaged = AveragedMixture.of(X, np.stack([labels, labels]), labels, [prior, prior], 0.0, None) if draws else None
    replace(Mixture.from_labels(X, labels, prior), averaged=averaged).save(tmp_path / "m.npz")
    mixture = load(tmp_path / "m.npz")
    # More than one block, and nothing but gaps in the last.
    rows = np.concatenate([np.tile(X, (200, 1)), np.full((MOST_ROWS, 2), np.nan)])
    rows[3] = np.nan
    gone = np.isnan(rows).all(axis=1)
    np.testing.assert_array_equal(mixture.predict(rows) == -1, gone)
    np.testing.assert_array_equal(mixture.predict(rows)[~gone], mixture.predict(rows[~gone]))
    np.testing.assert_allclose(mixture.predict_proba(rows)[gone], np.tile([0.3, 0.7], (gone.sum(), 1)))
    assert (mixture.score_samples(rows)[gone] == 0).all()
    assigned = mixture.assign(rows)
    assert (assigned.labels[gone] == -1).all() and np.isnan(assigned.probabilities[gone]).all()
    np.testing.assert_array_equal(mixture.probability_of(rows, assigned.labels), assigned.probabilities)
    rows[4, 0] = np.nan
    assert mixture.predict(rows)[4] == 0


def test_a_loaded_mixture_samples_from_its_draws(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    X, labels = rng.normal(size=(100, 2)) + 6 * (np.arange(100) >= 30)[:, None], np.repeat([0, 1], [30, 70])
    prior = NIW.reference(2)
    averaged = AveragedMixture.of(X, np.stack([labels, 0 * labels]), labels, [prior, prior], 0.0, None)
    replace(Mixture.from_labels(X, labels, prior), averaged=averaged).save(tmp_path / "m.npz")
    mixture = load(tmp_path / "m.npz")
    found, _ = mixture.sample(20_000, rng)
    # The one cluster of the second draw is wide: it has points between the two of the first.
    between = (np.abs(found.sum(axis=1) - 6) < 1).mean()
    side = np.arange(-30, 36, 0.1)
    grid = np.stack(np.meshgrid(side, side), axis=-1).reshape(-1, 2)
    density = np.exp(mixture.score_samples(grid[np.abs(grid.sum(axis=1) - 6) < 1])).sum() * 0.01
    assert between == pytest.approx(density, rel=0.1)
    alone, _ = replace(mixture, averaged=None).sample(20_000, rng)
    assert (np.abs(alone.sum(axis=1) - 6) < 1).mean() < between / 2
