"""`dpmmwrap predict`: label new points by a fitted model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import numpy as np

    from dpmmwrap.files import Data
    from dpmmwrap.mixture import Mixture

EXAMPLES = """
\b
Examples:
  dpmmwrap predict result/model.npz new.npy --out labels.npy
  dpmmwrap predict result/model.npz new.csv --proba --out probabilities.csv
"""

CHUNK_ROWS = 1 << 16
"""Rows labelled at once: neither the data nor the probabilities need fit into memory."""

A_PATH = click.Path(path_type=Path)


@click.command("predict", epilog=EXAMPLES)
@click.argument("model", type=A_PATH)
@click.argument("data", type=A_PATH)
@click.option("--out", type=A_PATH, metavar="FILE", help="Write a .npy or .csv file instead of printing.")
@click.option("--proba", is_flag=True, help="The probability of every cluster, not the likeliest cluster.")
def command(model: Path, data: Path, out: Path | None, proba: bool) -> None:
    """Label the points of DATA by MODEL, the model.npz that `dpmmwrap fit --out` wrote.

    One line per point: the number of its cluster, or its probability in each cluster. DATA is of the same kind as what
    the model was fitted to; a table may have its columns in any order.
    """

    from dpmmwrap.files import InputError, check_writable, write_atomically
    from dpmmwrap.mixture import load

    if out is not None:
        if out.suffix.lower() not in (".npy", ".csv"):
            raise InputError(f"--out should be a .npy or .csv file, not {out}")
        check_writable(out)
    mixture = load(model)
    points = read_points(mixture, data)
    pieces = chunks(mixture.predict_proba if proba else mixture.predict, points)
    if out is None:
        write_text(sys.stdout.buffer, pieces)
    elif out.suffix.lower() == ".csv":
        write_atomically(out, lambda file: write_text(file, pieces))
    else:
        write_atomically(out, lambda file: write_npy(file, pieces, len(points)))
    if out is not None:
        what = "probabilities" if proba else "labels"
        count = f"{len(points):,} {'point' if len(points) == 1 else 'points'}"
        click.echo(f"Written to {out}: {what} of {count}", err=True)


def read_points(mixture: Mixture, path: Path) -> Data:
    """Rows of the kind that the model knows."""
    from dpmmwrap.files import InputError, MissingValues, SparseInstead, read_data

    if mixture.columns is not None:
        return read_table(mixture, path)
    counts = mixture.family == "multinomial"
    try:
        data = read_data(
            path, at_least=1, kind="counts" if counts else "numbers", gaps=mixture.family in ("diag", "spherical")
        )
    except MissingValues as error:
        raise InputError(f"{error}; a model of the family {mixture.family} needs every value") from error
    except SparseInstead as error:
        raise InputError(f"{error}; the model is of the family {mixture.family}, not multinomial") from error
    if data.dim != mixture.dim:
        raise InputError(f"{path} should have {mixture.dim} features like the model, but it has {data.dim}")
    return data


def read_table(mixture: Mixture, path: Path) -> Data:
    """A table with the model's columns: by name, or by place where the model or the file has no names."""
    from dataclasses import replace

    from dpmmwrap.files import InputError, read_data, read_names

    columns: Any = mixture.columns
    places = tuple(str(number) for number in range(1, len(columns.names) + 1))
    named = columns.named and columns.names != places and read_names(path) is not None
    # Levels that are words must not be read as numbers because this file has only such as look like them.
    categories = zip(columns.categorical, columns.categories, strict=True)
    words = [place for place, levels in categories if levels.dtype.kind == "U"]
    known = columns.names if named else places
    data = read_data(path, at_least=1, kind="table", words=[known[place] for place in words])
    if not named and data.dim != len(columns.names):
        raise InputError(f"{path} should have {len(columns.names)} columns like the model, but it has {data.dim}")
    if not named:
        return replace(data, X=dict(zip(columns.names, data.X.values(), strict=True)))
    missing = [name for name in columns.names if name not in data.X]
    if missing:
        came = ", ".join(data.X)
        raise InputError(f"{path} should have a column {missing[0]!r} like the model, but it has the columns {came}")
    return data


def chunks(answer: Callable[[Any], np.ndarray[Any, Any]], data: Data) -> Iterator[np.ndarray[Any, Any]]:
    for first in range(0, len(data), CHUNK_ROWS):
        yield answer(data.rows(slice(first, first + CHUNK_ROWS)))


def write_text(file: IO[bytes], pieces: Iterator[np.ndarray[Any, Any]]) -> None:
    import numpy as np

    for piece in pieces:
        np.savetxt(file, piece, fmt="%d" if piece.dtype.kind in "iu" else "%.6g", delimiter=",")


def write_npy(file: IO[bytes], pieces: Iterator[np.ndarray[Any, Any]], rows: int) -> None:
    """An array file of that many rows, piece by piece."""
    import numpy as np

    for number, piece in enumerate(pieces):
        if number == 0:
            header = {"descr": piece.dtype.str, "fortran_order": False, "shape": (rows, *piece.shape[1:])}
            np.lib.format.write_array_header_1_0(file, header)
        file.write(np.ascontiguousarray(piece).tobytes())
