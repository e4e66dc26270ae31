"""What is to be said of columns as they come: some may not be what they look like."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dpmmwrap.cli.families import named

if TYPE_CHECKING:
    import numpy as np

    from dpmmwrap.files import Data


def column_notes(data: Data, logged: Sequence[str] = ()) -> list[str]:
    """Of columns that count the rows, hold codes for missing values, or should be looked at by their logarithm; and of
    names of rows that are not."""
    from dpmmwrap.files.looks import strange_columns

    coded, skewed = strange_columns(numeric_columns(data))
    wanting = [name for name in skewed if name not in logged]
    return [*counting_notes(data), *code_notes(coded), *skew_notes(wanting), *id_notes(data)]


def counting_notes(data: Data) -> list[str]:
    """What is to be said of columns that count the rows."""
    return [
        f"the column {name!r} counts the rows, as an id does, and is clustered by like the others: "
        f"--drop {named([name])} leaves it out, --id {named([name])} names the rows by it"
        for name in data.counting
    ]


def code_notes(coded: Mapping[str, float]) -> list[str]:
    return [
        f"the column {name!r} holds {code:g} far from all its other values: if that stands for a missing value, use "
        f"--missing {code:g}"
        for name, code in coded.items()
    ]


def skew_notes(skewed: Sequence[str]) -> list[str]:
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
    from dpmmwrap.files.looks import few_whole_numbers, some_rows
    from dpmmwrap.files.selection import numbered

    if hasattr(data.X, "indptr"):
        return
    rows = some_rows(len(data), data.dim)
    if isinstance(data.X, dict):
        for name, column in data.X.items():
            if column.dtype.kind in "fiu" and not few_whole_numbers(column):
                yield name, column[rows]
        return
    for place, name in enumerate(data.names or numbered(data.dim)):
        yield name, data.X[rows, place]
