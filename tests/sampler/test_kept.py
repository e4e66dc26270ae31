"""Clusters of rows that are gone, against all partitions of what is left: the rows that are here and the kept ones."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from scipy.special import gammaln, logsumexp

from dpmmwrap.families.base import take
from dpmmwrap.sampler import sampling
from dpmmwrap.sampler.chain import first_state
from dpmmwrap.sampler.data import Data
from dpmmwrap.sampler.kept import Kept, KeptData, grouped_kept, with_kept
from dpmmwrap.sampler.moves import split_merge
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.state import State, next_key
from exactness import enumeration
from exactness.running import BATCHES, few_of_each, one_move, problem_of, standard_errors
from exactness.sets import ALIKE, FAMILIES, families

OLD = np.array([0, 0, 1])
"""Three of the seven points are gone: two in one kept cluster, one in the other."""
GONE, HERE = np.array([0, 5, 2]), np.array([1, 3, 4, 6])
ALPHA, DRAWS, LIMIT = 1.3, 2000, 6.0


def expected(X: Any, prior: Any, apart: bool) -> tuple[np.ndarray, np.ndarray]:
    """The probability that two of the kept clusters and rows share a cluster, and p(K): by all partitions of them."""
    items = np.array(list(enumeration.partitions(2 + len(HERE))))
    items = items[items[:, 0] != items[:, 1]] if apart else items
    logs = np.empty(len(items))
    points = X[np.concatenate([GONE, HERE])]
    for number, labels in enumerate(items):
        every = np.concatenate([labels[:2][OLD], labels[2:]]).astype(np.int32)
        clusters = int(labels.max()) + 1
        sizes = np.bincount(every, minlength=clusters)
        statistics = prior.statistics(points, every, clusters)
        logs[number] = clusters * np.log(ALPHA) + gammaln(sizes).sum() + prior.log_marginal_likelihood(statistics).sum()
    shares = np.exp(logs - logsumexp(logs))
    together = np.einsum("p,pij->ij", shares, items[:, :, None] == items[:, None, :])
    return together, np.bincount(items.max(axis=1), shares, items.shape[1])


def problem_with_kept(X: Any, prior: Any, apart: bool) -> Problem:
    gaps = prior.input != "counts" and not prior.correlated
    statistics = prior.statistics(X[GONE], OLD.astype(np.int32), 2)
    kept = Kept(prior.counting_observed(statistics), np.arange(2), np.zeros(2, np.uint8), apart, gaps, visits=2)
    return problem_of(X[HERE], prior, ALPHA, kept=kept)


def begun(problem: Problem) -> State:
    """Two kept clusters, and all rows in the first."""
    state, data = first_state(problem), problem.data
    assert isinstance(data, KeptData)
    state.kept_labels, state.n_clusters = np.array([0, 1], np.int32), 2
    prior = state.model.prior
    clusters = prior.statistics(problem.X, state.labels, 2)
    clusters = prior.counting_observed(clusters)
    clusters = with_kept(prior, clusters, data.kept.statistics, state.kept_labels)
    state.collapsed = data.collapsed(state.model, clusters, 2)
    return state


def distance(family: str, moves: tuple[str, ...] | None, apart: bool = False) -> float:
    """The largest difference from all partitions, in Monte Carlo standard errors."""
    X, prior = families()[family]
    together, clusters = expected(X, prior, apart)
    problem = problem_with_kept(X, prior, apart)
    state, rng = begun(problem), np.random.Generator(np.random.SFC64(1))
    seen = np.empty((DRAWS, 2 + len(HERE)), np.int64)
    with few_of_each():
        for number in range(-DRAWS // 10, DRAWS):
            for _ in range(2):
                if moves is None:
                    state, _ = sampling.step(next_key(rng), state, problem)
                for name in moves or ():
                    state = one_move(name, next_key(rng), state, problem)
            if number >= 0:
                seen[number] = np.concatenate([state.kept_labels, state.labels])
    one, other = np.triu_indices(seen.shape[1], 1)
    found = np.concatenate(
        [
            seen[:, one] == seen[:, other],
            (np.diff(np.sort(seen, axis=1), axis=1, prepend=-1) > 0).sum(axis=1)[:, None] - 1
            == np.arange(seen.shape[1]),
        ],
        axis=1,
    )
    means = np.concatenate([together[one, other], clusters])
    assert DRAWS % BATCHES == 0
    least = np.sqrt(np.maximum(means * (1 - means), 1e-9) / DRAWS)
    return float((np.abs(found.mean(axis=0) - means) / np.maximum(standard_errors(found), least)).max())


@pytest.mark.parametrize(
    ("family", "apart"),
    # What keeps clusters apart is the same for all families.
    [pytest.param(name, False, marks=pytest.mark.slow if name in ALIKE else ()) for name in FAMILIES]
    + [pytest.param(name, True, marks=() if name in ("full", "mixed") else pytest.mark.slow) for name in FAMILIES],
)
def test_draws_beside_kept_clusters(family: str, apart: bool) -> None:
    assert distance(family, None, apart) < LIMIT


@pytest.mark.parametrize(
    ("moves", "apart"), [(("pairs", "points"), False), (("kept", "points"), False), (("sweep", "points"), True)]
)
def test_moves_beside_kept_clusters(moves: tuple[str, ...], apart: bool) -> None:
    assert distance("full", moves, apart) < LIMIT


def weightless(some_kept: Any) -> Any:
    """With the prior's weight of one row."""

    def changed(*arguments: Any) -> Any:
        some = some_kept(*arguments)
        clusters = some.points.clusters._replace(counts=np.ones(len(some.points.clusters.counts)))
        return some._replace(points=some.points._replace(clusters=clusters))

    return changed


def broken(name: str) -> AbstractContextManager[Any]:
    if name == "kept clusters left out of the sweep":
        return patch.object(KeptData, "sweep_labels", Data.sweep_labels)
    if name == "their division costs nothing":
        division = split_merge.divide_kept

        def free(*arguments: Any) -> Any:
            kept, log_begun = division(*arguments)
            return kept, None if log_begun is None else 0.0

        return patch.object(split_merge, "divide_kept", free)
    if name == "each weighs as much as a row":
        return patch.object(KeptData, "some_kept", weightless(KeptData.some_kept))
    assert name == "the last row may not leave a kept cluster"
    return patch.object(KeptData, "refuse_to_empty", Data.refuse_to_empty)


@pytest.mark.parametrize(
    ("name", "moves", "apart"),
    [
        ("kept clusters left out of the sweep", ("sweep", "points", "pairs"), False),
        ("their division costs nothing", None, False),
        ("each weighs as much as a row", ("kept", "points"), False),
        ("the last row may not leave a kept cluster", ("sweep", "points"), True),
    ],
)
def test_a_broken_move_is_found_out(name: str, moves: tuple[str, ...] | None, apart: bool) -> None:
    with broken(name):
        assert distance("full", moves, apart) > 1.2 * LIMIT


def test_statistics_of_groups_of_kept_clusters() -> None:
    X, prior = families()["full"]
    labels, joined = np.array([0, 1, 2, 0, 1, 2, 2], np.int32), np.array([1, 0, 1])
    whole = grouped_kept(prior, prior.statistics(X, labels, 3), joined, 3)
    wanted = prior.statistics(X, joined[labels].astype(np.int32), 3)
    for own, its in zip(take(whole, slice(0, 2)), take(wanted, slice(0, 2)), strict=True):
        np.testing.assert_allclose(own, its, rtol=1e-12, atol=1e-12)
    assert whole.counts[2] == 0
