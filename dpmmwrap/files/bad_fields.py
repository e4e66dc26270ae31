"""Which field of a text file should be a number and is not, and why."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import NoReturn

from dpmmwrap.files.looks import common_unit, holds_dates, is_date, names_rows
from dpmmwrap.files.numbers import GAPS, UNKNOWN, among_numbers, has_decimal_comma, is_number
from dpmmwrap.files.problems import (
    InputError,
    MissingValues,
    PathLike,
    WordsInstead,
    as_option,
    decimal_commas,
    gap_advice,
)
from dpmmwrap.files.tables import LOOKED_AT, Layout, called
from dpmmwrap.files.text import open_text, rows_of


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
