"""A sweep over all points among the existing clusters, none of which may become empty: an exact move.

Given drawn weights and parameters, points choose independently. A step that would remove a cluster's last point is
refused, so that clusters are born and die only in other moves, whose ratios account for it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dpmmwrap.numerics.variates import derived_key
from dpmmwrap.sampler.partition import capacity
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.state import State
from dpmmwrap.sampler.sweep import LABELS_KEY


class RestrictedSweepInfo(NamedTuple):
    refused: int
    """Number of points that stayed because they were the last of their cluster."""


def step(key: Any, state: State, problem: Problem) -> tuple[State, RestrictedSweepInfo]:
    """Draw weights and parameters from their posteriors, then all labels."""
    data = problem.data
    tables = data.draw_clusters(state, key)
    data.remember(state)
    clusters = data.sweep_labels(state, tables, derived_key(key, LABELS_KEY))
    refused = data.refuse_to_empty(state)
    for row, stays, wanted in refused:
        data.put_back(clusters, row, stays, wanted, tables, key)
    state.collapsed = data.collapsed(state.model, clusters, capacity(state))
    return state, RestrictedSweepInfo(len(refused))
