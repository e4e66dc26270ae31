"""Restricted Gibbs: weights, parameters, labels and sublabels for a fixed number of clusters."""

from __future__ import annotations

from typing import Any

from dpmmwrap.numerics.variates import derived_key
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.state import State

LABELS_KEY = 1 << 50
"""Offset of the key for labels; the parameters use smaller numbers."""


def step(key: Any, state: State, problem: Problem) -> tuple[State, None]:
    """Draw parameters from their posteriors, then all labels and sublabels; greedy iterations take the most likely
    ones."""
    data = problem.data
    state.tables = data.draw_parameters(state, key)
    # Free them before others are allocated: they are large for wide data.
    state.posteriors = state.subclusters = None
    state.subclusters, state.records["proposal_log_prob"] = data.sweep(
        state, state.tables, derived_key(key, LABELS_KEY), problem.is_greedy(state)
    )
    state.tables = data.tables_for_merges(state.tables)
    return state, None
