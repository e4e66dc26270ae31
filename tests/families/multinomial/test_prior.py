"""The Dirichlet-multinomial against scipy and numerical integration, dense and sparse."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, sparse, stats
from scipy.special import gammaln

from dpmmwrap.families.multinomial.prior import Dirichlet, root_proportions

PRIOR = Dirichlet(np.array([0.3, 1.0, 2.5, 0.1]))


def some_counts(rows: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return rng.multinomial(rng.integers(0, 15, rows), [0.4, 0.3, 0.3, 0.0]).astype(np.float32)


def log_coefficients(X: np.ndarray) -> float:
    """Of the multinomials, which the marginal likelihood leaves out: no clustering changes them."""
    return float((gammaln(X.sum(axis=1) + 1) - gammaln(X + 1).sum(axis=1)).sum())


def sequential_log_marginal(prior: Dirichlet, X: np.ndarray) -> float:
    """As a product of scipy's predictives, one row after the other."""
    concentration, total = prior.concentration.copy(), 0.0
    for row in X.astype(int):
        total += stats.dirichlet_multinomial(concentration, int(row.sum())).logpmf(row)
        concentration += row
    return float(total)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_log_marginal_is_the_product_of_scipys_predictives(kind: type) -> None:
    X = some_counts(12)
    got = PRIOR.log_marginal_likelihood(PRIOR.statistics(kind(X), np.repeat([0, 1], [5, 7])))
    expected = [sequential_log_marginal(PRIOR, part) - log_coefficients(part) for part in (X[:5], X[5:])]
    assert got == pytest.approx(expected)


def test_log_marginal_is_the_integral_over_the_proportions() -> None:
    prior, X = Dirichlet(np.array([1.7, 2.2])), np.array([[3.0, 1.0], [0.0, 2.0], [5.0, 5.0]])
    left, right = X.sum(axis=0)
    value, _ = integrate.quad(lambda p: stats.beta(1.7, 2.2).pdf(p) * p**left * (1 - p) ** right, 0, 1, epsabs=0)
    assert prior.log_marginal_likelihood(prior.statistics(X))[0] == pytest.approx(np.log(value), abs=1e-7)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix, sparse.csr_array])
def test_predictive_is_scipys_dirichlet_multinomial(kind: type) -> None:
    X = some_counts(20)
    posterior = PRIOR.posterior(PRIOR.statistics(X, np.repeat([0, 1], 10)))
    for k, got in enumerate(posterior.log_predictive(kind(X))):
        rows = X.astype(int)
        expected = [stats.dirichlet_multinomial(posterior.concentration[k], row.sum()).logpmf(row) for row in rows]
        np.testing.assert_allclose(got, expected, rtol=1e-10, atol=1e-10)


def test_draws_have_the_marginals_of_their_dirichlet() -> None:
    n, concentration = 5000, np.array([0.4, 3.0, 20.0])
    drawn = np.exp(Dirichlet(np.tile(concentration, (n, 1))).draw_tables(np.uint64(5)).astype(float))
    np.testing.assert_allclose(drawn.sum(axis=1), 1, rtol=1e-5)
    for v, own in enumerate(concentration):
        assert stats.kstest(drawn[:, v], stats.beta(own, concentration.sum() - own).cdf).pvalue > 1e-3
    # What is left of the first proportion is divided independently of it.
    share = drawn[:, 1] / (drawn[:, 1] + drawn[:, 2])
    assert stats.kstest(share, stats.beta(3.0, 20.0).cdf).pvalue > 1e-3
    assert abs(stats.spearmanr(drawn[:, 0], share).statistic) < 0.05


def test_draws_of_tiny_concentrations_are_numbers() -> None:
    drawn = Dirichlet(np.full((500, 3), 1e-3)).draw_tables(np.uint64(1))
    assert np.isfinite(drawn).all()


def test_new_rows_follow_the_predictive() -> None:
    prior = Dirichlet(np.array([[2.0, 3.0], [50.0, 1.0]]))
    drawn = prior.sample(np.repeat([1, 0], 4000), np.random.default_rng(0))
    length = drawn.sum(axis=1)
    assert (length == length[0]).all()
    for rows, concentration in ((drawn[:4000], [50.0, 1.0]), (drawn[4000:], [2.0, 3.0])):
        n = int(length[0])
        chance = stats.betabinom(n, *concentration).pmf(np.arange(n + 1))
        seen = np.bincount(rows[:, 0].astype(int), minlength=n + 1)
        # Values in ten groups of about the same probability.
        groups = np.minimum((np.cumsum(chance) * 10).astype(int), 9)
        counts, expected = np.bincount(groups, seen), np.bincount(groups, chance * 4000)
        present = expected > 0
        assert stats.chisquare(counts[present], expected[present]).pvalue > 1e-3


def test_sparse_and_dense_statistics_are_the_same() -> None:
    X, labels = some_counts(50), np.arange(50) % 4 - 1
    dense, thin = PRIOR.statistics(X, labels, 4), PRIOR.statistics(sparse.csr_matrix(X), labels, 4)
    np.testing.assert_array_equal(dense.counts, [13, 12, 12, 0])
    np.testing.assert_array_equal(dense.sums, [X[labels == k].sum(axis=0) for k in range(4)])
    for one, other in zip(dense, thin, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_matrix])
def test_embedded_rows_are_apart_by_hellingers_distance(kind: type) -> None:
    X = np.array([[4.0, 0.0, 0.0], [0.0, 3.0, 1.0], [8.0, 0.0, 0.0], [0.0, 0.0, 0.0]], np.float32)
    found = root_proportions(kind(X))
    assert sparse.issparse(found) == (kind is not np.asarray)
    found = np.asarray(found.todense() if sparse.issparse(found) else found)
    np.testing.assert_allclose(((found[0] - found[1]) ** 2).sum(), 2.0, rtol=1e-6)
    np.testing.assert_allclose(found[2], found[0])
    np.testing.assert_array_equal(found[3], 0)


@pytest.mark.parametrize("concentration", [np.zeros(3), np.array([1.0, -1.0]), np.array([1.0, np.nan]), np.ones(0)])
def test_a_prior_that_is_none_is_refused(concentration: np.ndarray) -> None:
    with pytest.raises(ValueError, match="positive concentration"):
        Dirichlet(concentration)
