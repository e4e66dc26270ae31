"""Groups by a loss that knows how far apart components are: FOLD (Dombowsky and Dunson 2024, "Bayesian clustering via
fusing of localized densities").

Putting two points together costs the distance between their components, from 0 to 1; separating them costs omega times
one minus that distance. The best partition has the least expected cost over the posterior. Two groups should be
joined if the average expected distance between their points is below omega / (1 + omega), so groups of clusters are
found by average linkage, and this number is where the tree is cut. By default it is the average distance of all pairs.

The distance is Hellinger's. The rows are a sample of the mixture, so each row's probabilities of the components give it
for any family: the overlap of two densities, the integral of sqrt(f g), is the mean over rows of sqrt(p q), divided by
the square root of both weights. Memory is that of clusters by components, not of pairs of points.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.posterior.groups import Groups, linkage, steps_above
from dpmmwrap.posterior.merging import Step


def hellinger(tau: FloatArray) -> Float64Array:
    """The distance between each two components (K, K), from each row's probabilities (N, K)."""
    roots = np.sqrt(np.asarray(tau, np.float64))
    roots /= np.maximum(np.linalg.norm(roots, axis=0), np.finfo(float).tiny)
    distances = np.sqrt(np.maximum(1.0 - roots.T @ roots, 0.0))
    np.fill_diagonal(distances, 0.0)
    return np.asarray(distances)


def expected_distances(
    labels: IntArray, n_clusters: int, draws: Iterable[tuple[IntArray, Float64Array]]
) -> Float64Array:
    """The mean over draws, and over pairs of rows of two clusters, of the distance between the rows' components (K, K).
    A draw is each row's component and the distances between components. O(N + K C^2) a draw of C components."""
    sizes = np.bincount(labels, minlength=n_clusters)
    total, count = np.zeros((n_clusters, n_clusters)), 0
    for components, distances in draws:
        table = np.zeros((n_clusters, len(distances)))
        np.add.at(table, (labels, components), 1.0)
        table /= np.maximum(sizes, 1)[:, None]
        total += table @ distances @ table.T
        count += 1
    return total / max(count, 1)


def fold(distances: Float64Array, sizes: IntArray, cut: float | None = None) -> Groups:
    """Join clusters by their expected distances, down to one; the suggested groups have the least expected cost that
    joining two at a time finds. `cut` is omega / (1 + omega). O(K^3)."""
    weights, away = np.asarray(sizes, np.float64).copy(), distances.copy()
    if cut is None:
        cut = float(weights @ away @ weights / weights.sum() ** 2)
    np.fill_diagonal(away, np.inf)
    steps: list[Step] = []
    while len(steps) < len(away) - 1:
        kept, gone = sorted(divmod(int(away.argmin()), len(away)))
        distance, both = float(away[kept, gone]), weights[[kept, gone]]
        steps.append(Step(kept, gone, 1.0 - distance, float(both.sum())))
        # Two empty clusters have the same weight.
        shares = both / both.sum() if both.sum() > 0 else np.array([0.5, 0.5])
        joined = shares[0] * away[kept] + shares[1] * away[gone]
        away[kept] = away[:, kept] = joined
        away[gone] = away[:, gone] = away[kept, kept] = np.inf
        weights[kept], weights[gone] = both.sum(), 0.0
    criterion = np.array([step.criterion for step in steps])
    heights = np.maximum.accumulate(1.0 - criterion)
    suggested = len(distances) - steps_above(criterion, 1.0 - cut)
    return Groups(linkage(steps, heights), criterion, "fold", suggested, 1.0 - cut)
