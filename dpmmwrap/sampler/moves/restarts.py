"""Restart stalled subclusters. This is not a Markov kernel: it only proposes, and splits are accepted or rejected.

The full Hastings ratio needs sublabels drawn by a sweep, so restarts come after the splits. The other ratios judge the
start itself, like the Julia bridge: restarts come before the splits and without delay. With those ratios there are no
exact moves, and new subclusters are the only way to separate crowded clusters.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from dpmmwrap.families.base import Statistics
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.numerics.rules import Rule, Together, rules_of
from dpmmwrap.partitions.hastings import split_ratios
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.state import State, generator
from dpmmwrap.starts.random import RandomStart

EVERY = 20
"""With the full ratio, subclusters are restarted only in every twentieth iteration, so that one call of a network
serves several clusters: exact moves separate crowded clusters, too."""
LONGEST_PATIENCE = 16
"""With the full ratio, the wait before a restart doubles with each failed one, up to this factor."""


class RestartInfo(NamedTuple):
    restarted: IntArray
    """The clusters whose subclusters were restarted."""


def step(key: Any, state: State, problem: Problem) -> tuple[State, RestartInfo]:
    """Restart the subclusters that have an empty side or have stalled in a rejected split.

    Subclusters have stalled if the ratio of their split has not risen for a while; those still improving, as after
    random starts, are left alone. Most clusters that are restarted again and again are a single Gaussian.
    """
    settings = problem.settings
    if not settings.full_ratio:
        problem.data.update_posteriors(state)
    known, counts = state.known, state.counts[problem.outliers :]
    log_proposals = state.records["proposal_log_prob"] * float(settings.full_ratio)
    prior, clusters = state.partition_prior.for_moves(counts), int(np.count_nonzero(counts))
    ratios = split_ratios(prior, clusters, known.sides, known.log_marginal, log_proposals)
    longest = LONGEST_PATIENCE if settings.full_ratio else 1
    patience = (settings.restart_after or np.inf, EVERY)
    stalled = find_stalled(state, ratios, patience, longest, settings.min_cluster_age)
    stalled[: problem.outliers] = False
    which = stalled.nonzero()[0]
    if len(which):
        fresh = start_subclusters(state, problem, which, np.zeros(len(which), bool), generator(key))
        state.begin_subclusters(which, fresh, may_split=not settings.full_ratio)
        problem.data.update_posteriors(state)
    return state, RestartInfo(which)


def find_stalled(state: State, ratios: Float64Array, patience: tuple[float, float], longest: int, min_age: int) -> Any:
    """Record whose split ratio has improved clearly (by more than the spread of a few draws and by a thousandth), and
    mark the clusters whose subclusters should be restarted.

    `patience` is the number of iterations allowed without improvement, with points on both sides and with an empty
    side. It doubles with each failed restart, up to a factor of `longest`.
    """
    records, sides = state.records, state.known.sides
    best = records["best_ratio"]
    # With a former ratio of minus infinity every other one is better.
    improved = ratios > best + np.maximum(5.0, 1e-3 * np.abs(np.where(best > -np.inf, best, 0.0)))
    records["best_ratio"][improved], records["improved_at"][improved] = ratios[improved], state.iteration
    one_sided = sides.min(axis=1) == 0.0
    waits = np.where(one_sided, patience[1], patience[0]) * np.minimum(2.0 ** records["failed_restarts"], longest)
    old_enough = one_sided | (state.iteration - records["subclusters_born_at"] > min_age)
    return (sides.sum(axis=1) > 1.0) & (state.iteration - records["improved_at"] >= waits) & old_enough


def start_subclusters(
    state: State, problem: Problem, clusters: IntArray, at_random: Any, rng: Generator, count: int | None = None
) -> Statistics:
    """Start subclusters for these clusters, by the initializer or at random; return their statistics.

    `count` is the number of all clusters if it differs from the state's.
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
