"""Whether points and labels are what they should be."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from dpmmwrap.files.problems import InputError, MissingValues, name_of
from dpmmwrap.files.selection import Names
from dpmmwrap.files.tables import position_text
from dpmmwrap.numerics.arrays import FloatArray, IntArray

AnyArray = np.ndarray[Any, Any]
BoolArray = np.ndarray[Any, np.dtype[np.bool_]]

COUNTS = "counts, whole numbers of 0 or more"
CHECKED_AT_ONCE = 1 << 21
"""Numbers that are checked at once, so that a memory-mapped file may be larger than memory."""


def check_points(
    X: AnyArray, source: str, *, at_least: int = 2, gaps: bool = False, names: Names | None = None
) -> FloatArray:
    """X as real, finite numbers in rows of points; otherwise an InputError. With `gaps`, NaN is a missing value."""
    if X.ndim != 2:
        raise InputError(
            f"{source} should have two dimensions (points, features), but it has {X.ndim}: its shape is {X.shape}"
        )
    if X.dtype.kind not in "fiub":
        raise InputError(f"{source} should hold real numbers, but it holds {kind_of(X.dtype)}")
    n, dim = X.shape
    if n == 0 or dim == 0:
        raise InputError(f"{source} should hold points, but it has no {'rows' if dim else 'columns'}")
    check_size(n, at_least, source)
    if X.dtype.kind != "f" or X.dtype.itemsize == 2:
        X = X.astype(np.float32 if X.dtype.itemsize <= 2 else np.float64)
    for rows in chunks(X):
        refuse(overflows(X[rows]), X[rows], rows.start, source, names)
    if not gaps:
        # Empty rows and columns are left out later, and need no values.
        check_whole_rows(X, source, names, wanted=~empty_columns(X))
    return X


def check_size(n: int, at_least: int, source: str) -> None:
    if n < at_least:
        raise InputError(f"{source} should hold at least {at_least} points, but it holds {n}")


def overflows(values: AnyArray) -> BoolArray:
    """Which numbers are infinite in single precision, which the samplers use."""
    with np.errstate(over="ignore"):
        return np.isinf(values.astype(np.float32, copy=False))


def chunks(X: AnyArray) -> Iterator[slice]:
    """Slices of rows to check at once."""
    rows = max(1, CHECKED_AT_ONCE // X.shape[1])
    for first in range(0, len(X), rows):
        yield slice(first, first + rows)


def check_whole_rows(X: FloatArray, source: str, names: Names | None, wanted: BoolArray) -> None:
    """Refuse rows in which only some of the wanted columns have values."""
    for rows in chunks(X):
        missing = np.isnan(X[rows])
        refuse(missing & wanted & ~missing[:, wanted].all(axis=1, keepdims=True), X[rows], rows.start, source, names)


def refuse(wrong: BoolArray, chunk: FloatArray, begin: int, source: str, names: Names | None) -> None:
    """Raise an error about the first wrong number, if there is one."""
    if not wrong.any():
        return
    row, column = (int(where) for where in np.argwhere(wrong)[0])
    value = float(chunk[row, column])
    where = position_text(begin + row, column, names)
    message = f"{source} should hold finite numbers, but {where} is {name_of(value)}"
    raise MissingValues(message) if math.isnan(value) else InputError(message)


def empty_columns(X: FloatArray) -> BoolArray:
    empty = np.ones(X.shape[1], bool)
    for rows in chunks(X):
        empty &= np.isnan(X[rows]).all(axis=0)
        if not empty.any():
            break
    return empty


def check_counts(X: FloatArray, source: str, names: Names | None) -> None:
    """Refuse numbers that are not counts: below 0, or not whole."""
    for rows in chunks(X):
        chunk = X[rows]
        wrong = (chunk < 0) | ((chunk != np.round(chunk)) & ~np.isnan(chunk))
        if wrong.any():
            row, column = (int(where) for where in np.argwhere(wrong)[0])
            where = position_text(rows.start + row, column, names)
            raise InputError(f"{source} should hold {COUNTS}, but {where} is {float(chunk[row, column]):g}")


def check_labels(y: AnyArray, n: int, source: str) -> IntArray:
    """Labels as numbers from 0 in the order of their values, one for each of n points."""
    if y.ndim == 2 and 1 in y.shape:
        y = y.ravel()
    if y.ndim != 1:
        raise InputError(f"{source} should hold one label per point, but its shape is {y.shape}")
    if len(y) != n:
        raise InputError(f"{source} should hold one label for each of {n} points, but it holds {len(y)}")
    if y.dtype.kind not in "fiubU":
        raise InputError(f"{source} should hold numbers or words as labels, but it holds {kind_of(y.dtype)}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int(np.flatnonzero(~np.isfinite(y))[0])
        raise InputError(f"{source} should hold finite labels, but row {row + 1} is {name_of(float(y[row]))}")
    labels: IntArray = np.unique(y, return_inverse=True)[1].astype(np.int32)
    return labels


def class_names(y: AnyArray) -> tuple[str, ...]:
    """The labels behind the numbers of `check_labels`, without the empty word."""
    values = np.unique(y).tolist()
    names = (int(value) if isinstance(value, float) and value.is_integer() else value for value in values)
    return tuple(str(name) for name in names if name != "")


def kind_of(dtype: np.dtype[Any]) -> str:
    """What an array holds instead of real numbers."""
    if dtype.hasobject:
        return "Python objects, which are never loaded"
    if dtype.names:
        return f"records ({', '.join(dtype.names)})"
    names = {"U": "text", "S": "text", "c": "complex numbers", "M": "dates", "m": "time spans"}
    return names.get(dtype.kind, str(dtype))


def check_classes(labels: IntArray, source: str) -> None:
    """Refuse true labels that are all different: those are names of points, not classes."""
    if len(labels) > 1 and len(np.unique(labels)) == len(labels):
        message = f"{source} should hold the classes of the points, but all {len(labels)} points have different ones"
        raise InputError(f"{message}: that is an id, not a class")
