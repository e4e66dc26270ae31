"""The sources of a run's points: a random mixture, or a file. They are small, so that processes can receive them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np

from dpmmwrap.datasets import generate
from dpmmwrap.evaluation.images import is_images, is_openml, read_images, read_truth
from dpmmwrap.evaluation.sets import BatterySet, PointSource, fingerprint, read_set
from dpmmwrap.files import (
    Data,
    InputError,
    MissingValues,
    Selection,
    WordsInstead,
    check_classes,
    files_of,
    find_columns,
    read_data,
    source_of,
)
from dpmmwrap.files.columns import gaps_in
from dpmmwrap.model.preparation import Preparation
from dpmmwrap.numerics.arrays import IntArray

IMAGE_COMPONENTS = 20
"""Principal components of images, as in the paper."""

SPREADS = ((5, 10.0), (3, 20.0), (1, 50.0))
"""By dimension, the variance of the means that makes 40 clusters overlap."""


def default_spread(dim: int) -> float:
    return next(spread for least, spread in SPREADS if dim >= least)


@dataclass(frozen=True)
class Synthetic(PointSource):
    """A random mixture, as `dpmmwrap generate` draws it."""

    dim: int
    clusters: int
    points: int
    spread: float
    data_seed: int
    data: ClassVar[str] = "synthetic"


class Reading(NamedTuple):
    """How files are read."""

    paths: tuple[str, ...]
    """Files or patterns, or one set of images."""
    labels: str | None = None
    """A file of true labels."""
    selection: Selection = Selection()
    skip_missing: bool = False
    scale: bool = False
    components: int | None = None
    """Principal components to project on if there are more features; 0 for none, None for images only."""
    categorical: tuple[str, ...] = ()
    """Columns whose levels become columns of zeros and ones, as other methods take only numbers."""

    @property
    def images(self) -> bool:
        return len(self.paths) == 1 and is_images(self.paths[0])

    @property
    def most_features(self) -> int:
        """The largest number of features without a projection; 0 for any number."""
        if self.components is None:
            return IMAGE_COMPONENTS if self.images else 0
        return self.components

    def fingerprint(self) -> str:
        """A fingerprint of the files' contents and of the settings that change the points."""
        files = [] if self.images else files_of(self.paths)
        prints = [fingerprint(path) for path in files]
        if self.images:
            prints = [self.paths[0]] if is_openml(self.paths[0]) else [fingerprint(Path(self.paths[0]))]
        if self.labels is not None:
            prints.append(fingerprint(Path(self.labels)))
        if self._replace(paths=(), labels=None, components=None) != Reading(()):
            settings = repr((self.selection, self.skip_missing, self.scale, *self.categorical))
            prints.append(hashlib.sha256(settings.encode()).hexdigest()[:12])
        return "-".join(prints)


@dataclass(frozen=True)
class FromFile(PointSource):
    """The points of files (or of OpenML), projected, and their true labels."""

    data: str
    """Its name."""
    reading: Reading
    fingerprint: str
    """From the contents of the files, so that results of another file of this name are not reused."""
    dim: int
    clusters: int
    points: int
    projected: bool = False
    """Whether the points are principal components, which share a unit."""

    def identity(self) -> dict[str, str | int | float]:
        selection = self.reading.selection
        return super().identity() | {
            "file": " ".join(self.reading.paths),
            "labels": self.reading.labels or selection.labels or "",
            "components": self.reading.most_features,
        }


Source = Synthetic | FromFile | BatterySet


def open_file(reading: Reading, name: str) -> tuple[FromFile, Data, int]:
    """Read a file once, so that problems show before anything runs: the source, its data, and the rows left out."""
    data, skipped = read_labelled(reading)
    X, truth = prepared(data.X, reading), data.y
    assert truth is not None
    source = FromFile(
        name, reading, reading.fingerprint(), X.shape[1], int(truth.max()) + 1, len(X), projected=X.shape[1] < data.dim
    )
    return source, data, skipped


def read_labelled(reading: Reading) -> tuple[Data, int]:
    """Points with true labels from 0 without gaps, and the number of rows left out."""
    where = source_of([Path(path) for path in reading.paths])
    data = read_rows(reading)
    if reading.labels is not None:
        data = replace(data, y=read_truth(Path(reading.labels), len(data)))
    if data.y is None:
        raise InputError(f"{where} has no true labels: add them with --labels COLUMN or FILE, or as y in a .npz file")
    if reading.labels is not None or reading.selection.labels is not None:
        check_classes(data.y, f"--labels {reading.labels or reading.selection.labels}")
    complete = data.complete() if reading.skip_missing else data.y >= 0
    if not reading.skip_missing and not complete.all():
        row = int(complete.argmin()) + 1
        raise MissingValues(f"{where} should have a label in each row, but row {row} has none")
    # Classes are renumbered, as all rows of one may have been left out.
    classes, truth = np.unique(data.y[complete], return_inverse=True)
    if len(classes) < 2:
        raise InputError(f"the true labels of {where} should have at least two classes, but they have one")
    kept = data if complete.all() else data.only(complete)
    return replace(kept, y=truth.astype(np.int32)), len(data) - len(kept)


def read_rows(reading: Reading) -> Data:
    """The rows of files. With categorical columns, each of their levels becomes a column of zeros and ones."""
    if reading.images:
        if reading.selection.narrows or reading.categorical:
            raise InputError(f"{reading.paths[0]} has images, which have no columns to choose from")
        return read_images(reading.paths[0])
    if not reading.categorical:
        return read_data(reading.paths, gaps=reading.skip_missing, wanted=reading.selection)
    source = source_of(files_of(reading.paths))
    table = read_data(reading.paths, kind="table", words=reading.categorical, wanted=reading.selection)
    if not (reading.skip_missing or table.complete().all()):
        raise MissingValues(f"{source} should have all values, but some are missing")
    chosen = find_columns(reading.categorical, tuple(table.X), source)
    words = [name for name, column in table.X.items() if column.dtype.kind == "U" and name not in chosen]
    if words:
        raise WordsInstead(f"{source} should have numbers, but its column {words[0]!r} has words", words)
    columns: dict[str, Any] = {}
    for name, column in table.X.items():
        if name not in chosen:
            columns[name] = column
            continue
        gaps = gaps_in(column)
        for level in np.unique(column[~gaps]):
            columns[f"{name}={level}"] = np.where(gaps, np.nan, column == level)
    note = f"each level of {', '.join(chosen)} becomes a column of zeros and ones, so that all methods get numbers"
    X = np.column_stack([*columns.values()]).astype(np.float32)
    return replace(table, X=X, names=tuple(columns), notes=(*table.notes, note))


def prepared(X: Any, reading: Reading) -> Any:
    """The points, standardised or projected if the reading says so."""
    components = reading.most_features if X.shape[1] > reading.most_features else 0
    if not (reading.scale or components):
        return np.ascontiguousarray(X, dtype=np.float32)
    return Preparation.learn(X, reading.scale, components)(X)


@lru_cache(maxsize=2)
def load(source: Source) -> tuple[Any, IntArray]:
    """Points and truth, cached because runs on the same data set follow one another."""
    data: Any
    if isinstance(source, Synthetic):
        data = generate(source.dim, source.clusters, source.points, source.spread, source.data_seed)
    elif isinstance(source, BatterySet):
        data = read_set(source.path, source.max_points)
    else:
        rows, _ = read_labelled(source.reading)
        data = replace(rows, X=prepared(rows.X, source.reading))
    return data.X, data.y
