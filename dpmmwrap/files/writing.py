"""Writing results, so that a reader never finds half a file."""

from __future__ import annotations

import contextlib
import csv
import io
import json
import math
import os
import secrets
import shutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from dpmmwrap.files.problems import InputError, PathLike, reason


def write_atomically(path: PathLike, writer: Callable[[IO[bytes]], object]) -> None:
    """Let `writer` fill a file. Whatever happens, `path` is the old file or the whole new one."""
    try:
        if is_special(path):
            with Path(path).open("wb") as file:
                writer(file)
        else:
            replace(Path(os.path.realpath(path)), writer)
    except OSError as error:
        raise InputError(f"cannot write {path}: {reason(error)}") from error


def replace(target: Path, writer: Callable[[IO[bytes]], object]) -> None:
    scratch = scratch_beside(target)
    try:
        with scratch.open("xb") as file:
            writer(file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(scratch, target)
    except BaseException:
        scratch.unlink(missing_ok=True)
        raise
    # Make the new name durable; where the system cannot, the file is still whole.
    with contextlib.suppress(OSError):
        handle = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def is_special(path: PathLike) -> bool:
    """A device or a pipe (/dev/null, /dev/stdout) is written to, never replaced."""
    return os.path.exists(path) and not os.path.isfile(path) and not os.path.isdir(path)


def scratch_beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")


def check_writable(path: PathLike, *, needed: int = 0) -> None:
    """Before any work, refuse a place that cannot be written to or lacks room for that many bytes."""
    if is_special(path):
        return
    target = Path(os.path.realpath(path))
    if os.path.isdir(target):
        raise InputError(f"cannot write {path}: it is a folder")
    try:
        scratch = scratch_beside(target)
        scratch.touch(exist_ok=False)
        scratch.unlink()
        free = shutil.disk_usage(target.parent).free
    except OSError as error:
        raise InputError(f"cannot write {path}: {reason(error)}") from error
    if free < needed:
        raise InputError(f"cannot write {path}: it takes about {needed:,} bytes, but only {free:,} are free")


def prepare_folder(path: PathLike, *, needed: int = 0) -> Path:
    """Make a folder if needed, and check that it can be written to and has room for that many bytes."""
    folder = Path(path)
    # os.path, unlike Path, treats a location without permission as missing.
    if os.path.exists(folder) and not os.path.isdir(folder):
        raise InputError(f"{folder} should be a folder to write to, but it is a file")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"cannot make the folder {folder}: {reason(error)}") from error
    check_writable(folder / "labels.npy", needed=needed)
    return folder


def write_npy(path: PathLike, array: np.ndarray[Any, Any]) -> None:
    write_atomically(path, lambda file: np.save(file, array, allow_pickle=False))


def write_npz(path: PathLike, arrays: Mapping[str, Any], *, compressed: bool = False) -> None:
    save = np.savez_compressed if compressed else np.savez
    for name, value in arrays.items():
        if np.asarray(value).dtype.hasobject:
            raise TypeError(f"{name} should be an array of plain values, not of objects: those need a pickle")
    write_atomically(path, lambda file: save(file, **arrays))


def write_json(path: PathLike, value: Any) -> None:
    text = json.dumps(value, indent=2, allow_nan=False) + "\n"
    write_atomically(path, lambda file: file.write(text.encode()))


def write_csv(path: PathLike, columns: Mapping[str, Sequence[Any] | np.ndarray[Any, Any]]) -> None:
    """One column per name; numbers in full precision, and an empty field for NaN."""
    rows = zip(*(np.asarray(column).tolist() for column in columns.values()), strict=True)
    fields = (["" if isinstance(field, float) and math.isnan(field) else field for field in row] for row in rows)
    text = csv_text([columns, *fields])
    write_atomically(path, lambda file: file.write(text))


def csv_text(lines: Iterable[Iterable[Any]]) -> bytes:
    """Lines of fields as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue().encode()
