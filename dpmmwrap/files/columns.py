"""Columns of numbers or words, with gaps, of text files and sheets."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.files.bad_fields import dates_in
from dpmmwrap.files.checks import overflows
from dpmmwrap.files.looks import FEW_ROWS, common_unit, holds_dates, names_rows
from dpmmwrap.files.numbers import GAPS, Reader, among_numbers, has_decimal_comma, is_number, marks_note
from dpmmwrap.files.problems import (
    InputError,
    PathLike,
    WordsInstead,
    decimal_commas,
    gap_advice,
    name_of,
)
from dpmmwrap.files.selection import ALL, Selection, find_columns
from dpmmwrap.files.tables import (
    Layout,
    Piece,
    Row,
    counted_rows,
    layout_of,
    other_lines_notes,
    row_info,
    unnamed_note,
)
from dpmmwrap.files.text import PLAIN, Format

LONGEST_WORD = 1000
"""The largest length of a word. Longer texts are not categories, and would fill the memory."""

ID = re.compile(r"(?i:(^|[\W_])(u|uu|gu)?id$)|[a-z]I[dD]$")
"""How the names of id columns end."""

Column = np.ndarray[Any, Any]


def read_columns(path: Path, delimiters: str, words: Sequence[str] = (), wanted: Selection = ALL) -> Piece:
    """The columns of a text file: numbers if all fields are numbers or gaps, else words.

    The columns in `words`, given by name or number, are always words.
    """
    layout = layout_of(path, delimiters, words=True, format=wanted.format)
    return columns_of(path, layout, counted_rows(path, layout), words, wanted)


def columns_of(path: PathLike, layout: Layout, rows: Iterable[Row], words: Sequence[str], wanted: Selection) -> Piece:
    """The wanted columns of rows of text."""
    chosen = wanted.of(layout.known, path)
    as_words = find_columns(words, layout.known, path)
    id_at = layout.start + chosen.id if chosen.id is not None else 0 if layout.start else None
    labels = None if chosen.labels is None else layout.start + chosen.labels
    used = [id_at, labels, *(layout.start + index for index in chosen.features)]
    fields: dict[int, list[str]] = {index: [] for index in used if index is not None}
    lines = []
    for line, row in rows:
        lines.append(line)
        for index, column in fields.items():
            column.append(row[index])
    columns, notes = dict[str, Column](), [*unnamed_note(layout, wanted), *other_lines_notes(layout)]
    readers, slips = dict[str, Reader](), list[Slip]()
    for index in chosen.features:
        name, column = layout.known[index], fields[layout.start + index]
        if name in as_words:
            columns[name] = word_column(column, name, path, wanted.format)
            continue
        reader = Reader(wanted.format)
        columns[name] = column_of(column, name, path, reader, layout.format)
        if columns[name].dtype.kind == "U":
            if holds_dates(column):
                raise dates_in(path, name, column)
            slips += slip_in(column, lines, name, layout.decimal)
            if common_unit(column) is not None:
                notes.append(
                    f"the column {name!r} is read as words, because its numbers have a unit "
                    f"({common_unit(column)!r}): without the unit they would be read as numbers"
                )
        else:
            readers[name] = reader
    notes += [*slip_notes(slips), *marks_note(readers, path, wanted.format, layout.delimiter)]
    names = None if layout.names is None else tuple(columns)
    return Piece(columns, names, row_info(fields, id_at, labels), tuple(notes))


def column_of(fields: Sequence[str], name: str, path: PathLike, reader: Reader, format: Format) -> Column:
    """A column of numbers if all fields are numbers or gaps, else of words."""
    try:
        return np.array([reader(field) for field in fields], dtype=np.float64)
    except ValueError:
        held = [field for field in among_numbers(fields) if field not in reader.gaps]
        if (
            format.decimal == "."
            and any(map(has_decimal_comma, held))
            and all(has_decimal_comma(field) or is_number(field) for field in held)
        ):
            came = next(field for field in held if has_decimal_comma(field))
            message = f"{path} should hold numbers or words, but its column {name!r} holds {came!r}"
            raise decimal_commas(message) from None
        return word_column(fields, name, path, format)


def word_column(fields: Sequence[str], name: str, path: PathLike, format: Format = PLAIN) -> Column:
    longest = max(map(len, fields), default=0)
    if longest > LONGEST_WORD:
        held = f"texts of up to {longest:,} letters"
        message = f"{path} should hold numbers or categories, but its column {name!r} holds {held}"
        raise WordsInstead(message, [name], [name])
    gaps = GAPS.union(format.missing)
    return np.array(["" if field in gaps else field for field in fields], dtype=str)


class Slip(NamedTuple):
    """A word in a column of words that are mostly numbers."""

    column: str
    line: int
    word: str
    alone: bool
    """Whether the column has no other word."""


def slip_in(fields: Sequence[str], lines: Sequence[int], name: str, decimal: str) -> list[Slip]:
    """The first word of a column that is mostly numbers: a typing error, or a mark for a missing value."""
    held = [field for field in fields if field not in GAPS]
    strange = [index for index, field in enumerate(fields) if not is_number(field, decimal) and field not in GAPS]
    if 2 * len(strange) >= len(held):
        return []
    words = set(among_numbers(fields[index] for index in strange))
    first = next(index for index in strange if fields[index] in words)
    return [Slip(name, lines[first], fields[first], len(words) == 1)]


def slip_notes(slips: Sequence[Slip]) -> list[str]:
    """A note for each column, and one for all columns that hold the same word and no other."""
    notes = []
    for slip in slips:
        same = [other for other in slips if other.alone and other.word == slip.word] if slip.alone else [slip]
        if slip is not same[0]:
            continue
        which = f"the column {slip.column!r} is" if len(same) == 1 else f"{len(same)} columns are"
        where = f"line {slip.line}" if len(same) == 1 else f"line {slip.line} of {slip.column!r}, for example,"
        note = f"{which} read as words because {where} holds {slip.word!r}, not a number"
        notes.append(note + (gap_advice(slip.word, ": ") if slip.alone else ""))
    return notes


def as_numbers(table: Piece, path: Path) -> Piece:
    """The columns side by side, if all of them hold numbers."""
    words = [name for name, column in table.X.items() if column.dtype.kind == "U"]
    if words:
        column = table.X[words[0]].tolist()
        came = next((word for word in column if word), "")
        distinct = [name for name in words if names_rows(table.X[name].tolist())]
        message = f"should hold numbers, but its column {words[0]!r} holds words, such as {came!r}"
        raise WordsInstead(f"{table.source or path} {message}", words, distinct)
    return table._replace(X=np.column_stack([*table.X.values()]))


def numbers_rows(name: str, column: Column) -> bool:
    """Whether a column counts the rows, or has the name of an id and a different whole number in each row."""
    if len(column) < FEW_ROWS or column.dtype.kind not in "fiu":
        return False
    if all(bool((np.diff(part) == 1).all()) for part in (column[:FEW_ROWS], column)):
        return True
    return bool(ID.search(name) and (column == np.round(column)).all() and len(np.unique(column)) == len(column))


def check_columns(columns: dict[str, Column], source: str) -> None:
    """Refuse a table without rows or columns, and infinite numbers."""
    if not columns or not len(next(iter(columns.values()))):
        raise InputError(f"{source} should hold points, but it has no rows")
    for name, column in columns.items():
        if column.dtype.kind == "U":
            continue
        infinite = overflows(column)
        if infinite.any():
            row = int(np.flatnonzero(infinite)[0])
            came = name_of(float(column[row]))
            raise InputError(f"{source} should hold finite numbers, but row {row + 1} of the column {name!r} is {came}")


def gaps_in(column: Column) -> np.ndarray[Any, Any]:
    """Where a column has no value."""
    missing: np.ndarray[Any, Any] = np.isnan(column) if column.dtype.kind == "f" else column == ""
    return missing
