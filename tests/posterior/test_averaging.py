"""Predictions averaged over draws, against the same done draw by draw and point by point."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.special import logsumexp

from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.multinomial.prior import Dirichlet
from dpmmwrap.files import write_npz
from dpmmwrap.mixture import Mixture
from dpmmwrap.posterior import averaging
from dpmmwrap.posterior.averaging import AveragedMixture
from dpmmwrap.posterior.matching import match
from dpmmwrap.posterior.mixture_file import load

ROWS = 60
FAMILIES = ("full", "diag", "counts")


def case(family: str, outliers: bool) -> tuple[Any, Any, np.ndarray, np.ndarray]:
    """Points, a prior, draws that differ in number and names of clusters, and the partition they stand for."""
    rng = np.random.default_rng(1)
    labels = np.repeat([0, 1, 2], 20).astype(np.int32)
    X = (rng.normal(size=(ROWS, 2)) + 3 * labels[:, None]).astype(np.float32)
    draws = np.array([rng.permutation(5)[np.where(rng.random(ROWS) < 0.15, 3, labels)] for _ in range(12)])
    draws = np.array([np.unique(draw, return_inverse=True)[1] for draw in draws], np.int32)
    if outliers:
        draws[rng.random(draws.shape) < 0.1] = -1
        labels[:2] = -1
    if family == "counts":
        X = scipy.sparse.csr_matrix(rng.poisson(np.exp(0.4 * np.abs(X))).astype(np.float32))
        return X, Dirichlet(np.array([0.5, 0.7])), draws, labels
    prior = NIW.from_data(X) if family == "full" else NIG(np.full(2, 3.0), 0.2, np.full(2, 2.0), 4.0)
    return X, prior, draws, labels


def by_hand(
    X: Any, prior: Any, draws: np.ndarray, labels: np.ndarray, weight: float, broad: Any
) -> tuple[np.ndarray, np.ndarray]:
    """Probabilities (rows, clusters and perhaps outliers) and log predictive density, one draw after the other."""
    columns = int(labels.max()) + 1 + (weight > 0)
    total, densities = np.zeros((ROWS, columns)), []
    for draw in draws:
        matched = match(draw, labels)
        inside = (draw >= 0).sum()
        logs, owners = [], []
        for k in range(draw.max() + 1):
            own = prior.posterior(prior.statistics(X[draw == k]))
            logs.append(np.log((1 - weight) * (draw == k).sum() / inside) + own.log_predictive(X)[0])
            owners.append(matched[k])
        if weight > 0:
            mine = draw == -1
            statistics = prior.statistics(X, np.where(mine, 0, -1), 1)
            logs.append(np.log(weight) + broad.posterior(statistics).log_predictive(X)[0])
            owners.append(columns - 1)
        whole = logsumexp(logs, axis=0)
        densities.append(whole)
        for owner, log in zip(owners, logs, strict=True):
            total[:, owner] += np.exp(log - whole) / len(draws)
    return total, logsumexp(densities, axis=0) - np.log(len(draws))


@pytest.mark.parametrize("outliers", [False, True])
@pytest.mark.parametrize("family", FAMILIES)
def test_probabilities_are_means_over_draws(family: str, outliers: bool) -> None:
    X, prior, draws, labels = case(family, outliers)
    weight, broad = (0.1, prior.outliers(X)) if outliers else (0.0, None)
    averaged = AveragedMixture.of(X, draws, labels, [prior] * len(draws), weight, broad)
    expected, density = by_hand(X, prior, draws, labels, weight, broad)
    found = averaged.predict_proba(X, 3 + outliers)
    np.testing.assert_allclose(found, expected, atol=1e-10)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)
    np.testing.assert_allclose(averaged.score_samples(X), density, rtol=1e-9, atol=1e-12)
    # One draw alone would say something else.
    alone = AveragedMixture.of(X, draws[:1], labels, [prior] * len(draws[:1]), weight, broad)
    assert np.abs(alone.predict_proba(X, 3 + outliers) - expected).max() > 0.05


def test_of_many_draws_some_are_taken_evenly() -> None:
    X, prior, draws, labels = case("full", False)
    many = np.repeat(draws, 10, axis=0)
    averaged = AveragedMixture.of(X, many, labels, [prior] * len(many), 0.0, None)
    assert len(averaged.starts) == averaging.DRAWS
    chosen = np.linspace(0, len(many) - 1, averaging.DRAWS).astype(int)
    np.testing.assert_allclose(averaged.predict_proba(X, 3), by_hand(X, prior, many[chosen], labels, 0.0, None)[0])


def test_a_cluster_that_no_draw_has_keeps_its_column() -> None:
    X, prior, draws, labels = case("full", True)
    more = labels.copy()
    # One point alone, which no draw's cluster stands for.
    more[-1] = 3
    weight, broad = 0.1, prior.outliers(X)
    found = AveragedMixture.of(X, draws, more, [prior] * len(draws), weight, broad).predict_proba(X, 5)
    np.testing.assert_allclose(found, by_hand(X, prior, draws, more, weight, broad)[0], atol=1e-10)
    np.testing.assert_allclose(found.sum(axis=1), 1.0)


def test_far_points_have_probabilities_too() -> None:
    X, prior, draws, labels = case("full", False)
    far = np.array([[1e4, -1e4]], np.float32)
    found = AveragedMixture.of(X, draws, labels, [prior] * len(draws), 0.0, None)
    np.testing.assert_allclose(found.predict_proba(far, 3).sum(axis=1), 1.0)
    assert np.isfinite(found.score_samples(far)).all()


def test_shifted_data_have_the_same_probabilities() -> None:
    X, prior, draws, labels = case("full", False)
    averaged, offset = AveragedMixture.of(X, draws, labels, [prior] * len(draws), 0.0, None), np.array([5.0, -3.0])
    moved = averaged.shifted(offset).predict_proba(X - offset, 3)
    np.testing.assert_allclose(moved, averaged.predict_proba(X, 3), atol=1e-9)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_saved_mixture_predicts_as_before(family: str, tmp_path: Path) -> None:
    X, prior, draws, labels = case(family, True)
    weight, broad = 0.1, prior.outliers(X)
    mixture = Mixture.from_labels(X, labels, prior, weight, broad)
    plain = mixture.predict_proba(X)
    object.__setattr__(mixture, "averaged", AveragedMixture.of(X, draws, labels, [prior] * len(draws), weight, broad))
    mixture.save(tmp_path / "model.npz")
    found = load(tmp_path / "model.npz")
    np.testing.assert_allclose(found.predict_proba(X), by_hand(X, prior, draws, labels, weight, broad)[0], atol=1e-10)
    assert np.abs(found.predict_proba(X) - plain).max() > 0.01
    np.testing.assert_allclose(found.score_samples(X), mixture.score_samples(X))
    best = found.predict_proba(X).argmax(axis=1)
    np.testing.assert_array_equal(found.predict(X), np.where(best == 3, -1, best))


def test_damaged_averages_are_refused_in_one_sentence(tmp_path: Path) -> None:
    X, prior, draws, labels = case("full", False)
    mixture = Mixture.from_labels(X, labels, prior)
    object.__setattr__(mixture, "averaged", AveragedMixture.of(X, draws, labels, [prior] * len(draws), 0.0, None))
    path = tmp_path / "model.npz"
    mixture.save(path)
    with np.load(path) as file:
        arrays = {name: file[name] for name in file.files}
    for name in ("averaged_weights", "averaged_clusters", "averaged_degrees_of_freedom"):
        for damage in ({name: arrays[name][:-1]}, {name: None}):
            write_npz(path, {key: value for key, value in (arrays | damage).items() if value is not None})
            with pytest.raises(ValueError, match="damaged") as error:
                load(path)
            assert "\n" not in str(error.value)
    write_npz(path, arrays | {"averaged_starts": arrays["averaged_starts"][::-1]})
    with pytest.raises(ValueError, match="damaged"):
        load(path)
