"""Points and labels from files, checked before anything is computed with them."""

from __future__ import annotations

import json
import math
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np

from dpmmwrap.arrays import FloatArray, IntArray
from dpmmwrap.files.problems import InputError, PathLike, explained
from dpmmwrap.files.tables import read_parquet, read_table

AnyArray = np.ndarray[Any, Any]

CHECKED_AT_ONCE = 1 << 21
"""Numbers looked at in one go, so that a memory-mapped file larger than memory can be checked."""


@dataclass(frozen=True)
class Data:
    """The points (N, D), and a label per point where the file holds them."""

    X: FloatArray
    y: IntArray | None = None


def read_data(path: PathLike, *, at_least: int = 2) -> Data:
    """The points of a .npy (memory-mapped), .npz (`X`, `y`), .csv, .tsv or .parquet file, checked."""
    path = Path(path)
    y = None
    with explained(path):
        suffix = known_suffix(path, (".npy", ".npz", ".csv", ".tsv", ".parquet"))
        if suffix == ".npy":
            X = read_npy(path)
        elif suffix == ".npz":
            arrays = read_arrays(path, required=("X",), optional=("y",))
            X, y = arrays["X"], arrays.get("y")
        elif suffix == ".parquet":
            X = read_parquet(path)
        else:
            X = read_table(path, delimiters="\t" if suffix == ".tsv" else ",;\t")
    points = check_points(X, str(path), at_least=at_least)
    return Data(points, None if y is None else check_labels(y, len(points), f"y in {path}"))


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


def check_points(X: AnyArray, source: str, *, at_least: int = 2) -> FloatArray:
    """X as real, finite numbers in rows of points, or an InputError that says what it is instead."""
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
    check_finite(X, source)
    return X


def check_finite(X: FloatArray, source: str) -> None:
    rows = max(1, CHECKED_AT_ONCE // X.shape[1])
    for first in range(0, len(X), rows):
        chunk = X[first : first + rows]
        with np.errstate(over="ignore"):
            # The samplers work in single precision: what overflows there counts as infinite.
            finite = np.isfinite(chunk.astype(np.float32, copy=False))
        if not finite.all():
            row, column = np.argwhere(~finite)[0]
            raise InputError(
                f"{source} should hold finite numbers, but row {first + row + 1}, column {column + 1} "
                f"(counted from 1) is {name_of(float(chunk[row, column]))}"
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


def name_of(value: float) -> str:
    """What is wrong with a number."""
    if math.isnan(value):
        return "not a number (NaN)"
    if math.isinf(value):
        return "infinity" if value > 0 else "minus infinity"
    return f"{value:g}, which single precision cannot hold"


def kind_of(dtype: np.dtype[Any]) -> str:
    """What an array holds that does not hold real numbers."""
    if dtype.hasobject:
        return "Python objects, which are never loaded"
    if dtype.names:
        return f"records ({', '.join(dtype.names)})"
    names = {"U": "text", "S": "text", "c": "complex numbers", "M": "dates", "m": "time spans"}
    return names.get(dtype.kind, str(dtype))
