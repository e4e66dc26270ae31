"""The paper's start: the subclusters are those of 2-means."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.random import Generator

from dpmmwrap.families.base import Points
from dpmmwrap.numerics.arrays import Float64Array, IntArray, UInt8Array
from dpmmwrap.numerics.cells import Embedder
from dpmmwrap.numerics.rules import Plane, Rows, Rule, Together, nearer
from dpmmwrap.starts import SplitCriterion


class KMeansStart:
    """2-means on at most `sample` points of a cluster; the other points go to the nearer centre.

    Distances are computed in the family's embedding: standardised features for Gaussians, square roots of proportions
    for counts. They do not depend on units.
    """

    name = "kmeans"

    def __init__(self, sample: int = 2000, iterations: int = 10) -> None:
        if sample < 2:
            raise ValueError(f"2-means needs a sample of 2 points or more, not {sample}")
        self.sample = sample
        self.iterations = iterations

    @property
    def identity(self) -> str:
        """Everything that the result depends on, for checkpoints."""
        return f"{self.name} sample={self.sample} iterations={self.iterations}"

    def bind(self, X: Points, criterion: SplitCriterion) -> None:
        self.X, self.prior = X, criterion.prior
        self._embed: Embedder | None = None

    @property
    def embed(self) -> Embedder:
        """Computed on first use, because short searches may need no start."""
        if self._embed is None:
            self._embed = self.prior.embedder(self.X)
        return self._embed

    def __call__(self, members: list[IntArray], rng: Generator) -> list[UInt8Array]:
        return [rule(Rows(self.X, rows)) for rule, rows in zip(self.rules(members, rng), members, strict=True)]

    def rules(self, members: list[IntArray], rng: Generator) -> list[Rule]:
        """A rule for each cluster: the nearer of two centres."""
        return [self.rule(rows, rng) for rows in members]

    def rule(self, rows: IntArray, rng: Generator) -> Rule:
        if len(rows) < 2:
            return Together()
        # Draw positions, not rows, because the rows may be remote.
        few = len(rows) <= self.sample
        places = np.arange(len(rows)) if few else rng.choice(len(rows), self.sample, replace=False)
        return Plane(self.embed, two_means(self.embed(self.X[np.sort(rows[places])]), self.iterations, rng))


def two_means(points: Any, iterations: int, rng: Generator) -> Float64Array:
    """Lloyd's algorithm for two centres, started as in k-means++ with a point and one far from it."""
    first = row(points, int(rng.integers(points.shape[0])))
    lengths = np.asarray((points.multiply(points) if hasattr(points, "multiply") else points * points).sum(axis=1))
    squares = np.maximum(lengths.ravel().astype(np.float64) - 2 * (points @ first) + first @ first, 0.0)
    # Treat rounding errors as zero.
    squares[squares < 1e-6 * max(float(squares.max()), 1e-30)] = 0.0
    if not squares.sum() > 1e-6 * max(float(first @ first), 1e-30):
        return np.stack([first, first])
    far = rng.choice(points.shape[0], p=squares / squares.sum())
    centres = np.stack([first, row(points, int(far))])
    total, previous = sum_of(points), None
    for _ in range(iterations):
        right = nearer(points, centres).view(bool)
        n_right = int(np.count_nonzero(right))
        if n_right in (0, len(right)) or (previous is not None and np.array_equal(right, previous)):
            break
        of_right = sum_of(points[right])
        centres = np.stack([(total - of_right) / (len(right) - n_right), of_right / n_right])
        previous = right
    return centres


def sum_of(points: Any) -> Float64Array:
    """The sum of some rows as a dense vector."""
    return np.asarray(points.sum(axis=0, dtype=np.float64)).ravel()


def row(points: Any, number: int) -> Float64Array:
    """One row as a dense vector."""
    chosen = points[[number]]
    return np.asarray(chosen.toarray() if hasattr(chosen, "toarray") else chosen, dtype=np.float64).ravel()
