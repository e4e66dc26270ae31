"""Text files: how they are laid out, and tables of numbers in them (.csv, .tsv, each also with .gz)."""

from __future__ import annotations

import csv
import gzip
import math
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import islice
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np

from dpmmwrap.files.problems import DecimalCommas, InputError, MissingValues, WordsInstead
from dpmmwrap.files.selection import ALL, Names, Selection, numbered

GAPS = frozenset(("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "NAN", "null", "NULL"))
"""Fields of a text file that stand for a missing value."""
NO_NAMES = ("", "na", "n/a", "null", "none", "missing")
"""What is no name of a column."""
LOOKED_AT = 1000
"""Rows that show whether the first line of a table names its columns."""
COUNTED = 20
"""Lines that show what stands between two fields."""
FEW_ROWS = 10
"""Of fewer rows it is not said that a column names or counts them: it may be so by chance."""
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(e[-+]?\d+)?", re.IGNORECASE)


class Rows(NamedTuple):
    """What the rows of a file are called and labelled, as words; None where the file does not say."""

    ids: np.ndarray[Any, Any] | None = None
    labels: np.ndarray[Any, Any] | None = None


class Numbers(NamedTuple):
    """An array (N, D), and the columns' names where the file has them."""

    X: np.ndarray[Any, Any]
    names: Names | None = None
    rows: Rows = Rows()
    notes: tuple[str, ...] = ()


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
    decimal: str = "."

    @property
    def known(self) -> Names:
        """The names of the columns from `start` on, or their numbers."""
        return self.names or numbered(self.width - self.start)


def read_table(path: Path, delimiters: str, *, gaps: bool = False, wanted: Selection = ALL) -> Numbers:
    """The numbers of a text file; names in its first line and an unnamed column of row names are told apart.

    With `gaps`, empty fields, NA and the like are NaN.
    """
    layout = layout_of(path, delimiters, words=wanted.narrows, decimal=wanted.decimal)
    chosen = wanted.of(layout.known, path)
    places = [layout.start + place for place in chosen.features]
    whole = len(places) == layout.width and not wanted.narrows
    try:
        X = load_numbers(path, layout, None if whole else places, plain=wanted.decimal == ".")
    except UnicodeDecodeError:
        raise
    except ValueError as error:
        # Slower, as every field passes through Python.
        found = try_with_gaps(path, layout, None if whole else places) if gaps else None
        if found is None:
            as_table = layout_of(path, delimiters, words=True, decimal=wanted.decimal)
            blame_line(path, layout, as_table, places, gaps, error)
        X = found
    names = None if layout.names is None else tuple(layout.names[place] for place in chosen.features)
    if whole:
        return Numbers(X, names)
    # numpy does not count the fields of a line if it is to look at some of them only.
    own = layout.start + chosen.id if chosen.id is not None else 0 if layout.start else None
    labels = None if chosen.labels is None else layout.start + chosen.labels
    rows = read_rows(path, layout, own, labels)
    return Numbers(X, names, rows, unnamed_note(layout, wanted))


def unnamed_note(layout: Layout, wanted: Selection) -> tuple[str, ...]:
    if not layout.start or wanted.id is not None:
        return ()
    return ("the first column, which has no name, is taken for the names of the rows and not clustered by",)


def read_rows(path: Path, layout: Layout, own: int | None, labels: int | None) -> Rows:
    """What stands in the columns that name and label the rows, given by their places in a line."""
    ids, classes = [], []
    for row in counted_rows(path, layout):
        if own is not None:
            ids.append(row.fields[own])
        if labels is not None:
            classes.append(row.fields[labels])
    return Rows(None if own is None else np.array(ids, dtype=str), None if labels is None else as_classes(classes))


def as_classes(fields: Sequence[str]) -> np.ndarray[Any, Any]:
    """Labels as words; the empty word where one is missing."""
    return np.array(["" if field in GAPS else field for field in fields], dtype=str)


class Row(NamedTuple):
    """A row of a table as text."""

    line: int
    fields: list[str]


def counted_rows(path: Path, layout: Layout) -> Iterator[Row]:
    """The rows of values, each with as many fields as the first line."""
    with open_text(path) as file:
        for number, row in rows_of(file, layout.delimiter):
            if number <= layout.skipped:
                continue
            if len(row) != layout.width:
                message = f"{path} should hold {layout.width} fields per line, but line {number} holds {len(row)}"
                raise InputError(message)
            yield Row(number, row)


def open_text(path: Path) -> IO[str]:
    """A text file, packed by gzip or not."""
    if is_packed(path):
        return gzip.open(path, "rt", encoding="utf-8-sig", newline="")
    return path.open(encoding="utf-8-sig", newline="")


def is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def try_with_gaps(path: Path, layout: Layout, places: list[int] | None) -> np.ndarray[Any, Any] | None:
    try:
        return load_numbers(path, layout, places, plain=False)
    except ValueError:
        return None


def load_numbers(path: Path, layout: Layout, places: list[int] | None, *, plain: bool) -> np.ndarray[Any, Any]:
    """The numbers by numpy; unless they are plain, there may be gaps and decimal commas."""
    with warnings.catch_warnings(), open_text(path) as file:
        # A table with names and no rows is reported as empty later on.
        warnings.filterwarnings("ignore", "loadtxt: input contained no data")
        table: np.ndarray[Any, Any] = np.loadtxt(
            # By its name it is read in large pieces, which is faster.
            file if is_packed(path) else path,
            delimiter=layout.delimiter,
            skiprows=layout.skipped,
            usecols=places,
            ndmin=2,
            quotechar='"',
            encoding="utf-8-sig",
            converters=None if plain else partial(number_or_gap, decimal=layout.decimal),
        )
    return table


def layout_of(path: Path, delimiters: str, *, words: bool = False, decimal: str = ".") -> Layout:
    """See how a text file is laid out; where `words` may be values, its first line is compared with the next ones."""
    with open_text(path) as file:
        before, first = first_line(file)
        if not first:
            raise InputError(f"{path} should hold points, but it is empty")
        lines = [first, *islice(file, LOOKED_AT)]
    delimiter = delimiter_of(lines[:COUNTED], delimiters)
    fields = stripped(next(csv.reader([first], delimiter=delimiter, skipinitialspace=True)))
    following = [row for _, row in rows_of(lines[1:], delimiter)] if words else []
    named = names_columns(fields, following, decimal) if words else is_header(fields)
    return arranged(fields, named, path)._replace(delimiter=delimiter, skipped=before + int(named), decimal=decimal)


def arranged(fields: Sequence[str], named: bool, path: Path) -> Layout:
    """The columns that a table has by its first line."""
    if not named:
        return Layout("", 0, len(fields), 0, None)
    # pandas and R write the row names into a first column that has no name itself.
    start = 1 if len(fields) > 1 and not fields[0] else 0
    return Layout("", 0, len(fields), start, column_names(fields[start:], path))


def delimiter_of(lines: Sequence[str], marks: str) -> str:
    """What stands between two fields: the mark that each line has as often as the others.

    A comma comes last: it may also stand in numbers.
    """
    for mark in sorted(marks, key="\t;,".index):
        widths = {len(row) for _, row in rows_of(lines, mark)}
        if len(widths) == 1 and widths.pop() > 1:
            return mark
    return next((mark for mark in marks if mark in lines[0]), marks[0])


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


def names_columns(fields: Sequence[str], following: Sequence[Sequence[str]], decimal: str = ".") -> bool:
    """Whether the first line of a table, in which words may be values, names the columns.

    It does if a name stands above a column of numbers. If there are no such columns, it does if it looks like names:
    none is a number, and no two are the same.
    """
    if not is_header(fields):
        return False
    for place, field in enumerate(fields):
        below = [row[place] for row in following if place < len(row) and row[place] not in GAPS]
        if is_name(field) and below and all(is_number(value, decimal) for value in below):
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


def is_number(field: str, decimal: str = ".") -> bool:
    try:
        number_of(field, decimal)
    except ValueError:
        return False
    return True


def number_of(field: str, decimal: str = ".") -> float:
    # Python itself would take 1_000 for a number; and where a comma is the mark, a point may stand between thousands.
    if "_" in field or (decimal == "," and "." in field):
        raise ValueError(f"{field} is not a number")
    return float(field.replace(",", ".") if decimal == "," else field)


def number_or_gap(field: str, decimal: str = ".") -> float:
    field = field.strip()
    return math.nan if field in GAPS else number_of(field, decimal)


def called(column: int, names: Names | None, start: int = 0) -> str:
    """A column (counted from 0) in words: by its name, or by its number among all fields."""
    if names is None or column >= len(names) or names[column] == str(column + 1):
        return f"column {column + start + 1}"
    return f"column {names[column]!r}"


def place_in_words(row: int, column: int, names: Names | None) -> str:
    """A row and a column, both counted from 0, in words."""
    return (
        f"row {row + 1}, {called(column, names)}, counted from 1,"
        if names is None
        else (f"row {row + 1}, {called(column, names)},")
    )


def blame_line(
    path: Path, layout: Layout, as_table: Layout, places: Sequence[int], gaps: bool, error: ValueError
) -> NoReturn:
    """Find the line that numpy did not understand: numpy counts rows of numbers, people count lines.

    Columns are called as the table calls them that the file would be if words were allowed; `places` are those that
    are looked at.
    """
    width = seen = 0
    with open_text(path) as file:
        for number, line in enumerate(file, start=1):
            said = line.split("#")[0].strip("\r\n")
            if number <= layout.skipped or not said.strip():
                continue
            fields = stripped(next(csv.reader([said], delimiter=layout.delimiter, skipinitialspace=True)))
            width = width or len(fields)
            for column in places:
                field = fields[column] if column < len(fields) else "0"
                if not (is_number(field, layout.decimal) or (gaps and field in GAPS)):
                    rest = [fields, *(row for _, row in islice(rows_of(file, layout.delimiter), LOOKED_AT))]
                    blame_field(Field(path, number, column, field), as_table, places, seen, rest, error)
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
    field: Field,
    layout: Layout,
    places: Sequence[int],
    numbers_above: int,
    rows: Sequence[Sequence[str]],
    error: ValueError,
) -> NoReturn:
    """Say what is wrong with a field: a gap, a slip in a column of numbers, or the first of a column of words.

    `rows` are the field's own and those below it.
    """
    path, line, column, text = field
    place = called(column - layout.start, layout.names, layout.start)
    if text in GAPS:
        came = repr(text) if text else "nothing"
        raise MissingValues(f"{path} should hold numbers, but line {line}, {place} holds {came}") from error
    if has_decimal_comma(text) and layout.decimal == ".":
        raise DecimalCommas(f"{path} should hold numbers, but line {line}, {place} holds {text!r}") from error
    below = {at: [row[at] for row in rows if at < len(row)] for at in places}
    if not holds_words(below[column], numbers_above, layout.decimal):
        raise InputError(f"{path} should hold numbers, but line {line}, {place} holds {text!r}") from error
    for at in places if layout.decimal == "." else ():
        # First the commas: behind them columns of numbers look like words.
        held = [text for text in below[at] if text not in GAPS]
        if held and all(map(has_decimal_comma, held)):
            place = called(at - layout.start, layout.names, layout.start)
            raise DecimalCommas(f"{path} should hold numbers, but {place} holds {held[0]!r}") from error
    words = [at for at in places if holds_words(below[at], numbers_above, layout.decimal)]
    distinct = [at for at in words if all_different(below[at])]
    message = f"{path} should hold numbers, but {place} holds words, such as {text!r} in line {line}"
    own, rare = ([layout.known[at - layout.start] for at in some] for some in (words, distinct))
    raise WordsInstead(message, own, rare) from error


def has_decimal_comma(text: str) -> bool:
    return DECIMAL_COMMA.fullmatch(text) is not None


def holds_words(fields: Sequence[str], more_numbers: int = 0, decimal: str = ".") -> bool:
    """Whether there are more words than numbers."""
    kinds = [is_number(field, decimal) for field in fields if field not in GAPS]
    return len(kinds) - sum(kinds) > sum(kinds) + more_numbers


def all_different(fields: Sequence[str]) -> bool:
    """Whether words name their rows, as no two are the same; of a few words that may be by chance."""
    words = [field for field in fields if field not in GAPS]
    return len(words) >= FEW_ROWS and len(set(words)) == len(words)
