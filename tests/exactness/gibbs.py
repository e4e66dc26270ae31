"""A plain collapsed Gibbs sampler (Neal 2000, algorithm 3) for full covariances: short, slow and independent.

It shares no code with the package. Every predictive is computed anew from sums; alpha is drawn from its conditional
distribution on a fine grid, not by Escobar and West's scheme.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit

from exactness.running import Seen

LOG_PI = math.log(math.pi)


class Prior(NamedTuple):
    """Of normal-inverse-Wishart clusters."""

    mean: Any
    strength: float
    scale: Any
    freedom: float


@njit(cache=True)
def log_student(x: Any, n: Any, total: Any, squares: Any, prior: Any, factor: Any, gap: Any) -> Any:
    """log predictive density at x of a cluster of n points, by their sum and their sum of outer products. O(D^3)."""
    dim = len(x)
    strength = prior.strength + n
    degrees = prior.freedom + n - dim + 1
    log_determinant, distance = 0.0, 0.0
    for i in range(dim):
        mean_i = (prior.strength * prior.mean[i] + total[i]) / strength
        for j in range(i + 1):
            mean_j = (prior.strength * prior.mean[j] + total[j]) / strength
            value = prior.scale[i, j] + squares[i, j]
            value += prior.strength * prior.mean[i] * prior.mean[j] - strength * mean_i * mean_j
            value *= (strength + 1) / (strength * degrees)
            for r in range(j):
                value -= factor[i, r] * factor[j, r]
            factor[i, j] = math.sqrt(value) if i == j else value / factor[j, j]
        # Forward substitution, row by row.
        gap[i] = x[i] - mean_i
        for j in range(i):
            gap[i] -= factor[i, j] * gap[j]
        gap[i] /= factor[i, i]
        distance += gap[i] ** 2
        log_determinant += 2 * math.log(factor[i, i])
    half = 0.5 * (degrees + dim)
    density = math.lgamma(half) - math.lgamma(0.5 * degrees) - 0.5 * dim * (math.log(degrees) + LOG_PI)
    return density - 0.5 * log_determinant - half * math.log1p(distance / degrees)


@njit(cache=True)
def choose(logs: Any, rng: Any) -> Any:
    """A place in proportion to the exponentials."""
    best, total = -math.inf, 0.0
    for value in logs:
        best = max(best, value)
    for value in logs:
        total += math.exp(value - best)
    left = rng.random() * total
    for place in range(len(logs)):
        left -= math.exp(logs[place] - best)
        if left < 0:
            return place
    return len(logs) - 1


@njit(cache=True)
def draw_alpha(clusters: Any, points: Any, grid: Any, log_prior: Any, rng: Any) -> Any:
    """From p(alpha | K), proportional to the prior times alpha^K Gamma(alpha) / Gamma(alpha + N), on a grid."""
    logs = np.empty(len(grid))
    for g in range(len(grid)):
        logs[g] = log_prior[g] + clusters * math.log(grid[g]) + math.lgamma(grid[g]) - math.lgamma(grid[g] + points)
    place = choose(logs, rng)
    # Anywhere within its step of the grid.
    low = grid[max(place - 1, 0)]
    return low + (grid[place] - low) * rng.random()


@njit(cache=True)
def move(x: Any, k: Any, sign: Any, counts: Any, totals: Any, squares: Any) -> None:
    """Add a point to a cluster, or take it out."""
    counts[k] += sign
    for i in range(len(x)):
        totals[k, i] += sign * x[i]
        for j in range(len(x)):
            squares[k, i, j] += sign * x[i] * x[j]
            # Nothing of the rounding stays behind.
            squares[k, i, j] *= counts[k] > 0
        totals[k, i] *= counts[k] > 0


@njit(cache=True)
def sample(
    X: Any, prior: Any, alpha: Any, grid: Any, log_prior: Any, labels: Any, thin: Any, rng: Any, kept: Any, alphas: Any
) -> None:
    """Sweeps over all points in turn; every thin-th clustering is written to `kept`."""
    rows, dim = X.shape
    counts, totals, squares = np.zeros(rows + 1), np.zeros((rows + 1, dim)), np.zeros((rows + 1, dim, dim))
    logs, factor, gap = np.empty(rows + 1), np.empty((dim, dim)), np.empty(dim)
    # Places beyond this have never been used.
    end = 1
    for i in range(rows):
        move(X[i], labels[i], 1.0, counts, totals, squares)
        end = max(end, labels[i] + 2)
    for sweep in range(len(kept) * thin):
        clusters = 0
        for i in range(rows):
            move(X[i], labels[i], -1.0, counts, totals, squares)
            vacant = -1
            for k in range(end):
                logs[k] = -math.inf
                weight = counts[k]
                if weight == 0.0 and vacant < 0:
                    vacant, weight = k, alpha
                if weight > 0.0:
                    logs[k] = math.log(weight)
                    logs[k] += log_student(X[i], counts[k], totals[k], squares[k], prior, factor, gap)
            labels[i] = choose(logs[:end], rng)
            move(X[i], labels[i], 1.0, counts, totals, squares)
            end = min(max(end, labels[i] + 2), rows + 1)
        for k in range(end):
            clusters += counts[k] > 0.0
        if len(grid) > 0:
            alpha = draw_alpha(clusters, rows, grid, log_prior, rng)
        if (sweep + 1) % thin == 0:
            kept[sweep // thin] = labels
            alphas[sweep // thin] = alpha


def plain_gibbs(
    X: Any, prior: Any, alpha: float | tuple[float, float], draws: int, thin: int = 1, seed: int = 0, labels: Any = None
) -> Seen:
    """Draws by the plain sampler, after a tenth as many that are left out; `prior` is an NIW, used by its numbers."""
    grid, log_prior = np.empty(0), np.empty(0)
    first = alpha
    if not isinstance(alpha, float):
        shape, rate = alpha
        grid = np.exp(np.linspace(-8, 6, 2000))
        # Steps of the grid are wider where alpha is larger.
        log_prior = shape * np.log(grid) - rate * grid
        first = shape / rate
    kept = np.empty((draws + draws // 10, len(X)), np.int16)
    alphas = np.empty(len(kept))
    # Nearer the origin less cancels.
    centre = X.mean(axis=0, dtype=np.float64)
    own = Prior(prior.mean - centre, float(prior.mean_strength), prior.scale, float(prior.degrees_of_freedom))
    begin = np.zeros(len(X), np.int64) if labels is None else np.array(labels, np.int64)
    sample(X - centre, own, first, grid, log_prior, begin, thin, np.random.default_rng(seed), kept, alphas)
    return Seen(kept[draws // 10 :], alphas[draws // 10 :])
