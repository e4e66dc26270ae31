"""The concentration given the number of clusters (Escobar and West 1995): an exact move."""

from __future__ import annotations

from typing import Any, NamedTuple, TypeVar

from dpmmwrap.partitions.dirichlet_process import draw_alpha
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.partition import Partition
from dpmmwrap.sampler.state import State

Either = TypeVar("Either", State, Partition)


class ConcentrationInfo(NamedTuple):
    alpha: float


def step(key: Any, state: Either, context: Context) -> tuple[Either, ConcentrationInfo]:
    """Draw alpha from its conditional distribution; a number that was given stays."""
    prior = context.settings.alpha_prior
    if prior is not None:
        clusters = state.n_clusters - context.model.outliers
        points = int(state.counts[context.model.outliers :].sum())
        if points and clusters:
            state.alpha = draw_alpha(key, state.alpha, clusters, points, prior)
    return state, ConcentrationInfo(state.alpha)
