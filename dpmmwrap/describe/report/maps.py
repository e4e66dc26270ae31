"""Maps of rows: which rows are drawn, the projections to the plane, and the columns in which clusters differ most."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.describe.plotting.clusters import filled
from dpmmwrap.describe.plotting.projections import Projection, is_sparse, principal_components
from dpmmwrap.describe.profiles import mean_of
from dpmmwrap.describe.report.subject import Subject
from dpmmwrap.families.tables import TablePoints
from dpmmwrap.model.rows import telling
from dpmmwrap.numerics.arrays import Float64Array, IntArray

SHOWN = 4_000
"""The largest number of rows on a map."""
OF_EACH = 20
"""The smallest number of rows of each cluster (or all, if it has fewer), so that small clusters show."""
COORDINATES = 20_000_000
"""The largest number of coordinates of all rows; of wide rows, fewer are drawn."""
REDUCED = 50
"""The principal components to which wide rows are first reduced."""
NEIGHBOURS = 15
"""The neighbours of each row for UMAP."""
WIDTH, HEIGHT, MARGIN = 1000, 700, 24
FEW, ABOVE = 5, 36
"""Clusters with at most this many rows have their number this far above them."""


class Map(NamedTuple):
    """The drawn rows in one projection."""

    name: str
    across: str
    up: str
    """The names of the axes; for features with their ranges."""
    positions: IntArray
    """In the units of the drawing (rows, 2)."""
    centres: list[tuple[int, int, int]]
    """The number of each cluster, and its position."""


def drawn_rows(labels: IntArray, wanted: IntArray, dim: int) -> IntArray:
    """The rows on the map, in order: all, or the wanted ones, some of each cluster, and a random sample."""
    labels, most = np.asarray(labels), most_rows(dim)
    if len(labels) <= most:
        return np.arange(len(labels))
    rng = np.random.default_rng(0)
    shuffled = rng.permutation(len(labels))
    order = np.argsort(labels[shuffled], kind="stable")
    _, begins, sizes = np.unique(labels[shuffled][order], return_index=True, return_counts=True)
    each = of_each(labels, dim)
    some = np.concatenate([shuffled[order[b : b + min(each, size)]] for b, size in zip(begins, sizes, strict=True)])
    first = np.unique(np.concatenate([wanted.astype(np.int64), some]))[:most]
    rest = shuffled[~np.isin(shuffled, first)][: most - len(first)]
    return np.sort(np.concatenate([first, rest]))


def most_rows(dim: int) -> int:
    """The largest number of rows of `dim` columns to draw."""
    return min(SHOWN, max(200, COORDINATES // max(1, dim)))


def of_each(labels: IntArray, dim: int) -> int:
    """The smallest number of rows to draw of each cluster; at most half of the map is reserved for them."""
    return max(1, min(OF_EACH, most_rows(dim) // (2 * len(np.unique(labels)))))


def maps_of(model: Any, points: Any, rows: IntArray, names: Sequence[str]) -> list[Map]:
    """One or two features as they are; else principal components, discriminants, and UMAP if it is installed."""
    mixture, labels = model.mixture_, np.asarray(model.labels_)[rows]
    points, names = telling(mixture, points, names)
    gaussian, kind = mixture.is_gaussian, mixture.posterior.coordinates
    if gaussian:
        coordinates: Any = filled(np.asarray(points[rows], dtype=np.float64))
        scales = coordinates.std(axis=0)
        standard = (coordinates - coordinates.mean(axis=0)) / np.where(scales > 0, scales, 1.0)
    else:
        coordinates = mixture.posterior.embedder(points)(points[rows])
        if not is_sparse(coordinates):
            coordinates = filled(np.asarray(coordinates, dtype=np.float64))
        standard = coordinates
    if coordinates.shape[1] == 1:
        # At random heights, so that rows do not hide each other.
        values = (coordinates.toarray() if is_sparse(coordinates) else coordinates)[:, 0]
        heights = np.random.default_rng(0).random(len(values))
        across = ranged(names[0] if gaussian else "the only coordinate", values.min(), values.max())
        up = "random, so that rows do not hide each other"
        return [placed("As they are", across, up, np.column_stack([values, heights]), labels)]
    if coordinates.shape[1] == 2 and gaussian:
        ends = zip(names[:2], coordinates.min(axis=0), coordinates.max(axis=0), strict=True)
        across, up = (ranged(*end) for end in ends)
        return [placed("As they are", across, up, coordinates, labels)]
    origin, directions, shares = principal_components(standard)
    across, up = (f"principal component {i + 1} ({shares[i]:.0%} of the variance of {kind})" for i in range(2))
    flat = Projection(origin, directions, (across, up)).flat(standard)
    maps = [placed("Principal components", across, up, flat, labels)]
    parting = discriminants(standard, labels)
    if parting is not None:
        maps.append(placed("Discriminants", *parting[1], parting[0], labels))
    neighbours = umap_of(standard)
    if neighbours is not None:
        across, up = "UMAP 1 (neighbours stay neighbours; distances and sizes mean little)", "UMAP 2"
        maps.append(placed("UMAP", across, up, neighbours, labels))
    return maps


def discriminants(standard: Any, labels: IntArray) -> tuple[Float64Array, tuple[str, str]] | None:
    """The two directions that separate clusters best; None for fewer than three clusters."""
    known = labels >= 0
    numbers, sizes = np.unique(labels[known], return_counts=True)
    chosen = known & np.isin(labels, numbers[sizes >= 2])
    if (sizes >= 2).sum() < 3 or standard.shape[1] < 3:
        return None
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    reduced = reduced_to_few(standard)
    try:
        # It warns about columns that are sums of others.
        with warnings.catch_warnings(action="ignore", category=UserWarning):
            model = LinearDiscriminantAnalysis(n_components=2).fit(reduced[chosen], labels[chosen])
            flat = model.transform(reduced)
    except (ValueError, np.linalg.LinAlgError):
        return None
    if flat.shape[1] < 2 or not np.isfinite(flat).all():
        return None
    first, second = model.explained_variance_ratio_[:2]
    title = "{} discriminant ({:.0%} of the variance between clusters)"
    return flat, (title.format("first", first), title.format("second", second))


def reduced_to_few(standard: Any) -> Any:
    if standard.shape[1] <= REDUCED and not is_sparse(standard):
        return standard
    from sklearn.decomposition import TruncatedSVD

    return TruncatedSVD(min(REDUCED, standard.shape[1] - 1), random_state=0).fit_transform(standard)


def umap_of(standard: Any) -> Float64Array | None:
    """UMAP; None if it is not installed, or for few rows or columns, for which it shows nothing new."""
    if importlib.util.find_spec("umap") is None or standard.shape[0] < 50 or standard.shape[1] < 4:
        return None
    from sklearn.neighbors import NearestNeighbors

    # It warns that a seed means one thread, which is what we want.
    with warnings.catch_warnings(action="ignore"):
        from umap import UMAP

        points = reduced_to_few(standard)
        # UMAP's own search calls a function for each pair.
        distances, neighbours = NearestNeighbors(n_neighbors=NEIGHBOURS).fit(points).kneighbors(points)
        known = (neighbours, distances.astype(np.float32))
        layout = UMAP(n_neighbors=NEIGHBOURS, n_epochs=200, init="pca", random_state=0, precomputed_knn=known)
        return np.asarray(layout.fit_transform(points), dtype=np.float64)


def ranged(name: str, low: float, high: float) -> str:
    return f"{name}, from {low:.4g} to {high:.4g}".replace(" -", " −")


def placed(name: str, across: str, up: str, flat: Float64Array, labels: IntArray) -> Map:
    """A map in the units of the drawing, with the clusters' numbers at their medians."""
    low, high = flat.min(axis=0), flat.max(axis=0)
    scaled = (flat - low) / np.where(high > low, high - low, 1.0)
    room = np.array([WIDTH, HEIGHT]) - 2 * MARGIN
    # A picture's rows run down.
    upright = np.column_stack([scaled[:, 0], 1 - scaled[:, 1]])
    positions = np.rint(MARGIN + upright * room).astype(np.int64)
    centres = []
    for k in np.unique(labels[labels >= 0]):
        members = positions[labels == k]
        x, y = np.median(members, axis=0)
        # The number of a small cluster would hide its rows.
        centres.append((int(k), int(x), int(y) if len(members) > FEW else max(int(y) - ABOVE, MARGIN)))
    return Map(name, across, up, positions, centres)


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
    columns = []
    for index in kept[order].tolist():
        values = X[:, index]
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        scaled = np.rint((values - low) / ((high - low) or 1.0) * STEPS)
        positions = [None if np.isnan(value) else int(value) for value in scaled.tolist()]
        name, (low, high), logged = in_units(subject.preparation, str(names[index]), index, (low, high))
        title = ranged(name, low, high) + (", its logarithm" if logged else "")
        columns.append(DataColumn(name, title, positions))
    return columns


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
