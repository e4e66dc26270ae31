"""Points from files, checked before anything is computed with them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from dpmmwrap.files.arrow import arrow_names, arrow_text, read_arrow
from dpmmwrap.files.checks import (
    check_counts,
    check_labels,
    check_points,
    check_size,
    chunks,
    class_names,
    empty_columns,
)
from dpmmwrap.files.columns import as_numbers, check_columns, gaps_in, numbers_rows, read_columns
from dpmmwrap.files.excel import read_sheet, sheet_names
from dpmmwrap.files.npy import is_sparse_archive, names_in, parts_of, read_arrays, read_npy, sparse_counts
from dpmmwrap.files.paths import ARRAYS, ARROW, EXCEL, TEXT, files_of, known_suffix, source_of
from dpmmwrap.files.problems import InputError, PathLike, SparseInstead, explained
from dpmmwrap.files.selection import ALL, Names, Selection, listed, numbered
from dpmmwrap.files.tables import Piece, layout_of, read_table
from dpmmwrap.files.text import PLAIN, Format, open_text
from dpmmwrap.numerics.arrays import IntArray

AnyArray = np.ndarray[Any, Any]
DATA_FILES = (*ARRAYS, *TEXT, *ARROW, *EXCEL)
Kind = Literal["numbers", "counts", "table"]
"""The expected contents of a file: points, rows of counts (dense or sparse), or columns of numbers and words."""


@dataclass(frozen=True)
class Data:
    """The rows of a file, and their labels if the file has them."""

    X: Any
    """Points or counts (N, D), a CSR matrix of counts, or columns by name."""
    y: IntArray | None = None
    """-1 where a label is missing."""
    names: tuple[str, ...] | None = None
    """The columns' names, if the file has them."""
    notes: tuple[str, ...] = ()
    """Notes on how the file was read."""
    ids: AnyArray | None = None
    """The names of the rows, if the file has them."""
    counting: tuple[str, ...] = ()
    """Columns, by name or number, that number the rows."""
    classes: tuple[str, ...] = ()
    """The original labels, by their numbers in `y`."""

    def __len__(self) -> int:
        return len(next(iter(self.X.values()))) if isinstance(self.X, dict) else int(self.X.shape[0])

    @property
    def dim(self) -> int:
        return len(self.X) if isinstance(self.X, dict) else int(self.X.shape[1])

    @property
    def columns(self) -> Names:
        """The columns' names, or their numbers if they have none."""
        return tuple(self.X) if isinstance(self.X, dict) else self.names or numbered(self.dim)

    def rows(self, chosen: Any) -> Any:
        """Some rows of X, given by a slice, numbers or a mask."""
        return {name: column[chosen] for name, column in self.X.items()} if isinstance(self.X, dict) else self.X[chosen]

    def only(self, chosen: Any) -> Data:
        """The data of these rows alone."""
        y, ids = (None if one is None else one[chosen] for one in (self.y, self.ids))
        return replace(self, X=self.rows(chosen), y=y, ids=ids)

    def empty(self) -> AnyArray:
        if isinstance(self.X, dict):
            return np.asarray(np.all([gaps_in(column) for column in self.X.values()], axis=0))
        empty = np.zeros(len(self), dtype=bool)
        for rows in () if hasattr(self.X, "indptr") else chunks(self.X):
            empty[rows] = np.isnan(self.X[rows]).all(axis=1)
        return empty

    def complete(self) -> AnyArray:
        """Which rows have no gaps, and a label if the data have labels."""
        labelled = np.ones(len(self), dtype=bool) if self.y is None else self.y >= 0
        if hasattr(self.X, "indptr"):
            return labelled
        # An empty column is left out later, and needs no values.
        if isinstance(self.X, dict):
            gaps = [gaps_in(column) for column in self.X.values()]
            return np.asarray(labelled & ~np.any([missing for missing in gaps if not missing.all()] or gaps, axis=0))
        empty = empty_columns(self.X)
        wanted = empty if empty.all() else ~empty
        for rows in chunks(self.X):
            labelled[rows] &= ~(np.isnan(self.X[rows]) & wanted).any(axis=1)
        return labelled


class ReadingOptions(NamedTuple):
    """What to read from each file."""

    kind: Kind
    gaps: bool
    words: tuple[str, ...]
    selection: Selection


def read_data(
    paths: PathLike | Sequence[PathLike],
    *,
    at_least: int = 2,
    kind: Kind = "numbers",
    gaps: bool = False,
    words: Sequence[str] = (),
    wanted: Selection = ALL,
) -> Data:
    """The checked rows of a file, or of several files one after the other.

    Files are .npy (memory-mapped if it is the only one), .npz (`X`, `y`, or a sparse matrix), text, .parquet, .feather
    or .xlsx; a path may be a pattern, such as `*.csv`. With `gaps`, NaN in points or counts is a missing value. In a
    table it always is, and the columns in `words` are words even if all of them are numbers.
    """
    files = files_of(paths)
    what = ReadingOptions(kind, gaps, tuple(words), wanted)
    pieces = [read_piece(path, what) for path in files]
    piece = pieces[0] if len(pieces) == 1 else join(pieces, files, what)
    source = source_of(files)
    data = Data(piece.X, names=piece.names, notes=piece.notes, ids=piece.ids)
    check_size(len(data), at_least, source)
    columns = [] if hasattr(data.X, "indptr") else data.X.values() if isinstance(data.X, dict) else data.X.T
    pairs = zip(data.columns, columns, strict=False)
    data = replace(data, counting=tuple(name for name, column in pairs if numbers_rows(name, column)))
    labels = piece.labels
    if labels is None:
        return data
    y = check_labels(
        labels, len(data), f"the column {wanted.labels!r} of {source}" if wanted.labels else f"y in {source}"
    )
    # The empty word, where a label is missing, comes first in order.
    y = y - np.int32(labels.dtype.kind == "U" and bool((labels == "").any()))
    return replace(data, y=y, classes=class_names(labels))


def read_piece(path: Path, wanted: ReadingOptions) -> Piece:
    kind = wanted.kind
    with explained(path):
        suffix = known_suffix(path, DATA_FILES)
        check_format(path, suffix, wanted.selection.format)
        members = names_in(path) if suffix == ".npz" else ()
        if is_sparse_archive(members):
            return read_sparse(path, members, wanted)
        if kind == "table" and suffix not in ARRAYS:
            table = columns_in(path, suffix, wanted)
            columns = {name: without_codes(column, wanted.selection.format) for name, column in table.X.items()}
            check_columns(columns, str(path))
            return table._replace(X=columns)
        numbers = array_in(path, suffix, wanted) if suffix in ARRAYS else numbers_in(path, suffix, wanted)
    gaps, X = wanted.gaps or kind == "table", without_codes(numbers.X, wanted.selection.format)
    points = check_points(X, str(path), at_least=1, gaps=gaps, names=numbers.names)
    if numbers.labels is not None:
        check_labels(numbers.labels, len(points), f"y in {path}")
    if kind == "counts":
        check_counts(points, str(path), numbers.names)
    if kind == "table":
        return numbers._replace(X=dict(zip(numbered(points.shape[1]), points.T, strict=True)), names=None)
    return numbers._replace(X=points)


def check_format(path: Path, suffix: str, format: Format) -> None:
    """Refuse options that do not apply to this kind of file."""
    if format.sheet is not None and suffix not in EXCEL:
        raise InputError(f"{path} has no sheets: --sheet is for Excel files")
    if (format.separator or format.encoding) and suffix not in TEXT:
        raise InputError(f"{path} is not a text file: --sep and --encoding are for those")


def without_codes(X: AnyArray, format: Format) -> AnyArray:
    """Numbers, with NaN in place of codes for missing values such as -999."""
    codes = format.missing_numbers
    if not codes or X.dtype.kind not in "fiu":
        return X
    coded = np.isin(X, codes)
    return np.where(coded, np.nan, X) if coded.any() else X


def array_in(path: Path, suffix: str, wanted: ReadingOptions) -> Piece:
    """The points of a .npy or .npz file; its columns have numbers instead of names."""
    arrays = read_arrays(path, required=("X",), optional=("y",)) if suffix == ".npz" else {"X": read_npy(path)}
    return narrowed(arrays["X"], arrays.get("y"), wanted.selection, path)


def narrowed(X: Any, y: AnyArray | None, wanted: Selection, path: Path) -> Piece:
    """The wanted columns of an array or a sparse matrix, the names of its rows, and their labels."""
    if not wanted.narrows or X.ndim != 2:
        return Piece(X, labels=y)
    features, *beside = wanted.of(numbered(X.shape[1]), path)
    ids, labels = (
        None if index is None else X[:, [index]].toarray()[:, 0] if hasattr(X, "indptr") else np.array(X[:, index])
        for index in beside
    )
    names = None if ids is None else row_names(ids)
    return Piece(X[:, list(features)], ids=names, labels=y if labels is None else labels)


def row_names(column: AnyArray) -> AnyArray:
    """Numbers as the names of rows: 7.0 is 7."""
    values = (int(value) if isinstance(value, float) and value.is_integer() else value for value in column.tolist())
    return np.array([str(value) for value in values], dtype=str)


def numbers_in(path: Path, suffix: str, wanted: ReadingOptions) -> Piece:
    """The numbers of a table, with the columns' names."""
    if suffix in TEXT:
        return read_table(path, marks(suffix), gaps=wanted.gaps, wanted=wanted.selection)
    if suffix in ARROW:
        return as_numbers(read_arrow(path, wanted=wanted.selection, truth=True), path)
    return as_numbers(read_sheet(path, wanted=wanted.selection), path)


def columns_in(path: Path, suffix: str, wanted: ReadingOptions) -> Piece:
    """The columns of a table in which some may hold words."""
    if suffix in TEXT:
        return read_columns(path, marks(suffix), wanted.words, wanted.selection)
    reader = read_arrow if suffix in ARROW else read_sheet
    return reader(path, wanted.words, wanted.selection)


def read_sparse(path: Path, members: Sequence[str], wanted: ReadingOptions) -> Piece:
    """A sparse matrix, which only families of counts take."""
    if wanted.kind != "counts":
        expected = "a table" if wanted.kind == "table" else "points"
        raise SparseInstead(f"{path} should hold {expected}, but it holds a sparse matrix")
    arrays = read_arrays(path, required=parts_of(members), optional=("y",))
    X, labels = sparse_counts(arrays, path), arrays.get("y")
    if labels is not None:
        check_labels(labels, X.shape[0], f"y in {path}")
    return narrowed(X, labels, wanted.selection, path)


def join(pieces: list[Piece], files: Sequence[Path], wanted: ReadingOptions) -> Piece:
    """The rows of several files, one after the other."""
    names = [piece.names for piece in pieces]
    same_names(names, [len(piece.X) if isinstance(piece.X, dict) else piece.X.shape[1] for piece in pieces], files)
    if wanted.kind == "table":
        kinds = {name: {piece.X[name].dtype.kind for piece in pieces} for name in pieces[0].X}
        words = [name for name, some in kinds.items() if "U" in some]
        if any(len(kinds[name]) > 1 for name in words):
            # A column that holds words in one file is read as words in the others, too.
            again = wanted._replace(words=tuple(dict.fromkeys((*wanted.words, *words))))
            pieces = [read_piece(path, again) for path in files]
    ids, labels = (join_rows(parts, files) for parts in zip(*((one.ids, one.labels) for one in pieces), strict=True))
    notes = tuple(dict.fromkeys(note for piece in pieces for note in piece.notes))
    return Piece(join_columns([piece.X for piece in pieces], names), pieces[0].names, ids, labels, notes)


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


def read_as_text(paths: PathLike | Sequence[PathLike], format: Format = PLAIN) -> dict[str, AnyArray]:
    """All columns of files by name or number, as text; empty where a value is missing."""
    files = files_of(paths)
    tables = [columns_as_text(path, format) for path in files]
    same_names([tuple(columns) for columns in tables], [len(columns) for columns in tables], files)
    return {name: np.concatenate([columns[name] for columns in tables]) for name in tables[0]}


def columns_as_text(path: Path, format: Format) -> dict[str, AnyArray]:
    with explained(path):
        suffix = known_suffix(path, DATA_FILES)
        if suffix in ARROW:
            return arrow_text(path)
        if suffix in ARRAYS:
            X = array_in(path, suffix, ReadingOptions("numbers", True, (), ALL)).X
            return {name: row_names(X[:, index]) for index, name in enumerate(numbered(X.shape[1]))}
        every = ReadingOptions("table", True, read_names(path, format) or (), Selection(format=format))
        columns: dict[str, AnyArray] = columns_in(path, suffix, every).X
        return columns


def read_names(path: PathLike, format: Format = PLAIN) -> Names | None:
    """The names of a table's columns, if the file has them."""
    path = Path(path)
    with explained(path):
        suffix = known_suffix(path, DATA_FILES)
        if suffix in ARROW:
            return arrow_names(path)
        if suffix in EXCEL:
            return sheet_names(path, format)
        return layout_of(path, marks(suffix), words=True, format=format).names if suffix in TEXT else None


def marks(suffix: str) -> str:
    """The possible separators of a text file."""
    return "\t" if suffix.startswith(".tsv") else ",;\t|"


def read_json(path: PathLike) -> Any:
    with explained(path):
        try:
            return json.loads(Path(path).read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise InputError(f"{path} should hold JSON, but line {error.lineno} is not") from error


LABEL_FILES = (".npy", ".npz", ".csv", ".tsv", ".txt", ".csv.gz", ".txt.gz")


def read_labels(path: PathLike, n: int) -> IntArray:
    """A label per point, as numbers from 0, from a .npy, a .npz (`y`), or a text with one in each line."""
    return read_classes(path, n)[0]


def read_classes(path: PathLike, n: int) -> tuple[IntArray, tuple[str, ...]]:
    """The labels as numbers from 0, and their names."""
    path = Path(path)
    with explained(path):
        suffix = known_suffix(path, LABEL_FILES)
        if suffix == ".npy":
            y = read_npy(path)
        elif suffix == ".npz":
            y = read_arrays(path, required=("y",))["y"]
        else:
            with open_text(path) as file:
                words = [line.strip() for line in file.read().split("\n") if line.strip()]
            # One additional line is the column's name. As labels may be words, nothing else tells.
            y = np.array(words[1:] if len(words) == n + 1 else words, dtype=str)
    return check_labels(y, n, str(path)), class_names(y)
