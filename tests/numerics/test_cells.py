"""Many small first clusters."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import homogeneity_score

from dpmmwrap.datasets import generate
from dpmmwrap.numerics.cells import FAR_OUT, MOST, many_clusters, nearest, standardiser, winsorized


def test_each_small_cluster_lies_in_one_true_cluster() -> None:
    data = generate(dim=2, clusters=10, points=30_000, spread=500, seed=0)
    labels = many_clusters(data.X, seed=0)
    assert len(np.unique(labels)) > 100
    assert homogeneity_score(data.y, labels) > 0.98


def test_nearest_is_nearest() -> None:
    rng = np.random.default_rng(0)
    X, centres = rng.normal(size=(9000, 4)).astype(np.float32) * [1, 10, 1, 1], rng.normal(size=(7, 4))
    scaled = (X - X.mean(axis=0)) / X.std(axis=0)
    squares = ((scaled[:, None] - centres) ** 2).sum(axis=2)
    got = nearest(X.astype(np.float32), centres, standardiser(X))
    np.testing.assert_allclose(squares[np.arange(9000), got], squares.min(axis=1), rtol=1e-4)


def test_few_points_make_few_clusters() -> None:
    X = np.random.default_rng(0).normal(size=(5000, 2)).astype(np.float32)
    assert many_clusters(X, seed=0).max() + 1 == MOST
    assert many_clusters(X[:200], seed=0).max() + 1 == 10
    assert (many_clusters(np.zeros((30, 2), np.float32), seed=0) == 0).all()


# Values far out


def test_what_is_not_far_out_stays() -> None:
    X = np.random.default_rng(0).normal(size=(1000, 3)) * [1.0, 1e6, 1e-6] + [0.0, 1e9, 5.0]
    np.testing.assert_array_equal(winsorized(X), X)
    apart = X + 20 * (np.arange(1000) % 2)[:, None] * X.std(axis=0)
    np.testing.assert_array_equal(winsorized(apart), apart)  # Two clusters far apart are no outliers.


def test_a_typing_error_is_drawn_in() -> None:
    X = np.random.default_rng(0).normal(10.0, 2.0, size=(1000, 2))
    wrong = X.copy()
    wrong[7, 1] = 1e6
    wrong[8, 0] = -1e6
    mended = winsorized(wrong)
    changed = np.argwhere(mended != wrong)
    assert changed.tolist() == [[7, 1], [8, 0]]
    assert abs(mended[7, 1] - 10) < 1.2 * FAR_OUT * 2 and abs(mended[8, 0] - 10) < 1.2 * FAR_OUT * 2


def test_columns_in_which_most_values_are_one() -> None:
    rng = np.random.default_rng(0)
    rare = np.where(rng.random(1000) < 0.3, rng.normal(5.0, 1.0, 1000), 0.0)
    rarer = np.where(rng.random(1000) < 0.02, 5.0, 0.0)
    X = np.column_stack([rare, rarer, np.zeros(1000)])
    np.testing.assert_array_equal(winsorized(X), X)
    X[0, 0] = 1e5
    assert winsorized(X)[0, 0] < 100, "its middle nine tenths say how wide it is"


def test_gaps_and_no_values() -> None:
    X = np.random.default_rng(0).normal(size=(100, 2))
    X[3, 0] = np.nan
    X[:, 1] = np.nan
    np.testing.assert_array_equal(winsorized(X), X)
    assert winsorized(np.empty((0, 3))).shape == (0, 3)
