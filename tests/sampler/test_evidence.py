"""The evidence of a mixture, against the sum over all labellings of a few points."""

from collections.abc import Iterator

import numpy as np
import pytest
from scipy.special import logsumexp

from dpmmwrap import NIW
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.sampler.evidence import log_evidence

PROCESS = DirichletProcess(1.5)
PRIORS = [NIW(np.zeros(2), 0.2, 3 * np.eye(2), 5.0), NIG(np.zeros(2), 0.2, np.full(2, 3.0), 5.0)]


def partitions(count: int, most: int) -> Iterator[list[int]]:
    """All labellings of some points, up to the names of clusters, of which there are `most` at most."""
    labellings: list[list[int]] = [[0]]
    for _ in range(count - 1):
        labellings = [[*one, k] for one in labellings for k in range(min(max(one) + 2, most))]
    yield from labellings


def log_posterior(prior: NIW | NIG, X: np.ndarray, labels: list[int]) -> float:
    found = prior.statistics(X, np.array(labels, np.int32))
    return PROCESS.log_joint(found.counts, prior.log_marginal_likelihood(found))


def log_sum(prior: NIW | NIG, X: np.ndarray, most: int) -> float:
    return float(logsumexp([log_posterior(prior, X, labels) for labels in partitions(len(X), most)]))


def two_groups(apart: float) -> tuple[np.ndarray, np.ndarray]:
    labels = np.repeat([0, 1], 4).astype(np.int32)
    return np.random.default_rng(3).normal(size=(8, 2)) + apart * labels[:, None], labels


def test_there_are_as_many_partitions_as_bell_and_stirling_say() -> None:
    assert len(list(partitions(8, 8))) == 4140
    assert len(list(partitions(8, 2))) == 128


@pytest.mark.parametrize("prior", PRIORS, ids=["full", "diag"])
@pytest.mark.parametrize("apart", [0.0, 2.0, 5.0])
def test_it_is_a_bound_from_below(prior: NIW | NIG, apart: float) -> None:
    """The mean of log p - log q over draws from q is at most the log of the sum of p, by Jensen. Labellings are drawn,
    and each partition into at most two clusters is two of them, by the names of its clusters. Of eight points there are
    so many draws that the mean is known to a tenth."""
    X, labels = two_groups(apart)
    total, found = log_sum(prior, X, 2), log_evidence(prior, X, labels, PROCESS)
    # And not by far: it is the sum over a few hundred labellings, most of which have little probability.
    assert total - 5.0 < found <= total + np.log(2)


def test_clusters_far_apart_have_one_labelling() -> None:
    X, labels = two_groups(60.0)
    for prior in PRIORS:
        assert log_evidence(prior, X, labels, PROCESS) == pytest.approx(
            log_posterior(prior, X, labels.tolist()), abs=0.01
        )


def test_overlapping_clusters_count_more_than_one_labelling() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 100).astype(np.int32)
    X = rng.normal(size=(200, 2)) + 1.5 * labels[:, None]
    for prior in PRIORS:
        own = log_posterior(prior, X, labels.tolist())
        # About 0.5 nats of entropy a point.
        assert log_evidence(prior, X, labels, PROCESS) > own + 20


def test_the_better_mixture_has_more_of_it() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 100).astype(np.int32)
    X = rng.normal(size=(200, 2)) + 6 * labels[:, None]
    mixed = (np.arange(200) % 2).astype(np.int32)
    for prior in PRIORS:
        right, one, wrong = (
            log_evidence(prior, X, those, PROCESS) for those in (labels, np.zeros(200, np.int32), mixed)
        )
        assert right > one + 50 and right > wrong + 50


def test_the_same_seed_gives_the_same_number() -> None:
    X, labels = two_groups(2.0)
    first = log_evidence(PRIORS[0], X, labels, PROCESS, seed=1)
    assert (
        first == log_evidence(PRIORS[0], X, labels, PROCESS, seed=1) != log_evidence(PRIORS[0], X, labels, PROCESS, 2)
    )
