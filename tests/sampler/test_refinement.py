"""Iterated local search: better or the same, and the same again."""

from dataclasses import replace

import numpy as np
import pytest

from dpmmwrap import NIW
from dpmmwrap.numerics.interrupt import Interrupt
from dpmmwrap.partitions import DirichletProcess
from dpmmwrap.sampler.evidence import log_scores
from dpmmwrap.sampler.refinement import least_needed, refined, without_one
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.sampler.state import Best
from dpmmwrap.starts import make_initializer

PRIOR = NIW(np.zeros(2), 0.1, np.eye(2), 5.0)
SETTINGS = Settings(
    DirichletProcess(1.0), PRIOR, make_initializer("random"), 100, 3, 0, n_chains=4, stop_when_flat=True
)


def best_of(X: np.ndarray, labels: np.ndarray) -> Best:
    statistics = PRIOR.statistics(X, labels)
    reached = DirichletProcess(1.0).log_joint(statistics.counts, PRIOR.log_marginal_likelihood(statistics))
    return Best(reached, labels.astype(np.int32), np.zeros(len(X), np.uint8), DirichletProcess(1.0), PRIOR)


def assert_same(found: Best, other: Best) -> None:
    """The same clustering with the same prior."""
    np.testing.assert_array_equal(found.labels, other.labels)
    assert found.log_posterior == pytest.approx(other.log_posterior) and found.partition_prior == other.partition_prior
    assert found.prior is other.prior


@pytest.fixture(scope="module")
def points() -> tuple[np.ndarray, np.ndarray]:
    """Three clusters in a row, and labels in which the middle one is shared by its neighbours and a piece of itself."""
    rng = np.random.default_rng(0)
    truth = np.repeat([0, 1, 2], 60)
    X = (rng.normal(size=(180, 2)) * 0.5 + np.array([[0.0, 0.0], [6.0, 0.0], [12.0, 0.0]])[truth]).astype(np.float32)
    return X, np.where(truth == 1, rng.integers(0, 3, 180) + 1, np.where(truth == 2, 4, 0))


def test_what_is_kept_is_better(points: tuple[np.ndarray, np.ndarray]) -> None:
    X, pieces = points
    before = best_of(X, pieces)
    after = refined(X, SETTINGS, [before], Interrupt())
    assert after.log_posterior > before.log_posterior + 10
    assert after.log_posterior == pytest.approx(best_of(X, after.labels).log_posterior)
    assert [len(set(after.labels[part])) for part in (slice(60), slice(60, 120), slice(120, 180))] == [1, 1, 1]
    assert after.labels.max() == 2


def test_the_same_for_any_number_of_threads(points: tuple[np.ndarray, np.ndarray]) -> None:
    X, pieces = points
    one, two = (refined(X, replace(SETTINGS, n_jobs=jobs), [best_of(X, pieces)], Interrupt()) for jobs in (1, 2))
    np.testing.assert_array_equal(one.labels, two.labels)
    assert one.log_posterior == two.log_posterior


def test_what_cannot_be_better_stays(points: tuple[np.ndarray, np.ndarray]) -> None:
    X = points[0]
    clear = best_of(X, np.repeat([0, 1, 2], 60))
    assert_same(refined(X, SETTINGS, [clear], Interrupt()), clear)
    alone = best_of(X[:60], np.zeros(60, np.int32))
    assert_same(refined(X[:60], SETTINGS, [alone], Interrupt()), alone)


def test_after_an_interrupt_nothing_is_tried(points: tuple[np.ndarray, np.ndarray]) -> None:
    X, pieces = points
    interrupt, before = Interrupt(), best_of(X, pieces)
    interrupt.requested = True
    assert_same(refined(X, SETTINGS, [before], interrupt), before)


def test_leaving_out_a_cluster() -> None:
    scores = np.log([[0.8, 0.1, 0.1, 0.6], [0.1, 0.7, 0.3, 0.3], [0.1, 0.2, 0.6, 0.1]])
    labels = np.array([0, 1, 2, 0])
    assert without_one(scores, labels, 2).tolist() == [0, 1, 1, 0]
    assert without_one(scores, labels, 0).tolist() == [0, 0, 1, 0]
    # The third loses log 2, the second log 3.5, the first log 8 and log 2.
    assert least_needed(scores, labels).tolist() == [2, 1, 0]


def test_scores_are_those_of_the_predictive(points: tuple[np.ndarray, np.ndarray]) -> None:
    X, pieces = points
    scores = log_scores(PRIOR, X, pieces)
    members = X[pieces == 2]
    own = PRIOR.posterior(PRIOR.statistics(members)).log_predictive(X)[0] + np.log(len(members))
    np.testing.assert_allclose(scores[2], own, rtol=1e-6)


def test_where_it_is_done() -> None:
    assert SETTINGS.refine
    for other in ({"n_chains": 1}, {"stop_when_flat": False}, {"n_draws": 5}, {"outlier_weight": 0.1}):
        assert not replace(SETTINGS, **other).refine
