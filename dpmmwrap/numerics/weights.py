"""Row weights: a row of weight w stands for w identical rows that stay together."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, IntArray

BITS = 50
"""Weights are rounded to multiples of 2^-BITS of their sum. This leaves three spare bits in a double, so that sums are
exact in any order, and a cluster that loses its last row has weight zero."""


def checked_weights(weights: Any, rows: int) -> Float64Array:
    """Validate weights, one per row, and round them so that sums are exact."""
    try:
        array = np.asarray(weights, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError("sample_weight should be numbers") from error
    if array.shape != (rows,):
        raise ValueError(f"sample_weight should be {rows:,} numbers, one per row, not an array of shape {array.shape}")
    if not np.isfinite(array).all():
        row = int((~np.isfinite(array)).argmax())
        raise ValueError(f"sample_weight should be finite, but that of row {row + 1:,} is {array[row]:g}")
    if (array < 0).any():
        row = int((array < 0).argmax())
        raise ValueError(f"sample_weight should not be negative, but that of row {row + 1:,} is {array[row]:g}")
    array = with_exact_sums(array)
    if np.count_nonzero(array) < 2:
        raise ValueError("sample_weight should be above zero in at least 2 rows")
    return array


def with_exact_sums(weights: Float64Array) -> Float64Array:
    """Round weights slightly, so that their sums are exact in any order."""
    total = float(weights.sum())
    if not total:
        return weights
    unit = 2.0 ** (math.ceil(math.log2(total)) - BITS)
    return np.asarray(np.round(weights / unit) * unit)


def rows_by_weight(weights: Float64Array, most: int) -> IntArray:
    """Row numbers repeated according to their weights, or in proportion to them if that would give more than `most`."""
    ends = np.cumsum(weights)
    count = int(min(max(round(float(ends[-1])), 1), most))
    places = (np.arange(count) + 0.5) * (ends[-1] / count)
    return np.asarray(np.minimum(np.searchsorted(ends, places, side="right"), len(weights) - 1))
