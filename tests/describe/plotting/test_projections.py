"""How points come onto a plane."""

import numpy as np

from dpmmwrap.datasets import generate
from dpmmwrap.describe.plotting import projections


def test_variances_and_covariances_draw_the_same() -> None:
    data = generate(5, 3, 100, 50, 0)
    variances = np.abs(data.means) + 1
    seen = projections.projection(data.X.astype(np.float64))
    np.testing.assert_allclose(seen.shapes(variances), seen.shapes(np.array([np.diag(row) for row in variances])))


def test_of_many_features_only_two_directions_are_computed() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 1500)) + 5 * rng.normal(size=(400, 1))
    X += np.where(np.arange(1500) % 2, 3, -3) * (rng.random((400, 1)) > 0.5)
    _, directions, shares = projections.principal_components(X)
    exact = np.linalg.svd(X - X.mean(axis=0), full_matrices=False)[2][:2].T
    np.testing.assert_allclose(np.abs(directions.T @ exact), np.eye(2), atol=1e-6)
    assert 0 < shares.sum() <= 1
    _, directions, shares = projections.principal_components(X[:20])
    assert directions.shape == (1500, 2) and 0 < shares.sum() <= 1


def test_standardised_components_do_not_depend_on_units() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 4)) @ rng.normal(size=(4, 4))
    covariances = np.array([np.cov(X[:100], rowvar=False), np.cov(X[100:], rowvar=False)])
    units = np.array([1.0, 1000.0, 0.01, 5.0])
    one, other = (
        projections.projection(X, standardised=True),
        projections.projection(units * X + 7.0, standardised=True),
    )
    turned = np.sign((one.flat(X) * other.flat(units * X + 7.0)).sum(axis=0))
    np.testing.assert_allclose(turned * one.flat(X), other.flat(units * X + 7.0), atol=1e-9)
    shapes = other.shapes(units[:, None] * units * covariances)
    np.testing.assert_allclose(one.shapes(covariances) * turned[:, None] * turned, shapes, atol=1e-9)
    assert not np.allclose(np.abs(one.flat(X)), np.abs(projections.projection(units * X).flat(units * X)))


def test_a_constant_feature_is_no_direction() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, 3))
    X[:, 1] = 7.0
    seen = projections.projection(X, standardised=True)
    np.testing.assert_allclose(seen.directions[1], 0.0, atol=1e-12)
    assert np.isfinite(seen.flat(X)).all()


def test_of_two_features_nothing_changes() -> None:
    X = np.random.default_rng(0).normal(size=(20, 2)) * [1.0, 100.0]
    np.testing.assert_array_equal(projections.projection(X, ("a", "b"), standardised=True).flat(X), X)
