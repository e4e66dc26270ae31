"""Tables of numbers: .csv, .tsv, .parquet."""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from dpmmwrap.files.problems import InputError

MISSING = ("", "na", "n/a", "null", "none", "missing")


def read_table(path: Path, delimiters: str) -> np.ndarray[Any, Any]:
    """The numbers of a text file; names in its first line and an unnamed column of row names are left out."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        skipped, first = first_line(file)
    if not first:
        raise InputError(f"{path} should hold points, but it is empty")
    delimiter = next((mark for mark in delimiters if mark in first), delimiters[0])
    fields = next(csv.reader([first], delimiter=delimiter))
    if is_header(fields):
        skipped += 1
    # pandas and R write the row names into a first column that has no name itself.
    named_rows = is_header(fields) and len(fields) > 1 and not fields[0].strip()
    start = 1 if named_rows else 0
    with warnings.catch_warnings():
        # A table with names and no rows is reported as empty later on.
        warnings.filterwarnings("ignore", "loadtxt: input contained no data")
        try:
            table: np.ndarray[Any, Any] = np.loadtxt(
                path,
                delimiter=delimiter,
                skiprows=skipped,
                usecols=range(start, len(fields)) if named_rows else None,
                ndmin=2,
                quotechar='"',
                encoding="utf-8-sig",
            )
        except UnicodeDecodeError:
            raise
        except ValueError as error:
            blame_line(path, delimiter, skipped, start, error)
    return table


def first_line(file: Iterator[str]) -> tuple[int, str]:
    """The first line that says something, and how many lines come before it."""
    for number, line in enumerate(file):
        if line.strip() and not line.startswith("#"):
            return number, line.rstrip("\r\n")
    return 0, ""


def is_header(fields: list[str]) -> bool:
    """Whether a first line names the columns: some field is a name.

    A mistyped number ("2.o") or a gap is no name, or the point of that line would be lost without a word.
    """
    numbered = ["", *(str(number) for number in range(len(fields) - 1))]
    # pandas writes the latter for a frame without column names.
    return any(is_name(field.strip()) for field in fields) or (len(fields) > 1 and fields == numbered)


def is_name(field: str) -> bool:
    return (field[:1].isalpha() or field[:1] == "_") and not is_number(field) and field.lower() not in MISSING


def is_number(field: str) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def blame_line(path: Path, delimiter: str, skipped: int, start: int, error: ValueError) -> NoReturn:
    """Find the line that numpy did not understand: numpy counts rows of numbers, people count lines."""
    width = 0
    with path.open(encoding="utf-8-sig", newline="") as file:
        for number, line in enumerate(file, start=1):
            said = line.split("#")[0].strip("\r\n")
            if number <= skipped or not said.strip():
                continue
            fields = next(csv.reader([said], delimiter=delimiter))[start:]
            width = width or len(fields)
            for column, field in enumerate(fields, start=start + 1):
                if not is_number(field):
                    came = repr(field.strip()) if field.strip() else "nothing"
                    message = f"{path} should hold numbers, but line {number}, column {column} holds {came}"
                    raise InputError(message) from error
            if len(fields) != width:
                message = f"{path} should hold {width} numbers per line, but line {number} holds {len(fields)}"
                raise InputError(message) from error
    raise InputError(f"{path} should be a table of numbers: {error}") from error


def read_parquet(path: Path) -> np.ndarray[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
        import pyarrow.types as kinds
    except ImportError as error:
        message = f"{path} is read by pyarrow, which is not installed (pip install pyarrow)"
        raise InputError(message) from error
    try:
        table = pyarrow.parquet.read_table(path)
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path} should be a Parquet file, but it is damaged or something else") from error
    names = [name for name in table.column_names if not name.startswith("__index_level_")]
    X = np.empty((table.num_rows, len(names)), dtype=np.float64)
    for place, name in enumerate(names):
        kind = table.schema.field(name).type
        if not (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind)):
            raise InputError(f"{path} should hold numbers, but its column {name!r} is of type {kind}")
        column = table.column(name)
        if kinds.is_boolean(kind):
            column = column.cast(pyarrow.int8())
        X[:, place] = column.cast(pyarrow.float64(), safe=False).to_numpy()
    return X
