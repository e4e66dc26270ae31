"""Iterated local search after the chains: without one of its clusters, does a short chain find a better clustering?

A split or a merge changes two clusters. Where three pieces would do better as two others, the way there leads through
states that are worse, and a chain at its peak does not take it. Here the points of a cluster are given to those that
are next best for them, and the chain goes on from there. Only what ends higher is kept, so this is a search, and no
part of sampling.
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
"""Clusterings of other numbers of clusters that are compared by their evidence."""
TRIALS, ROUNDS = 8, 20
"""Clusters that are left out in turn, those that are needed least; rounds of this at most."""
BETTER = 0.5
"""Nats by which a clustering has to be better."""
FEW, SMALL = 2500, 50_000
"""Points and numbers of a small data set."""
PERTURBED = 1 << 20
"""Numbers of these chains, from which their seeds follow: beyond those of all others."""


class Effort(NamedTuple):
    """How long to go on."""

    iterations: int
    """Iterations of a chain without a cluster, the last greedy ones among them: too few to learn the prior anew."""
    patience: int
    """Rounds without success."""


def effort(X: Points) -> Effort:
    """More of it where a round takes a tenth of a second."""
    return Effort(30, 5) if X.shape[0] <= FEW and X.shape[0] * X.shape[1] <= SMALL else Effort(15, 2)


def refined(X: Points, settings: Settings, candidates: list[Best], interrupt: Interrupt) -> Best:
    """The candidate of the highest evidence, or a better clustering from nearby."""
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
    """The clustering of the highest evidence among the best of some numbers of clusters, each with the most probable
    prior and labels."""
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
    """What a short chain finds that begins with a clustering."""
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
    """Labels from 0, with the points of a cluster in those that are next best for them."""
    others = np.where(np.arange(len(scores))[:, None] == cluster, -np.inf, scores)
    moved = np.where(labels == cluster, others.argmax(axis=0), labels)
    return np.asarray(np.unique(moved, return_inverse=True)[1], dtype=np.int32)


def least_needed(scores: Float64Array, labels: IntArray) -> IntArray:
    """The clusters whose points lose least if they have to go to their next best."""
    every = np.arange(len(labels))
    present = scores[labels, every]
    others = scores.copy()
    others[labels, every] = -np.inf
    lost = np.bincount(labels, present - others.max(axis=0), len(scores))
    return np.argsort(lost)[:TRIALS]
