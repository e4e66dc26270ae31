"""Update the hyperparameters of the prior given the clusters: a draw, or a climb at the greedy end of a search.

The draw is an exact move (see `families.learned.hyperprior`). The prior of outliers is not learned.
"""

from __future__ import annotations

from typing import Any

from dpmmwrap.families.base import Statistics, take
from dpmmwrap.sampler.partition import capacity
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.state import State, generator

CLIMB = 3
"""Steps of each climb towards the most probable hyperparameters."""


def step(key: Any, state: State, problem: Problem) -> tuple[State, None]:
    """Draw a prior given the clusters' statistics, or climb to a more probable one in greedy iterations."""
    data, hyperprior, prior = problem.data, problem.settings.hyperprior, state.model.prior
    assert hyperprior is not None
    clusters = state.known.clusters if state.collapsed is None else data.statistics_of(state)
    if state.collapsed is None and problem.is_greedy(state):
        state.use_prior(hyperprior.climb(prior, inside(problem, clusters), CLIMB))
    else:
        state.use_prior(hyperprior.draw(prior, inside(problem, clusters), generator(key)))
    if state.collapsed is None:
        data.update_posteriors(state)
    else:
        state.collapsed = data.collapsed(state.model, clusters, capacity(state))
    return state, None


def inside(problem: Problem, clusters: Statistics) -> Statistics:
    """The clusters without the outliers."""
    return take(clusters, slice(problem.outliers, None))
