"""The hyperparameters of the prior given the clusters: drawn, or climbed in the greedy end of a search.

The draw is an exact move (see `families.learned.hyperprior`). Outliers have another prior, which is not learned.
"""

from __future__ import annotations

from typing import Any

from dpmmwrap.families.base import Statistics, take
from dpmmwrap.sampler.partition import capacity
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.state import State, generator

CLIMB = 3
"""Steps towards the most probable hyperparameters from one time to the next."""


def step(key: Any, state: State, problem: Problem) -> tuple[State, None]:
    """Go on with a prior drawn given the statistics of the clusters, or with a more probable one if it is greedy."""
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
