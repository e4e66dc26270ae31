"""Training sets: the generator, the filter, the curriculum, the best bipartition of a crowd."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from scipy.stats import multivariate_normal, multivariate_t, norm, t

from dpmmwrap.families.base import take
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.full.statistics import covariances_of, statistics_of
from dpmmwrap.splitnet.batches import TARGETS, Stage, set_size, training_batch, validation_sets
from dpmmwrap.splitnet.bipartitions import best_bipartitions, log_hastings
from dpmmwrap.splitnet.synthesis import (
    Difficulty,
    curriculum,
    difficulty,
    draw_alike_pairs,
    draw_crowds,
    draw_pairs,
    draw_splittable_pairs,
    draw_test_sets,
    split_log_hastings,
)


def test_pairs_follow_their_prior() -> None:
    rng = np.random.default_rng(0)
    count, dim = 4000, 2
    pairs = draw_pairs(rng, dim, [Difficulty(kappa=4.0, nu=12.0, dirichlet=5.0)] * count)
    # E Sigma = I / (nu - D - 1), Cov(mu) = E Sigma / kappa, Var(p) = 1 / (4 (2 a + 1)).
    np.testing.assert_allclose(pairs.covariances.mean(axis=(0, 1)), np.eye(dim) / 9, atol=0.01)
    np.testing.assert_allclose(np.cov(pairs.means.reshape(-1, dim).T), np.eye(dim) / 36, atol=0.005)
    np.testing.assert_allclose(pairs.weights[:, 0].var(), 1 / 44, rtol=0.1)


def test_points_come_from_their_components() -> None:
    rng = np.random.default_rng(1)
    pairs = draw_pairs(rng, 3, [Difficulty(0.01, 8.0, 20.0)])
    X, labels = pairs.sample(rng, 40_000)
    for k in range(2):
        np.testing.assert_allclose(np.cov(X[0, labels[0] == k].T), pairs.covariances[0, k], rtol=0.2, atol=0.02)
    responsible = pairs.responsibilities(X)
    np.testing.assert_allclose(responsible.sum(axis=1), 1.0)
    assert (responsible[0].argmax(axis=0) == labels[0]).mean() > 0.97


def test_unsplittable_sets_are_drawn_again() -> None:
    rng = np.random.default_rng(2)
    difficulties = [Difficulty(20.0, 30.0, 1.0)] * 40
    unfiltered = draw_pairs(rng, 2, difficulties)
    X, labels = unfiltered.sample(rng, 200)
    assert (split_log_hastings(X, labels, 1.0) <= 1.0).mean() > 0.5
    difficulties[20:] = [Difficulty(0.1, 8.0, 50.0)] * 20
    pairs, X, labels = draw_splittable_pairs(rng, 2, difficulties, 200, threshold=1.0, alpha=1.0)
    # What is known of the Gaussians is known of those that came in place of the first ones.
    heights = [multivariate_normal(cov=sigma).logpdf([0, 0]) for sigma in covariances_of(pairs.gaussians)]
    np.testing.assert_allclose(pairs.gaussians.log_peak_densities, heights, rtol=1e-6)
    assert (split_log_hastings(X, labels, 1.0)[20:] > 1.0).all()


def test_the_ratio_is_the_priors() -> None:
    rng = np.random.default_rng(3)
    _, X, labels = draw_test_sets(rng, 2, "medium", 3, n=100)
    prior = NIW.reference(2)
    for points, sides, ratio in zip(X, labels, split_log_hastings(X, labels, 100.0), strict=True):
        parts = statistics_of(points, sides, 2)
        expected = log_hastings(prior, take(parts, slice(0, 1)), take(parts, slice(1, 2)), 100.0)[0]
        np.testing.assert_allclose(ratio, expected, rtol=1e-8)


def test_the_curriculum_runs_from_easy_to_hard() -> None:
    rng = np.random.default_rng(4)
    easy, hard = difficulty(10, "easy"), difficulty(10, "hard")
    begin = curriculum(rng, 10, 500, progress=0.2)
    end = curriculum(rng, 10, 500, progress=1.0)
    assert all(easy.kappa <= k.kappa <= hard.kappa and hard.nu <= k.nu <= easy.nu for k in begin + end)
    assert max(k.kappa for k in begin) < 0.3 < np.median([k.kappa for k in end])
    assert max(k.kappa for k in end) > 4
    assert min(k.dirichlet for k in begin) > 75
    assert min(k.dirichlet for k in end) < 5
    with pytest.raises(ValueError, match="level should be one of"):
        difficulty(2, "harder")


def test_the_best_bipartition_is_the_best_of_all_small_ones() -> None:
    rng = np.random.default_rng(5)
    crowds = draw_crowds(rng, 2, 6)
    sides, gains = best_bipartitions(crowds.weights, crowds.means, crowds.covariances, 3)
    assert (np.diff(gains, axis=1)[:, 1:] <= 1e-9).all()
    for b in range(6):
        real = np.flatnonzero(crowds.weights[b])
        for size, single in itertools.product([1], real):
            assert gains[b, 0] >= gain_of(crowds, b, [single]) - 1e-9, size
        np.testing.assert_allclose(gains[b, 0], gain_of(crowds, b, np.flatnonzero(sides[b, 0])), atol=1e-8)


def gain_of(crowds, b, group) -> float:
    """log H / N of a split by components, from the moments of a mixture, written out."""
    weights, means, covariances = crowds.weights[b], crowds.means[b], crowds.covariances[b]

    def log_determinant(members):
        w = weights[members] / weights[members].sum()
        mean = w @ means[members]
        spread = means[members] - mean
        covariance = np.einsum("k,kij->ij", w, covariances[members]) + (spread * w[:, None]).T @ spread
        return np.linalg.slogdet(covariance)[1]

    group = np.asarray(group)
    rest = np.setdiff1d(np.flatnonzero(weights), group)
    p, q = weights[group].sum(), weights[rest].sum()
    if p == 0 or q <= 1e-12:
        return -np.inf
    parts = -p / 2 * log_determinant(group) - q / 2 * log_determinant(rest)
    return 0.5 * log_determinant(np.flatnonzero(weights)) + parts + p * np.log(p) + q * np.log(q)


def test_a_batch_depends_on_seed_and_step_alone() -> None:
    one, again, other = (training_batch(seed, 7, Stage(0, (3, 4), True, 3.0), 8, 0.5) for seed in (0, 0, 1))
    assert (one.X == again.X).all()
    assert (one.targets == again.targets).all()
    assert one.X.shape != other.X.shape or not (one.X == other.X).all()


@pytest.mark.parametrize("dim", [1, 2, 5, 12])
def test_batches_are_framed_points_with_probabilities(dim: int) -> None:
    for step in range(6):
        batch = training_batch(0, step, Stage(0, (dim,), step % 2 == 0, 3.0), 4, 1.0)
        sets, n, width = batch.X.shape
        assert width == dim
        assert batch.targets.shape == (sets, TARGETS, n)
        assert batch.known.shape == (sets, n) and batch.known.float().mean() > 0.8
        assert batch.X.isfinite().all()
        assert ((batch.targets >= 0) & (batch.targets <= 1 + 1e-6)).all()


def test_heavy_tails_are_those_of_students_t() -> None:
    rng = np.random.default_rng(6)
    pairs = draw_pairs(rng, 2, [Difficulty(0.0001, 8.0, 50.0)] * 2)
    mixtures = replace(pairs, freedom=np.array([3.0, np.inf]))
    X, labels = mixtures.sample(rng, 40_000)
    for b, expected in enumerate((t(3).sf(4), norm().sf(4))):
        rows = X[b, labels[b] == 0] - pairs.means[b, 0]
        along = rows[:, 0] / np.sqrt(pairs.covariances[b, 0, 0, 0])
        np.testing.assert_allclose((along > 4).mean(), expected, atol=0.003)
    responsible = mixtures.responsibilities(X)
    densities = [
        [w * law.pdf(X[b]) for w, law in zip(pairs.weights[b], laws, strict=True)]
        for b, laws in enumerate(
            (
                [multivariate_t(m, S, 3) for m, S in zip(pairs.means[0], pairs.covariances[0], strict=True)],
                [multivariate_normal(m, S) for m, S in zip(pairs.means[1], pairs.covariances[1], strict=True)],
            )
        )
    ]
    expected = np.array(densities)
    total = expected.sum(axis=1, keepdims=True)
    likely = np.broadcast_to(total > 1e-200, expected.shape)
    np.testing.assert_allclose(responsible[likely], (expected / np.maximum(total, 1e-300))[likely], atol=1e-6)


def test_alike_pairs_have_one_covariance_and_are_apart() -> None:
    pairs = draw_alike_pairs(np.random.default_rng(8), 4, 50)
    np.testing.assert_allclose(pairs.covariances[:, 0], pairs.covariances[:, 1])
    apart = pairs.means[:, 1] - pairs.means[:, 0]
    distances = np.sqrt(np.einsum("bi,bij,bj->b", apart, np.linalg.inv(pairs.covariances[:, 0]), apart))
    assert 3 <= distances.min() < 4 and 8 < distances.max() <= 9


def test_regular_crowds_are_nearly_round() -> None:
    ratios = []
    for regular in (0.0, 1.0):
        crowds = draw_crowds(np.random.default_rng(9), 3, 40, regular=regular)
        variances = np.linalg.eigvalsh(crowds.covariances[crowds.weights > 0])
        ratios.append(np.median(variances[:, -1] / variances[:, 0]))
    assert ratios[1] < 4 and ratios[0] > 10


def test_sets_of_all_sizes() -> None:
    rng = np.random.default_rng(7)
    sizes = {dim: [set_size(rng, dim) for _ in range(4000)] for dim in (2, 20)}
    assert min(sizes[2]) < 25 and max(sizes[2]) > 1900
    assert min(sizes[20]) >= 60 and max(sizes[20]) <= 2000


def test_validation_sets_of_every_kind() -> None:
    sets = validation_sets(0, (2, 3, 2), sets=3, n=64)
    assert [kind.name for kind in sets] == [
        f"{kind} {dim}" for dim in (2, 3) for kind in ("easy", "medium", "hard", "crowded")
    ]
    for kind in sets:
        assert kind.X.shape[:2] == (3, 64)
        assert set(np.unique(kind.labels)) <= {0, 1}
