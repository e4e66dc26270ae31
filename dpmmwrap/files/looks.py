"""What the values of a column look like: dates, names of rows, codes for missing values, skewed numbers."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from dpmmwrap.files.numbers import GAPS
from dpmmwrap.files.problems import as_option
from dpmmwrap.numerics.arrays import evenly_spaced

FEW_ROWS = 10
"""With fewer rows, a column may seem to name or count them by chance."""
LOOKED_AT = 1000
"""The values that are checked for dates and codes."""
MOST_ROWS, MOST_NUMBERS = 20_000, 4_000_000
"""The rows, and the values in them, that show the distribution of a column."""
MONTH = (
    "(jan(uary)?|feb(ruary)?|mar(ch)?|apr(il)?|may|june?|july?|aug(ust)?|sept?(ember)?|oct(ober)?|nov(ember)?|"
    r"dec(ember)?)\.?"
)
DAY = (
    r"\d{4}[-/.]\d{1,2}[-/.]\d{1,2}|(19|20)\d{2}[-/.]\d{1,2}|\d{1,2}[-/.]\d{1,2}[-/.](\d{4}|\d{2})"
    rf"|(\d{{1,2}}\.?[-/. ]?)?{MONTH}[-/. ]?(\d{{4}}|\d{{2}})|{MONTH} \d{{1,2}},? \d{{4}}"
)
TIME = r"\d{1,2}:\d{2}(:\d{2}(\.\d+)?)?( ?[ap]m)?"
ZONE = r" ?(Z|UTC|[-+]\d{2}:?\d{2})?"
DATE = re.compile(rf"({DAY})([ T]{TIME}{ZONE})?|{TIME}", re.IGNORECASE)
WITH_UNIT = re.compile(r"([-+]?\d[\d.,]*)\s*([^\W\d_°µ][^\d]{0,14}|[°µ][^\d]{0,14})")
"""A number with a unit."""
PADDED = re.compile(r"0\d+")
"""A whole number with leading zeros."""
MOST_WHOLE = 10
"""The largest number of different whole numbers that count as categories."""
ROWS_PER_LEVEL = 5
"""With fewer rows per value, values may be few because rows are."""
SKEWED, STRAIGHT, GAIN = 1.5, 0.5, 0.3
"""The least skewness for a logarithm, the largest skewness after it, and the least gain in nats per row."""


def strange_columns(
    columns: Iterable[tuple[str, np.ndarray[Any, Any]]],
) -> tuple[dict[str, float], list[str], list[str]]:
    """Columns of numbers that may need attention, by name.

    Those with a number that may stand for a missing value; those whose logarithm would be better; and dates written as
    numbers, such as 20240131.
    """
    coded, skewed, dated = dict[str, float](), list[str](), list[str]()
    for name, column in columns:
        code = missing_code(column)
        if code is not None:
            coded[name] = code
        elif wants_logarithm(column):
            skewed.append(name)
        elif holds_date_numbers(column):
            dated.append(name)
    return coded, skewed, dated


def some_rows(rows: int, columns: int) -> np.ndarray[Any, Any]:
    """Evenly spaced rows."""
    return evenly_spaced(rows, max(100, min(MOST_ROWS, MOST_NUMBERS // max(1, columns))))


def known(column: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The values of a column of numbers that are not missing."""
    return column[~np.isnan(column)] if column.dtype.kind == "f" else column


def common_unit(fields: Sequence[str]) -> str | None:
    """The unit after every number, such as kg; None if there is none."""
    held = [field for field in fields if field not in GAPS][:LOOKED_AT]
    matches = [WITH_UNIT.fullmatch(field.strip()) for field in held]
    units = {match[2] if match else None for match in matches}
    return units.pop() if len(units) == 1 and len({match[1] for match in matches if match}) > 1 else None


def codes_note(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """A note about columns with leading zeros, which codes such as postcodes have and numbers do not.

    If all of several columns have them, that is how the file writes numbers.
    """
    first = {name: next(filter(PADDED.fullmatch, fields[:LOOKED_AT]), None) for name, fields in columns.items()}
    padded = [name for name, field in first.items() if field is not None]
    if not padded or len(padded) == len(columns) > 1:
        return []
    subject = f"the column {padded[0]!r} holds" if len(padded) == 1 else f"{len(padded)} columns hold"
    options = f"--drop {as_option(padded)}, or --categorical {as_option(padded)}"
    return [f"{subject} numbers with leading zeros, such as {first[padded[0]]!r}: if these are codes, use {options}"]


def holds_dates(fields: Sequence[str]) -> bool:
    """Whether most of the words are dates or times of day."""
    held = [field for field in fields if field not in GAPS][:LOOKED_AT]
    return 2 * sum(map(is_date, held)) > len(held)


def is_date(field: str) -> bool:
    return DATE.fullmatch(field) is not None


def holds_date_numbers(column: np.ndarray[Any, Any]) -> bool:
    """Whether all numbers are dates in eight digits, such as 20240131."""
    held = known(column)
    if len(held) < FEW_ROWS or held.min() < 1900_01_01 or held.max() > 2100_12_31:
        return False
    months, days = held // 100 % 100, held % 100
    return bool(((months >= 1) & (months <= 12) & (days >= 1) & (days <= 31) & (held == np.round(held))).all())


def names_rows(fields: Sequence[Any]) -> bool:
    """Whether words are ids or free text, different in most rows. With few rows, that may be chance."""
    held = [field for field in fields if field is not None and field not in GAPS]
    return len(held) >= FEW_ROWS and 2 * len(set(held)) > len(held)


def few_whole_numbers(column: np.ndarray[Any, Any]) -> bool:
    """Whether a column has two to ten different values, all whole numbers, as codes of categories have."""
    if column.dtype.kind not in "fiu":
        return False
    held = known(column)
    # A few values are enough for most columns.
    if len(np.unique(held[:LOOKED_AT])) > MOST_WHOLE:
        return False
    values = np.unique(held)
    whole = bool((values == np.round(values)).all())
    return 2 <= len(values) <= MOST_WHOLE and whole and len(held) >= ROWS_PER_LEVEL * len(values)


def missing_code(column: np.ndarray[Any, Any]) -> float | None:
    """A number such as -999 that is repeated and far from all others, as codes for missing values are."""
    held = known(column)
    if len(held) < FEW_ROWS:
        return None
    for code in (held.min(), held.max()):
        others = held[held != code]
        if not is_code(float(code)) or len(held) - len(others) < 2 or len(others) < 2:
            continue
        if np.abs(others - code).min() > np.ptp(others) > 0:
            return float(code)
    return None


def is_code(value: float) -> bool:
    digits = f"{abs(value):.0f}"
    return value == round(value) and set(digits) == {"9"} and (len(digits) > 1 or value < 0)


def wants_logarithm(column: np.ndarray[Any, Any]) -> bool:
    """Whether a positive column is so skewed that one Gaussian makes its logarithm far more probable."""
    held = np.asarray(known(column), dtype=np.float64)
    if len(held) < 3 * FEW_ROWS or held.min() <= 0 or held.max() == held.min():
        return False
    logarithms = np.log(held)
    gain = np.log(held.std()) - np.log(logarithms.std()) - logarithms.mean()
    return bool(skewness(held) > SKEWED and abs(skewness(logarithms)) < STRAIGHT and gain > GAIN)


def skewness(values: np.ndarray[Any, Any]) -> float:
    standard = (values - values.mean()) / values.std()
    return float((standard**3).mean())
