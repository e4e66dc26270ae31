"""Text files: their format, how they are opened, and how lines become fields."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, NamedTuple

from dpmmwrap.files.problems import wrong_encoding

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
WORD = re.compile(r'"(?:[^"]|"")*"|[^\s"]+')


def open_text(path: Path, format: Format = PLAIN) -> IO[str]:
    """A text file, packed by gzip or not."""
    encoding = format.encoding or UTF_8
    if is_packed(path):
        return gzip.open(path, "rt", encoding=encoding, newline="")
    return path.open(encoding=encoding, newline="")


def is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def lines_for_csv(lines: Iterable[str], separator: str) -> Iterator[str]:
    """Lines ready for csv: blanks between fields become tabs, and lines that begin with # become empty. A # within a
    line is data."""
    for line in lines:
        if line.startswith("#"):
            yield "\n"
        elif separator == BLANKS:
            yield "\t".join(WORD.findall(line)) + "\n"
        else:
            yield line


def mark_of(separator: str) -> str:
    """The separator in `lines_for_csv`."""
    return "\t" if separator == BLANKS else separator


def rows_of(lines: Iterable[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line that is not empty, and the number of the line, from 1."""
    reader = csv.reader(lines_for_csv(lines, separator), delimiter=mark_of(separator), skipinitialspace=True)
    for row in reader:
        if any(row) or len(row) > 1:
            yield reader.line_num, [field.strip() for field in row]


def first_line(file: Iterator[str], path: Path) -> tuple[int, str]:
    """The first line that is neither empty nor a comment, and the number of lines before it."""
    for number, line in enumerate(file):
        if "\0" in line:
            # Half of the bytes of another encoding, which are zeros, pass for text.
            raise wrong_encoding(path)
        if line.strip() and not line.startswith("#"):
            return number, line.rstrip("\r\n")
    return 0, ""
