"""Student-t clusters: formulas against scipy, quadrature, and each other."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from numpy.random import default_rng
from scipy import integrate, stats
from scipy.special import logsumexp
from sklearn.base import clone

from dpmmwrap import DPMM, NIW, DirichletProcess, Native, StudentNIW, load
from dpmmwrap.families import collapsed
from dpmmwrap.families.base import Model
from dpmmwrap.families.full.pairs import kernel_tables
from dpmmwrap.families.student import points as student_points
from dpmmwrap.families.student import tails
from dpmmwrap.families.student.diagonal import StudentNIG, StudentSphericalNIG
from dpmmwrap.families.student.statistics import FREEDOMS, GAUSSIAN, ScaledPoints, expected_scales, tails_of
from dpmmwrap.posterior.density import prior_predictive
from dpmmwrap.sampler.kernels import exact

PRIOR = StudentNIW(np.array([0.5, -1.0]), 0.7, np.array([[2.0, 0.3], [0.3, 1.0]]), 4.0)
DIAGONAL = StudentNIG(PRIOR.mean, 0.7, np.array([2.0, 1.0]), 3.0)
SPHERICAL = StudentSphericalNIG(PRIOR.mean, 0.7, np.array([1.5]), 3.0)
EVERY = pytest.mark.parametrize("prior", [PRIOR, DIAGONAL, SPHERICAL], ids=lambda prior: prior.family)
SHARES = np.where(np.isinf(FREEDOMS), GAUSSIAN, (1 - GAUSSIAN) / (len(FREEDOMS) - 1))


def student(count: int, nu: float, dim: int = 2, seed: int = 0) -> Any:
    rng = default_rng(seed)
    return rng.normal(size=(count, dim)) / np.sqrt(rng.chisquare(nu, (count, 1)) / nu)


def test_scales_are_gamma_variables_of_any_degrees_of_freedom() -> None:
    scales = default_rng(0).gamma(2.0, 0.5, 7)
    statistics = PRIOR.statistics(ScaledPoints(np.zeros((7, 2)), scales))
    logs = [stats.gamma(nu / 2, scale=2 / nu).logpdf(scales).sum() for nu in FREEDOMS[:-1]]
    expected = logsumexp(np.log(SHARES[:-1]) + logs)
    assert tails.log_evidences(PRIOR.tails, statistics)[0] == pytest.approx(expected)
    assert tails.most_probable(PRIOR.tails, statistics)[0] == 1 / FREEDOMS[int(np.argmax(logs))]
    # All of them 1: Gaussian, and nothing else.
    gaussian = PRIOR.statistics(ScaledPoints(np.zeros((7, 2)), np.ones(7)))
    assert tails.log_evidences(PRIOR.tails, gaussian)[0] == pytest.approx(np.log(GAUSSIAN))
    scales[0] = 1.0
    both = PRIOR.statistics(ScaledPoints(np.zeros((7, 2)), scales))
    assert tails.log_evidences(PRIOR.tails, both)[0] == -np.inf


def covariances_from(prior: Any, draws: int, rng: Any) -> Any:
    """From the prior, by scipy."""
    freedom = float(prior.degrees_of_freedom)
    if prior.numeric_kind == "full":
        return stats.invwishart(freedom, prior.scale).rvs(draws, random_state=rng)
    variances = stats.invgamma(freedom / 2, scale=prior.scale / 2).rvs((draws, len(prior.scale)), random_state=rng)
    return variances[:, :, None] * np.eye(2)


@EVERY
def test_the_marginal_likelihood_is_that_of_gaussians_given_the_scales(prior: Any) -> None:
    """x is a Gaussian about the mean with covariances Sigma / u_i and, between points, Sigma / kappa: a matrix t."""
    X, scales = student(4, 3.0), np.array([0.3, 2.0, 0.9, 1.4])
    found = prior.log_marginal_likelihood(prior.statistics(ScaledPoints(X, scales)))[0]
    rng, draws = default_rng(1), 200_000
    covariances = covariances_from(prior, draws, rng)
    factors = np.linalg.cholesky(covariances)
    rows = np.diag(1 / scales) + 1 / 0.7
    whitened = np.linalg.solve(factors, np.broadcast_to((X - prior.mean).T, (draws, 2, 4)))
    squares = np.einsum("sdi,ij,sdj->s", whitened, np.linalg.inv(rows), whitened)
    logs = -4 * np.log(2 * np.pi) - np.linalg.slogdet(rows)[1] - 2 * np.linalg.slogdet(covariances)[1] - 0.5 * squares
    of_scales = tails.log_evidences(prior.tails, prior.statistics(ScaledPoints(X, scales)))[0]
    assert found - of_scales == pytest.approx(logsumexp(logs) - np.log(draws), abs=0.03)


@EVERY
def test_gaussian_tails_are_gaussians(prior: Any) -> None:
    own, X = replace(prior, heaviness=0.0), student(30, 5.0)
    plain = prior.of_cells()(prior.mean, prior.mean_strength, prior.scale, prior.degrees_of_freedom)
    labels = np.arange(30) % 3
    ours, theirs = own.statistics(X, labels), plain.statistics(X, labels)
    np.testing.assert_allclose(own.log_marginal_likelihood(ours), plain.log_marginal_likelihood(theirs))
    np.testing.assert_allclose(own.posterior(ours).log_predictive(X), plain.posterior(theirs).log_predictive(X))


@EVERY
@pytest.mark.parametrize("nu", [1.0, 3.0, 32.0])
@pytest.mark.parametrize("points", [0, 3, 500])
def test_the_predictive_is_an_integral_over_the_scale(prior: Any, nu: float, points: int) -> None:
    """Of the density of x given u, which is Student's t, times that of u."""
    prior = replace(prior, heaviness=1 / nu)
    own = prior.posterior(prior.statistics(student(points, nu), np.zeros(points, np.int32), 1))
    freedom, strength = np.ravel(own.degrees_of_freedom)[0], np.ravel(own.mean_strength)[0]
    kind, freedom = prior.numeric_kind, freedom - 1 if prior.numeric_kind == "full" else freedom
    shape = own.scale[0] / freedom
    if kind == "diag":
        student_t: Any = stats.t(freedom, scale=np.sqrt(shape))
    else:
        student_t = stats.multivariate_t(np.zeros(2), shape if kind == "full" else shape * np.eye(2), freedom)
    nodes = np.linspace(-22, 5, 541)
    of_scale = stats.gamma(nu / 2, scale=2 / nu).pdf(np.exp(nodes)) * np.exp(nodes)
    wider = np.sqrt(np.exp(-nodes) + 1 / strength)
    for x in ([0.5, -1.0], [3.0, 0.0], [200.0, -50.0]):
        densities = student_t.pdf((x - own.mean[0]) / wider[:, None]).reshape(len(nodes), -1).prod(axis=1) / wider**2
        expected = np.log(integrate.trapezoid(densities * of_scale, nodes))
        assert own.log_predictive(np.array([x]))[0, 0] == pytest.approx(expected, abs=2e-4)


@pytest.mark.parametrize("prior", [DIAGONAL, SPHERICAL], ids=lambda prior: prior.family)
def test_what_is_not_observed_is_integrated_out(prior: Any) -> None:
    """One feature of two has the distribution that a prior of one feature has."""
    own = prior.posterior(prior.statistics(student(40, 2.0), np.zeros(40, np.int32), 1))
    assert own.heaviness[0] > 0
    first = own.batch._replace(means=own.batch.means[:, :1], scales=own.batch.scales[:, :1])
    alone = type(prior).with_tails(first, own.heaviness).log_predictive(np.array([[0.3], [20.0]]))
    np.testing.assert_allclose(own.log_predictive(np.array([[0.3, np.nan], [20.0, np.nan]])), alone, atol=2e-4)
    assert own.log_predictive(np.full((1, 2), np.nan))[0, 0] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.parametrize("heaviness", [-1.0, 0.5])
@pytest.mark.parametrize("kind", [StudentNIW, StudentNIG, StudentSphericalNIG])
def test_samples_follow_the_predictive(kind: Any, heaviness: float) -> None:
    prior = kind(np.zeros(1), 0.7, np.ones((1, 1) if kind is StudentNIW else 1), 3.0, heaviness)
    x = prior.sample(np.zeros(4000, np.int64), default_rng(0))[:, 0]
    grid = np.sinh(np.linspace(-14, 14, 4001))
    density = np.exp(prior.log_predictive(grid[:, None])[0])
    reached = integrate.cumulative_trapezoid(density, grid, initial=0.0)
    assert reached[-1] == pytest.approx(1.0, abs=3e-3)
    assert stats.kstest(x, lambda at: np.interp(at, grid, reached)).pvalue > 1e-3


def test_expected_scales_maximise_the_likelihood() -> None:
    X = student(3000, 4.0, dim=3)
    weak = StudentNIW(np.zeros(3), 1e-6, 1e-3 * np.eye(3), 3.0)
    found = expected_scales(X, np.zeros(len(X), np.int64), 1, weak)
    freedom = 1 / tails.most_probable(tails_of(-1.0), found)[0]
    assert freedom == 4.0 and found.ones[0] == 0
    scale = found.scatters[0] / len(X)

    def likelihood(factor: float, nu: float) -> float:
        return float(stats.multivariate_t(found.means[0], factor * scale, nu).logpdf(X).sum())

    best = likelihood(1.0, freedom)
    assert best > max(likelihood(0.97, freedom), likelihood(1.03, freedom), likelihood(1.0, 3.0), likelihood(1.0, 6.0))
    plain = expected_scales(default_rng(0).normal(size=(500, 2)), np.zeros(500, np.int64), 1, PRIOR)
    assert plain.ones[0] == plain.masses[0] == 500 and plain.logs[0] == 0


@EVERY
def test_filled_scales_make_up_the_density(prior: Any) -> None:
    """log p(x, u) - log q(u) is log p(x), from below and nearly so."""
    X, labels = student(400, 3.0), np.zeros(400, np.int64)
    prior = replace(prior, heaviness=1 / 3)
    posterior = prior.posterior(prior.statistics(X, labels, 1))
    logs = []
    for seed in range(20):
        whole, log_q = posterior.filled(X, labels, seed)
        logs.append(prior.log_marginal_likelihood(prior.statistics(whole, labels, 1))[0] - log_q)
    sums = prior.log_predictive(X[:1])[0, 0]
    for row in range(1, len(X)):
        own = prior.posterior(prior.statistics(X[:row], labels[:row], 1))
        sums += own.log_predictive(X[row : row + 1])[0, 0]
    assert np.std(logs) < 3 and abs(np.mean(logs) - sums) < 6


@EVERY
def test_clusters_with_all_integrated_out_follow_their_points(prior: Any) -> None:
    """Points come and go, clusters merge: marginal likelihoods are those of the statistics, and a predictive is the
    ratio of two of them."""
    X, scales = student(20, 2.0).astype(np.float32), default_rng(1).gamma(2.0, 0.5, 20)
    points = prior.points(X, 1)
    points.scales[:] = scales
    model = Model(prior)

    def log_marginal(rows: Any) -> float:
        return float(prior.log_marginal_likelihood(prior.statistics(ScaledPoints(X[rows], scales[rows])))[0])

    both = prior.statistics(ScaledPoints(X, scales), np.repeat([0, 1], [12, 8]), 2)
    bundle = points.collapsed(model, both, 4)
    first, second = np.arange(12), np.arange(12, 20)
    found = collapsed.log_marginals(bundle, 0, 3)
    np.testing.assert_allclose(found, [log_marginal(first), log_marginal(second), 0.0], atol=1e-8)
    again = prior.posterior(points.statistics_of(model, bundle, 2)).scale
    np.testing.assert_allclose(again, prior.posterior(both).scale, atol=1e-8)
    gain = exact.merge_gains(bundle, points.empty_clusters(model, 3), np.array([0]), np.array([1]))[0]
    assert gain == pytest.approx(log_marginal(np.arange(20)) - found[0] - found[1])
    # How probably another such point would start a cluster follows from three ratios of marginal likelihoods.
    process = DirichletProcess(1.0).for_moves(np.array([12.0, 8.0]), 2)
    shares = exact.seeding_probabilities(bundle, 2, 0, points.loop_points, np.array([3]), process)
    logs = [np.log(12) + log_marginal(np.append(first, 3)) - found[0]]
    logs += [np.log(8) + log_marginal(np.append(second, 3)) - found[1], log_marginal(np.array([3]))]
    assert shares[0] == pytest.approx(np.exp(logs[2] - logsumexp(logs)))


def test_unions_add_up() -> None:
    X, scales, labels = student(40, 2.0), default_rng(1).gamma(2.0, 0.5, 40), np.arange(40) % 4
    halves = PRIOR.statistics(ScaledPoints(X, scales), labels, 4)
    every = PRIOR.with_unions(halves)
    for own, expected in zip(every, PRIOR.statistics(ScaledPoints(X, scales), labels // 2, 2), strict=True):
        np.testing.assert_allclose(own[:2], expected)


@pytest.mark.parametrize("prior", [DIAGONAL, SPHERICAL], ids=lambda prior: prior.family)
def test_pairs_are_unions(prior: Any) -> None:
    X, scales, labels = student(40, 2.0), default_rng(1).gamma(2.0, 0.5, 40), np.arange(40) % 4
    one, other = np.array([0, 2, 1]), np.array([1, 3, 3])
    found = prior.union_log_marginals(prior.statistics(ScaledPoints(X, scales), labels, 4), one, other)
    for value, i, j in zip(found, one, other, strict=True):
        rows = (labels == i) | (labels == j)
        both = prior.statistics(ScaledPoints(X[rows], scales[rows]))
        assert value == pytest.approx(prior.log_marginal_likelihood(both)[0])


def test_a_fit_says_which_clusters_have_tails(tmp_path: Path) -> None:
    heavy = np.concatenate([student(200, 2.0, seed=1), student(150, 2.0, seed=2) + np.array([40, 0])])
    X = np.concatenate([heavy, default_rng(3).normal(size=(150, 2)) + np.array([0, 40])])
    truth = np.repeat([0, 1, 2], [200, 150, 150])
    model = DPMM(tails="student", covariance_type="full", n_chains=1, random_state=0).fit(X)
    own = [model.labels_[truth == k] for k in range(3)]
    assert [np.bincount(labels).max() / len(labels) > 0.95 for labels in own] == [True] * 3
    found = [model.tails_[np.bincount(labels).argmax()] for labels in own]
    assert found[0] <= 4 and found[1] <= 4 and found[2] >= 16
    assert model.covariances_.shape == (model.n_clusters_, 2, 2)
    model.save(tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_allclose(loaded.score_samples(X), model.score_samples(X))
    assert "heavy tails" in loaded.posterior.describe_tails(model.n_clusters_)
    # The density of drawn mixtures has the predictive as its mean, far out, too.
    at = np.array([[0.0, 0.0], [0.0, 8.0]])
    np.testing.assert_allclose(model.density(at).mean, np.exp(model.score_samples(at)), rtol=0.15)


def test_sentences_about_tails() -> None:
    def told(heaviness: list[float]) -> str:
        own = PRIOR.posterior(PRIOR.statistics(np.zeros((0, 2)), np.zeros(0, np.int32), len(heaviness)))
        own.__dict__["heaviness"] = np.array(heaviness)
        return own.describe_tails(len(heaviness))

    assert told([0.25, 0.0, 0.25]) == "2 of 3 clusters have heavy tails (4 degrees of freedom)"
    assert told([1.0, 0.0]) == "1 of 2 clusters has heavy tails (1 degree of freedom)"
    assert told([0.5, 0.25]) == "2 of 2 clusters have heavy tails (2 to 4 degrees of freedom)"
    assert told([0.5]) == "the cluster has heavy tails (2 degrees of freedom)"
    assert told([0.0]) == "no cluster has heavy tails"


def test_data_from_the_prior_have_tails() -> None:
    X, _ = prior_predictive(replace(PRIOR, heaviness=1.0), 1e-9, 4000, default_rng(0))
    assert stats.kurtosis(X[:, 0]) > 100


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"outlier_weight": 0.1}, "takes no outlier_weight"),
        ({"family": "poisson"}, "tails='student' is for the family gaussian, not poisson"),
        ({"tails": "auto", "backend": "julia"}, "the family gaussian or student needs the built-in sampler"),
        ({"tails": "auto", "subspace": 2}, "a subspace is for Gaussian clusters"),
        ({"covariance_type": "diag", "prior": PRIOR}, "a prior of the family student, diag"),
        ({"backend": "julia"}, "needs the built-in sampler"),
        ({"subspace": 2}, "a subspace is for Gaussian clusters"),
        ({"prior": "reference"}, "reference prior is for full covariances"),
        ({"prior": NIW.reference(2)}, "a prior of the family student"),
        ({"init": "splitnet"}, "init splitnet is for Gaussian clusters"),
    ],
)
def test_what_tails_do_not_go_with(options: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        DPMM(**{"tails": "student", "max_iter": 2, "n_chains": 1, **options}).fit(student(40, 3.0))


def test_neither_gaps_nor_weights() -> None:
    X = student(40, 3.0)
    model = DPMM(family="student", max_iter=5, n_chains=1, random_state=0)
    with pytest.raises(ValueError, match="takes no weights"):
        model.fit(X, sample_weight=np.full(40, 2.0))
    gappy = X.copy()
    gappy[0, 0] = np.nan
    with pytest.raises(ValueError, match="needs every value"):
        model.fit(gappy)
    # To predict, what is observed is enough.
    model.fit(X)
    assert np.isfinite(model.score_samples(gappy)).all()
    with pytest.raises(ValueError, match="family student does not impute"):
        model.impute(gappy)


def test_threads_change_nothing() -> None:
    X = np.concatenate([student(12_000, 2.0, seed=1), student(12_000, 8.0, seed=2) + 30]).astype(np.float32)

    def fitted(n_jobs: int) -> Any:
        return DPMM(family="student", max_iter=15, n_chains=1, random_state=0, backend=Native(n_jobs=n_jobs)).fit(X)

    one, two = fitted(1), fitted(2)
    np.testing.assert_array_equal(one.labels_, two.labels_)
    np.testing.assert_array_equal(one.trace_.log_posterior, two.trace_.log_posterior)


def test_points_that_are_sure_to_stay_would_have_stayed() -> None:
    """With least shares of 0 every point asks all clusters: the chain is the same."""
    rng = default_rng(0)
    X = np.concatenate([student(200, nu, 3, seed) + 5 * rng.normal(size=3) for seed, nu in enumerate([1, 2, 3, 8, 99])])
    least: list[float] = []

    def asking_all(*given: Any) -> Any:
        tables = kernel_tables(*given)
        least.append(tables.clusters.least_shares.max())
        nothing = np.zeros_like(tables.clusters.least_shares)
        return tables._replace(clusters=tables.clusters._replace(least_shares=nothing))

    model = DPMM(family="student", max_iter=20, n_chains=1, random_state=0)
    expected = clone(model).fit(X)
    with patch.object(student_points.pairs, "kernel_tables", asking_all):
        found = model.fit(X)
    assert max(least) > 0.9
    np.testing.assert_array_equal(found.labels_, expected.labels_)
    np.testing.assert_array_equal(found.trace_.log_posterior, expected.trace_.log_posterior)


@pytest.mark.parametrize(("nu", "tails_chosen"), [(2.0, True), (1e6, False)])
def test_evidence_chooses_tails(nu: float, tails_chosen: bool) -> None:
    # With a million degrees of freedom it is a Gaussian.
    X = np.concatenate([student(300, nu, seed=1), student(300, nu, seed=2) + 30])
    model = DPMM(tails="auto", n_chains=1, max_iter=30, random_state=0).fit(X)
    assert model.covariance_type_.startswith("student") == tails_chosen == hasattr(model, "tails_")
    assert model.covariance_reason_.startswith("with tails") == tails_chosen
    assert model.n_clusters_ == 2
    by_name = DPMM(tails="student" if tails_chosen else "gaussian", n_chains=1, max_iter=30, random_state=0).fit(X)
    np.testing.assert_array_equal(model.labels_, by_name.labels_)


@pytest.mark.parametrize("covariance_type", ["full", "diag", "spherical"])
def test_batches_add_to_clusters_with_tails(covariance_type: str, tmp_path: Path) -> None:
    X = np.concatenate([student(150, 2.0, seed=k) + 40 * k for k in range(2)])
    model = DPMM(tails="student", covariance_type=covariance_type, n_chains=1, random_state=0)
    model.partial_fit(X[::2]).save(tmp_path / "model.npz")
    before = model.mixture_.memory.statistics
    assert load(tmp_path / "model.npz").n_clusters == model.n_clusters_
    again = DPMM(n_chains=1, random_state=0).resume(tmp_path / "model.npz")
    for kept, own in zip(again.mixture_.memory.statistics, before, strict=True):
        np.testing.assert_array_equal(kept, own)
    model.partial_fit(X[1::2], window=0)
    assert (np.sort(model.cluster_ids_[:2]) == [0, 1]).all() and (model.tails_[:2] <= 4).all()
    kept = model.mixture_.memory.statistics
    assert kept.counts.sum() == len(X)
    halved = kept.scaled(0.5)
    assert halved.counts.sum() == len(X) / 2 and halved.logs.sum() == pytest.approx(kept.logs.sum() / 2)
    np.testing.assert_allclose(
        halved.scatters / halved.masses[:, None, None], kept.scatters / kept.masses[:, None, None]
    )
