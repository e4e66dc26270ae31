"""Tables that pyarrow reads: .parquet and .feather."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.files.columns import Column, dates_in, word_column
from dpmmwrap.files.problems import InputError, WordsInstead
from dpmmwrap.files.selection import ALL, Names, Selection, find_columns
from dpmmwrap.files.tables import Piece, as_classes, check_distinct

KINDS = {".parquet": "a Parquet", ".feather": "a Feather"}


def read_arrow(path: Path, words: Sequence[str] = (), wanted: Selection = ALL, *, truth: bool = False) -> Piece:
    """The columns as numbers or words. Booleans are words, or 0 and 1 with `truth`."""
    names = arrow_names(path)
    indices, *beside = wanted.of(names, path)
    as_words = find_columns(words, names, path)
    features = [names[index] for index in indices]
    ids, labels = (None if index is None else names[index] for index in beside)
    table = open_table(path, [*dict.fromkeys(name for name in (*features, ids, labels) if name is not None)])
    columns = {name: column_of(table, name, path, name in as_words, truth) for name in features}
    return Piece(
        columns,
        tuple(features),
        None if ids is None else as_text(table.column(ids)),
        None if labels is None else as_classes(as_text(table.column(labels)).tolist()),
    )


def column_of(table: Any, name: str, path: Path, words: bool, truth: bool) -> Column:
    pyarrow = pyarrow_for(path)
    kinds = pyarrow.types
    column, kind = table.column(name), table.schema.field(name).type
    if kinds.is_dictionary(kind):
        kind = kind.value_type
        column = column.cast(kind)
    number = kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_null(kind) or kinds.is_decimal(kind)
    if truth and kinds.is_boolean(kind):
        number, column = True, column.cast(pyarrow.int8())
    text = kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind)
    if kinds.is_boolean(kind) and not number:
        return as_text(column)
    if number and not words:
        return np.asarray(column.cast(pyarrow.float64(), safe=False).to_numpy())
    if number or text:
        fields = column.cast(pyarrow.string()).to_pylist()
        return word_column([field or "" for field in fields], name, path)
    if kinds.is_temporal(kind):
        raise dates_in(path, name, [str(value) for value in column.to_pylist() if value is not None] or ["none"])
    message = f"{path} should hold numbers or words, but its column {name!r} is of type {kind}"
    raise WordsInstead(message, [name], [name])


def as_text(column: Any) -> Column:
    """Values as words, empty where one is missing."""
    return np.array(["" if value is None else str(value) for value in column.to_pylist()], dtype=str)


def arrow_text(path: Path) -> dict[str, Column]:
    names = arrow_names(path)
    table = open_table(path, names)
    return {name: as_text(table.column(name)) for name in names}


def arrow_names(path: Path) -> Names:
    """The names of the columns, without the index that pandas keeps among them."""
    pyarrow = pyarrow_for(path)
    with arrow_problems(path):
        if path.suffix.lower() == ".parquet":
            names = pyarrow.parquet.read_schema(path).names
        else:
            names = pyarrow.feather.read_table(path, memory_map=True).column_names
    return check_distinct(tuple(str(name) for name in names if not str(name).startswith("__index_level_")), path)


def open_table(path: Path, names: Sequence[str]) -> Any:
    pyarrow = pyarrow_for(path)
    reader = pyarrow.parquet if path.suffix.lower() == ".parquet" else pyarrow.feather
    with arrow_problems(path):
        table = reader.read_table(path, columns=list(names))
        # These files have no checksums, so check all offsets and all text.
        table.validate(full=True)
        return table


@contextlib.contextmanager
def arrow_problems(path: Path) -> Iterator[None]:
    try:
        yield
    except (pyarrow_for(path).ArrowException, OSError) as error:
        kind = KINDS[path.suffix.lower()]
        raise InputError(f"{path} should be {kind} file, but it is damaged or something else") from error


def pyarrow_for(path: Path) -> Any:
    try:
        import pyarrow
        import pyarrow.feather
        import pyarrow.parquet
        import pyarrow.types
    except ImportError as error:
        message = f"{path} is read by pyarrow, which is not installed (pip install 'dpmmwrap[files]')"
        raise InputError(message) from error
    return pyarrow


class RowGroups(NamedTuple):
    """The pieces of a Parquet file."""

    names: Names
    rows: tuple[int, ...]
    """The number of rows of each piece."""
    narrow: bool
    """Whether single precision holds all columns."""


def numeric_row_groups(path: Path) -> RowGroups:
    """The pieces of a Parquet file of numbers, from its metadata alone."""
    pyarrow = pyarrow_for(path)
    kinds = pyarrow.types
    names = arrow_names(path)
    with arrow_problems(path):
        metadata, schema = pyarrow.parquet.read_metadata(path), pyarrow.parquet.read_schema(path)
    types = [schema.field(name).type for name in names]
    for name, kind in zip(names, types, strict=True):
        if not (kinds.is_integer(kind) or kinds.is_floating(kind) or kinds.is_boolean(kind) or kinds.is_decimal(kind)):
            raise InputError(f"{path} should hold numbers, but its column {name!r} is of type {kind}")
    rows = tuple(metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
    return RowGroups(names, rows, all(kinds.is_float32(kind) for kind in types))


def read_row_group(path: str, number: int, names: Sequence[str], kind: Any) -> Any:
    """One piece of a Parquet file as an array, NaN where a value is missing."""
    pyarrow = pyarrow_for(Path(path))
    with arrow_problems(Path(path)):
        table = pyarrow.parquet.ParquetFile(path).read_row_group(number, columns=list(names))
    wide = [table.column(name).cast(pyarrow.float64(), safe=False).to_numpy() for name in names]
    return np.column_stack(wide).astype(kind, copy=False)
