"""NumPy's own files, .npy and .npz, without ever unpickling."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np

from dpmmwrap.files.checks import kind_of
from dpmmwrap.files.problems import InputError, PathLike, explained

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
