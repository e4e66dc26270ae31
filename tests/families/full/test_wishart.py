"""The compiled loops against scipy and NumPy; what they mean together is tested in test_gaussian."""

from __future__ import annotations

import numpy as np
import pytest
from innerloops import called
from scipy.special import gammaln, multigammaln

from dpmmwrap.families.full import wishart
from dpmmwrap.families.full.statistics import statistics_of
from dpmmwrap.numerics.special import log_gamma
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.partitions.gibbs_type import gamma_shapes, log_weights_of


def test_log_gamma_on_both_sides_of_the_series() -> None:
    own = called(log_gamma)
    for x in (1e-3, 0.5, 1.0, 7.3, 11.999, 12.0, 12.5, 40.0, 1e3, 1e7, 1e12):
        assert own(x) == pytest.approx(gammaln(x), rel=1e-14, abs=1e-14)


@pytest.mark.parametrize("dim", [1, 2, 5, 21])
def test_factors_and_determinants(dim: int) -> None:
    rng = np.random.default_rng(dim)
    roots = rng.normal(size=(7, dim, dim + 2))
    matrices = roots @ np.swapaxes(roots, 1, 2)
    factors, halves = wishart.factorise(matrices)
    np.testing.assert_allclose(np.moveaxis(factors, 2, 0), np.linalg.cholesky(matrices), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(halves, 0.5 * np.linalg.slogdet(matrices)[1], rtol=1e-9, atol=1e-12)


def test_one_bad_matrix_spoils_no_other() -> None:
    matrices = np.stack([np.eye(3), np.diag([1.0, -1.0, 1.0]), np.zeros((3, 3)), 4 * np.eye(3)])
    _, halves = wishart.factorise(matrices)
    np.testing.assert_allclose(halves, [0.0, np.nan, np.nan, 3 * np.log(2.0)])


def test_log_normaliser_is_the_gamma_function_and_the_determinant() -> None:
    got = called(wishart.log_normaliser)(9.5, 3.0, 0.7, 4)
    constant = 4 * 3 / 4 * np.log(np.pi)
    assert got == pytest.approx(multigammaln(9.5 / 2, 4) - constant - 9.5 * 0.7 - 2 * np.log(3.0))


def test_clusters_are_the_unions_of_their_subclusters() -> None:
    rng = np.random.default_rng(0)
    X, parts = rng.normal(size=(200, 3)), rng.integers(0, 5, 200)
    halves = statistics_of(X, parts, 6)  # the last one is empty
    every = wishart.with_unions(halves)
    whole = statistics_of(X, parts // 2, 3)
    for name in ("counts", "means", "scatters"):
        np.testing.assert_allclose(getattr(every, name)[:3], getattr(whole, name), atol=1e-10)
        np.testing.assert_array_equal(getattr(every, name)[3:], getattr(halves, name))


def test_weights_come_from_their_own_gamma_variables() -> None:
    counts, sides = np.array([10.0, 20.0]), np.array([[3.0, 7.0], [12.0, 8.0]])
    shapes = gamma_shapes(DirichletProcess(4.0).for_weights(0, counts), counts, sides, np.array([9.0, 7.0]), 3)
    np.testing.assert_array_equal(shapes, [10, 20, 4, 5, 9, 14, 10, 3.5, 2.5, 4, 3, 4.5, 3.5])
    weights, subweights = log_weights_of(np.array([1.0, 3.0, 4.0, 2.0, 6.0, 0.0, 5.0]), 2)
    np.testing.assert_allclose(np.exp(weights), [1 / 8, 3 / 8])
    np.testing.assert_allclose(np.exp(subweights), [[1 / 4, 3 / 4], [0, 1]], atol=1e-12)
    assert np.isfinite(subweights).all()
