"""Several files as one: their rows one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.files.problems import InputError
from dpmmwrap.files.selection import Names, listed

AnyArray = np.ndarray[Any, Any]


def same_names(names: Sequence[Names | None], widths: Sequence[int], files: Sequence[Path]) -> None:
    """Refuse files that do not have the same columns, in any order."""
    first = names[0]
    for path, theirs, width in zip(files[1:], names[1:], widths[1:], strict=True):
        if first is None or theirs is None:
            if width != widths[0]:
                raise InputError(f"{path} should have {widths[0]} columns like {files[0]}, but it has {width}")
            continue
        lacking = [name for name in first if name not in theirs]
        if lacking:
            message = f"{path} should have a column {lacking[0]!r} like {files[0]}"
            raise InputError(f"{message}, but it has the columns {listed(theirs)}")
        more = [name for name in theirs if name not in first]
        if more:
            raise InputError(f"{path} has a column {more[0]!r}, which {files[0]} does not have")


def join_columns(tables: Sequence[Any], names: Sequence[Names | None]) -> Any:
    """Rows of points, sparse counts or columns, in the order of the first file's columns."""
    first = tables[0]
    if isinstance(first, dict):
        by_place = any(theirs is None for theirs in names)
        return {
            name: np.concatenate([list(table.values())[index] if by_place else table[name] for table in tables])
            for index, name in enumerate(first)
        }
    ordered = [
        table if names[0] is None or theirs is None else table[:, [theirs.index(name) for name in names[0]]]
        for table, theirs in zip(tables, names, strict=True)
    ]
    if all(hasattr(table, "indptr") for table in ordered):
        from scipy.sparse import vstack

        return vstack(ordered, format="csr")
    return np.concatenate([table.toarray() if hasattr(table, "indptr") else table for table in ordered])


def join_rows(parts: Sequence[AnyArray | None], files: Sequence[Path]) -> AnyArray | None:
    """The names or labels of all rows. Either all files have them or none."""
    known = [part for part in parts if part is not None]
    if not known:
        return None
    if len(known) < len(parts):
        having, lacking = (
            next(path for path, part in zip(files, parts, strict=True) if (part is None) == without)
            for without in (False, True)
        )
        raise InputError(f"{lacking} should name or label its rows like {having}, but it does not")
    return np.concatenate(known)
