"""Tables of labels and probabilities, with the rows' names or numbers."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from typing import IO, TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from dpmmwrap.mixture import Assignment

CHUNK_ROWS = 1 << 16
"""Rows that are labelled at once, so that neither data nor probabilities must fit into memory."""


RowNames = dict[str, Any]
"""By column, the names of rows: ids, numbers from 1, or both if ids repeat."""


def row_names(n: int, ids: np.ndarray[Any, Any] | None = None, kept: np.ndarray[Any, Any] | None = None) -> RowNames:
    """Ids, or the numbers of rows in the file; `kept` has the indices of the rows if some were left out."""
    numbers = {"row": range(1, n + 1) if kept is None else kept + 1}
    if ids is None:
        return numbers
    return {"id": ids} if len(set(ids.tolist())) == len(ids) else numbers | {"id": ids}


def pieces(n: int) -> Iterator[slice]:
    for first in range(0, n, CHUNK_ROWS):
        yield slice(first, min(first + CHUNK_ROWS, n))


def write_assignments(
    file: IO[bytes],
    rows: RowNames,
    answers: Iterable[Assignment],
    groups: Any = None,
    data: Mapping[str, Any] | None = None,
) -> None:
    """A line for each row, with its group and the columns of the data if they are given.

    A row without a probability has no cluster, and is not an outlier.
    """
    taken = [*rows, "cluster", *([] if groups is None else ["group"]), "probability", "outlier"]
    beside = [f"data_{name}" if name in taken else name for name in data or ()]

    def lines() -> Iterator[Iterable[Any]]:
        begin = 0
        for labels, probabilities in answers:
            some = slice(begin, begin + len(labels))
            columns: list[Iterable[Any]] = [labels.tolist()]
            columns += [] if groups is None else [groups[some].tolist()]
            known = [not math.isnan(probability) for probability in probabilities]
            columns.append(f"{p:.6g}" if there else "" for p, there in zip(probabilities.tolist(), known, strict=True))
            columns.append(((labels < 0) & known).astype(int))
            columns += [column[some].tolist() for column in (data or {}).values()]
            yield zip(*columns, strict=True)
            begin = some.stop

    write_named(file, rows, [*taken, *beside], lines())


def write_probabilities(
    file: IO[bytes], rows: RowNames, answers: Iterable[np.ndarray[Any, Any]], n_clusters: int, outliers: bool
) -> None:
    """A line for each row: its probability in each cluster, and in the outlier component if there is one."""
    clusters = (f"cluster_{label}" for label in range(n_clusters))
    header = [*rows, *clusters, *(["outlier"] if outliers else [])]
    write_named(file, rows, header, ([[f"{p:.6g}" for p in line] for line in piece.tolist()] for piece in answers))


def write_named(
    file: IO[bytes], rows: RowNames, header: Iterable[str], pieces: Iterable[Iterable[Iterable[Any]]]
) -> None:
    """A header, and the cells of each row behind its name, piece by piece."""
    from dpmmwrap.files import csv_text

    file.write(csv_text([header]))
    names = zip(*rows.values(), strict=True)
    for piece in pieces:
        # The names come second: zip would take one too many at the end of a piece.
        file.write(csv_text((*name, *cells) for cells, name in zip(piece, names, strict=False)))


def write_npy_pieces(file: IO[bytes], pieces: Iterable[np.ndarray[Any, Any]], rows: int) -> None:
    """Write a .npy file piece by piece; `rows` is the total."""
    import numpy as np

    for number, piece in enumerate(pieces):
        if number == 0:
            header = {"descr": piece.dtype.str, "fortran_order": False, "shape": (rows, *piece.shape[1:])}
            np.lib.format.write_array_header_1_0(file, header)
        file.write(np.ascontiguousarray(piece).tobytes())
