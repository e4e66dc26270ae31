"""The concentration given the number of clusters (Escobar and West 1995): an exact move."""

from __future__ import annotations

from typing import Any, NamedTuple

from dpmmwrap.dirichlet_process import draw_alpha
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.state import State, generator


class ConcentrationInfo(NamedTuple):
    alpha: float


def step(key: Any, state: State, context: Context) -> tuple[State, ConcentrationInfo]:
    """Draw alpha from its conditional distribution; a number that was given stays."""
    prior = context.settings.alpha_prior
    if prior is not None:
        clusters = state.n_clusters - context.model.outliers
        points = int(state.known.clusters.counts[context.model.outliers :].sum())
        if points and clusters:
            state.alpha = draw_alpha(generator(key), state.alpha, clusters, points, prior)
    return state, ConcentrationInfo(state.alpha)
