"""Tables of pandas, polars and pyarrow."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from dpmmwrap.families.tables import is_numeric, table_of


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
