"""Columns of few values: a value stands for an interval, and is spread over it.

A pixel that is 0 in every picture of a cluster would make a Gaussian of zero width, infinitely sure that no picture of
another kind belongs to it. What was recorded in steps of h was somewhere within half a step: so uniform noise of that
width is added, once, to columns whose steps are as wide as small bins of the data are.
"""

from __future__ import annotations

import numpy as np

from dpmmwrap.arrays import Float32Array, Float64Array, FloatArray
from dpmmwrap.bins import sample_rows

CHUNK_ROWS = 1 << 14


def steps_of(sample: FloatArray) -> Float64Array:
    """The smallest distance between two different values of each column; 0 for a column of one value."""
    steps = np.zeros(sample.shape[1])
    for j in range(sample.shape[1]):
        values = np.unique(sample[:, j][~np.isnan(sample[:, j])])
        if len(values) > 1:
            steps[j] = np.diff(values).min()
    return steps


def tied_columns(X: FloatArray, variances: Float64Array) -> tuple[Float64Array, int]:
    """The width of the noise for each column, 0 for most, and for how many it is not: those whose steps are wider than
    the deviation within bins."""
    steps = steps_of(np.asarray(X[sample_rows(len(X), 0)], dtype=np.float64))
    steps = np.where(steps**2 > variances, steps, 0.0)
    return steps, int((steps > 0).sum())


def spread_ties(X: Float32Array, steps: Float64Array, first_row: int = 0) -> Float32Array:
    """A copy with uniform noise of half a step to either side; always the same for the same data, of which X may be the
    rows from `first_row` on."""
    spread = np.array(X, dtype=np.float32)
    columns = np.flatnonzero(steps)
    rng = noise_from(first_row * len(columns))
    for begin in range(0, len(X), CHUNK_ROWS):
        rows = slice(begin, begin + CHUNK_ROWS)
        noise = rng.random((len(spread[rows]), len(columns)), dtype=np.float32) - np.float32(0.5)
        spread[rows, columns] += noise * steps[columns].astype(np.float32)
    return spread


def noise_from(place: int) -> np.random.Generator:
    """The generator of the noise, as it is after so many float32 numbers: two of them are made from one output."""
    bits = np.random.PCG64(0)
    bits.advance(place // 2)
    rng = np.random.Generator(bits)
    if place % 2:
        rng.random(1, dtype=np.float32)
    return rng
