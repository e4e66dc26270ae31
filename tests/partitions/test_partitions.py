"""What holds for every prior over partitions: probabilities of all partitions, and what moves and weights ask for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpmmwrap.partitions import DirichletProcess, FiniteMixture, PartitionPrior, PitmanYor, partition_prior
from dpmmwrap.partitions.gibbs_type import draw_weights, log_prior_of_split
from exactness.enumeration import partitions, process_terms

PRIORS = [
    DirichletProcess(0.7),
    PitmanYor(1.0, 0.3),
    PitmanYor(-0.2, 0.5),
    PitmanYor(2.0, 0.0),
    FiniteMixture(1.0, 1.0),
    FiniteMixture(0.3, 4.0),
]
every_prior = pytest.mark.parametrize("prior", PRIORS, ids=str)


def sizes_of(labels: tuple[int, ...]) -> np.ndarray:
    return np.bincount(labels).astype(float)


@every_prior
def test_probabilities_of_all_partitions_of_six_points_sum_to_one(prior: PartitionPrior) -> None:
    found = np.zeros(7)
    for labels in partitions(6):
        sizes = sizes_of(labels)
        log_prior = prior.log_partition(sizes)
        assert log_prior == pytest.approx(process_terms(tuple(sizes.astype(int)), prior).log_prior)
        found[len(sizes)] += np.exp(log_prior)
    assert found.sum() == pytest.approx(1.0, abs=1e-12)
    expected = prior.cluster_probabilities(6)
    np.testing.assert_allclose(found[: len(expected)], expected[:7], atol=1e-8)


@every_prior
def test_a_partition_is_as_probable_as_all_that_one_point_more_makes_of_it(prior: PartitionPrior) -> None:
    """The partition probability function of sizes is consistent."""
    for sizes in ([1.0], [3.0, 1.0], [2.0, 2.0, 1.0], [50.0, 30.0, 1.0, 1.0]):
        counts = np.array(sizes)
        larger = [np.array(sizes) + (np.arange(len(sizes)) == k) for k in range(len(sizes))]
        total = np.logaddexp.reduce([prior.log_partition(other) for other in [*larger, np.append(counts, 1.0)]])
        assert total == pytest.approx(prior.log_partition(counts), abs=1e-9)


@every_prior
def test_moves_are_told_ratios_of_the_probabilities(prior: PartitionPrior) -> None:
    whole, others = 17.0, [5.0, 40.0]
    before, after = np.array([whole, *others]), np.array([11.0, 6.0, *others])
    expected = prior.log_partition(after) - prior.log_partition(before)
    assert log_prior_of_split(prior.for_moves(before, 1), 3, 11.0, 6.0) == pytest.approx(expected)
    # One point more, in the second cluster or in one of its own, among 63 in all.
    compiled = prior.for_moves(np.array([17.0, 6.0, 40.0]))
    joined, founded = prior.log_partition(np.array([17, 6, 40.0])), prior.log_partition(np.array([17, 5, 40, 1.0]))
    assert compiled.log_new[3] - np.log(5 + compiled.shift) == pytest.approx(founded - joined)


@every_prior
def test_sizes_weigh_as_the_next_point_is_placed(prior: PartitionPrior) -> None:
    counts = np.array([9.0, 4.0, 1.0])
    joint = [prior.log_partition(counts + (np.arange(3) == k)) for k in range(3)]
    expected = np.exp(joint - np.logaddexp.reduce(joint))
    weights = counts + prior.shift
    np.testing.assert_allclose(weights / weights.sum(), expected)


@every_prior
def test_drawn_weights_are_those_of_the_next_point_on_average(prior: PartitionPrior) -> None:
    """That is what holds for exchangeable labels: the weight of a cluster, and of what is in none, is the probability
    that the next point joins it, or founds one."""
    counts, drawn = np.array([9.0, 4.0, 2.0]), []
    for key in range(4000):
        its_key = np.uint64(key * 7919)
        drawn.append(np.exp(draw_weights(its_key, prior.for_weights(its_key, counts), counts, np.empty((0, 2)))[0]))
    expected = [prior.log_partition(counts + (np.arange(3) == k)) - prior.log_partition(counts) for k in range(3)]
    errors = np.std(drawn, axis=0) / np.sqrt(len(drawn))
    assert (np.abs(np.mean(drawn, axis=0) - np.exp(expected)) < 4.5 * errors).all()


@every_prior
def test_values_and_factors(prior: PartitionPrior) -> None:
    assert prior.at(prior.values) == prior and prior.fixed() == prior and not prior.learned
    assert prior.scaled(2.0).alpha == pytest.approx(2 * prior.alpha) if prior.alpha > 0 else True
    assert len(prior.values) == len(prior.parameters)
    assert prior.log_density() == 0.0 and prior.log_partition(np.zeros(3)) == 0.0


def test_what_is_learned_keeps_its_values_and_can_be_fixed() -> None:
    prior = PitmanYor().at((0.5, 0.2))
    assert prior.learned == ("concentration", "discount") and prior.values == (0.5, 0.2)
    assert prior.fixed() == PitmanYor(0.5, 0.2)
    assert prior.scaled(4.0) == PitmanYor(2.0, 0.2)
    assert DirichletProcess().at((3.0,)).scaled(0.5) == DirichletProcess(1.5)
    assert repr(prior) == "PitmanYor(concentration='auto', discount='auto')"
    assert repr(PitmanYor(1, 0)) == "PitmanYor(concentration=1.0, discount=0.0)"
    assert repr(DirichletProcess(2)) == "DirichletProcess(concentration=2.0, prior=(1.0, 1.0))"


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        ("dirichlet", DirichletProcess()),
        ("pitman-yor", PitmanYor()),
        ("pitman-yor:1,0.3", PitmanYor(1.0, 0.3)),
        ("pitman-yor:auto,0.3", PitmanYor("auto", 0.3)),
        ("finite", FiniteMixture()),
        ("finite:0.5,2", FiniteMixture(0.5, 2.0)),
        (PitmanYor(1.0, 0.1), PitmanYor(1.0, 0.1)),
    ],
)
def test_priors_by_name(asked: Any, expected: PartitionPrior) -> None:
    assert partition_prior(asked) == expected


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda: partition_prior("crp"), "partition_prior should be dirichlet, pitman-yor, finite or"),
        (lambda: partition_prior(3), "partition_prior should be"),
        (lambda: partition_prior("finite:a"), "a name and numbers"),
        (lambda: partition_prior("finite:1,2,3"), "takes 2 numbers at most"),
        (lambda: partition_prior("finite", alpha=2.0), "alpha is for partition_prior dirichlet"),
        (lambda: DirichletProcess(0.0), "concentration should be"),
        (lambda: PitmanYor(1.0, 1.0), "discount should be"),
        (lambda: PitmanYor(-0.5, 0.5), "concentration should be"),
        (lambda: PitmanYor(-0.5), "concentration should be"),
        (lambda: FiniteMixture(gamma=0.0), "gamma should be"),
        (lambda: FiniteMixture("auto"), "learns no parameters"),  # type: ignore[arg-type]
    ],
)
def test_what_makes_no_sense_is_refused(make: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        make()
