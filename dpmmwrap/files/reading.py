"""Points and labels from files, checked before anything is computed with them."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any, Literal

import numpy as np

from dpmmwrap.arrays import FloatArray, IntArray
from dpmmwrap.files.columns import check_columns, gaps_in, read_columns, read_parquet_columns
from dpmmwrap.files.problems import InputError, MissingValues, PathLike, SparseInstead, explained, name_of
from dpmmwrap.files.sparse import is_sparse_archive, parts_of, sparse_counts
from dpmmwrap.files.tables import Names, Numbers, called, layout_of, parquet_names, read_parquet, read_table

AnyArray = np.ndarray[Any, Any]

CHECKED_AT_ONCE = 1 << 21
"""Numbers looked at in one go, so that a memory-mapped file larger than memory can be checked."""


Kind = Literal["numbers", "counts", "table"]
"""What is wanted of a file: points, rows of counts (dense or sparse), or columns of numbers and words."""


@dataclass(frozen=True)
class Data:
    """The rows of a file, and a label for each where the file holds them."""

    X: Any
    """Points or counts (N, D), a CSR matrix of counts, or a column by each name."""
    y: IntArray | None = None
    names: tuple[str, ...] | None = None
    """The columns' names, where the file has them."""
    notes: tuple[str, ...] = ()
    """What should be said of how the file was understood."""

    def __len__(self) -> int:
        return len(next(iter(self.X.values()))) if isinstance(self.X, dict) else int(self.X.shape[0])

    @property
    def dim(self) -> int:
        """Columns."""
        return len(self.X) if isinstance(self.X, dict) else int(self.X.shape[1])

    def rows(self, chosen: Any) -> Any:
        """Some rows (a slice, numbers or a mask), as X is."""
        return {name: column[chosen] for name, column in self.X.items()} if isinstance(self.X, dict) else self.X[chosen]

    def only(self, chosen: Any) -> Data:
        """These data without the other rows."""
        return replace(self, X=self.rows(chosen), y=None if self.y is None else self.y[chosen])

    def complete(self) -> AnyArray:
        """Which rows have no gaps."""
        if hasattr(self.X, "indptr"):
            return np.ones(len(self), dtype=bool)
        if isinstance(self.X, dict):
            return np.asarray(~np.any([gaps_in(column) for column in self.X.values()], axis=0))
        found = np.empty(len(self), dtype=bool)
        for rows in chunks(self.X):
            found[rows] = ~np.isnan(self.X[rows]).any(axis=1)
        return found


def read_data(
    path: PathLike, *, at_least: int = 2, kind: Kind = "numbers", gaps: bool = False, words: Sequence[str] = ()
) -> Data:
    """The rows of a .npy (memory-mapped), .npz (`X`, `y`, or a sparse matrix), .csv, .tsv or .parquet file, checked.

    With `gaps`, NaN in points or counts is a missing value. In a table it always is, and the columns named in `words`
    are words even if all of them are numbers.
    """
    path = Path(path)
    with explained(path):
        suffix = known_suffix(path, (".npy", ".npz", ".csv", ".tsv", ".parquet"))
        members = names_in(path) if suffix == ".npz" else ()
        if is_sparse_archive(members):
            return read_sparse(path, members, kind, at_least)
        if kind == "table" and suffix in (".csv", ".tsv", ".parquet"):
            return read_words(path, words, at_least)
        arrays = read_arrays(path, required=("X",), optional=("y",)) if suffix == ".npz" else {}
        if suffix == ".npz":
            numbers = Numbers(arrays["X"])
        elif suffix == ".npy":
            numbers = Numbers(read_npy(path))
        else:
            numbers = read_parquet(path) if suffix == ".parquet" else read_table(path, marks(path), gaps=gaps)
    points = check_points(numbers.X, str(path), at_least=at_least, gaps=gaps or kind == "table", names=numbers.names)
    if kind == "counts":
        check_not_negative(points, str(path), numbers.names)
    X = {str(place + 1): points[:, place] for place in range(points.shape[1])} if kind == "table" else points
    return Data(X, labels_in(arrays, len(points), path), numbers.names)


def read_sparse(path: Path, members: Collection[str], kind: Kind, at_least: int) -> Data:
    """A sparse matrix of counts, where counts are wanted."""
    if kind != "counts":
        wanted = "a table" if kind == "table" else "points"
        raise SparseInstead(f"{path} should hold {wanted}, but it holds a sparse matrix")
    arrays = read_arrays(path, required=parts_of(members), optional=("y",))
    X = sparse_counts(arrays, path, at_least=at_least)
    return Data(X, labels_in(arrays, X.shape[0], path))


def read_words(path: Path, words: Sequence[str], at_least: int) -> Data:
    """A table in which columns may hold words."""
    if path.suffix.lower() == ".parquet":
        table = read_parquet_columns(path, words)
    else:
        table = read_columns(path, marks(path), words)
    check_columns(table.columns, str(path), at_least=at_least)
    return Data(table.columns, names=table.names, notes=table.notes)


def read_names(path: PathLike) -> Names | None:
    """The names of a table's columns, where the file has them."""
    path = Path(path)
    with explained(path):
        suffix = known_suffix(path, (".npy", ".npz", ".csv", ".tsv", ".parquet"))
        if suffix == ".parquet":
            return parquet_names(path)
        return layout_of(path, marks(path), words=True).names if suffix in (".csv", ".tsv") else None


def marks(path: Path) -> str:
    """What may stand between two fields of a text file."""
    return "\t" if path.suffix.lower() == ".tsv" else ",;\t"


def labels_in(arrays: Mapping[str, AnyArray], n: int, path: Path) -> IntArray | None:
    return check_labels(arrays["y"], n, f"y in {path}") if "y" in arrays else None


def read_labels(path: PathLike, n: int) -> IntArray:
    """A label per point, as numbers from 0: of a .npy, .npz (`y`), or .csv, .tsv, .txt, one in each line."""
    path = Path(path)
    with explained(path):
        suffix = known_suffix(path, (".npy", ".npz", ".csv", ".tsv", ".txt"))
        if suffix == ".npy":
            y = read_npy(path)
        elif suffix == ".npz":
            y = read_arrays(path, required=("y",))["y"]
        else:
            lines = path.read_text(encoding="utf-8-sig").split("\n")
            words = [line.strip() for line in lines if line.strip()]
            # One line too many is the column's name; labels may be words, so nothing else tells it apart.
            y = np.array(words[1:] if len(words) == n + 1 else words, dtype=str)
    return check_labels(y, n, str(path))


def known_suffix(path: Path, known: Sequence[str]) -> str:
    if path.is_dir():
        raise InputError(f"{path} should be a file, but it is a folder")
    if not path.exists():
        raise InputError(f"{path} should be a file, but there is none of that name")
    suffix = path.suffix.lower()
    if suffix not in known:
        came = f"ends in {suffix}" if suffix else "has no ending"
        raise InputError(f"{path} should be one of {', '.join(known)}, but its name {came}")
    return suffix


def read_npy(path: Path) -> AnyArray:
    with path.open("rb") as file:
        check_header(file, str(path))
    array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def names_in(path: Path) -> list[str]:
    """The names of the arrays in a .npz file."""
    with zipfile.ZipFile(path) as archive:
        return [member.removesuffix(".npy") for member in archive.namelist()]


def read_arrays(path: PathLike, *, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, AnyArray]:
    """The named arrays of a .npz file."""
    found = {}
    with explained(path), zipfile.ZipFile(path) as archive:
        members = {member.removesuffix(".npy"): member for member in archive.namelist()}
        missing = [name for name in required if name not in members]
        if missing:
            came = ", ".join(members) if members else "nothing"
            raise InputError(f"{path} should hold an array named {missing[0]}, but it holds {came}")
        for name in (*required, *(name for name in optional if name in members)):
            with archive.open(members[name]) as file:
                check_header(file, f"{name} in {path}")
            with archive.open(members[name]) as file:
                found[name] = np.lib.format.read_array(file, allow_pickle=False)
                # Past the last byte the archive compares its checksum.
                file.read(1)
    return found


def check_header(file: IO[bytes], source: str) -> None:
    """Refuse what is not an array of plain values, before anything of it is loaded."""
    prefix = file.read(6)
    if prefix != b"\x93NUMPY":
        raise InputError(f"{source} should be a NumPy array, but it {looks_like(prefix)}")
    version = tuple(file.read(2))
    if version == (1, 0):
        _, _, dtype = np.lib.format.read_array_header_1_0(file)
    else:
        _, _, dtype = np.lib.format.read_array_header_2_0(file)
    if dtype.hasobject:
        raise InputError(f"{source} should hold numbers, but it holds {kind_of(dtype)}")


def looks_like(prefix: bytes) -> str:
    if not prefix:
        return "is empty"
    if prefix.startswith(b"\x80"):
        return "looks like a pickle, which is never loaded"
    if prefix.startswith(b"PK"):
        return "looks like an archive of arrays (.npz)"
    return "does not begin like one"


def read_json(path: PathLike) -> Any:
    with explained(path):
        try:
            return json.loads(Path(path).read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise InputError(f"{path} should hold JSON, but line {error.lineno} is not") from error


def check_points(
    X: AnyArray,
    source: str,
    *,
    at_least: int = 2,
    gaps: bool = False,
    names: Names | None = None,
) -> FloatArray:
    """X as real, finite numbers in rows of points, or an InputError that says what it is instead.

    With `gaps`, NaN is a missing value.
    """
    if X.ndim != 2:
        raise InputError(
            f"{source} should have two dimensions (points, features), but it has {X.ndim}: its shape is {X.shape}"
        )
    if X.dtype.kind not in "fiub":
        raise InputError(f"{source} should hold real numbers, but it holds {kind_of(X.dtype)}")
    n, dim = X.shape
    if n == 0 or dim == 0:
        raise InputError(f"{source} should hold points, but it is empty: its shape is {X.shape}")
    if n < at_least:
        raise InputError(f"{source} should hold at least {at_least} points, but it holds {n}")
    if X.dtype.kind != "f" or X.dtype.itemsize == 2:
        X = X.astype(np.float32 if X.dtype.itemsize <= 2 else np.float64)
    check_finite(X, source, gaps, names)
    return X


def chunks(X: AnyArray) -> Iterator[slice]:
    """Rows that are looked at in one go."""
    rows = max(1, CHECKED_AT_ONCE // X.shape[1])
    for first in range(0, len(X), rows):
        yield slice(first, first + rows)


def check_finite(X: FloatArray, source: str, gaps: bool = False, names: Names | None = None) -> None:
    for rows in chunks(X):
        chunk = X[rows]
        with np.errstate(over="ignore"):
            # The samplers work in single precision: what overflows there counts as infinite.
            single = chunk.astype(np.float32, copy=False)
        wrong = np.isinf(single) if gaps else ~np.isfinite(single)
        if wrong.any():
            row, column = (int(place) for place in np.argwhere(wrong)[0])
            value = float(chunk[row, column])
            message = (
                f"{source} should hold finite numbers, but row {rows.start + row + 1}, {called(column, names)}, "
                f"counted from 1, is {name_of(value)}"
            )
            raise MissingValues(message) if math.isnan(value) else InputError(message)


def check_not_negative(X: FloatArray, source: str, names: Names | None) -> None:
    for rows in chunks(X):
        negative = X[rows] < 0
        if negative.any():
            row, column = (int(place) for place in np.argwhere(negative)[0])
            raise InputError(
                f"{source} should hold counts of 0 or more, but row {rows.start + row + 1}, {called(column, names)}, "
                f"counted from 1, is {float(X[rows][row, column]):g}"
            )


def check_labels(y: AnyArray, n: int, source: str) -> IntArray:
    """Labels as numbers from 0 in the order of their values, one for each of n points."""
    if y.ndim == 2 and 1 in y.shape:
        y = y.ravel()
    if y.ndim != 1:
        raise InputError(f"{source} should hold one label per point, but its shape is {y.shape}")
    if len(y) != n:
        raise InputError(f"{source} should hold one label for each of {n} points, but it holds {len(y)}")
    if y.dtype.kind not in "fiubU":
        raise InputError(f"{source} should hold numbers or words as labels, but it holds {kind_of(y.dtype)}")
    if y.dtype.kind == "f" and not np.isfinite(y).all():
        row = int(np.flatnonzero(~np.isfinite(y))[0])
        raise InputError(f"{source} should hold finite labels, but row {row + 1} is {name_of(float(y[row]))}")
    labels: IntArray = np.unique(y, return_inverse=True)[1].astype(np.int32)
    return labels


def kind_of(dtype: np.dtype[Any]) -> str:
    """What an array holds that does not hold real numbers."""
    if dtype.hasobject:
        return "Python objects, which are never loaded"
    if dtype.names:
        return f"records ({', '.join(dtype.names)})"
    names = {"U": "text", "S": "text", "c": "complex numbers", "M": "dates", "m": "time spans"}
    return names.get(dtype.kind, str(dtype))
