"""Numbers as people write them: decimal commas, marks between thousands, currencies, percent."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

from dpmmwrap.files.problems import InputError
from dpmmwrap.files.text import PLAIN, Format

GAPS = frozenset(("", "NA", "N/A", "n/a", "<NA>", "NaN", "nan", "NAN", "null", "NULL"))
"""Fields of a text file that mean a missing value."""
UNKNOWN = frozenset(("?", "-", "--", "–", "—", ".", "..", "*", "None", "none", "#N/A", "#DIV/0!", "#VALUE!"))
"""Fields that mean a missing value among numbers; among words they may be words."""
DECIMAL_COMMA = re.compile(r"[-+]?\d+,\d+(e[-+]?\d+)?", re.IGNORECASE)
MONEY = "$€£¥"
MARKED = re.compile(
    rf"([-+]?)([{MONEY}]?)\s?([-+]?[\d.,'’ \u00a0\u202f]*\d(?:e[-+]?\d+)?)\s?([{MONEY}%]?)", re.IGNORECASE
)
"""A number with a currency before or behind it, or with a percent sign."""
GROUPED = {
    mark: re.compile(rf"[-+]?[1-9]\d{{0,2}}(?:(?:{mark}\d{{3}})+|(?:['’ \u00a0\u202f]\d{{3}})+)(?:{decimal}\d+)?")
    for mark, decimal in ((",", r"\."), (r"\.", ","))
}
"""A number in groups of three digits."""
ONE_COMMA = re.compile(r"[-+]?\d{1,3},\d{3}")
"""What may be thousands, or have three decimals behind a comma."""


class Mark(NamedTuple):
    """How a number was written, if not plainly."""

    text: str
    value: float
    sign: str = ""
    """A currency, or %."""
    thousands: bool = False
    doubtful: bool = False
    """Whether the mark between thousands may also be a decimal mark."""


def has_decimal_comma(text: str) -> bool:
    return DECIMAL_COMMA.fullmatch(text) is not None and GROUPED[","].fullmatch(text) is None


def among_numbers(fields: Iterable[str]) -> list[str]:
    """The fields of a column without those that would be missing values in a column of numbers."""
    return [field for field in fields if field not in GAPS and field not in UNKNOWN]


def is_number(field: str, decimal: str = ".") -> bool:
    try:
        read_number(field, decimal)
    except ValueError:
        return False
    return True


def read_number(field: str, decimal: str = ".") -> tuple[float, Mark | None]:
    """A number, and how it was written if not plainly; ValueError if it is not a number."""
    # Python accepts 1_000, which people do not write. With a decimal comma, points separate thousands.
    field = field.replace("−", "-")
    if "_" not in field and not (decimal == "," and "." in field):
        try:
            return float(field.replace(",", ".") if decimal == "," else field), None
        except ValueError:
            pass
    mark = marked(field, decimal)
    return mark.value, mark


def marked(field: str, decimal: str) -> Mark:
    """A number with a sign beside it, in groups of digits, or in brackets, as accountants write negative numbers."""
    text = field.strip()
    if text[:1] == "(" and text[-1:] == ")" and text[1:2] not in ("-", "+", "("):
        value, mark = read_number(text[1:-1], decimal)
        return (mark or Mark(text, value))._replace(text=text, value=-value)
    match = MARKED.fullmatch(text)
    if match is None or (match[2] and match[4]) or (match[1] and match[3][0] in "-+"):
        raise ValueError(f"{field} is not a number")
    digits, sign = match[1] + match[3], match[2] or match[4]
    grouped = GROUPED["," if decimal == "." else r"\."].fullmatch(digits) is not None
    separators = rf"[{',' if decimal == '.' else '.'}'’ \u00a0\u202f]"
    plain = re.sub(separators, "", digits) if grouped else digits
    if not grouped and decimal == "," and "." in plain:
        raise ValueError(f"{field} is not a number")
    doubtful = decimal == "." and not sign and ONE_COMMA.fullmatch(digits) is not None
    return Mark(field.strip(), float(plain.replace(",", ".") if decimal == "," else plain), sign, grouped, doubtful)


class Reader:
    """Reads the fields of a column as numbers, and remembers how they were written."""

    def __init__(self, format: Format = PLAIN) -> None:
        self.decimal = format.decimal
        self.gaps = GAPS.union(format.missing)
        self.marks: dict[tuple[str, bool, bool], Mark] = {}
        """The first number that was written in each way."""
        self.plain = False
        """Whether some number had no sign."""
        self.unknown: set[str] = set()
        """Marks that were read as missing values."""

    def __call__(self, field: str) -> float:
        field = field.strip()
        if field in self.gaps:
            return math.nan
        if field in UNKNOWN:
            self.unknown.add(field)
            return math.nan
        value, mark = read_number(field, self.decimal)
        if mark is None or not mark.sign:
            self.plain = True
        if mark is not None:
            self.marks.setdefault((mark.sign, mark.thousands, mark.doubtful), mark)
        return value

    @property
    def signs(self) -> list[str]:
        return list(dict.fromkeys(mark.sign for mark in self.marks.values() if mark.sign))


def marks_note(readers: Mapping[str, Reader], source: Any, format: Format, separator: str) -> tuple[str, ...]:
    """Notes about numbers with marks in them; an InputError if they are ambiguous."""
    for name, reader in readers.items():
        several = reader.signs + ([] if "%" not in reader.signs or not reader.plain else ["nothing"])
        if len(several) > 1:
            signs = " and ".join(several)
            raise InputError(
                f"{source} should have numbers of one kind in its column {name!r}, but they are marked with {signs}"
            )
    marks = [mark for reader in readers.values() for mark in reader.marks.values()]
    # 3,750 may be 3750 or 3.75; if commas also separate fields, it is 3750.
    grouped = [mark for mark in marks if mark.thousands]
    doubtful = next((mark for mark in grouped if mark.doubtful), None)
    settled = format.thousands is not None or separator == "," or not all(mark.doubtful for mark in grouped)
    if doubtful is not None and not settled:
        decimal = math.copysign(float(doubtful.text.strip("()").replace(",", ".")), doubtful.value)
        came = f"{doubtful.text!r} may be {doubtful.value:.15g} or {decimal:.15g}"
        raise InputError(f"{source} should hold numbers, but {came}; use --thousands , or --decimal ,")
    examples = {(mark.sign, mark.thousands): mark for mark in reversed(marks)}
    shown = ", ".join(f"{quoted(mark.text)} as {mark.value:.15g}" for mark in [*examples.values()][::-1][:3])
    notes = [f"numbers are read without the marks in them: {shown}"] if shown else []
    for mark in sorted(set[str]().union(*(reader.unknown for reader in readers.values()))):
        columns = [name for name, reader in readers.items() if mark in reader.unknown]
        where = f"the column {columns[0]!r}" if len(columns) == 1 else f"{len(columns)} columns of numbers"
        notes.append(f"{mark!r} is read as a missing value in {where}")
    return tuple(notes)


def quoted(text: str) -> str:
    """The text in quotation marks, with plain blanks."""
    return repr(text.replace("\u202f", " ").replace("\u00a0", " "))
