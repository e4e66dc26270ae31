"""The conjugate maths against scipy, numerical integration, and the reference package's own values."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from dpmmwrap.families.base import take
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.full.statistics import covariances_of, statistics_of, union
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.partitions.hastings import split_ratios

DATA = Path(__file__).parents[2] / "data"
REFERENCE = json.loads((DATA / "reference_values.json").read_text())["cases"]


def random_prior(dim: int, seed: int = 0) -> NIW:
    rng = np.random.default_rng(seed)
    factor = rng.normal(size=(dim, dim))
    return NIW(rng.normal(size=dim), 0.7, factor @ factor.T + np.eye(dim), dim + 2.5)


def sequential_log_marginal(prior: NIW, X: np.ndarray) -> float:
    """log f(x) as a product of scipy's Student-t predictives, one point after the other."""
    total, mean, strength, scale, freedom = 0.0, prior.mean, prior.mean_strength, prior.scale, prior.degrees_of_freedom
    for x in X:
        df = freedom - prior.dim + 1
        total += stats.multivariate_t(mean, scale * (strength + 1) / (strength * df), df).logpdf(x)
        scale = scale + strength / (strength + 1) * np.outer(x - mean, x - mean)
        mean = (strength * mean + x) / (strength + 1)
        strength, freedom = strength + 1, freedom + 1
    return float(total)


@pytest.mark.parametrize("dim", [1, 2, 5])
def test_log_marginal_is_the_product_of_scipys_predictives(dim: int) -> None:
    prior = random_prior(dim)
    X = np.random.default_rng(1).normal(size=(12, dim)) * 3
    labels = np.array([0] * 5 + [1] * 7)
    got = prior.log_marginal_likelihood(statistics_of(X, labels))
    assert got == pytest.approx([sequential_log_marginal(prior, X[:5]), sequential_log_marginal(prior, X[5:])])


def test_log_marginal_is_the_integral_over_mean_and_variance() -> None:
    prior = NIW(np.array([0.3]), 1.5, np.array([[2.0]]), 3.0)
    X = np.array([[0.1], [1.2], [-0.4]])

    # On a grid over the mean and the log of the variance, where the integrand dies off well inside.
    mean, log_variance = np.linspace(-60, 60, 6001)[:, None], np.linspace(-6, 10, 1601)[None, :]
    variance = np.exp(log_variance)
    joint = stats.invwishart(3.0, 2.0).pdf(variance[0])[None, :] * stats.norm.pdf(mean, 0.3, np.sqrt(variance / 1.5))
    for x in X[:, 0]:
        joint = joint * stats.norm.pdf(x, mean, np.sqrt(variance))
    value = integrate.trapezoid(integrate.trapezoid(joint * variance, log_variance[0], axis=1), mean[:, 0])
    assert prior.log_marginal_likelihood(statistics_of(X))[0] == pytest.approx(np.log(value), abs=1e-5)


@pytest.mark.parametrize("case", REFERENCE, ids=[f"D={case['D']}" for case in REFERENCE])
def test_agrees_with_the_reference_package(case: dict) -> None:  # type: ignore[type-arg]
    data = np.load(DATA / "reference_data.npz")
    dim = case["D"]
    X, labels, sublabels = data[f"X{dim}"], data[f"labels{dim}"], data[f"sublabels{dim}"]
    prior = NIW(np.array(case["mean"]), case["kappa"], case["nu"] * np.array(case["psi"]), case["nu"])
    names = np.unique(labels)
    assert len(names) == len(case["clusters"])
    first_side = sublabels.min()
    for name, expected in zip(names, case["clusters"], strict=True):
        member = labels == name
        whole = statistics_of(X[member])
        sides = statistics_of(X[member], sublabels[member].astype(int) - first_side, 2)
        assert whole.counts[0] == expected["n"]
        assert sides.counts.tolist() == [expected["n_left"], expected["n_right"]]
        posterior = prior.posterior(whole)
        log_marginal = prior.log_marginal_likelihood(whole)
        log_sides = prior.log_marginal_likelihood(sides)
        process, every = DirichletProcess(case["alpha"]).for_moves(sides.counts), np.append(log_marginal, log_sides)
        ratio = split_ratios(process, 1, sides.counts[None], every, np.zeros(1))
        close = {"rel": 1e-5, "abs": 1e-5}
        assert log_marginal[0] == pytest.approx(expected["log_marginal"], **close)
        assert log_sides[0] == pytest.approx(expected["log_marginal_left"], **close)
        assert log_sides[1] == pytest.approx(expected["log_marginal_right"], **close)
        # A difference of numbers that Float32 accumulators made: relative to the largest of them.
        tolerance = 1e-5 * abs(expected["log_marginal"])
        assert ratio[0] == pytest.approx(expected["log_hastings_split"], rel=1e-5, abs=tolerance)
        theirs = expected["posterior"]
        assert posterior.mean_strength[0] == pytest.approx(theirs["kappa"], rel=1e-6)
        assert posterior.degrees_of_freedom[0] == pytest.approx(theirs["nu"])
        np.testing.assert_allclose(posterior.mean[0], theirs["mean"], rtol=1e-5, atol=1e-5)
        psi = posterior.scale[0] / posterior.degrees_of_freedom[0]
        np.testing.assert_allclose(psi, theirs["psi"], rtol=1e-5, atol=1e-5 * np.abs(psi).max())
        predictive = posterior.log_predictive(X[:5])[0]
        np.testing.assert_allclose(predictive, expected["log_predictive_of_first_5_rows"], rtol=1e-5, atol=1e-5)


def test_predictive_is_scipys_student_t() -> None:
    prior = random_prior(3)
    X = np.random.default_rng(2).normal(size=(20, 3))
    posterior = prior.posterior(statistics_of(X, np.repeat([0, 1], 10)))
    for k in range(2):
        df = posterior.degrees_of_freedom[k] - 2
        strength = posterior.mean_strength[k]
        t = stats.multivariate_t(posterior.mean[k], posterior.scale[k] * (strength + 1) / (strength * df), df)
        np.testing.assert_allclose(posterior.log_predictive(X)[k], t.logpdf(X), rtol=1e-10)


def test_draws_have_the_distribution_of_a_normal_inverse_wishart() -> None:
    one = random_prior(3, seed=5)
    n = 4000
    batch = NIW(np.tile(one.mean, (n, 1)), np.full(n, 2.0), np.tile(one.scale, (n, 1, 1)), np.full(n, 7.5))
    drawn = batch.draw(np.random.default_rng(0))
    precision = np.swapaxes(drawn.precision_factors, 1, 2) @ drawn.precision_factors
    u = np.array([0.3, -1.0, 0.5])
    # u'Pu / u'scale^-1 u ~ chi-square(nu), and det(P) det(scale) is a product of chi-squares.
    quadratic = np.einsum("i,nij,j->n", u, precision, u) / (u @ np.linalg.solve(one.scale, u))
    assert stats.kstest(quadratic, stats.chi2(7.5).cdf).pvalue > 1e-3
    determinant = np.log(np.linalg.det(precision) * np.linalg.det(one.scale))
    expected = np.log(stats.chi2([7.5, 6.5, 5.5]).rvs((n, 3), random_state=1)).sum(axis=1)
    assert stats.ks_2samp(determinant, expected).pvalue > 1e-3
    # The inverse-Wishart marginal of a diagonal entry, and the mean given the covariance.
    diagonal = stats.invgamma((7.5 - 2) / 2, scale=one.scale[1, 1] / 2)
    assert stats.kstest(covariances_of(drawn)[:, 1, 1], diagonal.cdf).pvalue > 1e-3
    steps = np.einsum("nij,nj->ni", drawn.precision_factors, drawn.means - one.mean) * np.sqrt(2.0)
    assert stats.kstest(steps.ravel(), "norm").pvalue > 1e-3


@settings(deadline=None)  # the first call compiles
@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(0, 30), st.integers(1, 30))
def test_statistics_of_a_union_are_the_sum(seed: int, dim: int, n1: int, n2: int) -> None:
    X = np.random.default_rng(seed).normal(size=(n1 + n2, dim)) * 10 + 100
    parts = statistics_of(X, np.repeat([0, 1], [n1, n2]), 2)
    whole = statistics_of(X)
    both = union(take(parts, slice(0, 1)), take(parts, slice(1, 2)))
    assert both.counts[0] == whole.counts[0]
    np.testing.assert_allclose(both.means[0], whole.means[0], rtol=1e-9)
    np.testing.assert_allclose(both.scatters[0], whole.scatters[0], rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(whole.scatters[0], np.atleast_2d(np.cov(X.T, bias=True)) * len(X), rtol=1e-7, atol=1e-6)


def test_default_prior_follows_the_units() -> None:
    X = np.random.default_rng(0).normal(size=(200, 3)) @ np.array([[1, 0.5, 0], [0, 1, 0.2], [0, 0, 1]])
    units = np.array([1000.0, 0.01, 1.0])
    plain, scaled = NIW.from_data(X), NIW.from_data(X * units)
    np.testing.assert_allclose(scaled.scale, plain.scale * np.outer(units, units), rtol=1e-9)
    assert scaled.degrees_of_freedom == plain.degrees_of_freedom
    assert (np.diagonal(plain.scale) < plain.degrees_of_freedom * X.var(axis=0) * 3).all()
    np.testing.assert_allclose(scaled.mean, plain.mean * units, rtol=1e-9)


@pytest.mark.parametrize(
    "X",
    [np.ones((10, 3)), np.column_stack([np.arange(100.0), np.full(100, 7.0)])],
    ids=["all constant", "a constant column"],
)
def test_the_prior_of_constant_features_is_proper(X: np.ndarray) -> None:
    prior = NIW.from_data(X)
    assert np.isfinite(prior.log_marginal_likelihood(statistics_of(X))).all()


@pytest.mark.parametrize(
    "X",
    [np.random.default_rng(0).normal(size=(3, 8)), np.repeat(np.random.default_rng(0).normal(size=(90, 1)), 3, axis=1)],
    ids=["fewer points than features", "repeated columns"],
)
def test_collinear_features_do_not_break_the_factor(X: np.ndarray) -> None:
    prior = NIW.from_data(X)
    posterior = prior.posterior(statistics_of(X))
    assert np.isfinite(posterior.half_log_determinant).all()
    assert np.isfinite(posterior.draw(np.random.default_rng(0)).precision_factors).all()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((np.zeros(2), 1.0, np.eye(3), 5.0), "D x D"),
        ((np.zeros(2), -1.0, np.eye(2), 5.0), "mean_strength"),
        ((np.zeros(2), 1.0, np.eye(2), 1.0), "degrees_of_freedom"),
        ((np.zeros(2), 1.0, -np.eye(2), 5.0), "positive definite"),
    ],
)
def test_a_prior_that_is_none_is_refused(arguments: tuple, sentence: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(ValueError, match=sentence):
        NIW(*arguments)
