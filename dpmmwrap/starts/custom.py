"""User-defined starts: any function from the points of one cluster to sublabels."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.random import Generator

from dpmmwrap.families.base import Points
from dpmmwrap.numerics.arrays import IntArray, UInt8Array
from dpmmwrap.starts import SplitCriterion


class CallableStart:
    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self.name = getattr(function, "__qualname__", type(function).__qualname__)

    def bind(self, X: Points, criterion: SplitCriterion) -> None:
        self.X = X

    def __call__(self, members: list[IntArray], rng: Generator) -> list[UInt8Array]:
        return [checked(self.function(self.X[rows]), len(rows), self.name) for rows in members]


def checked(sides: Any, count: int, name: str) -> UInt8Array:
    """Validate the sublabels returned by a user's function."""
    array = np.asarray(sides)
    if array.shape != (count,):
        raise ValueError(f"the start {name} should return {count} sublabels, not an array of shape {array.shape}")
    if not np.isin(array, (0, 1)).all():
        raise ValueError(f"the start {name} should return sublabels 0 or 1 only")
    return array.astype(np.uint8)
