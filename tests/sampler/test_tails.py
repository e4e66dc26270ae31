"""Student-t clusters against all partitions, with marginal likelihoods by numerical integration; Geweke's joint
distribution test and calibration with the tails among what is compared; and that wrong draws are found out.

Given mean and variance of a cluster its points are independent, with Student's t density: so the marginal likelihood of
a few numbers is an integral over two parameters. No scale of a point is in it, and nothing of `families.student`.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln, logsumexp

from dpmmwrap.families.student import points as student_points
from dpmmwrap.families.student import tails
from dpmmwrap.families.student.diagonal import StudentNIG, StudentSphericalNIG
from dpmmwrap.families.student.points import StudentPoints
from dpmmwrap.families.student.prior import StudentNIW
from dpmmwrap.families.student.statistics import FREEDOMS, GAUSSIAN
from dpmmwrap.sampler import sampling
from dpmmwrap.sampler.state import next_key
from exactness import enumeration, joint
from exactness.enumeration import Expected, expected_of, labellings
from exactness.running import apart, few_of_each, one_move, problem_of, run, start, uneven_cluster_seeds

LIMIT = 6.0
"""Monte Carlo standard errors, as of `moves/test_exact.py`."""
X = np.array([[-0.4], [0.3], [0.1], [6.0], [5.0]], np.float32)
PRIOR = StudentNIW(np.zeros(1), 0.5, np.full((1, 1), 1.0), 3.0)
DIAGONAL = StudentNIG(np.zeros(1), 0.5, np.ones(1), 3.0)
SPHERICAL = StudentSphericalNIG(np.zeros(1), 0.5, np.ones(1), 3.0)
"""Of one feature the same distribution."""
SHARES = np.where(np.isinf(FREEDOMS), GAUSSIAN, (1 - GAUSSIAN) / (len(FREEDOMS) - 1))


@lru_cache(maxsize=1)
def subsets() -> np.ndarray:
    """log of prior times marginal likelihood of each subset of the points, by its bits, and degrees of freedom."""
    strength, scale, freedom = float(PRIOR.mean_strength), float(PRIOR.scale[0, 0]), float(PRIOR.degrees_of_freedom)
    t, step = np.linspace(-12, 12, 241, retstep=True)
    means, log_means = 0.5 * np.sinh(t / 1.5), np.log(0.5 / 1.5 * np.cosh(t / 1.5) * step)
    logs, log_step = np.linspace(-9, 14, 240, retstep=True)
    variances = np.exp(logs)
    # The variance is the scale over a chi-square variable; a substitution of its logarithm.
    log_prior = stats.invgamma(freedom / 2, scale=scale / 2).logpdf(variances) + logs + np.log(log_step)
    table = log_prior + log_means[:, None]
    table = table + stats.norm.logpdf(means[:, None], float(PRIOR.mean[0]), np.sqrt(variances / strength))
    found = np.zeros((1 << len(X), len(FREEDOMS)))
    for g, nu in enumerate(FREEDOMS):
        kind = stats.norm() if np.isinf(nu) else stats.t(nu)
        of_points = [kind.logpdf((x - means[:, None]) / np.sqrt(variances)) - 0.5 * logs for x in X[:, 0].astype(float)]
        for mask in range(1 << len(X)):
            inside = sum((own for row, own in enumerate(of_points) if mask >> row & 1), np.zeros_like(table))
            found[mask, g] = np.log(SHARES[g]) + logsumexp(table + inside)
    return found


class Known(NamedTuple):
    partitions: Expected
    gaussian: np.ndarray
    """The probability that each point's cluster is Gaussian."""


@lru_cache(maxsize=1)
def known() -> Known:
    every = labellings(len(X), False)
    masks = 1 << np.arange(len(X))
    by_freedom = subsets()
    inside = logsumexp(by_freedom, axis=1)
    inside[0] = 0.0
    which = np.stack([((every == cluster) * masks).sum(axis=1) for cluster in range(len(X))])
    logs = sum(inside[own] for own in which)
    weights = logs + enumeration.terms_of(every, 1.0)[:, 0]
    weights = np.exp(weights - logsumexp(weights))
    gaussian = np.exp(by_freedom[:, -1] - logsumexp(by_freedom, axis=1))
    own = np.take_along_axis(which.T, every, axis=1)
    return Known(expected_of(every, np.asarray(logs), 1.0), weights @ gaussian[own])


def seen(moves: tuple[str, ...] | None, draws: int, prior: Any = PRIOR) -> tuple[Any, np.ndarray]:
    """Distances from all partitions, and from the probabilities of Gaussian clusters in standard errors."""
    problem = problem_of(X, prior)
    ones: list[np.ndarray] = []

    def step(key: Any, state: Any, problem: Any) -> Any:
        for name in moves or ():
            state = one_move(name, key, state, problem)
        if moves is None:
            state, _ = STEP(key, state, problem)
        ones.append(problem.data.points.scales == 1.0)
        return state, None

    with few_of_each(), patch.object(sampling, "step", step):
        found = apart(run(problem, draws, cluster_seeds=uneven_cluster_seeds(len(X))), known().partitions)
    drawn = np.array(ones[draws // 10 :], float)
    batches = drawn[: len(drawn) // 25 * 25].reshape(25, -1, len(X)).mean(axis=1)
    errors = batches.std(axis=0, ddof=1) / 5
    # A chain that is stuck has no errors.
    return found, (drawn.mean(axis=0) - known().gaussian) / np.maximum(errors, 1e-9)


STEP = sampling.step


EVERY = [PRIOR, DIAGONAL, SPHERICAL]
ALONE = [("sweep", "points"), ("sweep", "pairs")]
"""The slow ones: moves are the same for all covariances, and all moves together are tried with each of these."""


@pytest.mark.parametrize(
    ("prior", "moves"),
    [(prior, None) for prior in EVERY]
    + [(PRIOR, moves) for moves in ALONE]
    + [pytest.param(prior, moves, marks=pytest.mark.slow) for prior in EVERY[1:] for moves in ALONE],
    ids=lambda value: getattr(value, "family", None),
)
def test_draws_are_those_of_all_partitions(prior: Any, moves: Any) -> None:
    found, z = seen(moves, 6000, prior)
    assert found.z < LIMIT and found.clusters < 0.05 and found.pairs < 0.07
    assert np.abs(z).max() < LIMIT


def test_the_integrals_are_right() -> None:
    """Of Gaussian clusters there is a closed form; of one point with tails, quadrature over its scale."""
    gaussian = StudentNIW(PRIOR.mean, PRIOR.mean_strength, PRIOR.scale, PRIOR.degrees_of_freedom, 0.0)
    for mask in (1, 7, 31):
        rows = [row for row in range(len(X)) if mask >> row & 1]
        expected = gaussian.log_marginal_likelihood(gaussian.statistics(X[rows]))[0]
        assert subsets()[mask, -1] - np.log(GAUSSIAN) == pytest.approx(expected, abs=1e-4)
    assert logsumexp(subsets()[8]) == pytest.approx(PRIOR.log_predictive(X[3:4])[0, 0], abs=1e-4)


def wrong_prior(tails: Any, *others: Any) -> Any:
    """All degrees of freedom as probable as a Gaussian."""
    return DRAW(tails._replace(log_priors=np.zeros(len(FREEDOMS))), *others)


DRAW = tails.draw_heaviness


def by_counts(self: Any, total: Any, tables: Any) -> Any:
    """kappa grows by the number of points, not by the sum of their scales."""
    found = FINISH_LABELS(self, total, tables)
    return found._replace(masses=found.counts.copy())


def one_short(self: Any, *others: Any) -> Any:
    """Scales and labels with one degree of freedom less."""
    heaviness, powers, peaks = DRAW_TAILS(self, *others)
    return heaviness, powers - np.float32(0.5) * (heaviness > 0), peaks


FINISH_LABELS, DRAW_TAILS = StudentPoints.finish_labels, StudentPoints.draw_tails


@pytest.mark.parametrize(
    ("place", "name", "wrong"),
    [
        (student_points.tails, "draw_heaviness", wrong_prior),
        (StudentPoints, "finish_labels", by_counts),
        (StudentPoints, "draw_tails", one_short),
    ],
)
def test_wrong_tails_are_found_out(place: Any, name: str, wrong: Any) -> None:
    with patch.object(place, name, wrong):
        found, z = seen(None, 3000)
    assert max(found.z, np.abs(z).max()) > 8


# Data from the prior.

PAIR = StudentNIW(np.zeros(2), 0.2, 5 * np.eye(2), 6.0)
TWO, BALLS = StudentNIG(np.zeros(2), 0.2, np.array([5.0, 2.0]), 5.0), StudentSphericalNIG(np.zeros(2), 0.2, [4.0], 5.0)


class Simulated(NamedTuple):
    labels: np.ndarray
    alpha: float
    freedoms: np.ndarray
    """Of each cluster."""
    scales: np.ndarray
    X: np.ndarray


def factors_of(prior: Any, count: int, rng: np.random.Generator) -> np.ndarray:
    """Of drawn covariances."""
    freedom = float(prior.degrees_of_freedom)
    if prior.numeric_kind == "full":
        drawn = stats.invwishart(freedom, prior.scale).rvs(count, random_state=rng)
        return np.linalg.cholesky(drawn.reshape(count, 2, 2))
    variances = prior.scale / rng.chisquare(freedom, (count, len(prior.scale)))
    return np.sqrt(variances)[:, :, None] * np.eye(2)


def points_of(labels: np.ndarray, scales: np.ndarray, rng: np.random.Generator, prior: Any = PAIR) -> np.ndarray:
    """Gaussian points from each cluster's mean, and as far again as their scales say."""
    count = int(labels.max()) + 1
    factors = factors_of(prior, count, rng)
    means = prior.mean + np.einsum("kij,kj->ki", factors, rng.normal(size=(count, 2))) / np.sqrt(prior.mean_strength)
    steps = np.einsum("nij,nj->ni", factors[labels], rng.normal(size=(len(labels), 2)))
    return (means[labels] + steps / np.sqrt(scales)[:, None]).astype(np.float32)


def simulate(points: int, rng: np.random.Generator, prior: Any = PAIR) -> Simulated:
    alpha = float(rng.gamma(joint.ALPHA_PRIOR[0]) / joint.ALPHA_PRIOR[1])
    labels = joint.draw_partition(alpha, points, rng)
    freedoms = rng.choice(FREEDOMS, int(labels.max()) + 1, p=SHARES)
    own = freedoms[labels]
    drawn = rng.gamma(np.where(np.isinf(own), 1.0, own) / 2) * 2 / own
    scales = np.where(np.isinf(own), 1.0, drawn)
    return Simulated(labels, alpha, freedoms, scales, points_of(labels, scales, rng, prior))


def chain_of(
    points: np.ndarray, labels: np.ndarray | None, scales: np.ndarray | None, alpha: float, prior: Any = PAIR
) -> Any:
    problem = problem_of(points, prior, joint.ALPHA_PRIOR)
    state = start(problem, labels, scales=scales)
    state.near, state.cluster_seeds = joint.near_of_few(problem), uneven_cluster_seeds(len(points))
    state.partition_prior = state.partition_prior.at((alpha,))
    return problem, state


def features(points: np.ndarray, labels: np.ndarray, alpha: float, scales: np.ndarray) -> np.ndarray:
    ones, logs = scales == 1.0, np.tanh(np.log(scales))
    found = joint.features(points, labels, alpha, PAIR, None)
    return np.append(
        found, [ones.mean(), ones[0], logs.mean(), (logs**2).mean(), logs[0], (labels.max() + 1) * logs[1]]
    )


def geweke(points: int, rounds: int, prior: Any = PAIR) -> np.ndarray:
    """z-scores: all drawn as the model says, against labels and scales by the sampler and points given these."""
    rng, source = np.random.default_rng(0), np.random.Generator(np.random.SFC64(0))
    marginal = []
    for _ in range(rounds):
        one = simulate(points, rng, prior)
        marginal.append(features(one.X, one.labels, one.alpha, one.scales))
    now, chain = simulate(points, rng, prior), []
    labels, alpha, scales, own = now.labels, now.alpha, now.scales, now.X
    for _ in range(rounds):
        problem, state = chain_of(own, labels, scales, alpha, prior)
        state, _ = sampling.step(next_key(source), state, problem)
        labels, alpha, scales = state.labels.copy(), state.alpha, problem.data.points.scales.copy()
        own = points_of(labels, scales, rng, prior)
        chain.append(features(own, labels, alpha, scales))
    first, second = np.array(marginal), np.array(chain)
    batches = second[: len(second) // 25 * 25].reshape(25, -1, second.shape[1]).mean(axis=1)
    errors = np.sqrt(first.var(axis=0) / rounds + batches.var(axis=0, ddof=1) / 25)
    return np.asarray((second.mean(axis=0) - first.mean(axis=0)) / errors)


@pytest.mark.parametrize("prior", [PAIR, TWO, BALLS], ids=lambda prior: prior.family)
def test_the_joint_distribution(prior: Any) -> None:
    with few_of_each():
        assert np.abs(geweke(6, 1500, prior)).max() < 5


def test_the_joint_distribution_finds_out_wrong_tails() -> None:
    with few_of_each(), patch.object(student_points.tails, "draw_heaviness", wrong_prior):
        assert np.abs(geweke(6, 1000)).max() > 7


def one_feature_alone(self: Any, statistics: Any) -> Any:
    """Degrees of freedom of a variance that features share grow by the points, not by their values."""
    found = GAUSSIANS(self, statistics)
    return found._replace(freedoms=float(self.degrees_of_freedom) + statistics.counts[:, None])


GAUSSIANS = StudentSphericalNIG.gaussians


def test_the_joint_distribution_finds_out_wrong_degrees_of_freedom() -> None:
    with few_of_each(), patch.object(StudentSphericalNIG, "gaussians", one_feature_alone):
        assert np.abs(geweke(12, 1500, BALLS)).max() > 7


def freedom_of_first(labels: np.ndarray, scales: np.ndarray, rng: np.random.Generator) -> float:
    """Degrees of freedom of the first point's cluster, drawn given the scales, by their densities."""
    own = scales[labels == labels[0]]
    if (own == 1.0).all():
        return np.inf
    half = FREEDOMS[:-1] / 2
    logs = (half * np.log(half) - gammaln(half))[:, None] + (half - 1)[:, None] * np.log(own) - half[:, None] * own
    logs = logs.sum(axis=1)
    return float(rng.choice(FREEDOMS[:-1], p=np.exp(logs - logsumexp(logs))))


# All partitions and the joint distribution check the same updates, and find each wrong one, in less time.
@pytest.mark.slow
def test_ranks_of_the_true_tails_are_uniform() -> None:
    rng, ranks = np.random.default_rng(1), []
    for _ in range(60):
        truth = simulate(20, rng)
        problem, state = chain_of(truth.X, None, None, 2.0)
        source, found = np.random.Generator(np.random.SFC64(int(rng.integers(2**63)))), []
        for step in range(-20 * 4, 19 * 4):
            state, _ = sampling.step(next_key(source), state, problem)
            if step >= 0 and step % 4 == 0:
                scales = problem.data.points.scales
                freedom = freedom_of_first(state.labels, scales, rng)
                found.append((freedom, (scales == 1.0).mean(), state.n_clusters, scales[0]))
        true = truth.freedoms[truth.labels[0]], (truth.scales == 1.0).mean(), len(truth.freedoms), truth.scales[0]
        below, same = (np.array(found) < true).sum(axis=0), (np.array(found) == true).sum(axis=0)
        ranks.append(below + rng.integers(0, same + 1))
    assert min(joint.uniformity(own, 19, 5) for own in np.array(ranks).T) > 1e-3
