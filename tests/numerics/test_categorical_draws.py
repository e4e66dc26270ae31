"""Draws from the probabilities of each row."""

from __future__ import annotations

import numpy as np

from dpmmwrap.numerics.categorical_draws import draw_columns


def test_columns_come_up_by_their_shares() -> None:
    shares = np.tile([0.0, 3.0, 1.0, 0.0, 6.0], (20_000, 1))
    found = np.bincount(draw_columns(shares, np.random.default_rng(0)), minlength=5)
    assert found[0] == found[3] == 0
    expected = shares[0] / 10
    assert np.abs(found / 20_000 - expected).max() < 4 * np.sqrt(0.25 / 20_000)


def test_each_row_has_its_own_shares() -> None:
    np.testing.assert_array_equal(draw_columns(np.eye(4)[[2, 0, 3]], np.random.default_rng(1)), [2, 0, 3])
