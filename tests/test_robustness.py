"""Data as they come: a typing error, odd units, columns that say nothing give the clusters of the clean data."""

import warnings
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score, homogeneity_score

from dpmmwrap import DPMM


class Clean(NamedTuple):
    X: np.ndarray
    labels: np.ndarray
    """What a fit with default settings makes of them."""


def fit(X: np.ndarray) -> DPMM:
    """With the defaults, but for a start that needs no network."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", RuntimeWarning)
        return DPMM(init="kmeans", backend="native", random_state=0).fit(X)


@lru_cache(maxsize=1)
def clean() -> Clean:
    """Four clusters in three dimensions, each with a shape of its own."""
    rng = np.random.default_rng(1)
    truth = np.repeat(np.arange(4), 75)
    centres = np.array([[0, 0, 0], [7, 0, 3], [0, 8, -4], [8, 8, 8]])
    shapes = rng.normal(size=(4, 3, 3)) * 0.4 + np.eye(3)
    X = np.einsum("nij,nj->ni", shapes[truth], rng.normal(size=(300, 3))) + centres[truth]
    return Clean(X, fit(X).labels_)


def agreement(X: np.ndarray, rows: slice | np.ndarray = slice(None)) -> float:
    """With the clusters of the clean data."""
    return float(adjusted_rand_score(clean().labels[rows], fit(X).labels_[rows]))


def test_the_clean_data_have_four_clusters() -> None:
    assert len(np.unique(clean().labels)) == 4
    assert adjusted_rand_score(clean().labels, np.repeat(np.arange(4), 75)) > 0.95


@pytest.mark.parametrize("factor", [100.0, -100.0])
def test_a_typing_error_in_one_cell(factor: float) -> None:
    X = clean().X.copy()
    X[10, 1] = factor * np.abs(X[:, 1]).max()
    assert agreement(X) >= 0.9


def test_a_row_times_a_thousand() -> None:
    X = clean().X.copy()
    X[200] *= 1000
    assert agreement(X) >= 0.9


def test_a_typing_error_ends_as_an_outlier() -> None:
    X = clean().X.copy()
    X[200] *= 1000
    model = DPMM(init="kmeans", backend="native", outlier_weight=0.01, n_chains=1, random_state=0).fit(X)
    alone = model.labels_[200] == -1 or (model.labels_ == model.labels_[200]).sum() <= 3
    assert alone and adjusted_rand_score(clean().labels, model.labels_) >= 0.9


def with_columns(name: str) -> np.ndarray:
    X = clean().X
    more = {"constant": np.full(300, 5.0), "copy": X[:, 1], "unit": 2.54 * X[:, 0] + 32, "sum": X @ [1.0, -2.0, 0.5]}
    return np.column_stack([X, more[name]])


@pytest.mark.parametrize("name", ["constant", "copy", "unit", "sum"])
def test_columns_that_say_nothing_new(name: str) -> None:
    model = fit(with_columns(name))
    np.testing.assert_array_equal(model.labels_, clean().labels)
    assert sum("left out" in note for note in model.notes_) == 1


def test_columns_that_are_nearly_collinear() -> None:
    X = clean().X
    nearly = X[:, 0] + X[:, 1] + np.random.default_rng(0).normal(0, 0.05, 300)
    assert agreement(np.column_stack([X, nearly])) >= 0.9


def test_units() -> None:
    assert agreement(clean().X * [1e-6, 1.0, 1e6]) >= 0.98


def test_shifts_by_a_million_deviations() -> None:
    assert agreement(clean().X + 1e6 * clean().X.std(axis=0) * [1, -1, 1]) >= 0.98


def test_rotations() -> None:
    """Full covariances do not mind much; how wide the data are is seen along the axes."""
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0]
    assert agreement(clean().X @ turn) >= 0.9


def test_whole_numbers() -> None:
    assert agreement(np.round(2 * clean().X)) >= 0.9
    assert agreement(np.round(2 * clean().X).astype(np.int64)) >= 0.9


def test_ratings() -> None:
    """Two columns of five values that have nothing to do with the clusters."""
    ratings = np.random.default_rng(0).binomial(4, 0.5, size=(300, 2))
    model = fit(np.column_stack([clean().X, ratings]))
    assert any("2 of the 5 columns in use take few values" in note for note in model.notes_)
    assert adjusted_rand_score(clean().labels, model.labels_) >= 0.9


def test_columns_of_two_values() -> None:
    """They may cut clusters in two, but not into ever more of zero width."""
    rng = np.random.default_rng(0)
    zero_or_one, mostly_zero = rng.random(300) < 0.5, rng.random(300) < 0.1
    model = fit(np.column_stack([clean().X, zero_or_one, mostly_zero]))
    assert model.n_clusters_ <= 16 and homogeneity_score(clean().labels, model.labels_) >= 0.95
    variances = np.array([np.diagonal(cluster) if cluster.ndim == 2 else cluster for cluster in model.covariances_])
    assert variances[:, 3:].min() > 0.01
