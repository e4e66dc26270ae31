"""Rows for a fitted model: with all columns, or only with those that the fit used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from dpmmwrap.families.tables import TablePoints
from dpmmwrap.model.frames import by_name


def all_columns(model: Any, X: Any) -> Any:
    """Checked rows with all columns of the data, as `predict` takes them: an array, a sparse matrix, or the points of a
    mixed table."""
    rows, columns = model._rows(X), model.mixture_.columns
    return rows if columns is None else columns.points(by_name(rows))


class Telling(NamedTuple):
    """Rows without the columns that a fit left out, and the names of the others."""

    points: Any
    names: tuple[str, ...]


def telling(mixture: Any, points: Any, names: Sequence[str] | None = None) -> Telling:
    """The rows of which maps are drawn: in a map a constant column or a copy would waste a direction."""
    restored = mixture.restored
    if isinstance(points, TablePoints):
        numeric = points.numeric if restored is None else points.numeric[:, restored.kept]
        return Telling(TablePoints(numeric, points.codes), ())
    if mixture.subspace is not None:
        return Telling(mixture._points(points), tuple(f"direction {k + 1}" for k in range(mixture.dim)))
    called = names_for(names, points.shape[1])
    if restored is None:
        return Telling(points, called)
    return Telling(points[:, restored.kept], tuple(called[place] for place in restored.kept))


def names_for(names: Sequence[str] | None, dim: int) -> tuple[str, ...]:
    """The columns' names, or their numbers from 1."""
    if names is not None and len(names) == dim:
        return tuple(str(name) for name in names)
    return tuple(f"feature {number + 1}" for number in range(dim))
