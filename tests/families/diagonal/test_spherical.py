"""One variance for all features, against scipy and against the families that it is in one dimension."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.diagonal.spherical import SphericalNIG


def random_prior(dim: int, seed: int = 0) -> SphericalNIG:
    return SphericalNIG(np.random.default_rng(seed).normal(size=dim), 0.7, np.array([2.5]), 3.5)


def some_points(rows: int, dim: int, missing: float = 0.0, seed: int = 1) -> np.ndarray:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, dim)) * 3 + np.arange(dim)
    X[rng.random(X.shape) < missing] = np.nan
    return X


def sequential_log_marginal(prior: SphericalNIG, X: np.ndarray) -> float:
    """log f(x) as a product of scipy's multivariate t over what is observed, one point after the other."""
    mean, strengths = prior.mean.copy(), np.full(prior.dim, float(prior.mean_strength))
    scale, freedom, total = float(prior.scale[0]), float(prior.degrees_of_freedom), 0.0
    for x in X:
        seen = ~np.isnan(x)
        if seen.any():
            shape = np.diag(scale / freedom * (strengths[seen] + 1) / strengths[seen])
            total += stats.multivariate_t(mean[seen], shape, freedom).logpdf(x[seen])
        gap = x[seen] - mean[seen]
        scale += (strengths[seen] / (strengths[seen] + 1) * gap**2).sum()
        mean[seen] += gap / (strengths[seen] + 1)
        strengths[seen] += 1
        freedom += seen.sum()
    return float(total)


@pytest.mark.parametrize("missing", [0.0, 0.4])
@pytest.mark.parametrize("dim", [1, 4])
def test_log_marginal_is_the_product_of_scipys_predictives(dim: int, missing: float) -> None:
    prior, X = random_prior(dim), some_points(12, dim, missing)
    got = prior.log_marginal_likelihood(prior.statistics(X, np.repeat([0, 1], [5, 7])))
    assert got == pytest.approx([sequential_log_marginal(prior, X[:5]), sequential_log_marginal(prior, X[5:])])


def test_of_one_feature_it_is_the_diagonal_family() -> None:
    one, X = random_prior(1), some_points(30, 1)
    other = NIG(one.mean, one.mean_strength, one.scale, one.degrees_of_freedom)
    statistics = one.statistics(X, np.arange(30) % 3)
    np.testing.assert_allclose(one.log_marginal_likelihood(statistics), other.log_marginal_likelihood(statistics))
    np.testing.assert_allclose(
        one.posterior(statistics).log_predictive(X), other.posterior(statistics).log_predictive(X)
    )


@pytest.mark.parametrize("missing", [0.0, 0.4])
def test_predictive_is_scipys_multivariate_t(missing: float) -> None:
    prior, X = random_prior(3), some_points(20, 3, missing)
    posterior = prior.posterior(prior.statistics(X, np.repeat([0, 1], 10)))
    strengths = np.broadcast_to(posterior.mean_strength, (2, 3))
    for k, got in enumerate(posterior.log_predictive(X)):
        freedom = posterior.degrees_of_freedom[k, 0]
        shape = posterior.scale[k, 0] / freedom * (strengths[k] + 1) / strengths[k]
        for x, value in zip(X, got, strict=True):
            seen = ~np.isnan(x)
            if seen.any():
                t = stats.multivariate_t(posterior.mean[k, seen], np.diag(shape[seen]), freedom)
                assert value == pytest.approx(t.logpdf(x[seen]))
            else:
                assert value == 0


@pytest.mark.parametrize("missing", [False, True])
def test_draws_share_one_precision(missing: bool) -> None:
    prior, n = random_prior(2), 4000
    X = some_points(15, 2)
    if missing:
        X[0, 0] = X[:11, 1] = np.nan
    one = prior.posterior(prior.statistics(X))
    batch = prior.posterior(prior.statistics(np.tile(X, (n, 1)), np.repeat(np.arange(n), 15)))
    tables, peaks = batch.draw_tables(np.uint64(3), missing)
    np.testing.assert_array_equal(tables.factors[:, 0], tables.factors[:, 1])
    precisions = tables.factors[:, 0].astype(float) ** 2
    gamma = stats.gamma(one.degrees_of_freedom[0, 0] / 2, scale=2 / one.scale[0, 0])
    assert one.degrees_of_freedom[0, 0] == 3.5 + (~np.isnan(X)).sum()
    assert stats.kstest(precisions, gamma.cdf).pvalue > 1e-3
    for j in range(2):
        strength = np.broadcast_to(one.mean_strength, (1, 2))[0, j]
        steps = (tables.offsets[:, j] - one.mean[0, j] * tables.factors[:, j]) * np.sqrt(strength)
        assert stats.kstest(steps, "norm").pvalue > 1e-3
    logs = stats.norm.logpdf(0.0, scale=1 / tables.factors.astype(float))
    np.testing.assert_allclose(peaks, logs.sum(axis=1), rtol=1e-5, atol=1e-5)


def test_new_points_follow_the_predictive() -> None:
    """Each coordinate is a Student t, and so is the distance: squares of both are correlated by the shared variance."""
    prior, X = random_prior(2), some_points(6, 2)
    posterior = prior.posterior(prior.statistics(X))
    drawn = posterior.sample(np.zeros(20_000, int), np.random.default_rng(0))
    strength, freedom = posterior.mean_strength[0, 0], posterior.degrees_of_freedom[0, 0]
    scale = np.sqrt(posterior.scale[0, 0] / freedom * (strength + 1) / strength)
    steps = (drawn - posterior.mean[0]) / scale
    assert stats.kstest(steps.ravel(), stats.t(freedom).cdf).pvalue > 1e-3
    # |x|^2 / 2 of a two-dimensional t is an F variable.
    assert stats.kstest((steps**2).sum(axis=1) / 2, stats.f(2, freedom).cdf).pvalue > 1e-3


def test_expected_variances_are_the_same_for_all_features() -> None:
    prior = SphericalNIG(np.zeros(3), 1.0, np.array([2.0]), 4.0)
    np.testing.assert_allclose(prior.mean_covariance(), [[1.0, 1.0, 1.0]])


def test_a_scale_per_feature_is_refused() -> None:
    with pytest.raises(ValueError, match="shape"):
        SphericalNIG(np.zeros(2), 1.0, np.ones(2), 3.0)
