"""The paper's first proposal: the two subclusters are those of 2-means."""

from __future__ import annotations

import numpy as np
from numpy.random import Generator

from dpmmwrap.arrays import Float32Array, Float64Array, IntArray, UInt8Array

CHUNK = 1 << 16
SAMPLE = 10_000


class KMeansStart:
    """2-means on at most `sample` points of a cluster; the rest go to the nearer of the two centres.

    Distances are taken with each feature divided by its deviation over the data, so that units do not matter.
    """

    name = "kmeans"

    def __init__(self, sample: int = 2000, iterations: int = 10) -> None:
        if sample < 2:
            raise ValueError(f"2-means needs a sample of 2 points or more, not {sample}")
        self.sample = sample
        self.iterations = iterations

    def bind(self, X: Float32Array) -> None:
        self.X = X
        some = np.asarray(X[:: max(1, len(X) // SAMPLE)], dtype=np.float64)
        deviations = some.std(axis=0)
        self.precision = np.where(deviations > 0, deviations, 1.0) ** -2.0

    def __call__(self, members: list[IntArray], rng: Generator) -> list[UInt8Array]:
        return [self.start(rows, rng) for rows in members]

    def start(self, rows: IntArray, rng: Generator) -> UInt8Array:
        if len(rows) < 2:
            return np.zeros(len(rows), np.uint8)
        few = rows if len(rows) <= self.sample else rng.choice(rows, self.sample, replace=False)
        centres = two_means(np.asarray(self.X[np.sort(few)], dtype=np.float64), self.precision, self.iterations, rng)
        sides = np.empty(len(rows), np.uint8)
        for begin in range(0, len(rows), CHUNK):
            sides[begin : begin + CHUNK] = nearer(self.X[rows[begin : begin + CHUNK]], centres, self.precision)
        return sides


def nearer(points: Float32Array | Float64Array, centres: Float64Array, precision: Float64Array) -> UInt8Array:
    """1 for points nearer to the second centre than to the first."""
    axis = precision * (centres[1] - centres[0])
    middle = (centres[1] + centres[0]) / 2
    return np.asarray((points - middle) @ axis > 0, dtype=np.uint8)


def two_means(points: Float64Array, precision: Float64Array, iterations: int, rng: Generator) -> Float64Array:
    """Lloyd's algorithm for two centres, begun as k-means++ does: a point, and one far from it."""
    first = points[rng.integers(len(points))]
    squares = (precision * (points - first) ** 2).sum(axis=1)
    if not squares.sum() > 0:
        return np.stack([first, first])
    centres = np.stack([first, points[rng.choice(len(points), p=squares / squares.sum())]])
    previous = None
    for _ in range(iterations):
        right = nearer(points, centres, precision).astype(bool)
        if right.all() or not right.any() or (previous is not None and (right == previous).all()):
            break
        centres = np.stack([points[~right].mean(axis=0), points[right].mean(axis=0)])
        previous = right
    return centres
