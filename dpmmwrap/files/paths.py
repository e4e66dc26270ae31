"""Which files to read, and of which kind they are."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from dpmmwrap.files.problems import InputError, PathLike

ARRAYS = (".npy", ".npz")
TEXT = (".csv", ".tsv", ".txt", ".dat", ".csv.gz", ".tsv.gz", ".txt.gz", ".dat.gz")
ARROW = (".parquet", ".feather")
EXCEL = (".xlsx",)


def files_of(paths: PathLike | Sequence[PathLike]) -> list[Path]:
    """Files by their names, or by patterns such as `*.csv`, in the order of their names."""
    given = [paths] if isinstance(paths, (str, os.PathLike)) else list(paths)
    files: list[Path] = []
    for one in map(str, given):
        # A shell may leave a pattern as it is, for instance in quotes.
        if glob.has_magic(one) and not Path(one).exists():
            matching = sorted(glob.glob(one))
            if not matching:
                raise InputError(f"{one} should match a file, but it matches none")
            files += map(Path, matching)
        else:
            files.append(Path(one))
    return list(dict.fromkeys(files))


def source_of(files: Sequence[Path]) -> str:
    """One file by its name, several by the name of the first."""
    return str(files[0]) if len(files) == 1 else f"{files[0]} and {len(files) - 1} more"


def known_suffix(path: Path, known: Sequence[str]) -> str:
    """The ending of a file's name; an InputError if it is not a file or not of a known kind."""
    if path.is_dir():
        raise InputError(f"{path} should be a file, but it is a folder")
    if not path.exists():
        raise InputError(f"{path} should be a file, but it does not exist")
    suffix = ending(path)
    if suffix not in known:
        came = f"ends in {suffix}" if suffix else "has no ending"
        raise InputError(f"{path} should be one of {', '.join(known)}, but its name {came}")
    return suffix


def ending(path: Path) -> str:
    """The ending in lower case; of a packed file with the one before it."""
    suffix = path.suffix.lower()
    return Path(path.stem).suffix.lower() + suffix if suffix == ".gz" else suffix
