"""Redundant columns: constant ones, copies and combinations of others. A fit leaves them out.

In a cluster a constant column would still have the cost of its prior, and a copy would count twice. The other columns
determine them, so a fitted mixture can restore all columns.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.files import read_arrays
from dpmmwrap.files.selection import listed
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.cells import sample_rows, winsorized

STORED = ("kept_columns", "all_columns_matrix", "all_columns_offset")
CONSTANT = 3.0
"""A column is constant if its values differ by at most this many units in the last place."""
UNEXPLAINED = 1e-4
"""A column is a combination of others if they leave less than this share of its variance unexplained."""
ROWS_PER_COLUMN = 5
"""With fewer rows, any column would be a combination of all others: then only copies of single columns count."""


class ColumnMap(NamedTuple):
    """All columns from those that were kept: x = offset + matrix @ kept."""

    kept: IntArray
    matrix: Float64Array
    offset: Float64Array

    def features(self, kept: FloatArray) -> Float64Array:
        """All columns of rows."""
        return np.asarray(kept @ self.matrix.T + self.offset)

    def covariances(self, kept: Float64Array) -> Float64Array:
        """Covariances (K, D, D), or variances (K, D), of all columns."""
        if kept.ndim == 2:
            return np.asarray(kept @ (self.matrix**2).T)
        return np.asarray(self.matrix @ kept @ self.matrix.T)

    def arrays(self) -> dict[str, Any]:
        """The contents of a file."""
        return dict(zip(STORED, self, strict=True))

    @classmethod
    def read(cls, path: str | Path) -> ColumnMap | None:
        """Read from a file; None if no columns were left out."""
        arrays = read_arrays(path, required=(), optional=STORED)
        if not arrays:
            return None
        restored = cls(*(arrays[name] for name in STORED))
        if restored.matrix.shape != (len(restored.offset), len(restored.kept)):
            raise ValueError("its arrays do not belong together")
        return restored


Extremes = Callable[[list[int]], tuple[Any, Any]]
"""From the numbers of columns to the least and the greatest value of each."""


class Redundant(NamedTuple):
    """The numbers of constant columns, of combinations of earlier columns (such as copies), and of empty ones."""

    constant: list[int]
    combined: list[int]
    empty: tuple[int, ...] = ()

    @property
    def columns(self) -> list[int]:
        return [*self.constant, *self.combined, *self.empty]


def find_redundant(X: FloatArray, extremes: Extremes | None = None) -> Redundant:
    """Find redundant columns. O(N D) for constant ones, O(D^3) on a sample for combinations.

    If the rows are on other machines, X is a sample, and `extremes` finds the ranges of columns.
    """
    some = X if extremes else X[sample_rows(len(X), 0)]
    ranges = extremes or (lambda columns: extremes_of(X[:, columns]))
    low, high = extremes_of(some)
    flat = np.flatnonzero(is_constant(low, high, some.dtype)).tolist()
    constant = [column for column in flat if is_constant(*ranges([column]), some.dtype)[0]]
    empty = tuple(c for c in np.flatnonzero(np.isnan(low)).tolist() if np.isnan(ranges([c])[0]).all())
    varied = np.array([column for column in range(X.shape[1]) if column not in {*constant, *empty}], np.int64)
    rows = usual_rows(np.asarray(some[:, varied], dtype=np.float64))
    if len(rows) < 2 * ROWS_PER_COLUMN:
        return Redundant(constant, [], empty)
    return Redundant(constant, [int(varied[column]) for column in combinations_among(rows)], empty)


def extremes_of(values: FloatArray) -> tuple[Any, Any]:
    """The least and the greatest value of each column."""
    with warnings.catch_warnings():
        # A column without any value.
        warnings.simplefilter("ignore", RuntimeWarning)
        return np.nanmin(values, axis=0), np.nanmax(values, axis=0)


def is_constant(lowest: Any, highest: Any, dtype: Any) -> Any:
    """Whether a column's values differ only by rounding, in the precision of the data: timestamps in double precision
    are not constant. Nor are columns without any value."""
    lowest, highest = np.asarray(lowest, float), np.asarray(highest, float)
    return highest - lowest <= CONSTANT * np.finfo(dtype).eps * np.maximum(abs(lowest), abs(highest))


def usual_rows(sample: Float64Array) -> Float64Array:
    """Rows without gaps and outlying values: an outlier in two columns would look like a common cause."""
    return np.asarray(sample[(winsorized(sample) == sample).all(axis=1)])


def combinations_among(rows: Float64Array) -> list[int]:
    """Columns that earlier ones explain, by Cholesky steps on the correlations. O(D^3)."""
    deviations = rows.std(axis=0)
    scaled = (rows - rows.mean(axis=0)) / np.where(deviations > 0, deviations, 1.0)
    correlations = scaled.T @ scaled / len(rows)
    if len(rows) < ROWS_PER_COLUMN * rows.shape[1]:
        later, _ = np.nonzero(np.tril(1.0 - correlations**2 < UNEXPLAINED, -1))
        return [int(column) for column in np.unique(later)]
    redundant = []
    for column in range(len(correlations)):
        pivot = correlations[column, column]
        if deviations[column] > 0 and pivot < UNEXPLAINED:
            redundant.append(column)
        elif pivot > 0:
            step = correlations[column + 1 :, column]
            correlations[column + 1 :, column + 1 :] -= np.outer(step, step) / pivot
    return redundant


def without(X: FloatArray, redundant: Redundant) -> tuple[FloatArray, ColumnMap]:
    """The columns that are kept, and how to restore the others."""
    dim, some = X.shape[1], X[sample_rows(len(X), 0)]
    kept = np.array([column for column in range(dim) if column not in set(redundant.columns)], np.int64)
    matrix, offset = np.zeros((dim, len(kept))), np.zeros(dim)
    matrix[kept, np.arange(len(kept))] = 1.0
    for column in redundant.constant:
        offset[column] = np.nanmean(np.asarray(some[:, column], dtype=np.float64))
    # Columns without values stay unknown.
    offset[[*redundant.empty]] = np.nan
    if redundant.combined:
        varied = np.concatenate([kept, redundant.combined])
        rows = usual_rows(np.asarray(some[:, varied], dtype=np.float64))
        means, count = rows.mean(axis=0), len(kept)
        explained = np.linalg.lstsq(rows[:, :count] - means[:count], rows[:, count:] - means[count:], rcond=None)[0].T
        matrix[redundant.combined] = explained
        offset[redundant.combined] = means[count:] - explained @ means[:count]
    return np.ascontiguousarray(X[:, kept]), ColumnMap(kept, matrix, offset)


def sentence(redundant: Redundant, names: Any = None) -> str:
    """The columns that were left out, in one sentence: by name, or by number from 1, as options count columns."""
    every = {
        "constant columns": redundant.constant,
        "columns without any value": redundant.empty,
        "copies or combinations of others": redundant.combined,
    }
    parts, kind = [], "number " if names is None else ""
    for what, columns in every.items():
        words = [str(column + 1 if names is None else names[column]) for column in columns]
        if words:
            parts.append(f"{what} ({kind}{listed(words, 3)})")
    listing = ", ".join([*parts[:-2], " and ".join(parts[-2:])])
    return f"left out, as they say nothing new: {listing}"
