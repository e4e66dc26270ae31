"""Rows without any value: a fit leaves them out, and they have no cluster."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.tables import TablePoints
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.sampler.draws import Draws, labels_array

CHUNK = 1 << 16
BoolArray = np.ndarray[Any, np.dtype[np.bool_]]


def with_values(points: Any) -> BoolArray:
    """Which rows have a value in some column. Rows of counts always do."""
    if isinstance(points, TablePoints):
        return np.asarray(with_values(points.numeric) | (points.codes >= 0).any(axis=1))
    present = np.ones(points.shape[0], bool)
    if getattr(points, "dtype", np.dtype(int)).kind != "f" or not isinstance(points, np.ndarray):
        return present
    for begin in range(0, len(present), CHUNK):
        present[begin : begin + CHUNK] = ~np.isnan(points[begin : begin + CHUNK]).all(axis=1)
    return present


def absent_note(rows: int) -> str:
    count = "1 row has" if rows == 1 else f"{rows:,} rows have"
    return f"{count} no value in the columns in use, and therefore no cluster (label -1)"


class Present(NamedTuple):
    """The numbers of the rows that have values, and a weight above 0, among `total` rows."""

    rows: IntArray
    total: int
    weightless: int = 0
    """Rows that have values, but a weight of 0."""

    @classmethod
    def among(cls, points: Any) -> Present | None:
        """The rows with values; None if all have some."""
        present = with_values(points)
        if present.all():
            return None
        if present.sum() < 2:
            raise ValueError(f"at least 2 rows should hold values, but {present.sum()} of the {len(present):,} rows do")
        return cls(np.flatnonzero(present), len(present))

    @property
    def note(self) -> str:
        return absent_note(self.total - len(self.rows))

    def spread(self, values: Any, fill: Any) -> Any:
        """Values for all rows, from those of these rows and a fill value for the others."""
        every = np.full(self.total, fill, dtype=values.dtype)
        every[self.rows] = values
        return every

    def spread_draws(self, draws: Draws | None) -> Draws | None:
        if draws is None or draws.labels is None:
            return draws
        labels = labels_array((draws.n_chains, draws.n_draws, self.total))
        labels[...] = -1
        labels[..., self.rows] = draws.labels
        return replace(draws, labels=labels)


def truth_labels(labels: Any, rows: int, name: str = "truth", some: Any = slice(None)) -> IntArray:
    """The labels of some of the rows as whole numbers from 0 without gaps."""
    array = np.asarray(labels)
    if array.shape != (rows,):
        raise ValueError(f"{name} should be {rows} labels, one per point, not an array of shape {array.shape}")
    return np.unique(array[some], return_inverse=True)[1].astype(np.int32)
