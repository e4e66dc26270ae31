"""How tables of text are laid out, and tables of numbers in text files."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from itertools import dropwhile, islice
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from dpmmwrap.files.looks import codes_note
from dpmmwrap.files.numbers import GAPS, Reader, among_numbers, is_number, marks_note
from dpmmwrap.files.problems import InputError, decimal_commas
from dpmmwrap.files.selection import ALL, Names, Selection, numbered
from dpmmwrap.files.text import (
    BLANKS,
    PLAIN,
    UTF_8,
    Format,
    first_line,
    is_packed,
    lines_for_csv,
    mark_of,
    open_text,
    rows_of,
)

NO_NAMES = ("", "na", "n/a", "null", "none", "missing")
"""Fields that are not names of columns."""
LOOKED_AT = 1000
"""The rows that decide whether the first line of a table names its columns."""
COUNTED = 20
"""The lines that determine the separator."""
CHECKED = 100_000
"""Leading zeros are looked for in about as many fields of a wide table."""
LONGEST_UNIT = 15
"""The greatest length of a unit, such as kg or mm/s."""


class Piece(NamedTuple):
    """The contents of one file."""

    X: Any
    """An array (N, D), a sparse matrix of counts, or columns by name (or by number from 1). Missing numbers are NaN,
    and missing words empty."""
    names: Names | None = None
    """The columns' names, if the file has them."""
    ids: np.ndarray[Any, Any] | None = None
    """The names of the rows, as words."""
    labels: np.ndarray[Any, Any] | None = None
    """The labels of the rows, as words."""
    notes: tuple[str, ...] = ()
    source: str = ""
    """The part of the file that was read, for messages, if not all of it."""


class Layout(NamedTuple):
    """How a table of text is laid out."""

    delimiter: str
    skipped: int
    """Lines before the first row of values; for a sheet, rows."""
    width: int
    """Fields in a line."""
    start: int
    """1 if the first column names the rows, else 0."""
    names: Names | None
    """The names of the columns from `start` on."""
    format: Format = PLAIN
    units: tuple[str, ...] = ()
    """The line of units below the names."""
    title: str = ""
    """The text above the names."""

    @property
    def decimal(self) -> str:
        return self.format.decimal

    @property
    def known(self) -> Names:
        """The names of the columns from `start` on, or their numbers."""
        return self.names or numbered(self.width - self.start)


def read_table(path: Path, delimiters: str, *, gaps: bool = False, wanted: Selection = ALL) -> Piece:
    """The numbers of a text file, without names in its first line and an unnamed column of row names.

    With `gaps`, empty fields, NA and the like are NaN.
    """
    layout = layout_of(path, delimiters, words=wanted.narrows, format=wanted.format)
    features, *beside = wanted.of(layout.known, path)
    usecols = [layout.start + index for index in features]
    whole = len(usecols) == layout.width and not wanted.narrows
    notes = [*unnamed_note(layout, wanted), *other_lines_notes(layout)]
    try:
        X = load(path, layout, None if whole else usecols)
    except UnicodeError:
        raise
    except ValueError:
        # Slower: Python parses every field.
        readers = {index: Reader(wanted.format) for index in usecols}
        try:
            X = load(path, layout, None if whole else usecols, readers)
            missing = np.isnan(X)
            # If there are empty rows or columns, which are left out, gaps are found later.
            if not gaps and missing.any() and not (missing.all(axis=0).any() or missing.all(axis=1).any()):
                raise ValueError("a value is missing")
        except ValueError as error:
            as_table = layout_of(path, delimiters, words=True, format=wanted.format)
            from dpmmwrap.files.columns import blame_line

            blame_line(path, layout, as_table, usecols, gaps, error)
        named = {layout.known[index - layout.start]: reader for index, reader in readers.items()}
        notes += marks_note(named, path, wanted.format, layout.delimiter)
    if whole and X.size and X.shape[1] != layout.width:
        message = f"{path} should hold {layout.width} fields per line, one for each name, but it holds {X.shape[1]}"
        raise decimal_commas(message) if (layout.width, layout.delimiter) == (1, ",") else InputError(message)
    checked = min(LOOKED_AT, max(COUNTED, CHECKED // layout.width))
    first = [row for _, row in islice(counted_rows(path, layout), checked)]
    notes += codes_note({layout.known[index]: [row[layout.start + index] for row in first] for index in features})
    names = None if layout.names is None else tuple(layout.names[index] for index in features)
    if whole:
        return Piece(X, names, notes=tuple(notes))
    # numpy does not count the fields of a line if it reads only some of them.
    at = beside_at(layout, *beside)
    columns: dict[int, list[str]] = {index: [] for index in at if index is not None}
    for _, fields in counted_rows(path, layout):
        for index, column in columns.items():
            column.append(fields[index])
    return Piece(X, names, notes=tuple(notes), **ids_and_labels(columns, *at))


def beside_at(layout: Layout, id: int | None, labels: int | None) -> tuple[int | None, int | None]:
    """The positions in a line of the row names and the labels, which are given by the numbers of their columns."""
    id_at = layout.start + id if id is not None else 0 if layout.start else None
    return id_at, None if labels is None else layout.start + labels


def ids_and_labels(columns: Mapping[int, Sequence[str]], id_at: int | None, labels: int | None) -> dict[str, Any]:
    """The names and labels of the rows, from the columns at these positions."""
    ids = None if id_at is None else np.array(columns[id_at], dtype=str)
    return {"ids": ids, "labels": None if labels is None else as_classes(columns[labels])}


def other_lines_notes(layout: Layout) -> list[str]:
    """Notes about lines above and below the column names."""
    shown = ", ".join(repr(unit) for unit in layout.units[:3])
    title = f"the text above the column names ({layout.title!r}) is treated as a title and left out"
    units = f"the line below the column names ({shown}) is treated as units and left out"
    return [note for note, there in ((title, layout.title), (units, layout.units)) if there]


def unnamed_note(layout: Layout, wanted: Selection) -> tuple[str, ...]:
    if not layout.start or wanted.id is not None:
        return ()
    return ("the first column has no name: it is used as names of the rows, not for clustering",)


def as_classes(fields: Sequence[str]) -> np.ndarray[Any, Any]:
    """Labels as words; the empty word if one is missing."""
    return np.array(["" if field in GAPS else field for field in fields], dtype=str)


Row = tuple[int, list[str]]
"""A row of text: its line, counted from 1, and its fields."""


def counted_rows(path: Path, layout: Layout) -> Iterator[Row]:
    """The rows of values; all must have as many fields as the first line."""
    with open_text(path, layout.format) as file:
        for number, row in rows_of(file, layout.delimiter):
            if number <= layout.skipped:
                continue
            if len(row) != layout.width:
                message = f"{path} should hold {layout.width} fields per line, but line {number} holds {len(row)}"
                raise InputError(message)
            yield number, row


def load(
    path: Path, layout: Layout, usecols: list[int] | None, readers: dict[int, Reader] | None = None
) -> np.ndarray[Any, Any]:
    """The numbers of a file, by numpy; with `readers`, numbers as people write them, and NaN for missing values."""
    format, converters = layout.format, cast(Any, readers)
    if readers is None and (format.decimal != "." or len(format.missing) > len(format.missing_numbers)):
        raise ValueError("every field has to be parsed")
    # Given a path, numpy reads in large pieces, which is faster.
    by_name = not (readers or is_packed(path) or layout.delimiter == BLANKS)
    with open_text(path, format) as file, warnings.catch_warnings():
        # A table with names and no rows is reported as empty later on.
        warnings.filterwarnings("ignore", "loadtxt: input contained no data")
        table: np.ndarray[Any, Any] = np.loadtxt(
            path if by_name else lines_for_csv(file, layout.delimiter),
            comments=None,
            delimiter=mark_of(layout.delimiter),
            skiprows=layout.skipped,
            usecols=usecols,
            ndmin=2,
            quotechar='"',
            encoding=format.encoding or UTF_8,
            converters=converters,
        )
    return table


def layout_of(path: Path, delimiters: str, *, words: bool = False, format: Format = PLAIN) -> Layout:
    """Detect the layout of a text file; if `words` may be values, compare its first line with the next ones."""
    with open_text(path, format) as file:
        before, first = first_line(file, path)
        if not first:
            raise InputError(f"{path} should hold points, but it is empty")
        lines = [first, *islice(file, LOOKED_AT)]
    if format.decimal == "," and not any('"' in line for line in lines):
        # Commas do not separate fields then.
        delimiters = delimiters.replace(",", "")
    delimiter = format.separator or delimiter_of(lines[:COUNTED], delimiters)
    rows = [*rows_of(lines if words else lines[:COUNTED], delimiter)]
    layout = layout_of_rows([row for _, row in rows] or [[""]], path, words=words, decimal=format.decimal)
    skipped = before + rows[layout.skipped - 1][0] if layout.skipped else before
    return layout._replace(delimiter=delimiter, skipped=skipped, format=format)


def layout_of_rows(rows: Sequence[list[str]], path: Path, *, words: bool = True, decimal: str = ".") -> Layout:
    """The layout of rows of text: their title, names and units come before the values."""
    # Rows of a title have one field each, and names of columns of numbers follow.
    title = next((index for index, row in enumerate(rows) if sum(map(bool, row)) > 1), 0)
    names, below = rows[title], rows[title + 1 :]
    if not (above_numbers(names, below, decimal) or (is_header(names) and has_units(below, decimal))):
        title = 0
    following = rows[title + 1 :]
    fields = completed(rows[title], following)
    named = names_columns(fields, following, decimal) if words else is_header(fields)
    units = named and has_units(following, decimal)
    # pandas and R write the row names into a first column without a name.
    start = int(named and len(fields) > 1 and not fields[0])
    return Layout(
        delimiter="",
        skipped=title + int(named) + int(units),
        width=len(fields),
        start=start,
        names=column_names(fields[start:], path) if named else None,
        units=tuple(unit for unit in following[0] if unit) if units else (),
        title=next((field for row in rows[:title] for field in row if field), ""),
    )


def completed(fields: list[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The first line, with an empty name added if it has names and each row below has one more field.

    The empty name is the last one if the rows end in nothing, else the first: R puts row names there. Below a single
    name, the additional field may come from decimal commas.
    """
    if not rows or len(fields) == 1 or not is_header(fields) or any(len(row) != len(fields) + 1 for row in rows):
        return fields
    return [*fields, ""] if not any(row[-1] for row in rows) else ["", *fields]


def has_units(rows: Sequence[Sequence[str]], decimal: str) -> bool:
    """Whether the first row below the names holds units: words above columns of numbers."""
    if len(rows) < 3:
        return False
    first, rest = rows[0], rows[1:]
    below = [among_numbers(row[index] for row in rest if index < len(row)) for index in range(len(first))]
    numeric = [index for index, held in enumerate(below) if held and all(is_number(field, decimal) for field in held)]
    units = [first[index] for index in numeric if first[index] not in GAPS]
    return len(units) > 1 and all(
        len(unit) <= LONGEST_UNIT and not is_number(unit) and unit[0] not in "0123456789+-." for unit in units
    )


def delimiter_of(lines: Sequence[str], marks: str) -> str:
    """The separator: the mark that occurs equally often in all lines.

    Commas are tried late, because numbers contain them. Blanks are tried last and only between numbers, because words
    contain them.
    """
    for mark in sorted(marks, key="\t|;,".index):
        # Titles have one field.
        widths = {*dropwhile((1).__eq__, (len(row) for _, row in rows_of(lines, mark)))}
        if len(widths) == 1:
            return mark
    first = next((mark for mark in marks if mark in lines[0]), None)
    return first or (BLANKS if has_blanks(lines) else marks[0])


def has_blanks(lines: Sequence[str]) -> bool:
    """Whether blanks separate numbers in all lines but the first, which may hold names. An unnamed first field may name
    the row."""
    rows = [row for _, row in rows_of(lines, BLANKS)]
    below, widths = rows[1:] or rows, {len(row) for row in rows[1:] or rows}
    more = max(widths) - len(rows[0])
    return (
        len(widths) == 1
        and widths.pop() > 1
        and more in (0, 1)
        and all(is_number(field) for row in below for field in row[more:])
    )


def is_header(fields: Sequence[str]) -> bool:
    """Whether the first line of a file of numbers names the columns: some field is a name.

    A mistyped number ("2.o") or a gap is not a name: the point of that line would be lost silently.
    """
    numbered = ["", *(str(number) for number in range(len(fields) - 1))]
    # pandas writes the latter for a frame without column names.
    return any(is_name(field) for field in fields) or (len(fields) > 1 and list(fields) == numbered)


def names_columns(fields: Sequence[str], following: Sequence[Sequence[str]], decimal: str) -> bool:
    """Whether the first line of a table, in which words may be values, names the columns.

    It does if a name is above a column of numbers, or if no field is a number and no two are the same.
    """
    if not is_header(fields):
        return False
    named = [field for field in fields if field]
    return above_numbers(fields, following, decimal) or (
        len(set(named)) == len(named) and not any(is_number(field) for field in named)
    )


def above_numbers(fields: Sequence[str], following: Sequence[Sequence[str]], decimal: str) -> bool:
    """Whether some field is a name above a column of numbers."""
    names = [index for index, field in enumerate(fields) if is_name(field)]
    columns = (among_numbers(row[index] for row in following if index < len(row)) for index in names)
    return any(column and all(is_number(value, decimal) for value in column) for column in columns)


def column_names(fields: Sequence[str], path: Path) -> Names:
    """Names for all columns: a column without a name gets its number."""
    return check_distinct(tuple(field or str(number) for number, field in enumerate(fields, start=1)), path)


def check_distinct(names: Names, path: Path) -> Names:
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path} should name each column differently, but two are called {twice!r}")
    return names


def is_name(field: str) -> bool:
    return (field[:1].isalpha() or field[:1] == "_") and not is_number(field) and field.lower() not in NO_NAMES


def called(column: int, names: Names | None, start: int = 0) -> str:
    """A column (counted from 0) in words: its name, or its number among all fields."""
    if names is None or column >= len(names) or names[column] == str(column + 1):
        return f"column {column + start + 1}"
    return f"column {names[column]!r}"


def position_text(row: int, column: int, names: Names | None) -> str:
    """A row and a column, both counted from 0, in words."""
    counted = " counted from 1," if names is None else ""
    return f"row {row + 1}, {called(column, names)},{counted}"
