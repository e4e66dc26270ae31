"""Data sets: mixtures drawn at random, and the bundled example."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.files import Data, read_data
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, IntArray

EXAMPLE = Path(__file__).with_name("example.npz")
"""`dpmmwrap generate --dim 2 --clusters 20 --points 10000 --spread 50 --seed 0 --out example.npz`"""

WEIGHT_CONCENTRATION = 5.0
"""Weights ~ Dir(5, …, 5): uneven, but hardly ever so small that a cluster cannot be found."""
WORD_CONCENTRATION, LEVEL_CONCENTRATION = 0.1, 0.3
"""Proportions of words and of levels ~ Dir: a few are frequent in each cluster, and different ones in others."""
WORDS_PER_ROW = 50
LEVELS = np.array(list("abcd"))
ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Dataset:
    """Points, the component of each, and the mixture."""

    X: Float32Array
    y: IntArray
    weights: Float64Array
    means: Float64Array
    covariances: Float64Array

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a .npz file, by name."""
        return dict(vars(self))


@dataclass(frozen=True)
class Counts:
    """Rows of counts (CSR), the cluster of each, and the clusters' proportions."""

    X: Any
    y: IntArray
    weights: Float64Array
    proportions: Float64Array

    def arrays(self) -> dict[str, np.ndarray]:
        """The arrays of a .npz file, by name."""
        X = self.X
        parts = {"data": X.data, "indices": X.indices, "indptr": X.indptr, "shape": np.array(X.shape)}
        return parts | {"y": self.y, "weights": self.weights, "proportions": self.proportions}


@dataclass(frozen=True)
class Table:
    """Columns by name, and the cluster of each row."""

    columns: dict[str, np.ndarray]
    y: IntArray


def generate(
    dim: int, clusters: int, points: int, spread: float, seed: int | np.random.Generator, *, round: bool = False
) -> Dataset:
    """Draw a mixture and points from it: weights Dir(5), means N(0, spread·I), covariances IW(D+2, I), or I."""
    from scipy.stats import invwishart

    check_sizes(dim, clusters, points)
    if not (np.isfinite(spread) and spread > 0):
        raise ValueError(f"spread should be a positive number, not {spread}")
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(clusters, WEIGHT_CONCENTRATION))
    means = rng.normal(scale=np.sqrt(spread), size=(clusters, dim))
    covariances: Float64Array
    if round:
        covariances = np.tile(np.eye(dim), (clusters, 1, 1))
    else:
        covariances = invwishart.rvs(df=dim + 2, scale=np.eye(dim), size=clusters, random_state=rng)
        covariances = np.reshape(covariances, (clusters, dim, dim))
    y = rng.choice(clusters, size=points, p=weights).astype(np.int32)
    X = rng.standard_normal((points, dim), dtype=np.float32)
    _transform(X, y, means, np.asarray(np.linalg.cholesky(covariances), dtype=np.float64))
    return Dataset(X, y, weights, means, covariances)


def generate_counts(dim: int, clusters: int, points: int, seed: int | np.random.Generator) -> Counts:
    """Draw texts as counts of `dim` words: weights Dir(5), proportions Dir(0.1), about 50 words in each."""
    from scipy import sparse

    check_sizes(dim, clusters, points)
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.full(clusters, WEIGHT_CONCENTRATION))
    proportions = rng.dirichlet(np.full(dim, WORD_CONCENTRATION), clusters)
    y = rng.choice(clusters, size=points, p=weights).astype(np.int32)
    lengths = 1 + rng.poisson(WORDS_PER_ROW - 1, points)
    parts = []
    for begin in range(0, points, ROWS_AT_ONCE):
        some = slice(begin, begin + ROWS_AT_ONCE)
        parts.append(sparse.csr_matrix(rng.multinomial(lengths[some], proportions[y[some]]).astype(np.int32)))
    return Counts(sparse.vstack(parts, format="csr"), y, weights, proportions)


def generate_mixed(dim: int, clusters: int, points: int, spread: float, seed: int) -> Table:
    """Draw a table of `dim` numeric columns with round clusters, and as many categorical ones with four levels."""
    rng = np.random.default_rng(seed)
    numbers = generate(dim, clusters, points, spread, rng, round=True)
    columns = {f"number_{index + 1}": numbers.X[:, index] for index in range(dim)}
    for index in range(dim):
        proportions = rng.dirichlet(np.full(len(LEVELS), LEVEL_CONCENTRATION), clusters)
        ends = proportions.cumsum(axis=1)[numbers.y]
        levels = (rng.random((points, 1)) > ends).sum(axis=1)
        columns[f"category_{index + 1}"] = LEVELS[np.minimum(levels, len(LEVELS) - 1)]
    return Table(columns, numbers.y)


def check_sizes(dim: int, clusters: int, points: int) -> None:
    for name, value in (("dim", dim), ("clusters", clusters), ("points", points)):
        if value < 1:
            raise ValueError(f"{name} should be at least 1, not {value}")


def _transform(X: Float32Array, y: IntArray, means: Float64Array, factors: Float64Array) -> None:
    """Turn standard normal points into points of their components, in place. O(N D²)."""
    order = np.argsort(y, kind="stable")
    ends = np.cumsum(np.bincount(y, minlength=len(means)))
    for k, members in enumerate(np.split(order, ends[:-1])):
        X[members] = means[k] + X[members] @ factors[k].T


def read_example() -> Data:
    """The bundled data set, 10,000 points in two dimensions from 20 Gaussians, with its true labels."""
    return read_data(EXAMPLE)
