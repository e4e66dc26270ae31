"""Columns of numbers or words, with gaps, of text files and sheets; and what is wrong with a field."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from dpmmwrap.files.checks import overflows
from dpmmwrap.files.looks import (
    FEW_ROWS,
    codes_note,
    common_unit,
    few_whole_numbers,
    holds_dates,
    is_date,
    names_rows,
)
from dpmmwrap.files.numbers import GAPS, UNKNOWN, Reader, among_numbers, has_decimal_comma, is_number, marks_note
from dpmmwrap.files.problems import (
    InputError,
    MissingValues,
    PathLike,
    WordsInstead,
    as_option,
    decimal_commas,
    gap_advice,
    name_of,
)
from dpmmwrap.files.selection import ALL, Selection, find_columns
from dpmmwrap.files.tables import (
    LOOKED_AT,
    Layout,
    Piece,
    Row,
    beside_at,
    called,
    counted_rows,
    ids_and_labels,
    layout_of,
    other_lines_notes,
    unnamed_note,
)
from dpmmwrap.files.text import PLAIN, Format, open_text, rows_of

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
    features, *beside = wanted.of(layout.known, path)
    as_words = find_columns(words, layout.known, path)
    at = beside_at(layout, *beside)
    used = [*at, *(layout.start + index for index in features)]
    fields: dict[int, list[str]] = {index: [] for index in used if index is not None}
    lines = []
    for line, row in rows:
        lines.append(line)
        for index, column in fields.items():
            column.append(row[index])
    columns, notes = dict[str, Column](), [*unnamed_note(layout, wanted), *other_lines_notes(layout)]
    readers, slips = dict[str, Reader](), list[Slip]()
    for index in features:
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
    numbers = [name for name in readers if not few_whole_numbers(columns[name])]
    notes += codes_note({name: fields[layout.start + layout.known.index(name)] for name in numbers})
    names = None if layout.names is None else tuple(columns)
    return Piece(columns, names, notes=tuple(notes), **ids_and_labels(fields, *at))


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


def blame_line(
    path: Path, layout: Layout, as_table: Layout, columns: Sequence[int], gaps: bool, error: ValueError
) -> NoReturn:
    """Find the line that numpy could not parse: numpy counts rows of numbers, people count lines.

    Columns have the names that they would have in a table with words.
    """
    width = seen = 0
    known_gaps = GAPS.union(UNKNOWN, layout.format.missing)
    with open_text(path, layout.format) as file:
        for number, line in enumerate(file, start=1):
            fields = next((row for _, row in rows_of([line], layout.delimiter)), [])
            if number <= layout.skipped or not fields:
                continue
            width = width or len(fields)
            for column in columns:
                field = fields[column] if column < len(fields) else "0"
                if not (is_number(field, layout.decimal) or (gaps and field in known_gaps)):
                    rest = [fields, *(row for _, row in islice(rows_of(file, layout.delimiter), LOOKED_AT))]
                    blame_field(f"line {number}", field, column, path, as_table, columns, seen, rest, error)
            if len(fields) != width:
                held = f"line {number} holds {len(fields)}"
                raise InputError(f"{path} should hold {width} numbers per line, but {held}") from error
            seen += 1
    raise InputError(f"{path} should be a table of numbers: {error}") from error


def blame_field(
    line: str,
    text: str,
    column: int,
    path: Path,
    layout: Layout,
    columns: Sequence[int],
    numbers_above: int,
    rows: Sequence[Sequence[str]],
    error: ValueError,
) -> NoReturn:
    """Explain a bad field: a gap, a typing error in a column of numbers, or the first of a column of words.

    `rows` are the field's row and those below it.
    """
    where = called(column - layout.start, layout.names, layout.start)
    message = f"{path} should hold numbers, but {line}, {where} holds {repr(text) if text else 'nothing'}"
    if text in GAPS.union(UNKNOWN, layout.format.missing):
        raise MissingValues(message) from error
    if has_decimal_comma(text) and layout.decimal == ".":
        raise decimal_commas(message) from error
    below = {at: [row[at] for row in rows if at < len(row)] for at in columns}
    if not holds_words(below[column], numbers_above, layout.decimal):
        raise InputError(f"{message}{gap_advice(text, '; ')}") from error
    for at in columns if layout.decimal == "." else ():
        # Check commas first: decimal commas make columns of numbers look like words.
        held = among_numbers(below[at])
        if 2 * sum(map(has_decimal_comma, held)) > len(held):
            where = called(at - layout.start, layout.names, layout.start)
            came = next(one for one in held if has_decimal_comma(one))
            raise decimal_commas(f"{path} should hold numbers, but {where} holds {came!r}") from error
    unit = common_unit(below[column])
    if unit is not None:
        message = f"{path} should hold numbers, but {where} holds numbers with a unit, such as {text!r} in {line}"
        raise InputError(f"{message}; leave out {unit!r}") from error
    words = [at for at in columns if holds_words(below[at], numbers_above, layout.decimal)]
    dates = [at for at in words if holds_dates(below[at])]
    if dates and dates == words:
        raise dates_in(path, layout.known[dates[0] - layout.start], below[dates[0]]) from error
    distinct = [at for at in words if at in dates or names_rows(below[at])]
    message = f"{path} should hold numbers, but {where} holds words, such as {text!r} in {line}"
    names, rare = ([layout.known[at - layout.start] for at in some] for some in (words, distinct))
    raise WordsInstead(message, names, rare) from error


def holds_words(fields: Sequence[str], more_numbers: int, decimal: str) -> bool:
    """Whether there are more words than numbers."""
    kinds = [is_number(field, decimal) for field in among_numbers(fields)]
    return len(kinds) - sum(kinds) > sum(kinds) + more_numbers


def dates_in(path: PathLike, name: str, fields: Sequence[str]) -> InputError:
    """The error for a column of dates, which are neither numbers nor categories."""
    came, column = next(filter(is_date, fields)), as_option([name])
    return InputError(
        f"{path} should hold numbers or categories, but its column {name!r} holds dates, such as {came!r}; use "
        f"--drop {column}, or --id {column} if they name the rows, or --categorical {column} if each is a category, or "
        "the days since some date as numbers"
    )
