"""Many small first clusters."""

from __future__ import annotations

import numpy as np
from sklearn.metrics import homogeneity_score

from dpmmwrap.bins import MOST, many_clusters, nearest, standardiser
from dpmmwrap.datasets import generate


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
