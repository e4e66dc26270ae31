"""Sparse counts: tables of expected proportions, and statistics in the smallest type that is exact."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dpmmwrap import DPMM
from dpmmwrap.families.multinomial import points
from dpmmwrap.families.multinomial.points import exact_type
from dpmmwrap.families.multinomial.prior import Dirichlet
from dpmmwrap.families.multinomial.proportions import WORDS_AT_ONCE, expected_tables


def counts(rows: int = 240, words: int = 60) -> Any:
    rng = np.random.default_rng(0)
    topics = rng.dirichlet(np.full(words, 0.1), size=4)
    return np.array([rng.multinomial(30, topics[row % 4]) for row in range(rows)], dtype=np.float64)


@pytest.mark.parametrize(
    ("values", "expected"),
    [([3.0, 4.0], np.float32), ([2.0**24 - 1], np.float32), ([2.0**23, 2.0**23], np.float64), ([0.5], np.float64)],
)
def test_single_precision_is_taken_where_all_sums_are_exact(values: list[float], expected: type) -> None:
    assert exact_type(sparse.csr_matrix(np.array(values)[:, None])) is expected


def test_the_type_of_the_statistics_changes_no_label(monkeypatch: pytest.MonkeyPatch) -> None:
    X = sparse.csr_matrix(counts())
    options: Any = {"family": "multinomial", "prior": Dirichlet(np.full(60, 0.1)), "max_iter": 30, "random_state": 0}
    single = DPMM(**options).fit(X)
    monkeypatch.setattr(points, "exact_type", lambda X: np.float64)
    double = DPMM(**options).fit(X)
    assert single.n_clusters_ > 1
    np.testing.assert_array_equal(single.labels_, double.labels_)
    np.testing.assert_array_equal(single.trace_.log_posterior, double.trace_.log_posterior)


@pytest.mark.parametrize("halves", [False, True])
def test_expected_tables_are_logarithms_of_means_less_what_is_shared(halves: bool) -> None:
    rng, words = np.random.default_rng(1), 2 * WORDS_AT_ONCE + 7
    prior, sums = rng.gamma(1.0, size=words), rng.poisson(0.3, size=(6, words)).astype(np.float64)
    logs = np.log((prior + sums) / (prior + sums).sum(axis=1, keepdims=True))
    shared = logs.reshape(3, 2, words).mean(axis=1).repeat(2, axis=0) if halves else logs.mean(axis=0)
    np.testing.assert_allclose(expected_tables(prior, sums, halves), (logs - shared).T, atol=2e-6)
