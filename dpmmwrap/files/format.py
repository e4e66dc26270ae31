"""The format of a file, as far as the file itself does not show it."""

from __future__ import annotations

from typing import NamedTuple

UTF_8 = "utf-8-sig"
BLANKS = " "
"""Stands for any number of blanks and tabs between two fields."""


class Format(NamedTuple):
    """The format of text, the sheet to read, and further words for missing values."""

    decimal: str = "."
    thousands: str | None = None
    """The mark between thousands; None to detect it."""
    separator: str | None = None
    """The separator of fields; None to detect it."""
    encoding: str | None = None
    """None for UTF-8."""
    sheet: str | None = None
    """Of an Excel file, by name or by number (from 1); None for the first."""
    missing: tuple[str, ...] = ()
    """Words for missing values, beside empty fields, NA and the like."""

    @property
    def missing_numbers(self) -> tuple[float, ...]:
        """Those words that are numbers, such as -999."""
        numbers = []
        for word in self.missing:
            try:
                numbers.append(float(word))
            except ValueError:
                continue
        return tuple(numbers)


PLAIN = Format()
