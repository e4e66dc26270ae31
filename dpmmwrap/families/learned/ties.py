"""Dithering of discrete columns: uniform noise spreads each value over the interval it stands for.

A pixel that is 0 in every image of a cluster would give a Gaussian of zero width, which excludes every other image with
certainty. A value recorded in steps of h lies somewhere within h/2 of the record, so uniform noise of width h is added,
once, to columns whose steps are wider than the standard deviation within cells of the data.
"""

from __future__ import annotations

import numpy as np

from dpmmwrap.numerics.arrays import Float32Array, Float64Array, FloatArray
from dpmmwrap.numerics.cells import sample_rows

CHUNK_ROWS = 1 << 14


def tied_steps(X: FloatArray) -> Float64Array:
    """The smallest distance between distinct values of each column with repeated values; 0 for other columns."""
    sample = np.asarray(X[sample_rows(len(X), 0)], dtype=np.float64)
    steps = np.zeros(sample.shape[1])
    for j in range(sample.shape[1]):
        observed = sample[:, j][~np.isnan(sample[:, j])]
        values = np.unique(observed)
        if 1 < len(values) < len(observed):
            steps[j] = np.diff(values).min()
    return steps


def spread_ties(X: Float32Array, steps: Float64Array, first_row: int = 0) -> Float32Array:
    """A copy with uniform noise of up to half a step to either side. The noise depends only on the position in the
    data, of which X holds the rows from `first_row` on."""
    spread = np.array(X, dtype=np.float32)
    columns = np.flatnonzero(steps)
    rng = noise_from(first_row * len(columns))
    for begin in range(0, len(X), CHUNK_ROWS):
        rows = slice(begin, begin + CHUNK_ROWS)
        noise = rng.random((len(spread[rows]), len(columns)), dtype=np.float32) - np.float32(0.5)
        spread[rows, columns] += noise * steps[columns].astype(np.float32)
    return spread


def noise_from(place: int) -> np.random.Generator:
    """The noise generator after `place` float32 numbers; one output of PCG64 makes two of them."""
    bits = np.random.PCG64(0)
    bits.advance(place // 2)
    rng = np.random.Generator(bits)
    if place % 2:
        rng.random(1, dtype=np.float32)
    return rng
