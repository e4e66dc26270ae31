"""The parameters of the prior over partitions given the sizes of the clusters: an exact move."""

from __future__ import annotations

from typing import Any, TypeVar

from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.partition import Partition
from dpmmwrap.sampler.state import State

Either = TypeVar("Either", State, Partition)


def step(key: Any, state: Either, context: Context) -> Either:
    """Draw the parameters that are learned from their conditional distribution; numbers that were given stay."""
    state.partition_prior = state.partition_prior.draw(key, state.counts[context.model.outliers :])
    return state
