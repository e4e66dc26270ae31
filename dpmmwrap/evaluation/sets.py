"""The sets of a battery: .npz files in a folder, and sets that come with scikit-learn."""

from __future__ import annotations

import csv
import fnmatch
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from dpmmwrap.evaluation.fits import classes_in
from dpmmwrap.files import InputError, SparseInstead, check_labels, read_arrays, read_data
from dpmmwrap.numerics.arrays import IntArray

SHIPPED = "scikit-learn"
"""Instead of a folder: the sets that come with scikit-learn."""
SHIPPED_SETS = {
    "breast-cancer": "load_breast_cancer",
    "digits": "load_digits",
    "iris": "load_iris",
    "wine": "load_wine",
}
INDEX = "index.csv"
PUBLISHED = "published "
"""Columns of index.csv whose names begin like this are scores."""
SOURCE_COLUMNS = (
    *("data", "dim", "clusters", "points", "total", "fingerprint"),
    *("spread", "data_seed", "file", "labels", "components"),
)
"""The columns of the results that describe the points of a run, the same for all sources."""


class PointSource:
    """Points that are identified by their attributes with these names; empty where there is none."""

    def identity(self) -> dict[str, str | int | float]:
        return {name: getattr(self, name, "") for name in SOURCE_COLUMNS}


@dataclass(frozen=True)
class BatterySet(PointSource):
    data: str
    path: str
    fingerprint: str
    """From the contents of the file, so that it identifies the set in any folder."""
    dim: int
    clusters: int
    points: int
    total: int
    """Points in the file; more than `points` if a sample is used."""
    max_points: int
    sparse: bool
    counts: bool
    """Whether all values are whole and not negative."""


class RawSet(NamedTuple):
    """The points of a set (dense or CSR), their classes (-1 if unknown), and the number of rows in the file."""

    X: Any
    y: IntArray
    total: int


class Sets(NamedTuple):
    """The sets of a battery, and a sentence for each file that cannot be used."""

    sets: list[BatterySet]
    notes: list[str]


def find_sets(folders: Sequence[str], patterns: Sequence[str], max_points: int) -> Sets:
    """The sets in some folders whose names match a pattern; all sets without patterns."""
    paths = {path: name for folder in folders for name, path in names_in(folder).items()}
    wanted = [
        path for path, name in paths.items() if not patterns or any(fnmatch.fnmatchcase(name, p) for p in patterns)
    ]
    if not wanted:
        raise InputError(f"no set in {', '.join(folders)} matches {', '.join(patterns)}")
    sets, notes = [], []
    for path in wanted:
        try:
            sets.append(open_set(paths[path], path, max_points))
        except InputError as error:
            notes.append(f"{paths[path]} is left out: {error}")
    if not sets:
        raise InputError("; ".join(notes))
    twice = sorted({a.data for a in sets for b in sets if a.data == b.data and a.path != b.path})
    if twice:
        raise InputError(f"sets should have different names, but two are called {twice[0]}")
    return Sets(sets, notes)


def names_in(folder: str) -> dict[str, str]:
    """The path of each set of a folder, by its name."""
    if folder == SHIPPED and not Path(folder).exists():
        return {f"sklearn_{name}": f"{SHIPPED}:{name}" for name in SHIPPED_SETS}
    if not Path(folder).is_dir():
        problem = "it is a file" if Path(folder).exists() else "it does not exist"
        raise InputError(f"{folder} should be a folder of .npz files, but {problem}")
    paths = {path.stem: str(path) for path in sorted(Path(folder).glob("*.npz"))}
    if not paths:
        raise InputError(f"{folder} should be a folder of .npz files, but has none")
    return paths


def open_set(name: str, path: str, max_points: int) -> BatterySet:
    """Read a set once, so that problems show before anything runs."""
    X, y, total = read_set(path, max_points)
    # The sets in scikit-learn do not change.
    mark = path if path.startswith(f"{SHIPPED}:") else fingerprint(Path(path))
    sparse = bool(issparse(X))
    values = X.data if sparse else X
    counts = bool((values >= 0).all() and (values == np.floor(values)).all())
    return BatterySet(name, path, mark, X.shape[1], classes_in(y), X.shape[0], total, max_points, sparse, counts)


def fingerprint(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:12]


def read_set(path: str, max_points: int) -> RawSet:
    """The points and classes of a set, or of a random sample of `max_points`, which is always the same."""
    raw = read_shipped(path) if path.startswith(f"{SHIPPED}:") else read_npz(path)
    if raw.total > max_points:
        rows = np.sort(np.random.default_rng(0).choice(raw.total, max_points, replace=False))
        raw = raw._replace(X=raw.X[rows], y=raw.y[rows])
    if classes_in(raw.y) < 2:
        raise InputError(f"y in {path} should have at least two classes, but it has one")
    return raw


def read_npz(path: str) -> RawSet:
    """X, or the arrays of a sparse matrix of counts, and y."""
    try:
        data = read_data(path)
    except SparseInstead:
        data = read_data(path, kind="counts")
    raw = read_arrays(path, required=("y",))["y"]
    y = check_labels(raw, len(data), f"y in {path}")
    # Beside at least two others, a label of -1 means that the class is unknown.
    unknown = raw.dtype.kind in "fi" and raw.min() == -1 and y.max() > 1
    return RawSet(data.X, y - np.int32(1) if unknown else y, len(data))


def read_shipped(path: str) -> RawSet:
    from sklearn import datasets

    X, y = getattr(datasets, SHIPPED_SETS[path.removeprefix(f"{SHIPPED}:")])(return_X_y=True)
    return RawSet(np.asarray(X), check_labels(np.asarray(y), len(X), path), len(X))


Published = dict[str, dict[str, str]]
"""Published scores as text, by set and measure."""


def read_published(folders: Sequence[str]) -> Published:
    """The scores in the folders' index.csv: its columns that begin with "published ", by `name`."""
    published: Published = {}
    for folder in folders:
        path = Path(folder) / INDEX
        if not path.is_file():
            continue
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                rows = list(csv.DictReader(file))
        except (OSError, UnicodeDecodeError, csv.Error) as error:
            raise InputError(f"{path} cannot be read: {error}") from error
        for row in rows:
            scores = {key: row[key] or "" for key in row if key and key.startswith(PUBLISHED)}
            if row.get("name") and any(scores.values()):
                published[row["name"]] = scores
    return published
