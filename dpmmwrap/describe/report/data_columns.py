"""The columns in which clusters differ most, for a map of any two of them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.describe.profiles import mean_of
from dpmmwrap.describe.report.maps import ranged
from dpmmwrap.describe.report.subject import Subject
from dpmmwrap.families.tables import TablePoints
from dpmmwrap.numerics.arrays import Float64Array, IntArray

MOST = 8
"""The largest number of columns; each adds some 16 kB to the page."""
STEPS = 1000
"""The steps into which the range of a column is divided."""


class DataColumn(NamedTuple):
    """A column of the drawn rows."""

    name: str
    title: str
    """Its name and its range, in the units of the data."""
    positions: list[int | None]
    """Each row's position between the smallest and the largest value, from 0 to `STEPS`; None if it is missing."""


def data_columns(subject: Subject, rows: IntArray) -> list[DataColumn]:
    """The columns in which clusters differ most, in this order; none for counts or for two features."""
    mixture, points = subject.model.mixture_, subject.points
    table = isinstance(points, TablePoints)
    if not table and not (mixture.is_gaussian and points.shape[1] > 2):
        return []
    X = np.asarray((points.numeric if table else points)[rows], dtype=np.float64)
    names = [mixture.columns.names[index] for index in mixture.columns.numeric] if table else subject.names
    kept = np.arange(X.shape[1]) if mixture.restored is None else np.asarray(mixture.restored.kept)
    known = ~np.isnan(X[:, kept]).all(axis=0)
    kept = kept[known]
    if len(kept) < 2:
        return []
    order = np.argsort(-between(X[:, kept], subject.labels[rows]), kind="stable")[:MOST]
    return [data_column(X[:, index], str(names[index]), index, subject) for index in kept[order].tolist()]


def between(X: Float64Array, labels: IntArray) -> Float64Array:
    """The share of each column's variance that lies between clusters."""
    X, labels = X[labels >= 0], labels[labels >= 0]
    held = ~np.isnan(X)
    counts, sums = (np.zeros((labels.max(initial=-1) + 1, X.shape[1])) for _ in range(2))
    centred = np.where(held, X - mean_of(X), 0.0)
    np.add.at(counts, labels, held)
    np.add.at(sums, labels, centred)
    whole = (centred**2).sum(axis=0)
    return np.asarray((sums**2 / np.maximum(counts, 1)).sum(axis=0) / np.where(whole > 0, whole, 1.0))


def data_column(values: Float64Array, name: str, index: int, subject: Subject) -> DataColumn:
    low, high = float(np.nanmin(values)), float(np.nanmax(values))
    scaled = np.rint((values - low) / ((high - low) or 1.0) * STEPS)
    positions = [None if np.isnan(value) else int(value) for value in scaled.tolist()]
    called, (low, high), logged = in_units(subject.preparation, name, index, (low, high))
    return DataColumn(called, ranged(called, low, high) + (", its logarithm" if logged else ""), positions)


def in_units(
    preparation: Any, name: str, index: int, ends: tuple[float, float]
) -> tuple[str, tuple[float, float], bool]:
    """A column's name and range before its preparation, and whether its logarithm was taken."""
    if preparation is None or preparation.components is not None:
        return name, ends, False
    if preparation.names is not None:
        pairs = enumerate(zip(preparation.names, preparation.names_out, strict=True))
        column = next((number for number, pair in pairs if name in pair), None)
        if column is None:
            return name, ends, False
        name, index = preparation.names[column], column
    logged = preparation.logs is not None and index in preparation.logs
    return name, (float(preparation.undone(index, ends[0])), float(preparation.undone(index, ends[1]))), logged
