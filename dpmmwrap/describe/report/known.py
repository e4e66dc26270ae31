"""Clusters compared with known labels, and missing values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.describe.plotting.projections import is_sparse
from dpmmwrap.families.tables import TablePoints
from dpmmwrap.numerics.arrays import Float64Array, IntArray

CLUSTERS, CLASSES = 40, 12
"""The largest numbers of lines and columns in the table of known labels; the others are added up."""
OFTEN = 0.1
"""The smallest difference between shares of missing values that is mentioned."""


class KnownRow(NamedTuple):
    """The line of a cluster, of outliers (-1), or of all other clusters (None)."""

    cluster: int | None
    cells: list[tuple[int, float]]
    """Rows, and their share of the line."""
    commonest: str
    """The class of most of its rows."""
    share: float


class KnownTable(NamedTuple):
    """Clusters by classes: the number of rows that they share."""

    classes: list[str]
    lines: list[KnownRow]
    other_classes: int
    """The number of classes in the last column."""
    other_clusters: int
    """The number of clusters in the last line."""


def known_table(labels: IntArray, truth: IntArray, names: Sequence[str], n_clusters: int) -> KnownTable:
    """The largest clusters and classes first. Rows without a label (below 0) do not count."""
    labels, truth = (np.asarray(values)[np.asarray(truth) >= 0] for values in (labels, truth))
    counts = np.zeros((n_clusters + 1, int(truth.max(initial=-1)) + 1), np.int64)
    # Outliers are the last line.
    np.add.at(counts, (np.where(labels < 0, n_clusters, labels), truth), 1)
    used = np.flatnonzero(counts.sum(axis=0))
    columns = used[np.argsort(-counts[:, used].sum(axis=0), kind="stable")]
    lines = np.argsort(-counts[:n_clusters].sum(axis=1), kind="stable")
    # A single other one is shown, too.
    (shown, hidden), (first, rest) = (
        np.split(some, [len(some) if len(some) <= most + 1 else most])
        for some, most in ((columns, CLASSES), (lines, CLUSTERS))
    )
    called = [names[k] if k < len(names) else str(k) for k in range(counts.shape[1])]

    def line(cluster: int | None, members: Any) -> KnownRow:
        whole, best = max(1, int(members.sum())), int(members.argmax())
        cells = [*members[shown].tolist(), *([int(members[hidden].sum())] if len(hidden) else [])]
        shares = [(rows, round(rows / whole, 3)) for rows in cells]
        return KnownRow(cluster, shares, called[best], float(members[best] / whole))

    shown_rows = [line(int(k), counts[k]) for k in first]
    shown_rows += [line(None, counts[rest].sum(axis=0))] if len(rest) else []
    shown_rows += [line(-1, counts[n_clusters])] if counts[n_clusters].any() else []
    return KnownTable([called[k] for k in shown], shown_rows, len(hidden), len(rest))


class Gap(NamedTuple):
    """A column that is missing more often in a cluster than elsewhere."""

    column: str
    here: float
    elsewhere: float


class MissingShares(NamedTuple):
    """How often values are missing."""

    shares: Float64Array
    """The share of missing values in each cluster."""
    gaps: dict[int, Gap]
    """By cluster, the column that is missing more often there than elsewhere, with the largest difference."""


def missing_shares(
    points: Any, labels: IntArray, n_clusters: int, names: Sequence[str], columns: Any = None
) -> MissingShares | None:
    """None if no value is missing. A column without any value does not count."""
    inside = labels >= 0
    sizes = np.bincount(labels[inside], minlength=n_clusters)
    counts, called = [], []
    for name, missing in missing_values(points, names, columns):
        if not missing.all():
            counts.append(np.bincount(labels[inside & missing], minlength=n_clusters))
            called.append(name)
    if not np.any(counts):
        return None
    table = np.array(counts).T
    here = table / np.maximum(sizes, 1)[:, None]
    elsewhere = (table.sum(axis=0) - table) / np.maximum(sizes.sum() - sizes, 1)[:, None]
    gaps = {}
    for k, index in enumerate((here - elsewhere).argmax(axis=1).tolist()):
        if here[k, index] - elsewhere[k, index] >= OFTEN:
            gaps[k] = Gap(called[index], float(here[k, index]), float(elsewhere[k, index]))
    return MissingShares(here.mean(axis=1), gaps)


def missing_values(points: Any, names: Sequence[str], columns: Any) -> Any:
    """Each column's name, and the rows in which its value is missing."""
    if isinstance(points, TablePoints):
        for index, column in zip(columns.numeric, points.numeric.T, strict=True):
            yield names[index], np.isnan(column)
        for index, codes in zip(columns.categorical, points.codes.T, strict=True):
            yield names[index], codes < 0
    elif not is_sparse(points) and np.asarray(points).dtype.kind == "f":
        for name, column in zip(names, points.T, strict=True):
            yield name, np.isnan(column)
