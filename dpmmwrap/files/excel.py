"""Sheets of .xlsx files, which openpyxl reads."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from dpmmwrap.files.columns import columns_of
from dpmmwrap.files.numbers import has_decimal_comma
from dpmmwrap.files.problems import InputError
from dpmmwrap.files.selection import ALL, Names, Selection, has_column, listed
from dpmmwrap.files.tables import LOOKED_AT, Layout, Piece, Row, layout_of_rows
from dpmmwrap.files.text import PLAIN, Format


class Sheet(NamedTuple):
    """The rows of a sheet that are not empty, as text."""

    rows: list[Row]
    source: str
    """The file; with its sheet, if there are several and none was chosen."""
    notes: tuple[str, ...] = ()


def read_sheet(path: Path, words: Sequence[str] = (), wanted: Selection = ALL) -> Piece:
    """The columns of one sheet: numbers if all cells are numbers or gaps, else words."""
    sheet = open_sheet(path, wanted.format)
    layout = layout_of(path, sheet)
    table = columns_of(sheet.source, layout, sheet.rows[layout.skipped :], words, wanted)
    return table._replace(notes=(*sheet.notes, *table.notes), source=sheet.source)


def sheet_names(path: Path, format: Format = PLAIN) -> Names | None:
    return layout_of(path, open_sheet(path, format)).names


def layout_of(path: Path, sheet: Sheet) -> Layout:
    if not sheet.rows:
        raise InputError(f"{sheet.source} should hold points, but it is empty")
    return layout_of_rows([fields for _, fields in sheet.rows[: LOOKED_AT + 1]], path)


def open_sheet(path: Path, format: Format = PLAIN) -> Sheet:
    """Read a sheet. The decimal mark applies to numbers that are kept as text."""
    try:
        import openpyxl
    except ImportError as error:
        message = f"{path} is read by openpyxl, which is not installed (pip install 'dpmmwrap[files]')"
        raise InputError(message) from error
    asked = format.sheet
    try:
        book = openpyxl.load_workbook(path, read_only=True, data_only=True)
        try:
            names = [sheet.title for sheet in book.worksheets]
            if asked is not None and not has_column(asked, names):
                raise InputError(f"{path} should have a sheet {asked!r}, but it has {listed(names)}")
            sheet = book.worksheets[0 if asked is None else names.index(asked) if asked in names else int(asked) - 1]
            # The extent that the file states may be wrong.
            sheet.reset_dimensions()
            cells = [[text_of(cell, format.decimal) for cell in row] for row in sheet.iter_rows(values_only=True)]
        finally:
            book.close()
    except InputError:
        raise
    # zipfile, the XML parser and openpyxl raise many kinds of errors for a damaged file.
    except Exception as error:
        raise InputError(f"{path} should be an Excel file (.xlsx), but it is damaged or something else") from error
    width = max((index + 1 for row in cells for index, cell in enumerate(row) if cell), default=0)
    rows = [
        (number, [*row[:width], *[""] * (width - len(row))]) for number, row in enumerate(cells, start=1) if any(row)
    ]
    if len(names) == 1 or asked is not None:
        return Sheet(rows, str(path))
    note = f"{path} has {len(names)} sheets, and the first, {names[0]!r}, is read; --sheet reads another"
    return Sheet(rows, f"{path} (its first sheet, {names[0]!r}; --sheet reads another)", (note,))


def text_of(cell: Any, decimal: str) -> str:
    """A cell as a text file would have it."""
    if cell is None:
        return ""
    if isinstance(cell, str) and decimal == "," and has_decimal_comma(cell.strip()):
        return cell.strip().replace(",", ".")
    if isinstance(cell, (datetime.date, datetime.time)):
        return cell.isoformat()
    return str(cell).strip()
