"""Where the points of a run come from: a mixture drawn by its seed, or a file. Small enough to send to a process."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from dpmmwrap.arrays import IntArray
from dpmmwrap.datasets import generate
from dpmmwrap.evaluation.images import OPENML, project, read_features
from dpmmwrap.evaluation.sets import BatterySet, fingerprint, read_set
from dpmmwrap.files import InputError

SPREADS = ((5, 10.0), (3, 20.0), (1, 50.0))
"""From this dimension on, the variance of the means that makes 40 clusters crowded."""


def default_spread(dim: int) -> float:
    return next(spread for least, spread in SPREADS if dim >= least)


@dataclass(frozen=True)
class Synthetic:
    """`dpmmwrap generate` with these numbers draws the same data set."""

    dim: int
    clusters: int
    points: int
    spread: float
    data_seed: int

    def identity(self) -> dict[str, str | int | float]:
        return {"data": "synthetic", **vars(self)}

    @property
    def title(self) -> str:
        return f"{self.dim} dimensions, {self.clusters} clusters, {self.points:,} points"


@dataclass(frozen=True)
class FromFile:
    """The points of a file (or of OpenML), projected, and their true labels."""

    name: str
    path: str
    labels: str | None
    components: int
    fingerprint: str
    """Of the files' contents, so that results of another file of that name are not taken for this one's."""
    dim: int
    clusters: int
    points: int
    projected: bool = False
    """Whether the points are principal components, which all have one unit."""

    def identity(self) -> dict[str, str | int | float]:
        return {
            "data": self.name,
            "dim": self.dim,
            "clusters": self.clusters,
            "points": self.points,
            "file": self.path,
            "labels": self.labels or "",
            "components": self.components,
            "fingerprint": self.fingerprint,
        }


Source = Synthetic | FromFile | BatterySet


def open_file(path: str, labels: str | None, components: int, name: str) -> FromFile:
    """Read a file once, to find out what is wrong with it before anything runs."""
    data = read_labelled(path, labels)
    X = project(data.X, components)
    prints = [path] if path.lower() in OPENML and not Path(path).exists() else [fingerprint(Path(path))]
    if labels is not None:
        prints.append(fingerprint(Path(labels)))
    clusters = int(data.y.max()) + 1
    projected = X.shape[1] < data.X.shape[1]
    return FromFile(name, path, labels, components, "-".join(prints), X.shape[1], clusters, len(X), projected)


class Labelled(NamedTuple):
    """Points and the true label of each."""

    X: Any
    y: IntArray


def read_labelled(path: str, labels: str | None) -> Labelled:
    data = read_features(path, None if labels is None else Path(labels))
    if data.y is None:
        raise InputError(f"{path} comes without true labels: give them with --labels TRUTH, or as y in a .npz file")
    if data.y.max() < 1:
        raise InputError(f"the true labels of {path} should tell at least two clusters apart, but all are alike")
    return Labelled(data.X, data.y)


@lru_cache(maxsize=2)
def load(source: Source) -> tuple[Any, IntArray]:
    """Points and truth; the last ones are kept, because runs on the same data set follow one another."""
    if isinstance(source, Synthetic):
        data = generate(source.dim, source.clusters, source.points, source.spread, source.data_seed)
        return data.X, data.y
    if isinstance(source, BatterySet):
        found = read_set(source.path, source.max_points)
        return found.X, found.y
    X, truth = read_labelled(source.path, source.labels)
    return project(X, source.components), truth
