"""Draws from a categorical distribution per row."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from dpmmwrap.numerics.arrays import FloatArray, IntArray


def draw_columns(shares: FloatArray, rng: Generator) -> IntArray:
    """Draw a column for each row with probabilities proportional to `shares`."""
    reached = np.cumsum(shares, axis=1)
    return np.asarray((reached < rng.random(len(reached))[:, None] * reached[:, -1:]).sum(axis=1))
