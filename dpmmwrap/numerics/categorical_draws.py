"""Draws from the probabilities of each row."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from dpmmwrap.numerics.arrays import FloatArray, IntArray


def draw_columns(shares: FloatArray, rng: Generator) -> IntArray:
    """A column for each row, drawn by its shares, which need not sum to 1."""
    reached = np.cumsum(shares, axis=1)
    return np.asarray((reached < rng.random(len(reached))[:, None] * reached[:, -1:]).sum(axis=1))
