"""Restarts: subclusters that lead nowhere begin anew. This is no Markov kernel: it proposes, and splits decide."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from dpmmwrap.families.base import Statistics
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.numerics.labels import find_stalled
from dpmmwrap.numerics.rules import Rule, Together, rules_of
from dpmmwrap.partitions.hastings import split_ratios
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.state import State, generator
from dpmmwrap.starts.random import RandomStart

EVERY = 20
"""By the whole Hastings ratio, subclusters begin anew in every twentieth iteration only, so that one call of a network
serves several clusters: exact moves split crowds, too."""
LONGEST_PATIENCE = 16
"""The wait for a fresh start doubles with each that led nowhere, up to this factor."""


class RestartInfo(NamedTuple):
    restarted: IntArray
    """The clusters whose subclusters began anew."""


def is_due(state: State, problem: Problem) -> bool:
    """Whether stalled subclusters are looked for in this iteration.

    By the other ratios no exact moves are made, and new subclusters are the only way out of a crowd: then in every one.
    """
    return not problem.settings.full_ratio or state.iteration % EVERY == 0


def step(key: Any, state: State, problem: Problem) -> tuple[State, RestartInfo]:
    """Begin anew the subclusters that have an empty side, or that have stalled in a rejected split.

    They have stalled when the ratio of their split has not risen for a while: those that are still on their way,
    as after random starts, are left alone. Most clusters that need a start again and again are one Gaussian.
    """
    settings, known, counts = problem.settings, state.known, state.counts[problem.outliers :]
    log_proposals = state.records["proposal_log_prob"] * float(settings.full_ratio)
    prior, clusters = state.partition_prior.for_moves(counts), int(np.count_nonzero(counts))
    ratios = split_ratios(prior, clusters, known.sides, known.log_marginal, log_proposals)
    patience = (float(settings.restart_after or np.inf), float(EVERY))
    stalled = find_stalled(
        state.records, ratios, known.sides, state.iteration, patience, LONGEST_PATIENCE, settings.min_cluster_age
    )
    stalled[: problem.outliers] = False
    which = stalled.nonzero()[0]
    if len(which):
        fresh = start_subclusters(state, problem, which, np.zeros(len(which), bool), generator(key))
        state.begin_subclusters(which, fresh)
        problem.data.update_posteriors(state)
    return state, RestartInfo(which)


def start_subclusters(
    state: State, problem: Problem, clusters: IntArray, at_random: Any, rng: Generator, count: int | None = None
) -> Statistics:
    """Subclusters for these clusters, by the initializer or at random; the subclusters' statistics.

    `count` is the number of all clusters, if it is no longer the state's.
    """
    members = problem.data.members(state, clusters, count)
    begun = problem.data.begun_by_kept(state, clusters)
    rules: list[Rule] = [Together()] * len(members)
    for initializer, chosen in ((RandomStart(), at_random), (problem.settings.initializer, ~at_random)):
        several = [number for number in np.flatnonzero(chosen & ~begun) if len(members[number]) > 1]
        proposed = rules_of(initializer, [members[number] for number in several], rng) if several else []
        for number, rule in zip(several, proposed, strict=True):
            rules[number] = rule
    return problem.data.divide(state, clusters, members, rules)
