"""Tables of named columns: which are numeric, which are categorical, and the levels of the latter."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.files import read_arrays
from dpmmwrap.numerics.arrays import FloatArray, IntArray

MOST_LEVELS = 1000


@dataclass(frozen=True)
class TablePoints:
    """Rows of numeric columns (N, D) and of codes of categorical columns (N, C). Missing values are NaN and -1. Either
    array may have no columns."""

    numeric: FloatArray
    codes: IntArray

    @property
    def shape(self) -> tuple[int, int]:
        return len(self.numeric), self.numeric.shape[1] + self.codes.shape[1]

    def __len__(self) -> int:
        return len(self.numeric)

    def __getitem__(self, rows: Any) -> TablePoints:
        return TablePoints(self.numeric[rows], self.codes[rows])


@dataclass(frozen=True)
class Columns:
    """The columns of a table, as a fitted model stores them."""

    names: tuple[str, ...]
    categorical: tuple[int, ...]
    """Indices of the categorical columns."""
    categories: tuple[Any, ...]
    """The sorted levels of each categorical column, as an array of numbers or of words."""
    named: bool = True
    """Whether the table had column names; otherwise columns are matched by position."""

    @classmethod
    def learn(cls, table: Mapping[str, Any], categorical: Sequence[str | int] | None, named: bool = True) -> Columns:
        """Determine the categorical columns (by default all that are not numeric) and their levels."""
        names = tuple(table)
        if categorical is None:
            chosen = [index for index, name in enumerate(names) if not is_numeric(table[name])]
        else:
            chosen = sorted({place_of(name, names) for name in categorical})
        categories = []
        for index in chosen:
            column = as_words_or_numbers(table[names[index]])
            levels = np.unique(column[~is_gap(column)])
            if len(levels) > MOST_LEVELS:
                raise ValueError(
                    f"the column {names[index]!r} has {len(levels)} levels, more than {MOST_LEVELS}, so it is hardly "
                    "categorical; leave it out, or treat it as numeric"
                )
            categories.append(levels if len(levels) else np.array([""]))
        for index, name in enumerate(names):
            if index not in chosen and not is_numeric(table[name]):
                raise ValueError(
                    f"the column {name!r} holds words: name it among the categorical ones, or leave it out"
                )
        return cls(names, tuple(chosen), tuple(categories), named)

    @property
    def numeric(self) -> tuple[int, ...]:
        return tuple(index for index in range(len(self.names)) if index not in self.categorical)

    @property
    def levels(self) -> IntArray:
        return np.array([len(levels) for levels in self.categories], np.int64)

    def points(self, X: Any) -> TablePoints:
        """Convert a table with the same columns. Levels not seen before count as missing."""
        if isinstance(X, TablePoints):
            return X
        table, named = table_of(X)
        if named and self.named:
            missing = [name for name in self.names if name not in table]
            if missing:
                raise ValueError(f"the table should have a column {missing[0]!r}, but it has {', '.join(table)}")
            columns = [table[name] for name in self.names]
        else:
            columns = list(table.values())
            if len(columns) != len(self.names):
                raise ValueError(
                    f"X has {len(columns)} features, but DPMM is expecting {len(self.names)} features as input"
                )
        rows = len(columns[0])
        numeric = np.empty((rows, len(self.numeric)))
        for index, column in enumerate(self.numeric):
            numeric[:, index] = as_float(columns[column], self.names[column])
        codes = np.empty((rows, len(self.categorical)), np.int32)
        begin = 0
        for index, (column, levels) in enumerate(zip(self.categorical, self.categories, strict=True)):
            codes[:, index] = codes_of(columns[column], levels, begin)
            begin += len(levels)
        return TablePoints(numeric, codes)

    def table(self, points: TablePoints) -> Any:
        """Convert points back to the user's values: an array of objects, columns in their original order."""
        rows = np.empty((len(points), len(self.names)), dtype=object)
        for index, column in enumerate(self.numeric):
            rows[:, column] = points.numeric[:, index].astype(float)
        begin = 0
        for index, (column, levels) in enumerate(zip(self.categorical, self.categories, strict=True)):
            rows[:, column] = levels[points.codes[:, index] - begin]
            begin += len(levels)
        return rows

    def arrays(self) -> dict[str, Any]:
        """As plain arrays, for a file."""
        levels = {f"category_{index}": levels for index, levels in enumerate(self.categories)}
        named = {"column_names": np.array(self.names, dtype=str), "columns_named": np.array(self.named)}
        return named | {"categorical_columns": np.array(self.categorical, np.int64)} | levels

    @classmethod
    def read(cls, path: str | Path) -> Columns:
        """Read from a file that holds `arrays`."""
        head = read_arrays(path, required=("column_names", "columns_named", "categorical_columns"))
        categorical = tuple(int(index) for index in head["categorical_columns"])
        names = tuple(f"category_{number}" for number in range(len(categorical)))
        levels = read_arrays(path, required=names)
        columns = tuple(str(name) for name in head["column_names"])
        return cls(columns, categorical, tuple(levels[name] for name in names), bool(head["columns_named"]))


def table_of(X: Any) -> tuple[dict[str, Any], bool]:
    """The columns of a pandas or polars frame, a mapping of columns, or an array, and whether they have names."""
    if isinstance(X, Mapping):
        return {str(name): np.asarray(column) for name, column in X.items()}, True
    if hasattr(X, "columns") and hasattr(X, "__getitem__"):
        return {str(name): column_values(X[name]) for name in X.columns}, True
    array = X if isinstance(X, np.ndarray) else np.asarray(X)
    if array.ndim != 2:
        raise ValueError(
            f"Expected 2D array, got {array.ndim}D array instead. Reshape your data either using array.reshape(-1, 1) "
            "if it has a single feature or array.reshape(1, -1) if it contains a single sample."
        )
    return {str(index): array[:, index] for index in range(array.shape[1])}, False


def column_values(column: Any) -> Any:
    """One column of a frame as an array; missing values are NaN or None."""
    values = np.asarray(column.to_numpy())
    if values.dtype.kind == "O" and hasattr(column, "isna"):
        # pandas' categorical and nullable types arrive as objects with their own markers of missing values.
        values = values.copy()
        values[np.asarray(column.isna())] = None
    return values


def place_of(name: str | int, names: Sequence[str], what: str = "categorical") -> int:
    if isinstance(name, (int, np.integer)) and not isinstance(name, bool):
        if not -len(names) <= name < len(names):
            raise ValueError(f"{what} names the column {name}, but there are {len(names)}")
        return int(name) % len(names)
    if name not in names or not isinstance(name, str):
        raise ValueError(f"{what} names the column {name!r}, but the table has {', '.join(names)}")
    return list(names).index(name)


def is_numeric(column: Any) -> bool:
    """Whether all values are numbers or missing. Booleans are categories."""
    column = np.asarray(column)
    if column.dtype.kind != "O":
        return column.dtype.kind in "fiu"
    return all(
        (isinstance(v, (int, float, np.number)) and not isinstance(v, (bool, np.bool_))) or v is None for v in column
    )


def is_gap(column: Any) -> Any:
    """Where a column has no value: NaN, None or an empty string."""
    if column.dtype.kind == "f":
        return np.isnan(column)
    return column == "" if column.dtype.kind == "U" else np.zeros(len(column), bool)


def as_words_or_numbers(column: Any) -> Any:
    """A categorical column as an array of numbers or of strings; missing values are NaN or the empty string."""
    column = np.asarray(column)
    if column.dtype.kind in "fiu":
        return column
    if column.dtype.kind == "O" and is_numeric(column):
        return np.array([np.nan if v is None else v for v in column], dtype=np.float64)
    words = ("" if v is None or (isinstance(v, float) and math.isnan(v)) else str(v) for v in column.tolist())
    return np.array(list(words), dtype=str)


def as_words(values: Any) -> Any:
    """Numbers as strings, the way a file would write them (2007.0 as 2007); missing values become empty strings."""
    if values.dtype.kind != "f":
        return values.astype(str)
    return np.array(["" if math.isnan(v) else str(int(v)) if v.is_integer() else str(v) for v in values.tolist()])


def as_float(column: Any, name: str) -> Any:
    """A numeric column as floats; missing values are NaN."""
    try:
        values = np.asarray(column, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"the column {name!r} should hold numbers: {error}") from error
    if np.isinf(values).any():
        raise ValueError(f"the column {name!r} holds infinity, which is not a number that can be clustered")
    return values


def codes_of(column: Any, levels: Any, begin: int) -> IntArray:
    """The index of each value's level plus `begin`; -1 for missing values and levels not seen before."""
    values = as_words_or_numbers(column)
    if (values.dtype.kind == "U") != (levels.dtype.kind == "U"):
        values, levels = as_words(values), as_words(levels)
    order = np.argsort(levels, kind="stable")
    places = np.minimum(np.searchsorted(levels, values, sorter=order), len(levels) - 1)
    found = order[places]
    known = (levels[found] == values) & ~is_gap(values)
    return np.where(known, found + begin, -1).astype(np.int32)
