"""The exact moves against all partitions of seven points, for every family; and that a broken one is found out."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import scipy.sparse
from scipy.special import gammaln

from dpmmwrap.backends import Settings
from dpmmwrap.families.categorical import CategoricalDirichlet
from dpmmwrap.families.diagonal import NIG
from dpmmwrap.families.gaussian import NIW
from dpmmwrap.families.mixed import Mixed, MixedPoints
from dpmmwrap.families.multinomial import Dirichlet
from dpmmwrap.families.spherical import SphericalNIG
from dpmmwrap.sampler.chain import Chain
from dpmmwrap.sampler.moves import single_points, split_merge
from dpmmwrap.sampler.state import next_key
from dpmmwrap.starts import make_initializer

COUNT = 7


def families() -> dict[str, tuple[Any, Any]]:
    rng = np.random.default_rng(11)
    X = np.concatenate([rng.normal(size=(4, 2)), rng.normal(size=(3, 2)) + 3]).astype(np.float32)
    gappy = X.copy()
    gappy[1, 0] = gappy[5, 1] = np.nan
    counts = rng.poisson([[3, 1, 0.5]] * 4 + [[0.5, 1, 4]] * 3).astype(np.float32)
    codes = np.array([[0, 2], [0, 2], [1, 3], [0, -1], [1, 3], [1, 2], [1, 3]], np.int32)
    diag = NIG(np.zeros(2), 1.0, np.full(2, 3.0), 3.0)
    levels = CategoricalDirichlet(np.array([2, 2]), np.full(4, 1.0))
    return {
        "full": (X, NIW(np.zeros(2), 1.0, 5 * np.eye(2), 5.0)),
        "diag": (X, diag),
        "diag, missing values": (gappy, diag),
        "spherical": (X, SphericalNIG(np.zeros(2), 1.0, np.full(1, 3.0), 3.0)),
        "counts": (counts, Dirichlet(np.full(3, 0.7))),
        "sparse counts": (scipy.sparse.csr_matrix(counts), Dirichlet(np.full(3, 0.7))),
        "mixed": (MixedPoints(gappy[:, :1], codes), Mixed(NIG(np.zeros(1), 1.0, np.full(1, 3.0), 3.0), levels)),
    }


def partitions(count: int, labels: tuple[int, ...] = (), clusters: int = 0) -> Iterator[tuple[int, ...]]:
    if len(labels) == count:
        yield labels
        return
    for label in range(clusters + 1):
        yield from partitions(count, (*labels, label), max(clusters, label + 1))


def exact_posterior(X: Any, prior: Any, alpha: float) -> tuple[np.ndarray, np.ndarray]:
    """p(K | X), and the probability that two points share a cluster."""
    known: dict[tuple[int, ...], float] = {}
    logs, found = [], list(partitions(COUNT))
    for labels in found:
        total = 0.0
        for cluster in range(max(labels) + 1):
            rows = tuple(row for row in range(COUNT) if labels[row] == cluster)
            if rows not in known:
                statistics = prior.statistics(X[np.array(rows)])
                known[rows] = float(prior.log_marginal_likelihood(statistics)[0] + gammaln(len(rows)) + np.log(alpha))
            total += known[rows]
        logs.append(total)
    shares = np.exp(np.array(logs) - max(logs))
    shares /= shares.sum()
    every = np.array(found)
    clusters = np.bincount(every.max(axis=1) + 1, shares, minlength=COUNT + 1)
    together = np.einsum("p,pij->ij", shares, (every[:, :, None] == every[:, None, :]).astype(float))
    return clusters, together


def sampled(X: Any, prior: Any, alpha: float, draws: int, moves: tuple[str, ...]) -> tuple[np.ndarray, np.ndarray]:
    settings = Settings(alpha, prior, make_initializer("random"), 10**6, 1, 0)
    settings.bind(X, True)
    chain = Chain(X, settings)
    chain.begin()
    state, context = chain.state, chain.context
    pairs = split_merge.Pairs.of(context.data, prior.embedder(X))
    clusters, together = np.zeros(COUNT + 1), np.zeros((COUNT, COUNT))
    for _ in range(draws):
        if "points" in moves:
            state, _ = single_points.step(next_key(chain.rng), state, context, 3)
        if "pairs" in moves:
            state, _ = split_merge.step(next_key(chain.rng), state, context, pairs, 2)
        clusters[state.n_clusters] += 1 / draws
        together += (state.labels[:, None] == state.labels) / draws
    return clusters, together


def apart(X: Any, prior: Any, draws: int, moves: tuple[str, ...], alpha: float = 1.0) -> tuple[float, float]:
    """Total variation distance of p(K | X), and the largest difference of a pair's probability."""
    (exact, pairs), (seen, seen_pairs) = exact_posterior(X, prior, alpha), sampled(X, prior, alpha, draws, moves)
    return 0.5 * float(np.abs(exact - seen).sum()), float(np.abs(pairs - seen_pairs).max())


@pytest.mark.parametrize("name", list(families()))
def test_both_moves_sample_the_posterior(name: str) -> None:
    clusters, pairs = apart(*families()[name], 1200, ("points", "pairs"))
    assert clusters < 0.05 and pairs < 0.08


@pytest.mark.parametrize("move", ["points", "pairs"])
@pytest.mark.parametrize("alpha", [0.3, 5.0])
def test_each_move_samples_it_alone(move: str, alpha: float) -> None:
    clusters, pairs = apart(*families()["full"], 3000, (move,), alpha)
    assert clusters < 0.05 and pairs < 0.08


def test_a_proposal_whose_probability_is_not_counted_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(split_merge, "allocate", lambda *arguments: 0 * ALLOCATE(*arguments))
    assert apart(*families()["full"], 1500, ("pairs",))[0] > 0.08


ALLOCATE = split_merge.allocate


def test_the_state_stays_consistent() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(60, 2)), rng.normal(size=(60, 2)) + 3]).astype(np.float32)
    prior = NIW.from_data(X)
    settings = Settings(5.0, prior, make_initializer("kmeans"), 10**6, 1, 0)
    settings.bind(X, True)
    chain = Chain(X, settings)
    chain.begin()
    pairs, state, moved = split_merge.Pairs.of(chain.context.data, prior.embedder(X)), chain.state, 0
    for _ in range(60):
        state, info = split_merge.step(next_key(chain.rng), state, chain.context, pairs, 3)
        state, single = single_points.step(next_key(chain.rng), state, chain.context, 10)
        moved += info.splits + info.merges + single.moved
        expected = prior.statistics(X, 2 * state.labels + state.sublabels, 2 * state.n_clusters)
        np.testing.assert_array_equal(state.subclusters.counts, expected.counts)
        np.testing.assert_allclose(state.subclusters.scatters, expected.scatters, rtol=1e-4, atol=1e-3)
        assert (state.known.clusters.counts > 0).all()
    assert moved > 20
