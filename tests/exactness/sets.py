"""Points that moves are tried on."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

from dpmmwrap.families.categorical.prior import CategoricalDirichlet
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.diagonal.spherical import SphericalNIG
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.learned.defaults import DataScale
from dpmmwrap.families.mixed.prior import Mixed
from dpmmwrap.families.multinomial.prior import Dirichlet
from dpmmwrap.families.poisson.prior import GammaPoisson
from dpmmwrap.families.tables import TablePoints

FAMILIES = ("full", "diag", "diag, missing values", "spherical", "counts", "sparse counts", "events", "mixed")
ALIKE = ("diag", "spherical", "counts")
"""They share most loops with others: the first two with missing values, dense counts with sparse ones and events."""


class Few(NamedTuple):
    """A few points with a prior."""

    X: Any
    prior: Any


def families() -> dict[str, Few]:
    """Seven points of perhaps two clusters, for every family."""
    rng = np.random.default_rng(11)
    X = np.concatenate([rng.normal(size=(4, 2)), rng.normal(size=(3, 2)) + 3]).astype(np.float32)
    gappy = X.copy()
    gappy[1, 0] = gappy[5, 1] = np.nan
    counts = rng.poisson([[3, 1, 0.5]] * 4 + [[0.5, 1, 4]] * 3).astype(np.float32)
    codes = np.array([[0, 2], [0, 2], [1, 3], [0, -1], [1, 3], [1, 2], [1, 3]], np.int32)
    diag = NIG(np.zeros(2), 1.0, np.full(2, 3.0), 3.0)
    levels = CategoricalDirichlet(np.array([2, 2]), np.full(4, 1.0))
    exposed = np.column_stack([counts[:, :2], np.linspace(0.5, 2.0, 7), counts[:, 2]]).astype(np.float32)
    return {
        "full": Few(X, NIW(np.zeros(2), 1.0, 5 * np.eye(2), 5.0)),
        "diag": Few(X, diag),
        "diag, missing values": Few(gappy, diag),
        "spherical": Few(X, SphericalNIG(np.zeros(2), 1.0, np.full(1, 3.0), 3.0)),
        "counts": Few(counts, Dirichlet(np.full(3, 0.7))),
        "sparse counts": Few(scipy.sparse.csr_matrix(counts), Dirichlet(np.full(3, 0.7))),
        "events": Few(exposed, GammaPoisson(np.array([0.7, 1.0, 1.5]), np.array([0.5, 1.0, 0.8]), exposure=2)),
        "mixed": Few(
            TablePoints(np.ascontiguousarray(gappy[:, :1]), codes),
            Mixed(NIG(np.zeros(1), 1.0, np.full(1, 3.0), 3.0), levels),
        ),
    }


def eight_points(kind: str, mean_strength: float) -> Few:
    """Spread out, in two groups or in one; with a normal-inverse-Wishart prior."""
    rng = np.random.default_rng({"spread out": 1, "two groups": 2, "one group": 3}[kind])
    X = rng.normal(size=(8, 2))
    if kind == "spread out":
        X *= 4
    if kind == "two groups":
        X[4:] += 4
    return Few(X.astype(np.float32), NIW(np.zeros(2), mean_strength, 5 * np.eye(2), 5.0))


class Group(NamedTuple):
    """Points of a species, by published means, deviations and correlations."""

    count: int
    means: tuple[float, ...]
    deviations: tuple[float, ...]
    correlations: tuple[float, ...]
    """Above the diagonal, row by row."""


PENGUINS = (
    # Gorman, Williams and Fraser (2014): bill length and depth, flipper length (mm), mass (g), by species.
    Group(151, (38.79, 18.35, 189.95, 3700.7), (2.66, 1.22, 6.54, 458.6), (0.39, 0.33, 0.55, 0.31, 0.58, 0.47)),
    Group(68, (48.83, 18.42, 195.82, 3733.1), (3.34, 1.14, 7.13, 384.3), (0.65, 0.47, 0.51, 0.58, 0.60, 0.64)),
    Group(123, (47.50, 14.98, 217.19, 5076.0), (3.08, 0.98, 6.48, 504.1), (0.64, 0.66, 0.67, 0.71, 0.72, 0.70)),
)
FAITHFUL = (
    # Azzalini and Bowman (1990): minutes of an eruption and to the next; short and long eruptions.
    Group(97, (2.04, 54.5), (0.26, 5.8), (0.29,)),
    Group(175, (4.29, 80.0), (0.41, 6.0), (0.38,)),
)


def like(groups: tuple[Group, ...], seed: int = 0) -> np.ndarray:
    """Points as of these groups, with normal distributions."""
    rng, parts = np.random.default_rng(seed), []
    for group in groups:
        dim = len(group.means)
        covariance = np.eye(dim)
        covariance[np.triu_indices(dim, 1)] = group.correlations
        covariance = np.triu(covariance) + np.triu(covariance, 1).T
        covariance *= np.outer(group.deviations, group.deviations)
        parts.append(rng.multivariate_normal(group.means, covariance, group.count))
    return np.concatenate(parts).astype(np.float32)


def prior_of_cells(X: np.ndarray, width: float) -> NIW:
    """A weak prior of clusters that are so many times as wide (in variance) as four k-means cells."""
    scale, freedom = DataScale(X), X.shape[1] + 2.0
    return NIW(scale.mean, 0.1, freedom * width * np.diag(scale.within_at_least(4)), freedom)


def measured(name: str) -> np.ndarray:
    """Iris, or points like those of penguins or of Old Faithful."""
    if name == "iris":
        from sklearn.datasets import load_iris

        return load_iris().data.astype(np.float32)
    return like({"penguins-like": PENGUINS, "faithful-like": FAITHFUL}[name])
