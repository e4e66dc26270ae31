"""Tables of numbers: .csv, .tsv, .parquet."""

from __future__ import annotations

import contextlib
import csv
import math
import warnings
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from dpmmwrap.files.problems import InputError, MissingValues, WordsInstead

GAPS = frozenset(("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "NAN", "null", "NULL"))
"""Fields of a text file that stand for a missing value."""
NO_NAMES = ("", "na", "n/a", "null", "none", "missing")
"""What is no name of a column."""
LOOKED_AT = 1000
"""Rows that show whether the first line of a table names its columns."""

Names = tuple[str, ...]


class Numbers(NamedTuple):
    """An array (N, D), and the columns' names where the file has them."""

    X: np.ndarray[Any, Any]
    names: Names | None = None


class Layout(NamedTuple):
    """How a text file is laid out."""

    delimiter: str
    skipped: int
    """Lines before the first row of values."""
    width: int
    """Fields in a line."""
    start: int
    """1 where the first column holds names of rows, else 0."""
    names: Names | None
    """Of the columns from `start` on."""


def read_table(path: Path, delimiters: str, *, gaps: bool = False) -> Numbers:
    """The numbers of a text file; names in its first line and an unnamed column of row names are told apart.

    With `gaps`, empty fields, NA and the like are NaN.
    """
    layout = layout_of(path, delimiters)
    try:
        return Numbers(load_numbers(path, layout), layout.names)
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        # Slower, as every field passes through Python.
        if not gaps or not (found := try_with_gaps(path, layout)):
            blame_line(path, layout, layout_of(path, delimiters, words=True), gaps, error)
    return found


def try_with_gaps(path: Path, layout: Layout) -> Numbers | None:
    try:
        return Numbers(load_numbers(path, layout, number_or_gap), layout.names)
    except ValueError:
        return None


def load_numbers(path: Path, layout: Layout, converter: Any = None) -> np.ndarray[Any, Any]:
    with warnings.catch_warnings():
        # A table with names and no rows is reported as empty later on.
        warnings.filterwarnings("ignore", "loadtxt: input contained no data")
        table: np.ndarray[Any, Any] = np.loadtxt(
            path,
            delimiter=layout.delimiter,
            skiprows=layout.skipped,
            usecols=range(layout.start, layout.width) if layout.start else None,
            ndmin=2,
            quotechar='"',
            encoding="utf-8-sig",
            converters=converter,
        )
    return table


def layout_of(path: Path, delimiters: str, *, words: bool = False) -> Layout:
    """See how a text file is laid out; where `words` may be values, its first line is compared with the next ones."""
    with path.open(encoding="utf-8-sig", newline="") as file:
        before, first = first_line(file)
        if not first:
            raise InputError(f"{path} should hold points, but it is empty")
        delimiter = next((mark for mark in delimiters if mark in first), delimiters[0])
        fields = stripped(next(csv.reader([first], delimiter=delimiter, skipinitialspace=True)))
        if words:
            following = [row for _, row in islice(rows_of(file, delimiter), LOOKED_AT)]
            named = names_columns(fields, following)
        else:
            named = is_header(fields)
    if not named:
        return Layout(delimiter, before, len(fields), 0, None)
    # pandas and R write the row names into a first column that has no name itself.
    start = 1 if len(fields) > 1 and not fields[0] else 0
    return Layout(delimiter, before + 1, len(fields), start, column_names(fields[start:], path))


def first_line(file: Iterator[str]) -> tuple[int, str]:
    """The first line that says something, and how many lines come before it."""
    for number, line in enumerate(file):
        if line.strip() and not line.startswith("#"):
            return number, line.rstrip("\r\n")
    return 0, ""


def rows_of(lines: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line that says something, and the line's number among these lines, from 1."""
    reader = csv.reader(
        ("\n" if line.startswith("#") else line for line in lines), delimiter=delimiter, skipinitialspace=True
    )
    for row in reader:
        if any(row) or len(row) > 1:
            yield reader.line_num, stripped(row)


def stripped(fields: Iterable[str]) -> list[str]:
    return [field.strip() for field in fields]


def is_header(fields: Sequence[str]) -> bool:
    """Whether the first line of a file of numbers names the columns: some field is a name.

    A mistyped number ("2.o") or a gap is no name, or the point of that line would be lost without a word.
    """
    numbered = ["", *(str(number) for number in range(len(fields) - 1))]
    # pandas writes the latter for a frame without column names.
    return any(is_name(field) for field in fields) or (len(fields) > 1 and list(fields) == numbered)


def names_columns(fields: Sequence[str], following: Sequence[Sequence[str]]) -> bool:
    """Whether the first line of a table, in which words may be values, names the columns.

    It does if a name stands above a column of numbers. If there are no such columns, it does if it looks like names:
    none is a number, and no two are the same.
    """
    if not is_header(fields):
        return False
    for place, field in enumerate(fields):
        below = [row[place] for row in following if place < len(row) and row[place] not in GAPS]
        if is_name(field) and below and all(is_number(value) for value in below):
            return True
    named = [field for field in fields if field]
    return len(set(named)) == len(named) and not any(is_number(field) for field in named)


def column_names(fields: Sequence[str], path: Path) -> Names:
    """Names for all columns: a column that has none goes by its number."""
    names = tuple(field or str(number) for number, field in enumerate(fields, start=1))
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError(f"{path} should name each column differently, but two are called {twice!r}")
    return names


def is_name(field: str) -> bool:
    return (field[:1].isalpha() or field[:1] == "_") and not is_number(field) and field.lower() not in NO_NAMES


def is_number(field: str) -> bool:
    try:
        number_of(field)
    except ValueError:
        return False
    return True


def number_of(field: str) -> float:
    # Python itself would take 1_000 for a number.
    if "_" in field:
        raise ValueError(f"{field} is not a number")
    return float(field)


def number_or_gap(field: str) -> float:
    field = field.strip()
    return math.nan if field in GAPS else number_of(field)


def called(column: int, names: Names | None, start: int = 0) -> str:
    """A column (counted from 0) in words: by its number among all fields, and its name if it has one."""
    number = f"column {column + start + 1}"
    if names is None or column >= len(names) or names[column] == str(column + 1):
        return number
    return f"{number} ({names[column]!r})"


def blame_line(path: Path, layout: Layout, as_table: Layout, gaps: bool, error: ValueError) -> NoReturn:
    """Find the line that numpy did not understand: numpy counts rows of numbers, people count lines.

    Columns are called as the table calls them that the file would be if words were allowed.
    """
    width = seen = 0
    with path.open(encoding="utf-8-sig", newline="") as file:
        for number, line in enumerate(file, start=1):
            said = line.split("#")[0].strip("\r\n")
            if number <= layout.skipped or not said.strip():
                continue
            fields = stripped(next(csv.reader([said], delimiter=layout.delimiter, skipinitialspace=True)))
            width = width or len(fields)
            for column, field in enumerate(fields[layout.start :], start=layout.start):
                if not (is_number(field) or (gaps and field in GAPS)):
                    rest = [fields, *(row for _, row in islice(rows_of(file, layout.delimiter), LOOKED_AT))]
                    blame_field(Field(path, number, column, field), as_table, seen, rest, error)
            if len(fields) != width:
                message = f"{path} should hold {width} numbers per line, but line {number} holds {len(fields)}"
                raise InputError(message) from error
            seen += 1
    raise InputError(f"{path} should be a table of numbers: {error}") from error


class Field(NamedTuple):
    """Where a field stands, and what it holds."""

    path: Path
    line: int
    column: int
    text: str


def blame_field(
    field: Field, layout: Layout, numbers_above: int, rows: Sequence[Sequence[str]], error: ValueError
) -> NoReturn:
    """Say what is wrong with a field: a gap, a slip in a column of numbers, or the first of a column of words.

    `rows` are the field's own and those below it.
    """
    path, line, column, text = field
    place = called(column - layout.start, layout.names, layout.start)
    if text in GAPS:
        came = repr(text) if text else "nothing"
        raise MissingValues(f"{path} should hold numbers, but line {line}, {place} holds {came}") from error
    if not holds_words([row[column] for row in rows if column < len(row)], numbers_above):
        raise InputError(f"{path} should hold numbers, but line {line}, {place} holds {text!r}") from error
    names = layout.names or [str(number) for number in range(1, layout.width + 1)]
    columns = enumerate(names, start=layout.start)
    words = [name for at, name in columns if holds_words([row[at] for row in rows if at < len(row)], numbers_above)]
    message = f"{path} should hold numbers, but {place} holds words, such as {text!r} in line {line}"
    raise WordsInstead(message, words) from error


def holds_words(fields: Sequence[str], more_numbers: int = 0) -> bool:
    """Whether there are more words than numbers."""
    kinds = [is_number(field) for field in fields if field not in GAPS]
    return len(kinds) - sum(kinds) > sum(kinds) + more_numbers


def read_parquet(path: Path) -> Numbers:
    """The columns of numbers of a Parquet file, NaN where a value is missing."""
    pyarrow, kinds = pyarrow_for(path)
    table = open_parquet(path)
    names = tuple(table.column_names)
    X = np.empty((table.num_rows, len(names)), dtype=np.float64)
    for place, name in enumerate(names):
        kind = table.schema.field(name).type
        if not (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind)):
            message = f"{path} should hold numbers, but its column {name!r} is of type {kind}"
            is_text = kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_dictionary(kind)
            raise WordsInstead(message, [name]) if is_text else InputError(message)
        column = table.column(name)
        if kinds.is_boolean(kind):
            column = column.cast(pyarrow.int8())
        X[:, place] = column.cast(pyarrow.float64(), safe=False).to_numpy()
    return Numbers(X, names)


def open_parquet(path: Path) -> Any:
    """The table of a Parquet file, without the index that pandas keeps in it."""
    names = parquet_names(path)
    pyarrow, _ = pyarrow_for(path)
    with parquet_problems(path):
        return pyarrow.parquet.read_table(path, columns=list(names))


def parquet_names(path: Path) -> Names:
    pyarrow, _ = pyarrow_for(path)
    with parquet_problems(path):
        names = pyarrow.parquet.read_schema(path).names
    return tuple(name for name in names if not name.startswith("__index_level_"))


@contextlib.contextmanager
def parquet_problems(path: Path) -> Iterator[None]:
    pyarrow, _ = pyarrow_for(path)
    try:
        yield
    except (pyarrow.ArrowException, OSError) as error:
        raise InputError(f"{path} should be a Parquet file, but it is damaged or something else") from error


def pyarrow_for(path: Path) -> tuple[Any, Any]:
    try:
        import pyarrow
        import pyarrow.parquet
        import pyarrow.types
    except ImportError as error:
        message = f"{path} is read by pyarrow, which is not installed (pip install pyarrow)"
        raise InputError(message) from error
    return pyarrow, pyarrow.types
