"""NumPy's own files, .npy and .npz, without ever unpickling; sparse matrices of counts in them."""

from __future__ import annotations

import zipfile
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from dpmmwrap.files.checks import COUNTS, kind_of, overflows
from dpmmwrap.files.problems import InputError, PathLike, explained, name_of

AnyArray = np.ndarray[Any, Any]


def read_npy(path: Path) -> AnyArray:
    with path.open("rb") as file:
        check_header(file, str(path))
    array: AnyArray = np.load(path, mmap_mode="r", allow_pickle=False)
    return array


def names_in(path: Path) -> list[str]:
    with zipfile.ZipFile(path) as archive:
        return [member.removesuffix(".npy") for member in archive.namelist()]


def read_arrays(path: PathLike, *, required: Sequence[str], optional: Sequence[str] = ()) -> dict[str, AnyArray]:
    arrays = {}
    with explained(path), zipfile.ZipFile(path) as archive:
        members = {member.removesuffix(".npy"): member for member in archive.namelist()}
        missing = [name for name in required if name not in members]
        if missing:
            came = ", ".join(members) or "nothing"
            raise InputError(f"{path} should hold an array named {missing[0]}, but it holds {came}")
        for name in (*required, *(name for name in optional if name in members)):
            with archive.open(members[name]) as file:
                check_header(file, f"{name} in {path}")
            with archive.open(members[name]) as file:
                arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
                # Reading past the last byte makes the archive compare its checksum.
                file.read(1)
    return arrays


def check_header(file: IO[bytes], source: str) -> None:
    """Refuse anything but an array of plain values, before loading it."""
    prefix = file.read(6)
    if prefix != b"\x93NUMPY":
        looks = {b"": "is empty", b"\x80": "looks like a pickle, which is never loaded"}.get(prefix[:1])
        looks = "looks like an archive of arrays (.npz)" if prefix.startswith(b"PK") else looks
        raise InputError(f"{source} should be a NumPy array, but it {looks or 'does not begin like one'}")
    version = tuple(file.read(2))
    read_header = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    _, _, dtype = read_header(file)
    if dtype.hasobject:
        raise InputError(f"{source} should hold numbers, but it holds {kind_of(dtype)}")


PARTS = {"csr": ("data", "indices", "indptr"), "csc": ("data", "indices", "indptr"), "coo": ("data", "row", "col")}
"""The arrays of each format of scipy.sparse that is read."""
LARGEST = 2**31
"""The largest number of rows or columns."""


def is_sparse_archive(members: Collection[str]) -> bool:
    """Whether a .npz holds a sparse matrix: as scipy.sparse.save_npz writes it, or its arrays without the format."""
    known = "format" in members or "indptr" in members
    return known and "shape" in members and "data" in members and "X" not in members


def parts_of(members: Collection[str]) -> tuple[str, ...]:
    """The arrays to read, with `format` if there is one."""
    coo = "row" in members and "indptr" not in members
    return ("shape", *PARTS["coo" if coo else "csr"], *(("format",) if "format" in members else ()))


def sparse_counts(arrays: Mapping[str, AnyArray], path: Path) -> Any:
    """A CSR matrix of finite, non-negative counts with sorted indices and no duplicates.

    scipy raises ValueError for indices outside the shape.
    """
    from scipy import sparse

    kind, shape = format_of(arrays, path), arrays["shape"]
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any() or (shape >= LARGEST).any():
        raise InputError(f"{path} is damaged: its shape should be two numbers, but it is {shape.tolist()}")
    if not shape.all():
        raise InputError(f"{path} should hold points, but it has no {'rows' if shape[1] else 'columns'}")
    data, *indices = (arrays[name] for name in PARTS[kind])
    if data.dtype.kind not in "fiub":
        raise InputError(f"{path} should hold counts, but its data are of type {data.dtype}")
    if data.ndim != 1 or any(array.ndim != 1 or array.dtype.kind not in "iu" for array in indices):
        raise InputError(f"{path} is damaged: a sparse matrix is a list of counts and lists of whole numbers")
    if len(indices[0]) != len(data):
        raise InputError(f"{path} is damaged: it holds {len(data):,} counts, but {len(indices[0]):,} indices")
    if kind == "coo":
        X = sparse.coo_matrix((data, tuple(indices)), shape=tuple(shape.tolist()))
    else:
        X = (sparse.csr_matrix if kind == "csr" else sparse.csc_matrix)((data, *indices), shape=tuple(shape.tolist()))
        X.check_format(full_check=True)
        if X.nnz != len(data):
            raise InputError(f"{path} is damaged: its indptr should end with {len(data):,}, but it ends with {X.nnz:,}")
    X = X.tocsr()
    X.sum_duplicates()
    check_values(X, path)
    return X


def format_of(arrays: Mapping[str, AnyArray], path: Path) -> str:
    if "format" not in arrays:
        return "csr" if "indptr" in arrays else "coo"
    raw = arrays["format"].item() if arrays["format"].size == 1 else ""
    kind = raw.decode("ascii", "replace") if isinstance(raw, bytes) else str(raw)
    if kind not in PARTS:
        known = ", ".join(PARTS)
        raise InputError(f"{path} should hold a sparse matrix in one of the formats {known}, but it is in {kind!r}")
    return kind


def check_values(X: Any, path: Path) -> None:
    """Refuse values that are not counts; convert the others to floating point."""
    if X.data.dtype.kind != "f" or X.data.dtype.itemsize == 2:
        X.data = X.data.astype(np.float32 if X.data.dtype.itemsize <= 2 else np.float64)
    wrong = overflows(X.data) | np.isnan(X.data) | (X.data < 0) | (X.data != np.round(X.data))
    if wrong.any():
        index = int(np.flatnonzero(wrong)[0])
        row = int(np.searchsorted(X.indptr, index, side="right"))
        value = float(X.data[index])
        came = f"{value:g}" if np.isfinite(np.float32(value)) else name_of(value)
        where = f"row {row}, column {X.indices[index] + 1}, counted from 1,"
        raise InputError(f"{path} should hold {COUNTS}, but {where} is {came}")
    X.eliminate_zeros()
