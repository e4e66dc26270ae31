"""The tables of answers: each row's name or number, its cluster, how probable that is, whether it is an outlier."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator
from typing import IO, TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np

    from dpmmwrap.mixture import Assignment

CHUNK_ROWS = 1 << 16
"""Rows that are answered at once: neither the data nor the probabilities need fit into memory."""


class RowNames(NamedTuple):
    """What the rows are called: by an id, or by their numbers from 1."""

    column: str
    names: Any


def row_names(n: int, ids: np.ndarray[Any, Any] | None = None, kept: np.ndarray[Any, Any] | None = None) -> RowNames:
    """Ids where there are some; else numbers in the file, of which only some rows may be `kept` (counted from 0)."""
    if ids is not None:
        return RowNames("id", ids)
    return RowNames("row", range(1, n + 1) if kept is None else kept + 1)


def pieces(n: int) -> Iterator[slice]:
    for first in range(0, n, CHUNK_ROWS):
        yield slice(first, min(first + CHUNK_ROWS, n))


def write_assignments(file: IO[bytes], rows: RowNames, answers: Iterable[Assignment]) -> None:
    """A line for each row, in their order."""
    file.write(f"{rows.column},cluster,probability,outlier\n".encode())
    begin = 0
    for labels, probabilities in answers:
        end = begin + len(labels)
        shown = (f"{probability:.6g}" for probability in probabilities.tolist())
        write_lines(file, zip(rows.names[begin:end], labels.tolist(), shown, (labels < 0).astype(int), strict=True))
        begin = end


def write_probabilities(
    file: IO[bytes], rows: RowNames, answers: Iterable[np.ndarray[Any, Any]], n_clusters: int, outliers: bool
) -> None:
    """A line for each row: its probability in each cluster, and in the outlier component if there is one."""
    header = [rows.column, *(f"cluster_{label}" for label in range(n_clusters)), *(["outlier"] if outliers else [])]
    file.write((",".join(header) + "\n").encode())
    begin = 0
    for probabilities in answers:
        end = begin + len(probabilities)
        own = ([f"{value:.6g}" for value in line] for line in probabilities.tolist())
        names = rows.names[begin:end]
        write_lines(file, ([name, *line] for name, line in zip(names, own, strict=True)))
        begin = end


def write_lines(file: IO[bytes], lines: Iterable[Iterable[Any]]) -> None:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    file.write(text.getvalue().encode())
