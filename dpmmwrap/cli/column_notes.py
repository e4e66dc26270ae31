"""What is to be said of columns as they come: some may not be what they look like."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from dpmmwrap.cli.families import named

if TYPE_CHECKING:
    import numpy as np

    from dpmmwrap.files import Data

LOOKED_AT = 20_000
"""Rows, evenly spaced."""


def column_notes(data: Data, logged: Sequence[str] = ()) -> list[str]:
    """Of columns that count the rows, hold codes for missing values, or should be looked at by their logarithm; and of
    names of rows that are not."""
    return [*counting_notes(data), *code_notes(data), *skew_notes(data, logged), *id_notes(data)]


def counting_notes(data: Data) -> list[str]:
    """What is to be said of columns that count the rows."""
    return [
        f"the column {name!r} counts the rows, as an id does, and is clustered by like the others: "
        f"--drop {named([name])} leaves it out, --id {named([name])} names the rows by it"
        for name in data.counting
    ]


def code_notes(data: Data) -> list[str]:
    from dpmmwrap.files.looks import missing_code

    found = [(name, missing_code(column)) for name, column in numeric_columns(data)]
    return [
        f"the column {name!r} holds {code:g} far from all its other values: if that stands for a missing value, use "
        f"--missing {code:g}"
        for name, code in found
        if code is not None
    ]


def skew_notes(data: Data, logged: Sequence[str]) -> list[str]:
    from dpmmwrap.files.looks import wants_logarithm

    skewed = [name for name, column in numeric_columns(data) if name not in logged and wants_logarithm(column)]
    if not skewed:
        return []
    one = len(skewed) == 1
    which, what = (f"the column {skewed[0]!r} is", "it") if one else (f"{len(skewed)} columns are", "them")
    return [
        f"{which} so skewed that Gaussian clusters would cut {what} into pieces: try {'its' if one else 'their'} "
        f"{'logarithm' if one else 'logarithms'}, --log {named(skewed)}"
    ]


def id_notes(data: Data) -> list[str]:
    if data.ids is None:
        return []
    count = len(data.ids) - len(set(data.ids.tolist()))
    if not count:
        return []
    return ["some rows have the same name: labels.csv has the rows' numbers, too"]


def numeric_columns(data: Data) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Columns of numbers, by name or number, some rows of them."""
    from dpmmwrap.files.looks import few_whole_numbers
    from dpmmwrap.files.selection import numbered
    from dpmmwrap.profiles import evenly_spaced

    if hasattr(data.X, "indptr"):
        return
    rows = evenly_spaced(len(data), LOOKED_AT)
    if isinstance(data.X, dict):
        for name, column in data.X.items():
            if column.dtype.kind in "fiu" and not few_whole_numbers(column):
                yield name, column[rows]
        return
    for place, name in enumerate(data.names or numbered(data.dim)):
        yield name, data.X[rows, place]
