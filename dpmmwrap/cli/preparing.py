"""Columns as they come: what is to be said of them, and what is done to them before a fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from dpmmwrap.cli.families import named

if TYPE_CHECKING:
    import numpy as np

    from dpmmwrap.cli.fit import Task
    from dpmmwrap.files import Data


def column_notes(data: Data, logged: Sequence[str] = ()) -> list[str]:
    """What is to be said of columns that count the rows, hold codes for missing values or are skewed, and of ids that
    repeat."""
    from dpmmwrap.files.looks import strange_columns

    coded, skewed = strange_columns(numeric_columns(data))
    notes = counting_notes(data)
    notes += [
        f"the column {name!r} holds {code:g} far from all its other values: if that stands for a missing value, use "
        f"--missing {code:g}"
        for name, code in coded.items()
    ]
    skewed = [name for name in skewed if name not in logged]
    one = len(skewed) == 1
    which = f"the column {skewed[0]!r} is" if one else f"{len(skewed)} columns are"
    if skewed:
        notes.append(
            f"{which} so skewed that Gaussian clusters would cut {'it' if one else 'them'} into pieces: try "
            f"{'its logarithm' if one else 'their logarithms'}, --log {named(skewed)}"
        )
    if data.ids is not None and len(set(data.ids.tolist())) < len(data.ids):
        notes.append("some rows have the same name: labels.csv has the rows' numbers, too")
    return notes


def counting_notes(data: Data) -> list[str]:
    """What is to be said of columns that count the rows."""
    return [
        f"the column {name!r} counts the rows, as an id does, and is clustered by like the others: "
        f"--drop {named([name])} leaves it out, --id {named([name])} names the rows by it"
        for name in data.counting
    ]


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


def prepare(task: Task, options: dict[str, Any]) -> Task:
    """With what is asked for done to its columns; of a mixed table, to the numeric ones."""
    import numpy as np

    from dpmmwrap.files.selection import numbered
    from dpmmwrap.model.preparation import Preparation

    data, table = task.data, isinstance(task.data.X, dict)
    components = 0 if table or (options["pca"] or 0) >= data.dim else options["pca"] or 0
    if not (options["scale"] or components or options["log"]):
        return task
    logged = logged_columns(options, data)
    names: Sequence[str] = data.names or numbered(data.dim)
    if table:
        names = [name for name in data.X if name in logged or is_numeric(data.X[name], name, task, options)]
        if not names:
            return task
    X = np.column_stack([data.X[name] for name in names]) if table else data.X
    logs = np.array([list(names).index(name) for name in logged], np.int64) if logged else None
    preparation = Preparation.learn(X, options["scale"], components, tuple(names) if table else data.names, logs)
    if table:
        data = replace(data, X=data.X | dict(zip(names, preparation(X).T, strict=True)))
    else:
        data = replace(data, X=preparation(X), names=preparation.names_out)
    return task._replace(data=data, preparation=preparation)


def is_numeric(column: Any, name: str, task: Task, options: dict[str, Any]) -> bool:
    """Whether a column of a table will be clustered by as numbers; what will be categories keeps its values."""
    from dpmmwrap.files import find_columns
    from dpmmwrap.files.looks import few_whole_numbers

    if column.dtype.kind == "U":
        return False
    if options["categorical"] is None:
        return not few_whole_numbers(column)
    return name not in find_columns(options["categorical"], tuple(task.data.X), task.source)


def logged_columns(options: dict[str, Any], data: Data) -> tuple[str, ...]:
    """The columns whose logarithm is asked for, by name or number."""
    from dpmmwrap.files import InputError, find_columns
    from dpmmwrap.files.selection import numbered

    names = tuple(data.X) if isinstance(data.X, dict) else data.names or numbered(data.dim)
    found = find_columns(options["log"] or (), names, "DATA, as far as it is clustered by,")
    if isinstance(data.X, dict):
        for name in found:
            if data.X[name].dtype.kind == "U":
                raise InputError(f"--log is for numbers, and the column {name!r} holds words")
    return found
