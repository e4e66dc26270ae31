"""Sparse matrices of counts from .npz files, checked, and never made dense."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.files.checks import COUNTS, overflows
from dpmmwrap.files.problems import InputError, name_of

PARTS = {"csr": ("data", "indices", "indptr"), "csc": ("data", "indices", "indptr"), "coo": ("data", "row", "col")}
"""The arrays of each format of scipy.sparse that is read."""
LARGEST = 2**31
"""The largest number of rows or columns."""

Arrays = Mapping[str, np.ndarray[Any, Any]]


def is_sparse_archive(members: Collection[str]) -> bool:
    """Whether a .npz holds a sparse matrix: as scipy.sparse.save_npz writes it, or its arrays without the format."""
    known = "format" in members or "indptr" in members
    return known and "shape" in members and "data" in members and "X" not in members


def parts_of(members: Collection[str]) -> tuple[str, ...]:
    """The arrays to read, with `format` if there is one."""
    coo = "row" in members and "indptr" not in members
    return ("shape", *PARTS["coo" if coo else "csr"], *(("format",) if "format" in members else ()))


def sparse_counts(arrays: Arrays, path: Path) -> Any:
    """A CSR matrix of finite, non-negative counts with sorted indices and no duplicates.

    scipy raises ValueError for indices outside the shape.
    """
    from scipy import sparse

    kind, shape = format_of(arrays, path), shape_of(arrays["shape"], path)
    data, *indices = (arrays[name] for name in PARTS[kind])
    check_parts(data, indices, path)
    if kind == "coo":
        X = sparse.coo_matrix((data, tuple(indices)), shape=shape)
    else:
        X = (sparse.csr_matrix if kind == "csr" else sparse.csc_matrix)((data, *indices), shape=shape)
        X.check_format(full_check=True)
        if X.nnz != len(data):
            raise InputError(f"{path} is damaged: its indptr should end with {len(data):,}, but it ends with {X.nnz:,}")
    X = X.tocsr()
    X.sum_duplicates()
    check_values(X, path)
    return X


def format_of(arrays: Arrays, path: Path) -> str:
    if "format" not in arrays:
        return "csr" if "indptr" in arrays else "coo"
    raw = arrays["format"].item() if arrays["format"].size == 1 else ""
    kind = raw.decode("ascii", "replace") if isinstance(raw, bytes) else str(raw)
    if kind not in PARTS:
        known = ", ".join(PARTS)
        raise InputError(f"{path} should hold a sparse matrix in one of the formats {known}, but it is in {kind!r}")
    return kind


def shape_of(shape: np.ndarray[Any, Any], path: Path) -> tuple[int, int]:
    if shape.shape != (2,) or shape.dtype.kind not in "iu" or (shape < 0).any() or (shape >= LARGEST).any():
        raise InputError(f"{path} is damaged: its shape should be two numbers, but it is {shape.tolist()}")
    rows, columns = (int(length) for length in shape)
    if rows == 0 or columns == 0:
        raise InputError(f"{path} should hold points, but it has no {'rows' if columns else 'columns'}")
    return rows, columns


def check_parts(data: np.ndarray[Any, Any], indices: list[np.ndarray[Any, Any]], path: Path) -> None:
    """Whether a matrix's arrays have the right type and length."""
    if data.dtype.kind not in "fiub":
        raise InputError(f"{path} should hold counts, but its data are of type {data.dtype}")
    if data.ndim != 1 or any(array.ndim != 1 or array.dtype.kind not in "iu" for array in indices):
        raise InputError(f"{path} is damaged: a sparse matrix is a list of counts and lists of whole numbers")
    if len(indices[0]) != len(data):
        raise InputError(f"{path} is damaged: it holds {len(data):,} counts, but {len(indices[0]):,} indices")


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
