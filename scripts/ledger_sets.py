"""The rows of the ledger: data with known classes, drawn here or read from a folder of public sets."""

from __future__ import annotations

import functools
import math
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse
from scipy.linalg import solve_triangular
from scipy.stats import special_ortho_group
from sklearn.metrics import adjusted_rand_score

from dpmmwrap.datasets import generate, read_example
from dpmmwrap.evaluation.fits import classes_in
from dpmmwrap.evaluation.scores import battery_of
from dpmmwrap.evaluation.sets import SHIPPED, SHIPPED_SETS, read_npz, read_shipped

MOST_ROWS, FEWEST_OF_A_TENTH = 4000, 100
TENTH = "/10"
"""How the name of a set at a tenth of its rows ends."""
KINDS = {
    "real": ("deepdpm_*", "hipc_*", "flowsom_*", "scmix_*", "uci_pendigits*", "uci_satellite", "olive_*", "wine27"),
    "uci": ("uci_*", "other_iris"),
    "counts": ("text_*",),
}
"""As in docs/benchmarks.md; what else is public is of the kind that its name begins with."""


class Drawn(NamedTuple):
    """Points, the class of each (-1: none, or not known), and the ARI of the Bayes classifier where it is known."""

    X: Any
    y: Any
    oracle: float = math.nan


@dataclass(frozen=True)
class Entry:
    """A set of the ledger."""

    name: str
    kind: str
    draw: Callable[[], Drawn]
    spec: str
    """What the data depend on: fits of another spec are not fits to the same data. Whoever changes how data are drawn
    changes this, too."""


@dataclass(frozen=True)
class Cell:
    """A mixture whose truth is known."""

    dim: int
    clusters: int
    points: int
    shape: str
    """Of the clusters: ball, axes (other variances along other axes) or ellipsoid."""
    separation: float
    """Distance of the two closest means, in deviations."""
    sizes: str = "equal"
    noise: float = 0.0
    """Share of points that are spread evenly over the range of the others, and belong to no cluster."""
    tails: str = "normal"

    @property
    def name(self) -> str:
        marks = [self.shape, *([self.sizes] if self.sizes != "equal" else [])]
        marks += [*(["noise"] if self.noise else []), *([self.tails] if self.tails != "normal" else [])]
        return f"d{self.dim}_k{self.clusters}_n{self.points}_" + "_".join(marks)


CELLS = (
    Cell(1, 1, 100, "ball", 5),
    Cell(1, 3, 300, "ball", 5),
    Cell(1, 5, 3000, "ball", 5, "power"),
    Cell(1, 10, 10_000, "ball", 5),
    Cell(2, 1, 1000, "ellipsoid", 5),
    Cell(2, 3, 300, "ball", 5),
    Cell(2, 5, 100, "ball", 6),
    Cell(2, 5, 1000, "axes", 5),
    Cell(2, 10, 1000, "ellipsoid", 5),
    Cell(2, 10, 3000, "ball", 5, "power", noise=0.05),
    Cell(2, 10, 3000, "ellipsoid", 6, tails="t3"),
    Cell(2, 20, 3000, "ellipsoid", 5, "power"),
    Cell(2, 30, 10_000, "ball", 4),
    Cell(2, 60, 30_000, "ellipsoid", 4),
    Cell(2, 100, 10_000, "ball", 5),
    Cell(2, 100, 100_000, "ellipsoid", 5),
    Cell(3, 8, 1000, "axes", 5),
    Cell(3, 10, 3000, "ellipsoid", 5, noise=0.05),
    Cell(3, 20, 3000, "ball", 5, "power"),
    Cell(3, 40, 20_000, "ellipsoid", 4),
    Cell(5, 1, 3000, "ellipsoid", 5),
    Cell(5, 5, 500, "ball", 5),
    Cell(5, 10, 3000, "axes", 5, "power"),
    Cell(5, 10, 3000, "axes", 5, noise=0.05),
    Cell(5, 10, 3000, "ball", 6, tails="t3"),
    Cell(5, 20, 10_000, "ellipsoid", 4),
    Cell(5, 40, 20_000, "ellipsoid", 5),
    Cell(5, 60, 30_000, "axes", 5, "power"),
    Cell(10, 3, 1000, "ellipsoid", 5),
    Cell(10, 5, 300, "ball", 6),
    Cell(10, 10, 3000, "axes", 6, tails="t3"),
    Cell(10, 10, 5000, "ellipsoid", 5, noise=0.05),
    Cell(10, 20, 10_000, "ellipsoid", 4),
    Cell(10, 30, 30_000, "ellipsoid", 5, "power"),
    Cell(10, 50, 10_000, "ball", 5),
    Cell(10, 100, 100_000, "ball", 5, "power"),
    Cell(20, 1, 1000, "ball", 5),
    Cell(20, 5, 1000, "ball", 6),
    Cell(20, 10, 3000, "axes", 6),
    Cell(20, 10, 10_000, "ellipsoid", 6, "power"),
    Cell(20, 20, 20_000, "ellipsoid", 6),
    Cell(40, 3, 300, "ball", 7),
    Cell(40, 5, 1000, "axes", 7),
    Cell(40, 10, 10_000, "ellipsoid", 7),
    Cell(40, 20, 30_000, "axes", 7, "power"),
)


@dataclass(frozen=True)
class Shapes:
    """Clusters of one shape that is not Gaussian, of radius 1 and with gaps between them."""

    shape: str
    """square (a cube), disc (a ball), ring (a shell: two dimensions only), banana (two dimensions only) or mixed."""
    dim: int
    clusters: int
    points: int

    @property
    def name(self) -> str:
        return f"shapes_{self.shape}_d{self.dim}_k{self.clusters}_n{self.points}"


SHAPES = (
    Shapes("square", 2, 1, 1000),
    Shapes("square", 2, 4, 1000),
    Shapes("square", 2, 6, 3000),
    Shapes("square", 3, 3, 1500),
    Shapes("disc", 2, 1, 1000),
    Shapes("disc", 2, 5, 1500),
    Shapes("disc", 2, 4, 4000),
    Shapes("disc", 5, 3, 1500),
    Shapes("ring", 2, 1, 800),
    Shapes("ring", 2, 3, 1500),
    Shapes("ring", 2, 5, 4000),
    Shapes("banana", 2, 1, 600),
    Shapes("banana", 2, 4, 1200),
    Shapes("banana", 2, 6, 3000),
    Shapes("mixed", 2, 4, 1200),
    Shapes("mixed", 2, 8, 4000),
)
CLOSEST = 2.8
"""The distance between the centres of shapes of radius 1, at least."""
GENERATE = ((2, 20, 50), (3, 40, 20), (5, 40, 10), (10, 20, 10))
"""Dimension, clusters and spread of the paper's sets."""
GENERATE_POINTS, GENERATE_SEEDS = 20_000, (1, 2, 3)


def all_entries(data: Path) -> list[Entry]:
    """Every set that is here; those of `data` only where that folder exists."""
    whole = [*bundled(data), *public(data / "public"), *generated()]
    tenths = [small for entry in whole for small in tenth(entry, rows_of(entry, data))]
    cells = [Entry(cell.name, "cells", functools.partial(draw_cell, cell), repr(cell)) for cell in CELLS]
    shapes = [Entry(one.name, "shapes", functools.partial(draw_shapes, one), repr(one)) for one in SHAPES]
    return [*cells, *shapes, *hundreds(), *whole, *tenths]


def generated() -> Iterator[Entry]:
    for dim, clusters, spread in GENERATE:
        for seed in GENERATE_SEEDS:
            made = functools.partial(draw_generate, dim, clusters, spread, seed)
            yield Entry(f"generate_{dim}_{clusters}_{spread}_{seed}", "generate", made, f"{GENERATE_POINTS} points")


def hundreds() -> list[Entry]:
    return [
        Entry("hundred_curve", "hundred", draw_curve, "1"),
        Entry("hundred_grid", "hundred", draw_grid, "1"),
        Entry("integers", "integers", draw_integers, "1"),
        Entry("topics", "counts", draw_topics, "1"),
    ]


def bundled(data: Path) -> Iterator[Entry]:
    yield Entry("example", "bundled", draw_example, "1")
    for name in SHIPPED_SETS:
        yield Entry(name, "bundled", functools.partial(read_bundled, name), "1")
    if (path := data / "mnist_test_pca20.npz").exists():
        yield Entry(
            "mnist_pca20", "bundled", functools.partial(read_public, str(path), 10_000), f"{path.stat().st_size}"
        )


def public(folder: Path) -> Iterator[Entry]:
    for path in sorted(folder.glob("*.npz")):
        reading = functools.partial(read_public, str(path), MOST_ROWS)
        yield Entry(path.stem, battery_of(path.stem, KINDS), reading, f"{MOST_ROWS} of {path.stat().st_size}")


def rows_of(entry: Entry, data: Path) -> int:
    """How many rows a set has, as cheaply as can be known."""
    if entry.kind == "generate":
        return GENERATE_POINTS
    path = data / "public" / f"{entry.name}.npz"
    if not path.exists():
        return entry.draw().X.shape[0] if entry.name in SHIPPED_SETS else 10_000
    # Files in a zip archive are read when they are asked for: not X, which may be large.
    with np.load(path, allow_pickle=False) as arrays:
        return min(len(arrays["y"]), MOST_ROWS)


def tenth(entry: Entry, rows: int) -> list[Entry]:
    """The same set at a tenth of its rows, if that leaves enough."""
    if rows < 10 * FEWEST_OF_A_TENTH:
        return []
    return [Entry(entry.name + TENTH, "tenth", functools.partial(draw_tenth, entry.draw), entry.spec)]


def draw_tenth(draw: Callable[[], Drawn]) -> Drawn:
    X, y, _ = draw()
    rows = chosen(X.shape[0], X.shape[0] // 10)
    return Drawn(X[rows], y[rows])


def chosen(total: int, wanted: int) -> Any:
    """Some rows at random, always the same ones, in their order."""
    return np.sort(np.random.default_rng(1).choice(total, wanted, replace=False))


def draw_example() -> Drawn:
    data = read_example()
    return Drawn(data.X, data.y)


def read_bundled(name: str) -> Drawn:
    found = read_shipped(f"{SHIPPED}:{name}")
    return Drawn(found.X, found.y)


def read_public(path: str, most: int) -> Drawn:
    found = read_npz(path)
    if found.total <= most:
        return Drawn(found.X, found.y)
    rows = chosen(found.total, most)
    return Drawn(found.X[rows], found.y[rows])


def draw_generate(dim: int, clusters: int, spread: float, seed: int) -> Drawn:
    data = generate(dim, clusters, GENERATE_POINTS, spread, seed)
    logs = log_densities(data.X.astype(float), data.means, data.covariances, "normal") + np.log(data.weights)
    return Drawn(data.X, data.y, ari(data.y, logs.argmax(axis=1)))


def ari(y: Any, labels: Any) -> float:
    """Of the points whose class is known. Of one class alone it is 1 for one cluster and 0 for more."""
    known = y >= 0
    return float(adjusted_rand_score(y[known], labels[known])) if classes_in(y) else math.nan


def draw_cell(cell: Cell) -> Drawn:
    rng = np.random.default_rng(zlib.crc32(cell.name.encode()))
    covariances = np.stack([draw_covariance(cell, rng) for _ in range(cell.clusters)])
    means = draw_means(covariances, cell.separation, rng)
    weights = np.ones(cell.clusters) if cell.sizes == "equal" else 1 / np.arange(1, cell.clusters + 1)
    weights /= weights.sum()
    y = rng.choice(cell.clusters, cell.points, p=weights)
    steps = np.einsum("nij,nj->ni", np.linalg.cholesky(covariances)[y], rng.standard_normal((cell.points, cell.dim)))
    if cell.tails == "t3":
        # Of three degrees of freedom, and the same covariances.
        steps *= np.sqrt(1 / rng.chisquare(3, cell.points))[:, None]
    X = means[y] + steps
    oracle = ari(y, (log_densities(X, means, covariances, cell.tails) + np.log(weights)).argmax(axis=1))
    if cell.noise:
        stray = rng.random(cell.points) < cell.noise
        X[stray] = rng.uniform(X.min(axis=0), X.max(axis=0), (int(stray.sum()), cell.dim))
        y[stray] = -1
    return Drawn(X, y, oracle)


def draw_covariance(cell: Cell, rng: np.random.Generator) -> Any:
    """Axes of a ratio up to about 5:1 in length; volumes that differ by a factor of 4 in variance."""
    variances = np.ones(cell.dim) if cell.shape == "ball" else np.exp(rng.uniform(0, 2 * np.log(5), cell.dim))
    variances *= np.exp(rng.uniform(-np.log(2), np.log(2))) / variances.mean()
    if cell.shape != "ellipsoid" or cell.dim == 1:
        return np.diag(variances)
    turn = special_ortho_group.rvs(cell.dim, random_state=rng)
    return turn @ np.diag(variances) @ turn.T


def draw_means(covariances: Any, separation: float, rng: np.random.Generator) -> Any:
    """Means no closer than so many deviations of the two clusters, along the line between them, but as crowded."""
    placed: list[Any] = []
    side, failures = separation / np.sqrt(covariances.shape[1]), 0
    while len(placed) < len(covariances):
        mean, own = rng.uniform(0, side, covariances.shape[1]), covariances[len(placed)]
        if all(apart(mean - other, own, covariances[k]) >= separation for k, other in enumerate(placed)):
            placed.append(mean)
        else:
            failures += 1
            if failures % 50 == 0:
                side *= 1.05
    return np.stack(placed)


def apart(step: Any, one: Any, other: Any) -> float:
    """How many deviations of both clusters' mean covariance lie between two means."""
    return float(np.sqrt(step @ np.linalg.solve((one + other) / 2, step)))


def log_densities(X: Any, means: Any, covariances: Any, tails: str) -> Any:
    """Of each point under each cluster (N, K), but for a constant."""
    found, dim = np.empty((len(X), len(means))), X.shape[1]
    for k, (mean, covariance) in enumerate(zip(means, covariances, strict=True)):
        factor = np.linalg.cholesky(covariance)
        squares = (solve_triangular(factor, (X - mean).T, lower=True) ** 2).sum(axis=0)
        # A t distribution of three degrees of freedom has three times the covariance of its scale.
        shape = -0.5 * squares if tails == "normal" else -(3 + dim) / 2 * np.log1p(squares)
        found[:, k] = shape - np.log(np.diag(factor)).sum()
    return found


def draw_shapes(shapes: Shapes) -> Drawn:
    """Clusters in random places; those of kind "mixed" take turns."""
    rng = np.random.default_rng(zlib.crc32(shapes.name.encode()))
    y = rng.integers(shapes.clusters, size=shapes.points)
    X = np.empty((shapes.points, shapes.dim))
    placed: list[Any] = []
    side = CLOSEST
    while len(placed) < shapes.clusters:
        centre = rng.uniform(0, side, shapes.dim)
        side *= 1.01
        if all(np.linalg.norm(centre - other) >= CLOSEST for other in placed):
            members = y == len(placed)
            kind = sorted(FILLED)[len(placed) % len(FILLED)] if shapes.shape == "mixed" else shapes.shape
            X[members] = centre + FILLED[kind](int(members.sum()), shapes.dim, rng)
            placed.append(centre)
    return Drawn(X, y, 1.0)


def filled_square(count: int, dim: int, rng: np.random.Generator) -> Any:
    """Of diameter 2, turned at random."""
    turn = special_ortho_group.rvs(dim, random_state=rng)
    return rng.uniform(-1, 1, (count, dim)) @ turn / np.sqrt(dim)


def filled_disc(count: int, dim: int, rng: np.random.Generator) -> Any:
    steps = rng.standard_normal((count, dim))
    return steps / np.linalg.norm(steps, axis=1)[:, None] * rng.random((count, 1)) ** (1 / dim)


def filled_ring(count: int, dim: int, rng: np.random.Generator) -> Any:
    """A circle with noise."""
    angles = rng.uniform(0, 2 * np.pi, count)
    return rng.normal(0.9, 0.05, (count, 1)) * np.column_stack([np.cos(angles), np.sin(angles)])


def filled_banana(count: int, dim: int, rng: np.random.Generator) -> Any:
    """Two thirds of a circle with noise, turned at random."""
    angles = rng.uniform(0, 4 / 3 * np.pi, count) + rng.uniform(0, 2 * np.pi)
    return rng.normal(0.8, 0.08, (count, 1)) * np.column_stack([np.cos(angles), np.sin(angles)])


FILLED = {"square": filled_square, "disc": filled_disc, "ring": filled_ring, "banana": filled_banana}


def draw_curve() -> Drawn:
    """A hundred round clusters, 6.7 deviations apart along a spiral of three turns that is a million long."""
    turns, length = 6 * np.pi, 1e6
    angles = np.linspace(0, turns, 100_000)
    along = np.cumsum(np.hypot(angles, 1.0))
    angles = np.interp((np.arange(100) + 0.5) / 100 * along[-1], along, angles)
    means = angles[:, None] * np.column_stack([np.cos(angles), np.sin(angles)])
    return round_clusters(means * length / (turns**2 / 2), 1500.0, 11)


def draw_grid() -> Drawn:
    """A hundred round clusters on a grid, of which neighbours overlap a little."""
    means = 4.4 * np.stack(np.meshgrid(np.arange(10), np.arange(10)), axis=-1).reshape(-1, 2)
    return round_clusters(means, 1.0, 12)


def round_clusters(means: Any, deviation: float, seed: int, each: int = 100) -> Drawn:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(len(means)), each)
    X = means[y] + deviation * rng.standard_normal((len(y), 2))
    squares = ((X[:, None] - means) ** 2).sum(axis=2)
    return Drawn(X, y, ari(y, squares.argmin(axis=1)))


def draw_integers() -> Drawn:
    """16 columns of whole numbers from 0 to 15, 26 skewed classes that overlap: like the letters of UCI."""
    rng = np.random.default_rng(13)
    y = rng.integers(26, size=10_000)
    means, spreads = rng.normal(7, 2, (26, 16)), rng.uniform(1, 2.5, (26, 16))
    mixing = np.stack([np.eye(16) + 0.15 * rng.standard_normal((16, 16)) for _ in range(26)])
    steps = np.einsum("nij,nj->ni", mixing[y], rng.gamma(4, 0.5, (len(y), 16)) - 2)
    return Drawn(np.clip(np.round(means[y] + spreads[y] * steps), 0, 15), y)


def draw_topics() -> Drawn:
    """6,000 texts of about 60 of 20,000 words: half of them common to all, half of the text's own topic."""
    rng, words, topics = np.random.default_rng(14), 20_000, 12
    common = 1 / np.arange(10, words + 10)
    common /= common.sum()
    shares = np.stack([0.5 * common + 0.5 * rng.dirichlet(300 * common + 1e-6) for _ in range(topics)])
    y = rng.integers(topics, size=6000)
    lengths = 1 + rng.poisson(59, len(y))
    rows = np.repeat(np.arange(len(y)), lengths)
    columns = np.empty(len(rows), dtype=np.int64)
    for topic in range(topics):
        of_it = y[rows] == topic
        columns[of_it] = rng.choice(words, int(of_it.sum()), p=shares[topic])
    X = sparse.csr_matrix((np.ones(len(rows), np.int32), (rows, columns)), shape=(len(y), words))
    return Drawn(X, y, ari(y, (X @ np.log(shares).T).argmax(axis=1)))
