"""`dpmmwrap predict`: label new points by a fitted model."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    import numpy as np

    from dpmmwrap.arrays import FloatArray

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

    One line per point: the number of its cluster, or its probability in each cluster.
    """

    from dpmmwrap.files import InputError, check_writable, read_data, write_atomically
    from dpmmwrap.mixture import load

    if out is not None:
        if out.suffix.lower() not in (".npy", ".csv"):
            raise InputError(f"--out should be a .npy or .csv file, not {out}")
        check_writable(out)
    mixture = load(model)
    X = read_data(data, at_least=1).X
    dim = mixture.dim
    if X.shape[1] != dim:
        raise InputError(f"{data} should have {dim} features like the model, but it has {X.shape[1]}")
    pieces = chunks(mixture.predict_proba if proba else mixture.predict, X)
    if out is None:
        write_text(sys.stdout.buffer, pieces)
    elif out.suffix.lower() == ".csv":
        write_atomically(out, lambda file: write_text(file, pieces))
    else:
        write_atomically(out, lambda file: write_npy(file, pieces, len(X)))
    if out is not None:
        what = "probabilities" if proba else "labels"
        click.echo(f"Written to {out}: {what} of {len(X):,} {'point' if len(X) == 1 else 'points'}", err=True)


def chunks(answer: Callable[[FloatArray], np.ndarray[Any, Any]], X: FloatArray) -> Iterator[np.ndarray[Any, Any]]:
    for first in range(0, len(X), CHUNK_ROWS):
        yield answer(X[first : first + CHUNK_ROWS])


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
