"""Hastings ratios against brute force, and the frequency of accepted moves against the ratio."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from innerloops import called
from scipy import stats
from scipy.special import gammaln

from dpmmwrap.families.base import ClusterPosteriors, Model
from dpmmwrap.families.full import wishart
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.full.statistics import covariances_of, statistics_of
from dpmmwrap.families.full.wishart import Gaussians, Statistics
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.partitions.hastings import MergeRule, log_merge_ratio_by, split_ratios
from dpmmwrap.sampler.data import Data
from dpmmwrap.sampler.kernels.splits import MoveCandidates, Rules
from dpmmwrap.sampler.moves.subclusters import disjoint
from dpmmwrap.sampler.state import RECORD, State, next_key

ALPHA = 7.0


def posteriors_of(prior: NIW, subclusters: Statistics) -> ClusterPosteriors:
    return Data(prior.points(np.zeros((1, prior.dim), np.float32), 1)).points.compute_posteriors(
        Model(prior), subclusters
    )


def some_posteriors(dim: int, clusters: int, spread: float, seed: int = 0):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, clusters, 60 * clusters)
    sides = rng.integers(0, 2, len(labels))
    X = rng.normal(size=(len(labels), dim)) + spread * rng.normal(size=(clusters, dim))[labels]
    prior = NIW.from_data(X)
    return X, labels, sides, prior, posteriors_of(prior, statistics_of(X, 2 * labels + sides, 2 * clusters))


def candidates(
    prior: NIW, known: ClusterPosteriors, ratio: str, least: np.ndarray, records: Any = None, alpha: float = ALPHA
) -> MoveCandidates:
    """What is accepted when `least` has an entry per pair and no split stands a chance; every cluster is old enough."""
    count = known.n_clusters
    if records is None:
        records = np.zeros(count, RECORD)
    if len(least) < count * (count + 1) // 2:
        least = np.append(np.full(count, np.inf), least)
    data = Data(prior.points(np.zeros((1, prior.dim), np.float32), 1))
    process = DirichletProcess(alpha)
    state = State(Model(prior), process, np.zeros(1, np.int32), np.zeros(1, np.uint8), known.subclusters, records)
    rules = Rules(0, process.for_moves(known.clusters.counts), ratio == "reference", ratio == "jain-neal", 0)
    data.update_posteriors(state)
    np.testing.assert_array_equal(state.known.log_marginal, known.log_marginal)
    return data.evaluate_moves(rules, state, -least)


def ratios_of_splits(known: ClusterPosteriors) -> np.ndarray:
    """log H of the splits, the probability of the proposal left out."""
    counts = known.clusters.counts
    prior, alive = DirichletProcess(ALPHA).for_moves(counts), np.count_nonzero(counts)
    return split_ratios(prior, alive, known.sides, known.log_marginal, np.zeros(len(counts)))


def merge_ratio(reference: bool, n1: float, n2: float, gain: float, alpha: float = ALPHA) -> float:
    prior = DirichletProcess(alpha).for_moves(np.array([n1, n2]))
    return float(called(log_merge_ratio_by)(MergeRule(prior, 2, reference), n1, n2, gain))


def joint(X: np.ndarray, labels: np.ndarray, prior: NIW) -> float:
    """log p(labels, X) by definition: the restaurant's seating probability, customer by customer, and f per table."""
    total, seats = 0.0, {}
    for number, label in enumerate(labels):
        total += np.log(seats.get(label, ALPHA)) - np.log(number + ALPHA)
        seats[label] = seats.get(label, 0) + 1
    for label in seats:
        total += prior.log_marginal_likelihood(statistics_of(X[labels == label]))[0]
    return float(total)


def test_log_joint_is_the_restaurant_times_the_marginals() -> None:
    X, labels, _, prior, known = some_posteriors(3, 4, 1.0)
    found = DirichletProcess(ALPHA).log_joint(known.clusters.counts, known.log_marginal)
    assert found == pytest.approx(joint(X, labels, prior), rel=1e-10)


def test_split_ratio_is_the_ratio_of_the_joints() -> None:
    X, labels, sides, prior, known = some_posteriors(2, 3, 1.0)
    for k, ratio in enumerate(ratios_of_splits(known)):
        after = np.where((labels == k) & (sides == 1), 3, labels)
        assert ratio == pytest.approx(joint(X, after, prior) - joint(X, labels, prior), rel=1e-8)


def test_a_cluster_with_an_empty_side_cannot_split() -> None:
    X, labels, sides, prior, _ = some_posteriors(2, 3, 1.0)
    sides[labels == 1] = 0
    known = posteriors_of(prior, statistics_of(X, 2 * labels + sides, 6))
    assert ratios_of_splits(known)[1] == -np.inf


@pytest.mark.parametrize("dim", [1, 2, 6])
@pytest.mark.parametrize("ratio", ["printed", "reference"])
def test_merge_ratios_and_no_hopeful_pair_is_left_out(dim: int, ratio: str) -> None:
    """The printed ratio is the ratio of the joints; what the bound leaves out is below e^-40 for certain."""
    X, labels, _, prior, known = some_posteriors(dim, 14, 0.35 if dim > 1 else 2.0)
    merges = candidates(prior, known, ratio, np.full(14 * 13 // 2, -40.0))
    pairs = zip(merges.one, merges.other, merges.margins, strict=True)
    found = {(int(i), int(j)): value - 40 for i, j, value in pairs}
    own = known.log_marginal[:14]
    for i in range(14):
        for j in range(i + 1, 14):
            both = prior.log_marginal_likelihood(statistics_of(X[(labels == i) | (labels == j)]))
            n1, n2 = known.clusters.counts[[i, j]]
            exact = merge_ratio(ratio == "reference", n1, n2, both[0] - own[i] - own[j])
            if (i, j) in found:
                assert found[i, j] == pytest.approx(exact, abs=1e-7)
            else:
                assert exact < -40
    assert found
    i, j = next(iter(found))
    if ratio == "printed":
        after = np.where(labels == j, i, labels)
        assert found[i, j] == pytest.approx(joint(X, after, prior) - joint(X, labels, prior), rel=1e-8)


def test_far_pairs_are_left_out_before_the_exact_ratio() -> None:
    _, _, _, prior, known = some_posteriors(2, 12, 30.0)
    found = candidates(prior, known, "reference", np.full(66, -40.0))
    assert found.merges_proposed == 66
    assert len(found.one) < 66 / 4


def test_each_pair_has_its_own_bound() -> None:
    _, _, _, prior, known = some_posteriors(2, 6, 0.35)
    lowest = np.full(15, -1e9)
    every = candidates(prior, known, "printed", lowest)
    assert len(every.one) == 15
    ratios = every.margins + lowest
    # Between two of them: to these bounds the ratios are known to seven digits only.
    middle = np.sort(ratios)[6:8].mean()
    kept = candidates(prior, known, "printed", np.where(np.arange(15) % 2, middle, 1e9))
    pairs = enumerate(zip(every.one, every.other, strict=True))
    expected = [pair for number, pair in pairs if number % 2 and ratios[number] > middle]
    assert list(zip(kept.one, kept.other, strict=True)) == expected and expected


def test_the_bound_by_doubles_leaves_out_no_pair_of_unequal_size() -> None:
    """Clusters of 5 to 2000 points, close by: all that is above its bound is found, whatever the sizes."""
    rng = np.random.default_rng(5)
    sizes = np.array([5, 12, 40, 150, 600, 2000])
    labels = np.repeat(np.arange(6), sizes)
    X = rng.normal(size=(len(labels), 3)) + 0.3 * rng.normal(size=(6, 3))[labels]
    prior = NIW.from_data(X)
    known = posteriors_of(prior, statistics_of(X, 2 * labels + rng.integers(0, 2, len(labels)), 12))
    for ratio in ("printed", "reference"):
        every = candidates(prior, known, ratio, np.full(15, -1e9), alpha=2.0)
        exact = every.margins - 1e9
        assert len(every.one) == 15
        for margin in (-0.1, 0.1):
            found = candidates(prior, known, ratio, exact + margin, alpha=2.0)
            assert len(found.one) == (15 if margin < 0 else 0)


def test_splits_are_accepted_above_their_bound_when_they_are_old_enough() -> None:
    _, _, _, prior, known = some_posteriors(2, 4, 0.5)
    records = np.zeros(4, RECORD)
    records["subclusters_born_at"], records["proposal_log_prob"] = [0, 1, 0, -2], [0.0, 0.0, -3.0, -3.0]
    exact = ratios_of_splits(known)
    least = np.append(exact + np.array([-0.1, -0.1, 2.9, 3.1]), np.full(6, 1e9))
    full, plain = (candidates(prior, known, ratio, least, records) for ratio in ("jain-neal", "printed"))
    assert full.splits.tolist() == [0, 2] and full.splits_proposed == 3
    assert plain.splits.tolist() == [0]
    np.testing.assert_allclose(full.split_ratios, exact - records["proposal_log_prob"])


def test_what_splits_or_is_young_or_empty_does_not_merge() -> None:
    X, labels, sides, prior, _ = some_posteriors(2, 5, 0.2)
    known = posteriors_of(prior, statistics_of(X, 2 * labels + sides, 12))
    records = np.zeros(6, RECORD)
    records["born_at"][1] = records["subclusters_born_at"][1] = 1
    least = np.full(21, -1e9)
    least[1:6] = np.inf
    found = candidates(prior, known, "printed", least, records)
    assert found.splits.tolist() == [0] and found.splits_proposed == 4
    assert set(zip(found.one.tolist(), found.other.tolist(), strict=True)) == {(2, 3), (2, 4), (3, 4)}
    assert found.merges_proposed == 3


def test_reference_merge_ratio_as_the_package_writes_it() -> None:
    """log H of should_merge! in DPMMSubClusters.jl 0.1.13, term by term."""
    a, n1, n2, gain = 10.0, 30.0, 12.0, 5.0
    expected = (
        -np.log(a) + gammaln(a) - 2 * gammaln(a / 2) + gammaln(n1 + n2) - gammaln(n1 + n2 + a)
        + gammaln(n1 + a / 2) - gammaln(n1) + gammaln(n2 + a / 2) - gammaln(n2) + gain
    )  # fmt: skip
    assert merge_ratio(True, n1, n2, gain, a) == pytest.approx(expected)


def test_merges_are_carried_out_once_per_cluster_best_first() -> None:
    first, second = np.array([0, 1, 2, 4]), np.array([1, 2, 3, 5])
    into, absorbed = disjoint(first, second, np.array([1.0, 5.0, 2.0, 0.5]))
    assert list(zip(into, absorbed, strict=True)) == [(1, 2), (4, 5)]
    into, absorbed = disjoint(first, second, np.array([1.0, -5.0, 2.0, 0.0]))
    assert list(zip(into, absorbed, strict=True)) == [(2, 3), (0, 1)]


def drawn_from(known: ClusterPosteriors, rng: np.random.Generator) -> tuple[np.ndarray, np.ndarray, Gaussians]:
    """Log weights, log subweights and Gaussians, as the chain draws them."""
    key = next_key(rng)
    prior = DirichletProcess(ALPHA).for_weights(key, known.clusters.counts)
    return wishart.draw_parameters(key, prior, known.clusters.counts, known.sides, known.posterior.batch)


def test_weights_are_dirichlet() -> None:
    _, _, _, _, known = some_posteriors(2, 3, 1.0)
    rng = np.random.default_rng(0)
    drawn = [drawn_from(known, rng) for _ in range(3000)]
    weights = np.exp([log_weights for log_weights, _, _ in drawn])
    shape = np.append(known.clusters.counts, ALPHA)
    np.testing.assert_allclose(weights.mean(axis=0), shape[:3] / shape.sum(), rtol=0.01)
    p = shape[:3] / shape.sum()
    np.testing.assert_allclose(weights.var(axis=0), p * (1 - p) / (shape.sum() + 1), rtol=0.15)
    subweights = np.exp([log_subweights for _, log_subweights, _ in drawn])
    sides = known.sides + ALPHA / 2
    np.testing.assert_allclose(subweights.mean(axis=0), sides / sides.sum(axis=1, keepdims=True), rtol=0.01)


def test_gaussians_come_from_their_posterior() -> None:
    """The mean precision is nu times the scale's inverse, and means spread by the expected covariance over kappa."""
    _, _, _, _, known = some_posteriors(3, 2, 1.0)
    rng = np.random.default_rng(1)
    drawn = [drawn_from(known, rng)[2] for _ in range(4000)]
    factors, means = np.array([d.precision_factors for d in drawn]), np.array([d.means for d in drawn])
    posterior = known.posterior
    for k in range(6):
        precision = (factors[:, k].transpose(0, 2, 1) @ factors[:, k]).mean(axis=0)
        expected = posterior.degrees_of_freedom[k] * np.linalg.inv(posterior.scale[k])
        np.testing.assert_allclose(precision, expected, atol=0.02 * np.abs(expected).max())
        spread = posterior.mean_covariance()[k] / posterior.mean_strength[k]
        np.testing.assert_allclose(np.cov(means[:, k].T), spread, atol=0.1 * np.abs(spread).max())
        deviation = np.sqrt(np.diagonal(spread) / len(drawn))
        assert (np.abs(means[:, k].mean(axis=0) - posterior.mean[k]) < 5 * deviation).all()
    np.testing.assert_allclose(
        drawn[0].log_peak_densities,
        [stats.multivariate_normal(cov=c).logpdf(np.zeros(3)) for c in covariances_of(drawn[0])],
        rtol=1e-9,
    )
