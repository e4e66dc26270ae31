"""The width and the strength of the prior given the clusters: an exact move.

With all parameters of clusters integrated out, the grid's conditional distribution is the clusters' evidence at each of
its places. Outliers have a prior of their own, which is not learned.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from dpmmwrap.families.base import Statistics, take
from dpmmwrap.families.hyperprior import Hyperprior, Place
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.state import generator


class HyperparametersInfo(NamedTuple):
    changed: bool


def step(key: Any, place: Place, context: Context, clusters: Statistics) -> tuple[Place, HyperparametersInfo]:
    """Draw the place of the prior on its grid anew, given the statistics of the clusters; without a grid it stays."""
    hyperprior = context.settings.hyperprior
    if hyperprior is None:
        return place, HyperparametersInfo(changed=False)
    inside = take(clusters, slice(context.model.outliers, None))
    drawn = hyperprior.draw(place, inside, generator(key))
    return drawn, HyperparametersInfo(changed=drawn != place)


def with_prior(context: Context, hyperprior: Hyperprior, place: Place) -> Context:
    """The same context with the prior of a place on the grid."""
    return context._replace(model=replace(context.model, prior=hyperprior.prior(place)))
