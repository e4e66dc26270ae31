"""The reference's start: each point goes left or right by the toss of a coin."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from dpmmwrap.arrays import IntArray, UInt8Array
from dpmmwrap.families.base import Points
from dpmmwrap.starts import SplitCriterion


class RandomStart:
    name = "random"

    def bind(self, X: Points, criterion: SplitCriterion) -> None:
        """Nothing to see: the coin does not look at the data."""

    def __call__(self, members: list[IntArray], rng: Generator) -> list[UInt8Array]:
        ends = np.cumsum([len(rows) for rows in members])
        tosses = rng.integers(0, 2, ends[-1] if len(ends) else 0, dtype=np.uint8)
        return [tosses[end - len(rows) : end] for rows, end in zip(members, ends, strict=True)]
