"""Draw the parameters of the prior over partitions given the sizes of the clusters: an exact move."""

from __future__ import annotations

from typing import Any

from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.state import State


def step(key: Any, state: State, problem: Problem) -> tuple[State, None]:
    """Draw the learned parameters from their conditional distribution; given ones stay fixed."""
    state.partition_prior = state.partition_prior.draw(key, state.counts[problem.outliers :])
    return state, None
