"""Notes about columns, and their transformation before a fit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from dpmmwrap.cli.fit import Task
    from dpmmwrap.files import Data

FEWEST_SUMMED = 4
"""With fewer rows, one may be the sum of the others by chance."""


def column_notes(data: Data, logged: Sequence[str] = ()) -> list[str]:
    """Notes about strange columns, copied rows, totals and repeated ids."""
    from dpmmwrap.files.looks import strange_columns
    from dpmmwrap.files.problems import as_option

    coded, skewed, dated = strange_columns(numeric_columns(data))
    notes = counting_notes(data)
    notes += [
        f"the column {name!r} holds dates written as numbers, such as 20240131, which jump at each new month: use "
        f"the days since some date, or --drop {as_option([name])}"
        for name in dated
    ]
    notes += [
        f"the column {name!r} holds {code:g} far from all its other values: if that stands for a missing value, use "
        f"--missing {code:g}"
        for name, code in coded.items()
    ]
    skewed = [name for name in skewed if name not in logged]
    if skewed:
        which, them, theirs = (
            (f"the column {skewed[0]!r} is", "it", "its logarithm")
            if len(skewed) == 1
            else (f"{len(skewed)} columns are", "them", "their logarithms")
        )
        cut = f"so skewed that Gaussian clusters would cut {them} into pieces"
        notes.append(f"{which} {cut}: try {theirs}, --log {as_option(skewed)}")
    return notes + repeated_rows_note(data) + total_row_note(data) + repeated_ids_note(data.ids, "labels.csv")


def repeated_rows_note(data: Data) -> list[str]:
    """A note about copied rows. Counts, categories and whole numbers repeat by nature."""
    import numpy as np

    from dpmmwrap.files.looks import some_rows

    if not isinstance(data.X, np.ndarray) or data.X.dtype.kind != "f" or data.dim < 2:
        return []
    X = data.X[some_rows(len(data), data.dim)]
    if (np.round(X) == X).all():
        return []
    distinct = len(np.unique(X, axis=0))
    if 2 * distinct > len(X):
        return []
    which = f"{len(X):,} rows" if len(X) == len(data) else f"{len(X):,} rows that were checked"
    return [f"only {distinct:,} of the {which} are different: each copy counts as a point, and copies form clusters"]


def total_row_note(data: Data) -> list[str]:
    """A note if the last row holds the sums of the others."""
    import numpy as np

    if not isinstance(data.X, np.ndarray) or len(data) < FEWEST_SUMMED or not data.X[-1].any():
        return []
    sums, rounding = data.X[:-1].sum(axis=0, dtype=np.float64), 1e-6 * np.ptp(data.X, axis=0)
    if not (np.abs(data.X[-1] - sums) <= rounding).all():
        return []
    return [
        "the last row is the sum of all others, as totals are, but is used for clustering: leave it out of the file"
    ]


def repeated_ids_note(ids: Any, file: str) -> list[str]:
    if ids is None or len(set(ids.tolist())) == len(ids):
        return []
    return [f"some rows have the same name, so {file} also has the rows' numbers"]


def counting_notes(data: Data) -> list[str]:
    from dpmmwrap.files.problems import as_option

    return [
        f"the column {name!r} numbers the rows, as an id does, but is used for clustering: "
        f"--drop {as_option([name])} leaves it out, --id {as_option([name])} names the rows by it"
        for name in data.counting
    ]


def numeric_columns(data: Data) -> Iterator[tuple[str, np.ndarray[Any, Any]]]:
    """Samples of the columns of numbers, by name or number."""
    from dpmmwrap.files.looks import few_whole_numbers, some_rows

    if hasattr(data.X, "indptr"):
        return
    rows = some_rows(len(data), data.dim)
    if isinstance(data.X, dict):
        for name, column in data.X.items():
            if column.dtype.kind in "fiu" and not few_whole_numbers(column):
                yield name, column[rows]
        return
    for index, name in enumerate(data.columns):
        yield name, data.X[rows, index]


def prepare(task: Task, options: dict[str, Any]) -> Task:
    """Transform the columns as the options say; in a mixed table only the numeric ones."""
    import numpy as np

    from dpmmwrap.model.preparation import Preparation

    data, table = task.data, isinstance(task.data.X, dict)
    components = 0 if table or (options["pca"] or 0) >= data.dim else options["pca"] or 0
    if not (options["scale"] or components or options["log"] or options["normalize"]):
        return task
    logged = logged_columns(options, data)
    names = data.columns
    if table:
        names = tuple(name for name in names if name in logged or is_numeric(data.X[name], name, task, options))
        if not names:
            return task
    X = np.column_stack([data.X[name] for name in names]) if table else data.X
    logs = np.array([names.index(name) for name in logged], np.int64) if logged else None
    called = names if table else data.names
    preparation = Preparation.learn(X, options["scale"], components, called, logs, options["normalize"])
    if table:
        data = replace(data, X=data.X | dict(zip(names, preparation(X).T, strict=True)))
    else:
        data = replace(data, X=preparation(X), names=preparation.names_out)
    return task._replace(data=data, preparation=preparation)


def without_weights(data: Data, column: str | None, source: str) -> tuple[Data, Any]:
    """The data without the column of weights, and the weights if there are any."""
    import numpy as np

    from dpmmwrap.files import InputError, find_columns

    if column is None:
        return data, None
    table, names = isinstance(data.X, dict), data.columns
    (name,) = find_columns([column], names, source)
    if len(names) < 2:
        raise InputError(f"{source} should have columns to cluster by beside the weights")
    kept = [index for index, other in enumerate(names) if other != name]
    weights = data.X[name] if table else data.X[:, names.index(name)]
    if hasattr(weights, "toarray"):
        weights = weights.toarray().ravel()
    if np.asarray(weights).dtype.kind not in "fiu":
        raise InputError(f"--sample-weight is for numbers, and the column {name!r} holds words")
    X = {other: data.X[other] for other in names if other != name} if table else data.X[:, kept]
    left = None if data.names is None else tuple(other for other in data.names if other != name)
    return replace(data, X=X, names=left, counting=tuple(set(data.counting) - {name})), np.array(weights)


def is_numeric(column: Any, name: str, task: Task, options: dict[str, Any]) -> bool:
    """Whether a column of a table is numeric in the fit; categories keep their values."""
    from dpmmwrap.files import find_columns
    from dpmmwrap.files.looks import few_whole_numbers

    if column.dtype.kind == "U":
        return False
    if options["categorical"] is None:
        return not few_whole_numbers(column)
    return name not in find_columns(options["categorical"], tuple(task.data.X), task.source)


def logged_columns(options: dict[str, Any], data: Data) -> tuple[str, ...]:
    """The columns of --log, by name or number."""
    from dpmmwrap.files import InputError, find_columns

    logged = find_columns(options["log"] or (), data.columns, "DATA, among its features,")
    if isinstance(data.X, dict):
        for name in logged:
            if data.X[name].dtype.kind == "U":
                raise InputError(f"--log is for numbers, and the column {name!r} holds words")
    return logged
