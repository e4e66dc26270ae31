"""Mixtures whose truth is known, with the ARI that their Bayes classifier reaches."""

from __future__ import annotations

import math
import zlib
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import special_ortho_group
from sklearn.metrics import adjusted_rand_score

from dpmmwrap.evaluation.fits import classes_in


class Drawn(NamedTuple):
    """Points, the class of each (-1: none, or not known), and the ARI of the Bayes classifier where it is known."""

    X: Any
    y: Any
    oracle: float = math.nan


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
