"""Sets that are no mixture of Gaussians: shapes, grids of clusters, whole numbers, topics."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np
from ledger_mixtures import Drawn, ari
from scipy import sparse
from scipy.stats import special_ortho_group


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
