"""Lazy predictions for Dask's arrays and frames, block by block."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np


def by_blocks(model: Any, method: str, X: Any, kind: Any, columns: int | None) -> Any:
    """A Dask array of a method's results for blocks of rows: `columns` numbers for each row, or one if None."""
    light = lighter(model)
    empty = np.empty((0,) if columns is None else (0, columns), kind)
    if hasattr(X, "map_partitions") and hasattr(X, "columns"):
        rows = X.map_partitions(call, light, method, meta=empty)
        return rows if hasattr(rows, "chunks") else rows.to_dask_array()
    if X.ndim == 2 and X.numblocks[1] > 1 and not hasattr(X._meta, "tocsr"):
        X = X.rechunk({1: -1})
    if columns is None:
        return X.map_blocks(call, light, method, dtype=kind, drop_axis=1, meta=empty)
    return X.map_blocks(call, light, method, dtype=kind, chunks=(X.chunks[0], (columns,)), meta=empty)


def call(rows: Any, model: Any, method: str) -> Any:
    return getattr(model, method)(rows)


def lighter(model: Any) -> Any:
    """The model without its results for the rows of the fit."""
    other = copy.copy(model)
    for name in ("labels_", "sublabels_", "confidence_", "draws_", "_some_points", "trace_", "traces_"):
        other.__dict__.pop(name, None)
    return other
