"""Restricted Gibbs: weights, parameters, labels and sublabels for a fixed number of clusters."""

from __future__ import annotations

from typing import Any, NamedTuple

from dpmmwrap.numerics.variates import derived_key
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.state import State

LABELS_KEY = 1 << 50
"""Added to a step's key for its labels; the parameters take the numbers before."""


class SweepInfo(NamedTuple):
    """What was drawn, as the kernels take it: merges ask how likely the labels were."""

    tables: Any


def step(key: Any, state: State, context: Context, greedy: bool = False) -> tuple[State, SweepInfo]:
    """Draw parameters from their posteriors, then all labels and sublabels; greedy takes the most likely ones."""
    tables = context.data.draw_parameters(context.model, state, key)
    state.subclusters, state.records["proposal_log_prob"] = context.data.sweep(
        state, tables, derived_key(key, LABELS_KEY), greedy
    )
    return state, SweepInfo(tables)
