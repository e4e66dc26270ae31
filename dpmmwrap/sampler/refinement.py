"""Iterated local search after the chains: remove a cluster, and see if a short chain finds a better clustering.

A split or a merge changes two clusters. If three pieces should be regrouped into two other ones, the way there leads
through worse states, and a chain at its peak does not take it. Here the points of a cluster are moved to their next
best clusters, and a chain continues from there. Only improvements are kept, so this is a search and not a part of
sampling.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.base import Points
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.numerics.interrupt import Interrupt
from dpmmwrap.sampler.chain import Chain
from dpmmwrap.sampler.evidence import log_evidence_of, log_scores
from dpmmwrap.sampler.settings import Settings
from dpmmwrap.sampler.state import Best
from dpmmwrap.sampler.stopping import GREEDY_STEPS
from dpmmwrap.starts import make_initializer

CANDIDATES = 5
"""Number of clusterings, of different sizes, whose evidence is compared."""
TRIALS, ROUNDS = 8, 20
"""Number of clusters to remove in turn, the most dispensable first, and most rounds of this."""
BETTER = 0.5
"""Improvement of the evidence, in nats, that is required."""
FEW, SMALL = 2500, 50_000
"""Most points, and most numbers, of a small data set."""
PERTURBED = 1 << 20
"""Offset of these chains' indices, which determine their seeds, beyond those of all others."""


class Effort(NamedTuple):
    """How long to go on."""

    iterations: int
    """Iterations of a chain without a cluster, including the final greedy ones: too few to learn the prior again."""
    patience: int
    """Number of rounds without success after which to stop."""


def effort(X: Points) -> Effort:
    """More effort for small data, where a round takes a tenth of a second."""
    return Effort(30, 5) if X.shape[0] <= FEW and X.shape[0] * X.shape[1] <= SMALL else Effort(15, 2)


def refined(X: Points, settings: Settings, candidates: list[Best], interrupt: Interrupt) -> Best:
    """The candidate with the highest evidence, or a better clustering near it."""
    iterations, patience = effort(X)
    best, evidence = most_evident(X, settings, candidates, interrupt)
    settings = short(X, settings, iterations)
    with ThreadPoolExecutor(settings.n_jobs) as pool:
        failed = 0
        for number in range(ROUNDS):
            if interrupt.requested or best.labels.max() < 1 or failed == patience:
                break
            scores = log_scores(best.prior, X, best.labels, weights=settings.weights)

            def try_without(cluster: int, number: int = number, best: Best = best, scores: Any = scores) -> Best:
                begun = best._replace(labels=without_one(scores, best.labels, cluster))
                return run_from(X, settings, begun, PERTURBED * (number + 1) + cluster, interrupt)

            other = max(pool.map(try_without, least_needed(scores, best.labels)), key=lambda one: one.log_posterior)
            its_evidence = log_evidence_of(other, X, settings)
            better = its_evidence > evidence + BETTER
            best, evidence, failed = (other, its_evidence, 0) if better else (best, evidence, failed + 1)
    return best


def most_evident(X: Points, settings: Settings, candidates: list[Best], interrupt: Interrupt) -> tuple[Best, float]:
    """The clustering with the highest evidence among the best ones of several sizes, each with its most probable prior
    and labels."""
    best_of_size = {}
    for candidate in sorted(candidates, key=lambda one: one.log_posterior):
        best_of_size[int(candidate.labels.max())] = candidate
    settings = short(X, settings, GREEDY_STEPS)
    polished = []
    for candidate in sorted(best_of_size.values(), key=lambda one: -one.log_posterior)[:CANDIDATES]:
        best = run_from(X, settings, candidate, PERTURBED - 1, interrupt)
        polished.append((best, log_evidence_of(best, X, settings)))
    return max(polished, key=lambda pair: pair[1])


def run_from(X: Points, settings: Settings, begun: Best, number: int, interrupt: Interrupt) -> Best:
    """Run a short chain from a clustering and return its best one."""
    settings = replace(
        settings, prior=begun.prior, partition_prior=begun.partition_prior, init_clusters=begun.labels, n_jobs=1
    )
    chain = Chain(X, settings, number)
    try:
        return chain.run(interrupt).best
    finally:
        chain.problem.data.close()


def short(X: Points, settings: Settings, iterations: int) -> Settings:
    """The settings of short chains."""
    settings = replace(
        settings, initializer=make_initializer("kmeans"), max_iter=iterations,
        stop_when_flat=False, exact_moves=False, other_starts=(), n_chains=1, progress=None, checkpoint=None,
        truth=None,
    )  # fmt: skip
    settings.bind(X, settings.full_ratio)
    return settings


def without_one(scores: Float64Array, labels: IntArray, cluster: int) -> IntArray:
    """Labels without gaps after the points of a cluster have moved to their next best clusters."""
    others = np.where(np.arange(len(scores))[:, None] == cluster, -np.inf, scores)
    moved = np.where(labels == cluster, others.argmax(axis=0), labels)
    return np.asarray(np.unique(moved, return_inverse=True)[1], dtype=np.int32)


def least_needed(scores: Float64Array, labels: IntArray) -> IntArray:
    """The clusters whose points lose least if they move to their next best clusters."""
    every = np.arange(len(labels))
    present = scores[labels, every]
    others = scores.copy()
    others[labels, every] = -np.inf
    lost = np.bincount(labels, present - others.max(axis=0), len(scores))
    return np.argsort(lost)[:TRIALS]
