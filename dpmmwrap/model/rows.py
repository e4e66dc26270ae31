"""Tables of pandas, polars and pyarrow; rows with all columns, or only with those that a fit used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.tables import TablePoints, is_numeric, table_of


def all_columns(model: Any, X: Any) -> Any:
    """Checked rows with all columns of the data, as `predict` takes them: an array, a sparse matrix, or the points of a
    mixed table."""
    rows, columns = model._rows(X), model.mixture_.columns
    return rows if columns is None else columns.points(by_name(rows))


class Telling(NamedTuple):
    """Rows without the columns that a fit left out, and the names of the others."""

    points: Any
    names: tuple[str, ...]


def telling(mixture: Any, points: Any, names: Sequence[str] | None = None) -> Telling:
    """The rows of which maps are drawn: in a map a constant column or a copy would waste a direction."""
    restored = mixture.restored
    if isinstance(points, TablePoints):
        numeric = points.numeric if restored is None else points.numeric[:, restored.kept]
        return Telling(TablePoints(numeric, points.codes), ())
    if mixture.subspace is not None:
        return Telling(mixture._points(points), tuple(f"direction {k + 1}" for k in range(mixture.dim)))
    called = names_for(names, points.shape[1])
    if restored is None:
        return Telling(points, called)
    return Telling(points[:, restored.kept], tuple(called[column] for column in restored.kept))


def names_for(names: Sequence[str] | None, dim: int) -> tuple[str, ...]:
    """The columns' names, or their numbers from 1."""
    if names is not None and len(names) == dim:
        return tuple(str(name) for name in names)
    return tuple(f"feature {number + 1}" for number in range(dim))


def unmasked(X: Any) -> Any:
    """A masked array with NaN for what is masked, which NumPy and scikit-learn would take as it is; else X."""
    if not isinstance(X, np.ma.MaskedArray) or X.dtype.kind not in "fiub":
        return X
    return np.ma.filled(X.astype(X.dtype if X.dtype.kind == "f" else np.float64), np.nan)


def is_table(X: Any) -> bool:
    """Whether its columns have names."""
    return isinstance(X, Mapping) or is_arrow(X) or (hasattr(X, "columns") and hasattr(X, "__getitem__"))


def is_arrow(X: Any) -> bool:
    """Whether it is a table or a batch of pyarrow, or looks like one."""
    return hasattr(X, "column_names") and hasattr(X, "column") and hasattr(X, "schema")


def by_name(X: Any) -> Any:
    """The columns of a pyarrow table by name; anything else as it is."""
    if not is_arrow(X):
        return X
    return {str(name): arrow_values(X.column(name)) for name in X.column_names}


def arrow_values(column: Any) -> Any:
    """A column as an array, with NaN for missing numbers and None for missing words."""
    if hasattr(column, "combine_chunks"):
        column = column.combine_chunks()
    if hasattr(column, "dictionary_decode"):
        column = column.dictionary_decode()
    return column.to_numpy(zero_copy_only=False)


def word_columns(X: Any) -> list[str]:
    """The columns of a table that hold neither numbers nor truth values."""
    table, _ = table_of(by_name(X))
    return [name for name, column in table.items() if not (is_numeric(column) or np.asarray(column).dtype.kind == "b")]


def digit_columns(X: Any) -> list[str]:
    """The columns of a table of numbers that came as words or as pandas' categories."""
    types = X.dtypes.items() if hasattr(X, "iloc") else ()
    categories = [str(name) for name, type_ in types if str(type_) == "category"]
    return list(dict.fromkeys([*word_columns(X), *categories]))
