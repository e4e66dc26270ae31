"""What is done to the columns before a fit: logarithms, standardised, principal components."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmmwrap.cli.fit import Task
    from dpmmwrap.files import Data
    from dpmmwrap.model.preparation import Preparation


def prepare(task: Task, options: dict[str, Any]) -> Task:
    """With what is asked for done to its columns."""
    components = options["pca"] or 0
    if components >= task.data.dim:
        components = 0
    if not (options["scale"] or components or options["log"]):
        return task
    if isinstance(task.data.X, dict):
        return prepare_table(task, options)
    from dpmmwrap.files.selection import numbered

    data = task.data
    names = data.names or numbered(data.dim)
    preparation = learned(data.X, options, data.names, places(logged_columns(options, data), names), components)
    done = replace(data, X=preparation(data.X), names=preparation.names_out)
    return task._replace(data=done, preparation=preparation)


def prepare_table(task: Task, options: dict[str, Any]) -> Task:
    """The numeric columns of a mixed table."""
    import numpy as np

    data, logged = task.data, logged_columns(options, task.data)
    numeric = [name for name in data.X if name in logged or is_numeric(data.X[name], name, task, options)]
    if not numeric:
        return task
    columns = np.column_stack([data.X[name] for name in numeric])
    preparation = learned(columns, options, tuple(numeric), places(logged, numeric))
    done = replace(data, X=data.X | dict(zip(numeric, preparation(columns).T, strict=True)))
    return task._replace(data=done, preparation=preparation)


def learned(X: Any, options: dict[str, Any], names: Any, logs: Any, components: int = 0) -> Preparation:
    from dpmmwrap.model.preparation import Preparation

    return Preparation.learn(X, options["scale"], components, names, logs)


def is_numeric(column: Any, name: str, task: Task, options: dict[str, Any]) -> bool:
    """Whether a column of a table will be clustered by as numbers; what will be categories keeps its values."""
    from dpmmwrap.files import find_columns
    from dpmmwrap.files.looks import few_whole_numbers

    if column.dtype.kind == "U":
        return False
    if options["categorical"] is None:
        return not few_whole_numbers(column)
    return name not in find_columns(options["categorical"], tuple(task.data.X), task.source)


def places(columns: Sequence[str], names: Sequence[str]) -> Any:
    """Where columns stand among others; None for none."""
    import numpy as np

    return np.array([list(names).index(name) for name in columns], np.int64) if columns else None


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
