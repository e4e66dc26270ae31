"""How a file is written, as far as it does not say so itself."""

from __future__ import annotations

from typing import NamedTuple

UTF_8 = "utf-8-sig"
BLANKS = " "
"""Stands for any number of blanks and tabs between two fields."""


class Format(NamedTuple):
    """How text is written, which sheet is read, and what stands for a missing value."""

    decimal: str = "."
    thousands: str | None = None
    """What stands between thousands; None where that is to be noticed."""
    separator: str | None = None
    """What stands between two fields; None where that is to be noticed."""
    encoding: str | None = None
    """None for UTF-8."""
    sheet: str | None = None
    """Of an Excel file, by name or by number (from 1); None for the first."""
    missing: tuple[str, ...] = ()
    """What stands for a missing value, beside empty fields, NA and the like."""

    @property
    def missing_numbers(self) -> tuple[float, ...]:
        """Those among them that are numbers, such as -999."""
        numbers = []
        for word in self.missing:
            try:
                numbers.append(float(word))
            except ValueError:
                continue
        return tuple(numbers)


PLAIN = Format()
