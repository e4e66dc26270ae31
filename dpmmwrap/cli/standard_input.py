"""Data from a pipe: `-` in place of a file."""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Sequence
from pathlib import Path

import click

CALLED = "standard input"
KINDS = ((b"\x93NUMPY", ".npy"), (b"PAR1", ".parquet"), (b"ARROW1", ".feather"), (b"\x1f\x8b", ".csv.gz"))
"""What files begin with; what begins otherwise is text."""


def piped(ctx: click.Context, paths: Sequence[Path]) -> tuple[Path, ...]:
    """The paths, with a file of what comes by the pipe in place of `-`, as long as the command runs."""
    if not any(str(path) == "-" for path in paths):
        return tuple(paths)
    content = sys.stdin.buffer.read()
    folder = Path(ctx.with_resource(tempfile.TemporaryDirectory(prefix="dpmmwrap-")))
    file = folder / f"standard-input{ending_of(content)}"
    file.write_bytes(content)
    return tuple(file if str(path) == "-" else path for path in paths)


def ending_of(content: bytes) -> str:
    """Of the file that this would be, by how it begins."""
    if content.startswith(b"PK"):
        with contextlib.suppress(zipfile.BadZipFile), zipfile.ZipFile(io.BytesIO(content)) as archive:
            return ".xlsx" if "[Content_Types].xml" in archive.namelist() else ".npz"
    return next((ending for begin, ending in KINDS if content.startswith(begin)), ".csv")


def is_piped(path: Path) -> bool:
    return path.name.startswith("standard-input") and path.parent.name.startswith("dpmmwrap-")


@contextlib.contextmanager
def by_its_name(paths: Sequence[Path]) -> Iterator[None]:
    """Messages about what came by the pipe say so."""
    from dpmmwrap.files import InputError

    try:
        yield
    except InputError as error:
        message = str(error)
        for path in paths:
            message = message.replace(str(path), CALLED) if is_piped(path) else message
        raise InputError(message) from error


def called(source: str, paths: Sequence[Path]) -> str:
    """Where the points came from, in words."""
    return next((source.replace(str(path), CALLED) for path in paths if is_piped(path)), source)
