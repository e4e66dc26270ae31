"""Restricted Gibbs: weights, parameters, labels and sublabels for a fixed number of clusters."""

from __future__ import annotations

from typing import Any

from dpmmwrap.numerics.variates import derived_key
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.state import State

LABELS_KEY = 1 << 50
"""Added to a step's key for its labels; the parameters take the numbers before."""


def step(key: Any, state: State, problem: Problem) -> tuple[State, None]:
    """Draw parameters from their posteriors, then all labels and sublabels; the most likely ones if it is greedy."""
    data = problem.data
    state.tables = data.draw_parameters(state, key)
    # Of wide data they are large, and others follow.
    state.posteriors = state.subclusters = None
    state.subclusters, state.records["proposal_log_prob"] = data.sweep(
        state, state.tables, derived_key(key, LABELS_KEY), problem.is_greedy(state)
    )
    state.tables = data.tables_for_merges(state.tables)
    return state, None
