"""Compiled random numbers against their distributions, and the float32 functions against NumPy's."""

from __future__ import annotations

import numpy as np
import pytest
from innerloops import called
from scipy import stats

from dpmmwrap.numerics import special, variates


def test_exp_is_exact_to_float32() -> None:
    x = -np.linspace(0, 60, 5001).astype(np.float32)
    got = np.array([*map(called(special.exp_float32), x)])
    np.testing.assert_allclose(got, np.exp(x.astype(np.float64)), rtol=4e-7)


def test_log_is_exact_to_float32() -> None:
    x = np.concatenate([2.0 ** -np.linspace(0, 30, 3001)[1:], 1 - 2.0 ** -np.arange(1, 25), [0.66, 0.67, 1.32, 1.34]])
    x = x.astype(np.float32)
    got = np.array([*map(called(special.log_float32), x)])
    np.testing.assert_allclose(got, np.log(x.astype(np.float64)), rtol=4e-7)


def test_random_bits_are_uniform_and_independent_between_keys() -> None:
    random_bits = called(variates.random_bits)
    bits = np.array([[random_bits(np.uint64(k), i) for i in range(20_000)] for k in (0, 1)], dtype=np.uint64)
    for shift in (0, 40):
        uniforms = ((bits >> np.uint64(shift)) & np.uint64(0xFFFFFF)).astype(float) / 2**24
        assert stats.kstest(uniforms.ravel(), "uniform").pvalue > 1e-3
        assert abs(np.corrcoef(uniforms)[0, 1]) < 0.03
        assert abs(np.corrcoef(uniforms[0, 1:], uniforms[0, :-1])[0, 1]) < 0.03


def test_normals_are_standard_normal() -> None:
    drawn = variates.standard_normals(np.uint64(12), 400_001)
    assert drawn.dtype == np.float32 and drawn.shape == (400_001,)
    assert stats.kstest(drawn, "norm").pvalue > 1e-3
    for beyond in (2.0, 3.0, 4.0):
        expected = stats.norm.sf(beyond)
        assert stats.binomtest(int((drawn > beyond).sum()), len(drawn), expected).pvalue > 1e-3
        assert stats.binomtest(int((drawn < -beyond).sum()), len(drawn), expected).pvalue > 1e-3
    # The two numbers of a pair share a radius and an angle.
    pairs = np.stack([drawn[:200_000], drawn[200_001:400_001]])
    assert abs(np.corrcoef(pairs)[0, 1]) < 0.01 and abs(np.corrcoef(pairs**2)[0, 1]) < 0.01
    turns = (np.arctan2(*pairs) / (2 * np.pi)) % 1
    assert stats.kstest(turns, "uniform").pvalue > 1e-3
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.01


def test_exponentials_are_standard_exponential() -> None:
    drawn = variates.standard_exponentials(np.uint64(3), 200_000)
    assert drawn.min() > 0 and stats.kstest(drawn, "expon").pvalue > 1e-3
    assert stats.binomtest(int((drawn > 9).sum()), len(drawn), np.exp(-9)).pvalue > 1e-3


@pytest.mark.parametrize("shape", [0.05, 0.4, 1.0, 1.3, 4.0, 60.0, 3e4, 1e7])
def test_gammas_have_their_shape(shape: float) -> None:
    drawn = variates.standard_gammas(np.uint64(7), np.full(60_000, shape))
    assert stats.kstest(drawn, stats.gamma(shape).cdf).pvalue > 1e-3
    if shape > 0.1:
        assert drawn.mean() == pytest.approx(shape, rel=5 / np.sqrt(60_000 * shape))


def test_each_gamma_has_its_own_shape_and_is_independent_of_the_others() -> None:
    shapes = np.array([0.3, 1.0, 2.5, 900.0])
    drawn = np.array([variates.standard_gammas(np.uint64(key * 2**20 + 5), shapes) for key in range(20_000)])
    for column, shape in zip(drawn.T, shapes, strict=True):
        assert stats.kstest(column, stats.gamma(shape).cdf).pvalue > 1e-3
    others = np.corrcoef(drawn.T)[~np.eye(4, dtype=bool)]
    assert np.abs(others).max() < 0.03
