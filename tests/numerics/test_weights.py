from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpmmwrap.numerics.weights import checked_weights, rows_by_weight, with_exact_sums


def test_sums_are_exact_in_any_order() -> None:
    rng = np.random.default_rng(0)
    weights = with_exact_sums(rng.gamma(0.3, size=2000))
    totals = {float(np.add.accumulate(weights[rng.permutation(2000)])[-1]) for _ in range(50)}
    assert len(totals) == 1
    left = totals.pop()
    for weight in weights:
        left -= weight
    assert left == 0.0


def test_weights_hardly_change() -> None:
    weights = np.random.default_rng(1).gamma(2.0, size=1000)
    np.testing.assert_allclose(with_exact_sums(weights), weights, rtol=1e-9)
    whole = np.array([1.0, 3.0, 1e9, 7.0])
    np.testing.assert_array_equal(with_exact_sums(whole), whole)


@pytest.mark.parametrize(
    ("weights", "words"),
    [
        ([1.0, -2.0, 1.0], "should not be negative, but that of row 2 is -2"),
        ([1.0, 1.0, np.nan], "should be finite, but that of row 3 is nan"),
        ([1.0, 1.0], "should be 3 numbers, one per row"),
        ([0.0, 0.0, 1.0], "above zero in at least 2 rows"),
        (["a", "b", "c"], "should be numbers"),
    ],
)
def test_what_is_no_weight_is_refused(weights: Any, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        checked_weights(weights, 3)


def test_rows_as_often_as_they_weigh() -> None:
    weights = np.array([2.0, 0.0, 1.0, 3.0])
    assert rows_by_weight(weights, 100).tolist() == [0, 0, 2, 3, 3, 3]
    many = rows_by_weight(1000 * weights, 600)
    np.testing.assert_allclose(np.bincount(many, minlength=4), [200, 0, 100, 300], atol=1)
