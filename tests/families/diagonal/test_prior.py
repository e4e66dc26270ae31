"""The normal-inverse-gamma against scipy, numerical integration, and the normal-inverse-Wishart of one feature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import integrate, stats

from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.full.prior import NIW


def random_prior(dim: int, seed: int = 0) -> NIG:
    rng = np.random.default_rng(seed)
    return NIG(rng.normal(size=dim), 0.7, rng.uniform(0.5, 4.0, dim), 3.5)


def some_points(rows: int, dim: int, missing: float = 0.0, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, dim)) * 3 + np.arange(dim)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def sequential_log_marginal(prior: NIG, X: np.ndarray) -> float:
    """log f(x) as a product of scipy's Student-t predictives, one observed value after the other."""
    total = 0.0
    for j, column in enumerate(X.T):
        mean, strength, scale, freedom = prior.mean[j], prior.mean_strength, prior.scale[j], prior.degrees_of_freedom
        for x in column[~np.isnan(column)]:
            total += stats.t(freedom, mean, np.sqrt(scale * (strength + 1) / (strength * freedom))).logpdf(x)
            scale = scale + strength / (strength + 1) * (x - mean) ** 2
            mean = (strength * mean + x) / (strength + 1)
            strength, freedom = strength + 1, freedom + 1
    return float(total)


@pytest.mark.parametrize("missing", [0.0, 0.3])
@pytest.mark.parametrize("dim", [1, 4])
def test_log_marginal_is_the_product_of_scipys_predictives(dim: int, missing: float) -> None:
    prior, X = random_prior(dim), some_points(12, dim, missing)
    got = prior.log_marginal_likelihood(prior.statistics(X, np.repeat([0, 1], [5, 7])))
    assert got == pytest.approx([sequential_log_marginal(prior, X[:5]), sequential_log_marginal(prior, X[5:])])


def test_log_marginal_is_the_integral_over_mean_and_variance() -> None:
    prior, X = NIG(np.array([0.3]), 1.5, np.array([2.0]), 3.0), np.array([[0.1], [1.2], [-0.4]])
    mean, log_variance = np.linspace(-60, 60, 3001)[:, None], np.linspace(-6, 10, 401)[None, :]
    variance = np.exp(log_variance)
    joint = stats.invgamma(1.5, scale=1.0).pdf(variance) * stats.norm.pdf(mean, 0.3, np.sqrt(variance / 1.5))
    for x in X[:, 0]:
        joint = joint * stats.norm.pdf(x, mean, np.sqrt(variance))
    value = integrate.trapezoid(integrate.trapezoid(joint * variance, log_variance[0], axis=1), mean[:, 0])
    assert prior.log_marginal_likelihood(prior.statistics(X))[0] == pytest.approx(np.log(value), abs=1e-5)


def test_of_one_feature_it_is_the_normal_inverse_wishart() -> None:
    diagonal, full = NIG(np.array([0.3]), 0.4, np.array([2.0]), 3.5), NIW(np.array([0.3]), 0.4, np.eye(1) * 2, 3.5)
    X = some_points(30, 1)
    labels = np.arange(30) % 3
    ours, theirs = diagonal.statistics(X, labels), full.statistics(X, labels)
    np.testing.assert_allclose(diagonal.log_marginal_likelihood(ours), full.log_marginal_likelihood(theirs))
    one, other = diagonal.posterior(ours), full.posterior(theirs)
    np.testing.assert_allclose(one.mean, other.mean)
    np.testing.assert_allclose(one.scale, other.scale[:, :, 0])
    np.testing.assert_allclose(one.mean_strength[:, 0], other.mean_strength)
    np.testing.assert_allclose(one.degrees_of_freedom[:, 0], other.degrees_of_freedom)
    np.testing.assert_allclose(one.log_predictive(X), other.log_predictive(X))


def predictive_of(posterior: NIG, k: int, j: int):  # type: ignore[no-untyped-def]
    """scipy's Student t of one cluster and feature."""
    mean, strength, scale, freedom = (
        np.broadcast_to(value, posterior.mean.shape)[k, j]
        for value in (posterior.mean, posterior.mean_strength, posterior.scale, posterior.degrees_of_freedom)
    )
    return stats.t(freedom, mean, np.sqrt(scale * (strength + 1) / (strength * freedom)))


@pytest.mark.parametrize("missing", [0.0, 0.3])
def test_predictive_is_scipys_student_t_of_every_feature(missing: float) -> None:
    prior, X = random_prior(3), some_points(20, 3, missing)
    posterior = prior.posterior(prior.statistics(X, np.repeat([0, 1], 10)))
    for k, got in enumerate(posterior.log_predictive(X)):
        logs = [predictive_of(posterior, k, j).logpdf(X[:, j]) for j in range(3)]
        np.testing.assert_allclose(got, np.nansum(logs, axis=0), rtol=1e-10)


def test_the_posterior_counts_what_was_observed() -> None:
    prior, X = random_prior(2), some_points(9, 2)
    X[:4, 1] = np.nan
    posterior = prior.posterior(prior.statistics(X))
    np.testing.assert_allclose(posterior.mean_strength[0], [0.7 + 9, 0.7 + 5])
    np.testing.assert_allclose(posterior.degrees_of_freedom[0], [3.5 + 9, 3.5 + 5])
    only = NIG(prior.mean[1:], 0.7, prior.scale[1:], 3.5)
    seen = only.posterior(only.statistics(X[4:, 1:]))
    np.testing.assert_allclose([posterior.mean[0, 1], posterior.scale[0, 1]], [seen.mean[0, 0], seen.scale[0, 0]])


@pytest.mark.parametrize("missing", [False, True])
def test_draws_have_the_distribution_of_the_posterior(missing: bool) -> None:
    prior, n = random_prior(2), 4000
    X = some_points(15, 2)
    if missing:
        X[0, 0] = X[:11, 1] = np.nan
    one = prior.posterior(prior.statistics(X))
    batch = prior.posterior(prior.statistics(np.tile(X, (n, 1)), np.repeat(np.arange(n), 15)))
    tables, peaks = batch.draw_tables(np.uint64(3), missing)
    precisions = tables.factors.astype(float) ** 2
    for j in range(2):
        strength, freedom = (
            np.broadcast_to(value, (1, 2))[0, j] for value in (one.mean_strength, one.degrees_of_freedom)
        )
        gamma = stats.gamma(freedom / 2, scale=2 / one.scale[0, j])
        assert stats.kstest(precisions[:, j], gamma.cdf).pvalue > 1e-3
        steps = (tables.offsets[:, j] - one.mean[0, j] * tables.factors[:, j]) * np.sqrt(strength)
        assert stats.kstest(steps, "norm").pvalue > 1e-3
        assert abs(stats.spearmanr(steps, precisions[:, j]).statistic) < 0.06
    assert abs(stats.spearmanr(*precisions.T).statistic) < 0.06
    logs = stats.norm.logpdf(0.0, scale=1 / tables.factors.astype(float))
    np.testing.assert_allclose(peaks, logs.sum(axis=1), rtol=1e-5, atol=1e-5)
    if missing:
        np.testing.assert_allclose(tables.missing, logs, rtol=1e-5, atol=1e-5)
    else:
        assert tables.missing is None


def test_new_points_follow_the_predictive() -> None:
    prior, X = random_prior(2), some_points(20, 2, 0.2)
    posterior = prior.posterior(prior.statistics(X, np.repeat([0, 1], 10)))
    drawn = posterior.sample(np.repeat([1, 0], 4000), np.random.default_rng(0))
    for j in range(2):
        assert stats.kstest(drawn[:4000, j], predictive_of(posterior, 1, j).cdf).pvalue > 1e-3
        assert stats.kstest(drawn[4000:, j], predictive_of(posterior, 0, j).cdf).pvalue > 1e-3


def test_expected_variances() -> None:
    prior = NIG(np.zeros(2), 1.0, np.array([2.0, 6.0]), 4.0)
    drawn = stats.invgamma(2.0, scale=np.array([1.0, 3.0])).mean()
    np.testing.assert_allclose(prior.mean_covariance()[0], drawn)
    without_mean = NIG(np.zeros(1), 1.0, np.array([3.0]), 1.5)
    np.testing.assert_allclose(without_mean.mean_covariance(), [[2.0]])


def test_narrow_clusters_far_away_keep_their_digits() -> None:
    """A deviation of a ten-thousandth of the mean: sums of squares still know it."""
    prior, X = NIG(np.array([1e4]), 1.0, np.array([1.0]), 3.0), 1e4 + some_points(1000, 1)
    near = NIG(np.array([0.0]), 1.0, np.array([1.0]), 3.0)
    got, expected = (p.log_marginal_likelihood(p.statistics(x))[0] for p, x in ((prior, X), (near, X - 1e4)))
    assert got == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((np.zeros(0), 1.0, np.zeros(0), 3.0), "mean of D numbers"),
        ((np.zeros(2), 1.0, np.ones(3), 3.0), "shape"),
        ((np.zeros(2), 1.0, np.eye(2), 3.0), "shape"),
        ((np.zeros(2), 0.0, np.ones(2), 3.0), "mean_strength"),
        ((np.zeros(2), 1.0, -np.ones(2), 3.0), "scale"),
        ((np.zeros(2), 1.0, np.ones(2), 0.0), "degrees_of_freedom"),
        ((np.zeros(2), 1.0, np.ones(2), np.nan), "degrees_of_freedom"),
    ],
)
def test_a_prior_that_is_none_is_refused(arguments: tuple, sentence: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(ValueError, match=sentence):
        NIG(*arguments)
