"""Training sets: the paper's generator of pairs, crowded clusters, the splittable filter, the curriculum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from dpmmwrap.arrays import Float64Array, IntArray
from dpmmwrap.families.base import take
from dpmmwrap.families.gaussian import NIW, covariances_of, gaussians_of, statistics_from_sums
from dpmmwrap.families.wishart import Gaussians
from dpmmwrap.splitnet.bipartitions import log_hastings

LEVELS = ("easy", "medium", "hard")
TEST_CONCENTRATION = 100.0
TEST_LOG_HASTINGS = float(np.log(0.001))
TRAINING_LOG_HASTINGS = 1.0
MOST_REDRAWS = 20


@dataclass(frozen=True)
class Difficulty:
    """The parameters of the paper's generator: mu | Sigma ~ N(0, Sigma / kappa), Sigma ~ IW(nu, I), sizes ~ Dir."""

    kappa: float
    nu: float
    dirichlet: float


_PAPER_LEVELS = {
    2: (Difficulty(0.01, 10, 100), Difficulty(1, 4, 10), Difficulty(10, 2, 2)),
    10: (Difficulty(0.1, 20, 100), Difficulty(1, 15, 10), Difficulty(5, 11, 2)),
    20: (Difficulty(0.01, 25, 100), Difficulty(0.5, 22, 10), Difficulty(2, 21, 2)),
}


def difficulty(dim: int, level: str) -> Difficulty:
    """The paper's test sets (D = 2, 10, 20); the same recipe, carried over, in other dimensions."""
    if level not in LEVELS:
        raise ValueError(f"level should be one of {', '.join(LEVELS)}, not {level!r}")
    index = LEVELS.index(level)
    if dim in _PAPER_LEVELS:
        return _PAPER_LEVELS[dim][index]
    if dim < 10:
        return (Difficulty(0.05, dim + 8, 100), Difficulty(1, dim + 2, 10), Difficulty(10, dim, 2))[index]
    return (Difficulty(0.05, dim + 5, 100), Difficulty(0.7, dim + 3, 10), Difficulty(3, dim + 1, 2))[index]


def test_size(dim: int) -> int:
    """Points per test set, as in the paper."""
    return 1024 if dim < 10 else 4096


@dataclass(frozen=True)
class Mixtures:
    """B mixtures of K Gaussians: weights (B, K), which may be zero, and B * K Gaussians."""

    weights: Float64Array
    gaussians: Gaussians

    @property
    def dim(self) -> int:
        return int(self.gaussians.means.shape[1])

    @property
    def means(self) -> Float64Array:
        return np.reshape(self.gaussians.means, (*self.weights.shape, self.dim))

    @property
    def covariances(self) -> Float64Array:
        return covariances_of(self.gaussians).reshape(*self.weights.shape, self.dim, self.dim)

    def __getitem__(self, sets: IntArray) -> Mixtures:
        count, components = self.weights.shape
        rows = np.arange(count * components).reshape(count, components)[sets].ravel()
        return Mixtures(self.weights[sets], take(self.gaussians, rows))

    def sample(self, rng: Generator, n: int) -> tuple[Float64Array, IntArray]:
        """n points of each mixture (B, n, D), in random order, and the component of each (B, n)."""
        count, components = self.weights.shape
        X = rng.standard_normal((count, n, self.dim))
        labels = np.empty((count, n), dtype=np.int64)
        spread = np.linalg.inv(self.gaussians.precision_factors).reshape(count, components, self.dim, self.dim)
        means = self.means
        for b in range(count):
            sizes = rng.multinomial(n, self.weights[b])
            labels[b] = rng.permutation(np.repeat(np.arange(components), sizes))
            for k in np.flatnonzero(sizes):
                rows = labels[b] == k
                X[b, rows] = means[b, k] + X[b, rows] @ spread[b, k].T
        return X, labels

    def responsibilities(self, X: Float64Array) -> Float64Array:
        """The probability of each component at each point, (B, K, n), for points (B, n, D)."""
        count, components = self.weights.shape
        factors = self.gaussians.precision_factors.reshape(count, components, self.dim, self.dim)
        log_peaks = self.gaussians.log_peak_densities.reshape(count, components)
        means = self.means
        log_densities = np.full((count, components, X.shape[1]), -np.inf)
        for b in range(count):
            for k in np.flatnonzero(self.weights[b]):
                whitened = (X[b] - means[b, k]) @ factors[b, k].T
                squares = np.einsum("ij,ij->i", whitened, whitened)
                log_densities[b, k] = np.log(self.weights[b, k]) + log_peaks[b, k] - 0.5 * squares
        log_densities -= log_densities.max(axis=1, keepdims=True)
        densities = np.exp(log_densities)
        return np.asarray(densities / densities.sum(axis=1, keepdims=True))


def draw_pairs(rng: Generator, dim: int, difficulties: list[Difficulty]) -> Mixtures:
    """One pair of Gaussians per entry of `difficulties`: the paper's algorithm 'Training Data Generation Process'."""
    count = len(difficulties)
    prior = NIW(
        np.zeros((2 * count, dim)),
        np.repeat([each.kappa for each in difficulties], 2),
        np.broadcast_to(np.eye(dim), (2 * count, dim, dim)),
        np.repeat([each.nu for each in difficulties], 2).astype(np.float64),
    )
    concentration = np.array([each.dirichlet for each in difficulties])
    first = rng.beta(concentration, concentration)
    return Mixtures(np.stack([first, 1 - first], axis=1), prior.draw(rng))


@dataclass(frozen=True)
class CrowdRange:
    """What crowded clusters are drawn from: how many components, and the variance of their means."""

    components: tuple[int, int] = (3, 24)
    spread: tuple[float, float] = (2.0, 200.0)


def crowd_range(dim: int) -> CrowdRange:
    """Crowds are a matter of few dimensions: with many, components come apart and fewer are needed."""
    if dim <= 3:
        return CrowdRange((3, 28), (3.0, 200.0))
    if dim <= 5:
        return CrowdRange((3, 20), (2.0, 50.0))
    return CrowdRange((3, 12), (0.5, 12.0))


def draw_crowds(rng: Generator, dim: int, count: int, crowds: CrowdRange | None = None) -> Mixtures:
    """Mixtures of many Gaussians as the sampler meets them: covariances IW(D + 2, I), means N(0, spread I)."""
    crowds = crowd_range(dim) if crowds is None else crowds
    least, most = crowds.components
    # Log-uniform: the sampler meets small crowds more often than the first, full one.
    sizes = np.exp(rng.uniform(np.log(least), np.log(most + 1), size=count)).astype(int)
    narrow, wide = np.log(crowds.spread)
    spread = np.exp(rng.uniform(narrow, wide, size=count))
    prior = NIW(
        np.zeros((count * most, dim)),
        np.ones(count * most),
        np.broadcast_to(np.eye(dim), (count * most, dim, dim)),
        np.full(count * most, dim + 2.0),
    )
    means = rng.standard_normal((count, most, dim)) * np.sqrt(spread)[:, None, None]
    weights = rng.standard_gamma(np.exp(rng.uniform(0.0, np.log(30.0), size=(count, 1))), size=(count, most))
    weights[np.arange(most) >= sizes[:, None]] = 0.0
    gaussians = gaussians_of(means.reshape(-1, dim), prior.draw(rng).precision_factors)
    return Mixtures(weights / weights.sum(axis=1, keepdims=True), gaussians)


def draw_splittable_pairs(
    rng: Generator, dim: int, difficulties: list[Difficulty], n: int, threshold: float, alpha: float
) -> tuple[Mixtures, Float64Array, IntArray]:
    """Pairs with n points each whose true split has a log Hastings ratio above the threshold.

    A set that does not is drawn again with its own difficulty: the mixture of difficulties stays what was asked.
    """
    mixtures = draw_pairs(rng, dim, difficulties)
    means, factors = mixtures.gaussians.means, mixtures.gaussians.precision_factors
    X, labels = mixtures.sample(rng, n)
    poor = np.flatnonzero(split_log_hastings(X, labels, alpha) <= threshold)
    for _ in range(MOST_REDRAWS):
        if not len(poor):
            break
        again = draw_pairs(rng, dim, [difficulties[i] for i in poor])
        X[poor], labels[poor] = again.sample(rng, n)
        mixtures.weights[poor] = again.weights
        rows = (2 * poor[:, None] + np.arange(2)).ravel()
        means[rows], factors[rows] = again.gaussians.means, again.gaussians.precision_factors
        poor = poor[split_log_hastings(X[poor], labels[poor], alpha) <= threshold]
    # New ones: what the first draw knew of its Gaussians does not hold for those that took their place.
    return Mixtures(mixtures.weights, gaussians_of(means, factors)), X, labels


def split_log_hastings(X: Float64Array, labels: IntArray, alpha: float, prior: NIW | None = None) -> Float64Array:
    """The log Hastings ratio of splitting each set (B, n, D) by its 0/1 labels (B, n)."""
    dim = X.shape[2]
    indicator = np.stack([labels == 0, labels == 1], axis=1).astype(np.float64)
    sizes = indicator.sum(axis=2)
    sums = indicator @ X
    squares = np.stack([np.swapaxes(X * indicator[:, k, :, None], 1, 2) @ X for k in range(2)], axis=1)
    parts = statistics_from_sums(sizes.ravel(), sums.reshape(-1, dim), squares.reshape(-1, dim, dim), np.zeros(dim))
    return log_hastings(
        NIW.reference(dim) if prior is None else prior,
        take(parts, slice(0, None, 2)),
        take(parts, slice(1, None, 2)),
        alpha,
    )


def draw_test_sets(
    rng: Generator, dim: int, level: str, count: int, n: int | None = None
) -> tuple[Mixtures, Float64Array, IntArray]:
    """The paper's test sets of one level: mixtures, points (count, n, D) and true labels (count, n)."""
    difficulties = [difficulty(dim, level)] * count
    n = test_size(dim) if n is None else n
    return draw_splittable_pairs(rng, dim, difficulties, n, TEST_LOG_HASTINGS, TEST_CONCENTRATION)


def curriculum(rng: Generator, dim: int, count: int, progress: float) -> list[Difficulty]:
    """Difficulties of `count` sets: each parameter between the easy end and the part `progress` of the way to the hard
    end.

    The parameters move one by one, so that overlapping pairs of equal size occur as well as far ones of very
    different size. kappa goes by its logarithm, the others linearly, as in the paper.
    """
    easy, hard = difficulty(dim, "easy"), difficulty(dim, "hard")
    steps = rng.uniform(0.0, progress, size=(count, 3))
    # Half of the sets move all parameters together: the paper's path from easy to hard.
    steps[::2] = steps[::2, :1]
    return [
        Difficulty(
            float(np.exp((1 - a) * np.log(easy.kappa) + a * np.log(hard.kappa))),
            float((1 - b) * easy.nu + b * hard.nu),
            float((1 - c) * easy.dirichlet + c * hard.dirichlet),
        )
        for a, b, c in steps
    ]
