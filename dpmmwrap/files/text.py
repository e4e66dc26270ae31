"""Text files: how they are opened, and what their lines say."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO

from dpmmwrap.files.format import BLANKS, PLAIN, UTF_8, Format
from dpmmwrap.files.problems import wrong_encoding

WORD = re.compile(r'"(?:[^"]|"")*"|[^\s"]+')


def open_text(path: Path, format: Format = PLAIN) -> IO[str]:
    """A text file, packed by gzip or not."""
    encoding = format.encoding or UTF_8
    if is_packed(path):
        return gzip.open(path, "rt", encoding=encoding, newline="")
    return path.open(encoding=encoding, newline="")


def is_packed(path: Path) -> bool:
    return path.suffix.lower() == ".gz"


def said_lines(lines: Iterable[str], separator: str) -> Iterator[str]:
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
    """The separator in `said_lines`."""
    return "\t" if separator == BLANKS else separator


def rows_of(lines: Iterable[str], separator: str) -> Iterator[tuple[int, list[str]]]:
    """The fields of each line that is not empty, and the number of the line, from 1."""
    reader = csv.reader(said_lines(lines, separator), delimiter=mark_of(separator), skipinitialspace=True)
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
