"""The hyperparameters of the prior given the clusters: drawn while sampling, climbed in a search.

Outliers have a prior of their own, which is not learned.
"""

from __future__ import annotations

from typing import Any

from dpmmwrap.families.base import Prior, Statistics, take
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.state import generator

CLIMB = 3
"""Steps towards the most probable hyperparameters from one time to the next."""


def step(key: Any, context: Context, clusters: Statistics) -> Prior:
    """A prior drawn anew given the statistics of the clusters: an exact move (see `families.hyperprior`)."""
    hyperprior = context.settings.hyperprior
    assert hyperprior is not None
    prior: Prior = hyperprior.draw(context.model.prior, inside(context, clusters), generator(key))
    return prior


def climb(context: Context, clusters: Statistics) -> Prior:
    """A prior that is more probable given the clusters."""
    hyperprior = context.settings.hyperprior
    assert hyperprior is not None
    prior: Prior = hyperprior.climb(context.model.prior, inside(context, clusters), CLIMB)
    return prior


def inside(context: Context, clusters: Statistics) -> Statistics:
    """The clusters without the outliers."""
    return take(clusters, slice(context.model.outliers, None))
