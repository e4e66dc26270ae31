"""Tables of numbers and words with gaps: .csv, .tsv and .parquet as columns by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.files.problems import InputError, name_of
from dpmmwrap.files.tables import GAPS, Names, is_number, layout_of, number_or_gap, open_parquet, pyarrow_for, rows_of

LONGEST_WORD = 1000
"""Letters of a word at most: a column of texts is not one of categories, and would fill the memory."""

Column = np.ndarray[Any, Any]


class Columns(NamedTuple):
    """A column of numbers (NaN where a value is missing) or of words (empty where one is) by its name or its number
    (from 1)."""

    columns: dict[str, Column]
    names: Names | None
    """None where the file has none."""
    notes: tuple[str, ...] = ()


def read_columns(path: Path, delimiters: str, words: Sequence[str] = ()) -> Columns:
    """The columns of a text file: numbers where all fields are numbers or gaps, else words.

    The columns named or numbered in `words` are words whatever they hold.
    """
    layout = layout_of(path, delimiters, words=True)
    width = layout.width - layout.start
    names = layout.names or tuple(str(number) for number in range(1, width + 1))
    as_words = find_columns(words, names, path)
    fields: list[list[str]] = [[] for _ in names]
    lines = []
    with path.open(encoding="utf-8-sig", newline="") as file:
        for number, row in rows_of(file, layout.delimiter):
            if number <= layout.skipped:
                continue
            if len(row) != layout.width:
                message = f"{path} should hold {layout.width} fields per line, but line {number} holds {len(row)}"
                raise InputError(message)
            lines.append(number)
            for column, field in zip(fields, row[layout.start :], strict=True):
                column.append(field)
    columns, notes = {}, []
    for name, column in zip(names, fields, strict=True):
        columns[name] = word_column(column, name, path) if name in as_words else column_of(column, name, path)
        if name not in as_words and columns[name].dtype.kind == "U":
            notes += slips(column, lines, name)
    return Columns(columns, layout.names, tuple(notes))


def find_columns(asked: Sequence[str], names: Sequence[str], source: Any) -> tuple[str, ...]:
    """The names of columns that are given by name or, where none has that name, by number (from 1)."""
    found = []
    for word in asked:
        if word not in names and not (word.isdecimal() and 1 <= int(word) <= len(names)):
            numbered = all(name == str(number) for number, name in enumerate(names, start=1))
            came = f"{len(names)} columns without names" if numbered else f"the columns {', '.join(names)}"
            raise InputError(f"{source} should have a column {word!r}, but it has {came}")
        found.append(word if word in names else names[int(word) - 1])
    return tuple(dict.fromkeys(found))


def column_of(fields: Sequence[str], name: str, path: Path) -> Column:
    try:
        return np.array([number_or_gap(field) for field in fields], dtype=np.float64)
    except ValueError:
        return word_column(fields, name, path)


def word_column(fields: Sequence[str], name: str, path: Path) -> Column:
    longest = max(map(len, fields), default=0)
    if longest > LONGEST_WORD:
        held = f"texts of up to {longest:,} letters: leave it out"
        raise InputError(f"{path} should hold numbers or categories, but its column {name!r} holds {held}")
    return np.array(["" if field in GAPS else field for field in fields], dtype=str)


def slips(fields: Sequence[str], lines: Sequence[int], name: str) -> list[str]:
    """A column of numbers that a word makes one of words: it may be meant so, but it should be said."""
    strange = [place for place, field in enumerate(fields) if not is_number(field) and field not in GAPS]
    if 2 * len(strange) >= sum(field not in GAPS for field in fields):
        return []
    first = strange[0]
    return [f"the column {name!r} is taken for words because line {lines[first]} holds {fields[first]!r}, not a number"]


def read_parquet_columns(path: Path, words: Sequence[str] = ()) -> Columns:
    """The columns of a Parquet file: numbers, or words; truth values are words, too."""
    pyarrow, kinds = pyarrow_for(path)
    table = open_parquet(path)
    names = tuple(table.column_names)
    as_words = find_columns(words, names, path)
    columns = {}
    for name in names:
        column, kind = table.column(name), table.schema.field(name).type
        if kinds.is_dictionary(kind):
            kind = kind.value_type
            column = column.cast(kind)
        number = kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_null(kind) or kinds.is_decimal(kind)
        text = kinds.is_string(kind) or kinds.is_large_string(kind)
        if kinds.is_boolean(kind):
            fields = ["" if value is None else str(value) for value in column.to_pylist()]
            columns[name] = np.array(fields, dtype=str)
        elif number and name not in as_words:
            columns[name] = column.cast(pyarrow.float64(), safe=False).to_numpy()
        elif number or text:
            fields = column.cast(pyarrow.string()).to_pylist()
            columns[name] = word_column([field or "" for field in fields], name, path)
        else:
            message = f"{path} should hold numbers or words, but its column {name!r} is of type {kind}: leave it out"
            raise InputError(message)
    return Columns(columns, names)


def check_columns(columns: dict[str, Column], source: str, *, at_least: int) -> None:
    """Refuse a table without rows or columns, and numbers that are infinite."""
    rows = len(next(iter(columns.values()))) if columns else 0
    if not rows:
        raise InputError(f"{source} should hold points, but it is empty")
    if rows < at_least:
        raise InputError(f"{source} should hold at least {at_least} points, but it holds {rows}")
    for name, column in columns.items():
        if column.dtype.kind == "U":
            continue
        with np.errstate(over="ignore"):
            # The samplers work in single precision: what overflows there counts as infinite.
            infinite = np.isinf(column.astype(np.float32))
        if infinite.any():
            row = int(np.flatnonzero(infinite)[0])
            came = name_of(float(column[row]))
            raise InputError(f"{source} should hold finite numbers, but row {row + 1} of the column {name!r} is {came}")


def gaps_in(column: Column) -> np.ndarray[Any, Any]:
    """Where a column has no value."""
    found: np.ndarray[Any, Any] = np.isnan(column) if column.dtype.kind == "f" else column == ""
    return found
