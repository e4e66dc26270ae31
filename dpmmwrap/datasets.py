"""Data sets: mixtures of Gaussians drawn at random, and the bundled example."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from dpmmwrap.arrays import Float32Array, Float64Array, IntArray
from dpmmwrap.files import Data, read_data

EXAMPLE = Path(__file__).with_name("example.npz")
"""`dpmmwrap generate --dim 2 --clusters 20 --points 10000 --spread 50 --seed 0 --out example.npz`"""

WEIGHT_CONCENTRATION = 5.0
"""Weights ~ Dir(5, …, 5): uneven, and none so small that its cluster cannot be found."""


@dataclass(frozen=True)
class Dataset:
    """Points, the component each was drawn from, and the mixture itself."""

    X: Float32Array
    y: IntArray
    weights: Float64Array
    means: Float64Array
    covariances: Float64Array

    def arrays(self) -> dict[str, np.ndarray]:
        """By name, as they are kept in a .npz file."""
        return dict(vars(self))


def generate(dim: int, clusters: int, points: int, spread: float, seed: int | np.random.Generator) -> Dataset:
    """Draw a mixture and points from it: weights Dir(5), means N(0, spread·I), covariances IW(D+2, I)."""
    from scipy.stats import invwishart

    for name, value in (("dim", dim), ("clusters", clusters), ("points", points)):
        if value < 1:
            raise ValueError(f"{name} should be at least 1, not {value}")
    if not (np.isfinite(spread) and spread > 0):
        raise ValueError(f"spread should be a positive number, not {spread}")
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(clusters, WEIGHT_CONCENTRATION))
    means = rng.normal(scale=np.sqrt(spread), size=(clusters, dim))
    covariances = invwishart.rvs(df=dim + 2, scale=np.eye(dim), size=clusters, random_state=rng)
    covariances = np.reshape(covariances, (clusters, dim, dim))
    y = rng.choice(clusters, size=points, p=weights).astype(np.int32)
    X = rng.standard_normal((points, dim), dtype=np.float32)
    _place(X, y, means, np.linalg.cholesky(covariances))
    return Dataset(X, y, weights, means, covariances)


def _place(X: Float32Array, y: IntArray, means: Float64Array, factors: Float64Array) -> None:
    """Turn standard normal points, in place, into points of their components: O(N D²), and no N×D×D array."""
    order = np.argsort(y, kind="stable")
    ends = np.cumsum(np.bincount(y, minlength=len(means)))
    for k, members in enumerate(np.split(order, ends[:-1])):
        X[members] = means[k] + X[members] @ factors[k].T


def read_example() -> Data:
    """The bundled data set, 10,000 points in two dimensions from 20 Gaussians, with its true labels."""
    return read_data(EXAMPLE)
