"""Hastings ratios against brute force, and the frequency of accepted moves against the ratio."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.special import gammaln

from dpmmwrap.families.gaussian import NIW, Statistics
from dpmmwrap.sampler.data import Evidence, Model, draw_parameters, log_posterior, measure
from dpmmwrap.sampler.kernels.pairs import log_merge_ratio
from dpmmwrap.sampler.moves.subclusters import Likely, disjoint, examine, split_ratios
from dpmmwrap.sampler.state import RECORD


def some_evidence(dim: int, clusters: int, spread: float, seed: int = 0):  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, clusters, 60 * clusters)
    sides = rng.integers(0, 2, len(labels))
    X = rng.normal(size=(len(labels), dim)) + spread * rng.normal(size=(clusters, dim))[labels]
    model = Model(7.0, NIW.from_data(X))
    return X, labels, sides, model, measure(model, Statistics.of(X, 2 * labels + sides, 2 * clusters))


def judged(model: Model, evidence: Evidence, ratio: str, least: np.ndarray, records: Any = None) -> Likely:
    """What is likely when `least` has an entry per pair and no split stands a chance; every cluster is old enough."""
    count = evidence.n_clusters
    if records is None:
        records = np.zeros(count, RECORD)
    if len(least) < count * (count + 1) // 2:
        least = np.append(np.full(count, np.inf), least)
    again, likely = examine(model, evidence.subclusters, records, 0, ratio, -least)  # type: ignore[arg-type]
    np.testing.assert_array_equal(again.log_marginal, evidence.log_marginal)
    return likely


def joint(X: np.ndarray, labels: np.ndarray, model: Model) -> float:
    """log p(labels, X) by definition: the restaurant's seating probability, customer by customer, and f per table."""
    total, seats = 0.0, {}
    for number, label in enumerate(labels):
        total += np.log(seats.get(label, model.alpha)) - np.log(number + model.alpha)
        seats[label] = seats.get(label, 0) + 1
    for label in seats:
        total += model.prior.log_marginal_likelihood(Statistics.of(X[labels == label]))[0]
    return float(total)


def test_log_posterior_is_the_restaurant_times_the_marginals() -> None:
    X, labels, _, model, evidence = some_evidence(3, 4, 1.0)
    assert log_posterior(model, evidence) == pytest.approx(joint(X, labels, model), rel=1e-10)


def test_split_ratio_is_the_ratio_of_the_joints() -> None:
    X, labels, sides, model, evidence = some_evidence(2, 3, 1.0)
    for k, ratio in enumerate(split_ratios(model, evidence)):
        after = np.where((labels == k) & (sides == 1), 3, labels)
        assert ratio == pytest.approx(joint(X, after, model) - joint(X, labels, model), rel=1e-8)


def test_a_cluster_with_an_empty_side_cannot_split() -> None:
    X, labels, sides, model, _ = some_evidence(2, 3, 1.0)
    sides[labels == 1] = 0
    evidence = measure(model, Statistics.of(X, 2 * labels + sides, 6))
    assert split_ratios(model, evidence)[1] == -np.inf


@pytest.mark.parametrize("dim", [1, 2, 6])
@pytest.mark.parametrize("ratio", ["printed", "reference"])
def test_merge_ratios_and_no_hopeful_pair_is_left_out(dim: int, ratio: str) -> None:
    """The printed ratio is the ratio of the joints; what the bound leaves out is below e^-40 for certain."""
    X, labels, _, model, evidence = some_evidence(dim, 14, 0.35 if dim > 1 else 2.0)
    first, second, lead = judged(model, evidence, ratio, np.full(14 * 13 // 2, -40.0)).merges
    found = {(int(i), int(j)): value - 40 for i, j, value in zip(first, second, lead, strict=True)}
    own = evidence.log_marginal[:14]
    for i in range(14):
        for j in range(i + 1, 14):
            both = model.prior.log_marginal_likelihood(Statistics.of(X[(labels == i) | (labels == j)]))
            n1, n2 = evidence.clusters.counts[[i, j]]
            exact = log_merge_ratio(model.alpha, n1, n2, both[0] - own[i] - own[j], ratio == "printed")
            if (i, j) in found:
                assert found[i, j] == pytest.approx(exact, abs=1e-7)
            else:
                assert exact < -40
    assert found
    i, j = next(iter(found))
    if ratio == "printed":
        after = np.where(labels == j, i, labels)
        assert found[i, j] == pytest.approx(joint(X, after, model) - joint(X, labels, model), rel=1e-8)


def test_far_pairs_are_left_out_before_the_exact_ratio() -> None:
    _, _, _, model, evidence = some_evidence(2, 12, 30.0)
    likely = judged(model, evidence, "reference", np.full(66, -40.0))
    assert likely.merges_proposed == 66
    assert len(likely.merges[0]) < 66 / 4


def test_each_pair_has_its_own_bound() -> None:
    _, _, _, model, evidence = some_evidence(2, 6, 0.35)
    lowest = np.full(15, -1e9)
    first, second, lead = judged(model, evidence, "printed", lowest).merges
    assert len(first) == 15
    ratios = lead + lowest
    middle = np.median(ratios)
    kept = judged(model, evidence, "printed", np.where(np.arange(15) % 2, middle, 1e9)).merges
    expected = [(i, j) for p, (i, j) in enumerate(zip(first, second, strict=True)) if p % 2 and ratios[p] > middle]
    assert list(zip(kept[0], kept[1], strict=True)) == expected and expected


def test_the_bound_by_doubles_leaves_out_no_pair_of_unequal_size() -> None:
    """Clusters of 5 to 2000 points, close by: all that is above its bound is found, whatever the sizes."""
    rng = np.random.default_rng(5)
    sizes = np.array([5, 12, 40, 150, 600, 2000])
    labels = np.repeat(np.arange(6), sizes)
    X = rng.normal(size=(len(labels), 3)) + 0.3 * rng.normal(size=(6, 3))[labels]
    model = Model(2.0, NIW.from_data(X))
    evidence = measure(model, Statistics.of(X, 2 * labels + rng.integers(0, 2, len(labels)), 12))
    for ratio in ("printed", "reference"):
        one, _, lead = judged(model, evidence, ratio, np.full(15, -1e9)).merges
        exact = lead - 1e9
        assert len(one) == 15
        for margin in (-0.1, 0.1):
            found = judged(model, evidence, ratio, exact + margin).merges[0]
            assert len(found) == (15 if margin < 0 else 0)


def test_splits_are_accepted_above_their_bound_when_they_are_old_enough() -> None:
    _, _, _, model, evidence = some_evidence(2, 4, 0.5)
    records = np.zeros(4, RECORD)
    records["begun"], records["log_chance"] = [0, 1, 0, -2], [0.0, 0.0, -3.0, -3.0]
    exact = split_ratios(model, evidence)
    least = np.append(exact + np.array([-0.1, -0.1, 2.9, 3.1]), np.full(6, 1e9))
    full, plain = (judged(model, evidence, ratio, least, records) for ratio in ("jain-neal", "printed"))
    assert full.splits.tolist() == [0, 2] and full.splits_proposed == 3
    assert plain.splits.tolist() == [0]
    np.testing.assert_allclose(full.split_ratios, exact - records["log_chance"])


def test_what_splits_or_is_young_or_empty_does_not_merge() -> None:
    X, labels, sides, model, _ = some_evidence(2, 5, 0.2)
    evidence = measure(model, Statistics.of(X, 2 * labels + sides, 12))
    records = np.zeros(6, RECORD)
    records["formed"][1] = records["begun"][1] = 1
    least = np.full(21, -1e9)
    least[1:6] = np.inf
    likely = judged(model, evidence, "printed", least, records)
    assert likely.splits.tolist() == [0] and likely.splits_proposed == 4
    assert set(zip(*(side.tolist() for side in likely.merges[:2]), strict=True)) == {(2, 3), (2, 4), (3, 4)}
    assert likely.merges_proposed == 3


def test_reference_merge_ratio_as_the_package_writes_it() -> None:
    """log H of should_merge! in DPMMSubClusters.jl 0.1.13, term by term."""
    a, n1, n2, gain = 10.0, 30.0, 12.0, 5.0
    expected = (
        -np.log(a) + gammaln(a) - 2 * gammaln(a / 2) + gammaln(n1 + n2) - gammaln(n1 + n2 + a)
        + gammaln(n1 + a / 2) - gammaln(n1) + gammaln(n2 + a / 2) - gammaln(n2) + gain
    )  # fmt: skip
    assert log_merge_ratio(a, n1, n2, gain, False) == pytest.approx(expected)


def test_merges_are_carried_out_once_per_cluster_best_first() -> None:
    first, second = np.array([0, 1, 2, 4]), np.array([1, 2, 3, 5])
    into, gone = disjoint(first, second, np.array([1.0, 5.0, 2.0, 0.5]))
    assert list(zip(into, gone, strict=True)) == [(1, 2), (4, 5)]
    into, gone = disjoint(first, second, np.array([1.0, -5.0, 2.0, 0.0]))
    assert list(zip(into, gone, strict=True)) == [(2, 3), (0, 1)]


def test_weights_are_dirichlet() -> None:
    _, _, _, model, evidence = some_evidence(2, 3, 1.0)
    rng = np.random.default_rng(0)
    drawn = [draw_parameters(model, evidence, rng) for _ in range(3000)]
    weights = np.exp([d.log_weights for d in drawn])
    shape = np.append(evidence.clusters.counts, model.alpha)
    np.testing.assert_allclose(weights.mean(axis=0), shape[:3] / shape.sum(), rtol=0.01)
    p = shape[:3] / shape.sum()
    np.testing.assert_allclose(weights.var(axis=0), p * (1 - p) / (shape.sum() + 1), rtol=0.15)
    subweights = np.exp([d.log_subweights for d in drawn])
    sides = evidence.sides + model.alpha / 2
    np.testing.assert_allclose(subweights.mean(axis=0), sides / sides.sum(axis=1, keepdims=True), rtol=0.01)


def test_gaussians_come_from_their_posterior() -> None:
    """The mean precision is nu times the scale's inverse, and means spread by the expected covariance over kappa."""
    _, _, _, model, evidence = some_evidence(3, 2, 1.0)
    rng = np.random.default_rng(1)
    drawn = [draw_parameters(model, evidence, rng).gaussians for _ in range(4000)]
    whitening, means = np.array([d.whitening for d in drawn]), np.array([d.means for d in drawn])
    posterior = evidence.posterior
    for k in range(6):
        precision = (whitening[:, k].transpose(0, 2, 1) @ whitening[:, k]).mean(axis=0)
        expected = posterior.degrees_of_freedom[k] * np.linalg.inv(posterior.scale[k])
        np.testing.assert_allclose(precision, expected, atol=0.02 * np.abs(expected).max())
        spread = posterior.mean_covariance()[k] / posterior.mean_strength[k]
        np.testing.assert_allclose(np.cov(means[:, k].T), spread, atol=0.1 * np.abs(spread).max())
        deviation = np.sqrt(np.diagonal(spread) / len(drawn))
        assert (np.abs(means[:, k].mean(axis=0) - posterior.mean[k]) < 5 * deviation).all()
    np.testing.assert_allclose(
        drawn[0].log_normalisers,
        [stats.multivariate_normal(cov=c).logpdf(np.zeros(3)) for c in drawn[0].covariances],
        rtol=1e-9,
    )
