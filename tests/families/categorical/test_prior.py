"""Categorical columns against scipy: a column is one draw of a multinomial, a row several of them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpmmwrap.families.categorical.prior import CategoricalDirichlet

LEVELS = np.array([2, 4])
PRIOR = CategoricalDirichlet(LEVELS, np.array([0.5, 1.5, 1.0, 0.2, 2.0, 0.7]))
EDGES = ((0, 2), (2, 6))


def some_codes(rows: int, missing: float = 0.0, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, 2, rows), 2 + rng.choice(4, rows, p=[0.6, 0.3, 0.1, 0.0])], axis=1)
    codes[rng.random(codes.shape) < missing] = -1
    return codes.astype(np.int32)


def log_predictive(concentration: np.ndarray, codes: np.ndarray) -> float:
    """log probability of one row by scipy's Dirichlet-multinomial of one draw per column."""
    total = 0.0
    for (begin, end), code in zip(EDGES, codes, strict=True):
        if code >= 0:
            one_hot = np.arange(begin, end) == code
            total += stats.dirichlet_multinomial(concentration[begin:end], 1).logpmf(one_hot.astype(int))
    return float(total)


def sequential_log_marginal(prior: CategoricalDirichlet, codes: np.ndarray) -> float:
    concentration, total = prior.concentration.copy(), 0.0
    for row in codes:
        total += log_predictive(concentration, row)
        np.add.at(concentration, row[row >= 0], 1.0)
    return total


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_log_marginal_is_the_product_of_scipys_predictives(missing: float) -> None:
    codes = some_codes(15, missing)
    got = PRIOR.log_marginal_likelihood(PRIOR.statistics(codes, np.repeat([0, 1], [6, 9])))
    assert got == pytest.approx([sequential_log_marginal(PRIOR, part) for part in (codes[:6], codes[6:])])


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_predictive_is_scipys_dirichlet_multinomial(missing: float) -> None:
    codes = some_codes(20, missing)
    posterior = PRIOR.posterior(PRIOR.statistics(codes, np.repeat([0, 1], 10)))
    for k, got in enumerate(posterior.log_predictive(codes)):
        expected = [log_predictive(posterior.concentration[k], row) for row in codes]
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-12)


def test_draws_have_the_marginals_of_their_dirichlets() -> None:
    n = 5000
    batch = PRIOR.posterior(PRIOR.statistics(np.full((0, 2), -1), np.zeros(0, int), n))
    drawn = np.exp(batch.draw_tables(np.uint64(2)).astype(float))
    for begin, end in EDGES:
        np.testing.assert_allclose(drawn[:, begin:end].sum(axis=1), 1, rtol=1e-5)
        whole = PRIOR.concentration[begin:end].sum()
        for f in range(begin, end):
            own = PRIOR.concentration[f]
            assert stats.kstest(drawn[:, f], stats.beta(own, whole - own).cdf).pvalue > 1e-3
    assert abs(stats.spearmanr(drawn[:, 0], drawn[:, 2]).statistic) < 0.05


def test_new_rows_follow_the_predictive() -> None:
    posterior = PRIOR.posterior(PRIOR.statistics(some_codes(40), np.repeat([0, 1], 20)))
    drawn = posterior.sample(np.repeat([1, 0], 5000), np.random.default_rng(0))
    for rows, concentration in ((drawn[:5000], posterior.concentration[1]), (drawn[5000:], posterior.concentration[0])):
        for column, (begin, end) in enumerate(EDGES):
            seen = np.bincount(rows[:, column] - begin, minlength=end - begin)
            shares = concentration[begin:end] / concentration[begin:end].sum()
            assert stats.chisquare(seen, 5000 * shares).pvalue > 1e-3


def test_statistics_count_the_levels_that_are_there() -> None:
    codes, labels = some_codes(50, 0.2), np.arange(50) % 4 - 1
    got = PRIOR.statistics(codes, labels, 4)
    np.testing.assert_array_equal(got.counts, [13, 12, 12, 0])
    for k in range(4):
        members = codes[labels == k]
        np.testing.assert_array_equal(got.sums[k], np.bincount(members[members >= 0], minlength=6))


def test_the_default_prior_is_uniform_for_two_levels_and_as_sure_for_more() -> None:
    prior = CategoricalDirichlet.from_levels(np.array([1, 2, 8]))
    sums = np.add.reduceat(prior.concentration, prior.edges[:-1])
    np.testing.assert_allclose(sums, [1.0, 2.0, 2.0])
    np.testing.assert_allclose(prior.concentration[1:3], 1.0)


@pytest.mark.parametrize(
    ("levels", "concentration", "sentence"),
    [
        ([2, 3], np.ones(4), "every level of every column"),
        ([2, 0], np.ones(2), "every level of every column"),
        ([2], np.array([1.0, 0.0]), "positive"),
    ],
)
def test_a_prior_that_is_none_is_refused(levels: list[int], concentration: np.ndarray, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        CategoricalDirichlet(np.array(levels), concentration)
