"""Training sets: the paper's generator of pairs, crowded clusters, the filter for splittable pairs, the curriculum."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.random import Generator

from dpmmwrap.families.base import take
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.full.statistics import covariances_of, gaussians_of, statistics_from_sums
from dpmmwrap.families.full.wishart import Gaussians
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.splitnet.bipartitions import log_hastings

LEVELS = ("easy", "medium", "hard")
TEST_CONCENTRATION = 100.0
TEST_LOG_HASTINGS = float(np.log(0.001))
TRAINING_LOG_HASTINGS = 1.0
MOST_REDRAWS = 20
DEVIATIONS_APART = (3.0, 9.0)
REGULAR_FREEDOM = 30.0


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
    """The paper's test sets (D = 2, 10, 20), and analogous ones in other dimensions."""
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
    """B mixtures of K Gaussians: weights (B, K), which may be zero, and B * K Gaussians.

    With degrees of freedom (B,), components are Student t with the Gaussian's mean and scale; infinite ones stand for
    Gaussians.
    """

    weights: Float64Array
    gaussians: Gaussians
    freedom: Float64Array | None = None

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
        freedom = None if self.freedom is None else self.freedom[sets]
        return Mixtures(self.weights[sets], take(self.gaussians, rows), freedom)

    def sample(self, rng: Generator, n: int) -> tuple[Float64Array, IntArray]:
        """n points of each mixture (B, n, D) in random order, and the component of each (B, n)."""
        count, components = self.weights.shape
        below = rng.random((count, n, 1)) > np.cumsum(self.weights, axis=1)[:, None, :-1]
        labels = below.sum(axis=2)
        noise = rng.standard_normal((count, n, self.dim))
        if self.freedom is not None:
            # A Student t is a Gaussian with a random width.
            heavy = np.flatnonzero(np.isfinite(self.freedom))
            freedom = self.freedom[heavy, None]
            noise[heavy] /= np.sqrt(rng.chisquare(freedom, size=(len(heavy), n)) / freedom)[:, :, None]
        spread = np.linalg.inv(self.gaussians.precision_factors).reshape(count, components, self.dim, self.dim)
        X = np.empty_like(noise)
        means = self.means
        for k in range(components):
            sets = np.flatnonzero(self.weights[:, k])
            points = noise[sets] @ np.swapaxes(spread[sets, k], 1, 2) + means[sets, k, None]
            X[sets] = np.where((labels[sets] == k)[:, :, None], points, X[sets])
        return X, labels

    def responsibilities(self, X: Float64Array) -> Float64Array:
        """The probability of each component at each point, (B, K, n), for points (B, n, D)."""
        count, components = self.weights.shape
        factors = self.gaussians.precision_factors.reshape(count, components, self.dim, self.dim)
        log_peaks = self.gaussians.log_peak_densities.reshape(count, components)
        means = self.means
        log_densities = np.full((count, components, X.shape[1]), -np.inf)
        for k in range(components):
            sets = np.flatnonzero(self.weights[:, k])
            whitened = (X[sets] - means[sets, k, None]) @ np.swapaxes(factors[sets, k], 1, 2)
            kernels = self._log_kernels(sets, np.einsum("bij,bij->bi", whitened, whitened))
            log_densities[sets, k] = (np.log(self.weights[sets, k]) + log_peaks[sets, k])[:, None] + kernels
        log_densities -= log_densities.max(axis=1, keepdims=True)
        densities = np.exp(log_densities)
        return np.asarray(densities / densities.sum(axis=1, keepdims=True))

    def _log_kernels(self, sets: IntArray, squares: Float64Array) -> Float64Array:
        """Log densities at squared distances (b, n), up to terms common to all components of a set."""
        if self.freedom is None:
            return -0.5 * squares
        freedom = self.freedom[sets, None]
        heavy = np.isfinite(freedom)
        freedom = np.where(heavy, freedom, 1.0)
        return np.where(heavy, -0.5 * (freedom + self.dim) * np.log1p(squares / freedom), -0.5 * squares)


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


def draw_alike_pairs(rng: Generator, dim: int, count: int) -> Mixtures:
    """Pairs with a common covariance, some deviations apart in any direction. The paper's generator hardly ever draws
    such pairs, but real data often contain them."""
    mixtures = draw_pairs(rng, dim, [Difficulty(1.0, dim + 2.0, dirichlet) for dirichlet in rng.uniform(2, 20, count)])
    factors = mixtures.gaussians.precision_factors
    factors[1::2] = factors[::2]
    apart = rng.standard_normal((count, dim, 1))
    apart *= rng.uniform(*DEVIATIONS_APART, (count, 1, 1)) / np.linalg.norm(apart, axis=1, keepdims=True)
    means = np.zeros((2 * count, dim))
    means[1::2] = np.linalg.solve(factors[::2], apart)[:, :, 0]
    return Mixtures(mixtures.weights, gaussians_of(means, factors))


@dataclass(frozen=True)
class CrowdRange:
    """The ranges from which crowded clusters are drawn: number of components, and variance of their means."""

    components: tuple[int, int] = (3, 24)
    spread: tuple[float, float] = (2.0, 200.0)


def crowd_range(dim: int) -> CrowdRange:
    """Crowding matters in few dimensions. With many, components separate and fewer are needed."""
    if dim <= 3:
        return CrowdRange((3, 28), (3.0, 200.0))
    if dim <= 5:
        return CrowdRange((3, 20), (2.0, 50.0))
    return CrowdRange((3, 12), (0.5, 12.0))


def draw_crowds(
    rng: Generator, dim: int, count: int, crowds: CrowdRange | None = None, regular: float = 0.0
) -> Mixtures:
    """Mixtures of many Gaussians as they occur in the sampler: covariances IW(D + 2, I), means N(0, spread I).

    In a share `regular` of them the covariances are nearly spherical and alike.
    """
    crowds = crowd_range(dim) if crowds is None else crowds
    least, most = crowds.components
    # Log-uniform, because the sampler meets small crowds more often than the initial large one.
    sizes = np.exp(rng.uniform(np.log(least), np.log(most + 1), size=count)).astype(int)
    narrow, wide = np.log(crowds.spread)
    spread = np.exp(rng.uniform(narrow, wide, size=count))
    # The mean is I for all degrees of freedom.
    freedom = np.repeat(
        np.where(rng.random(count) < regular, REGULAR_FREEDOM, 1.0) if regular else np.ones(count), most
    )
    prior = NIW(
        np.zeros((count * most, dim)),
        np.ones(count * most),
        freedom[:, None, None] * np.eye(dim),
        dim + 1 + freedom,
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

    A set that fails is redrawn with its own difficulty, so that the mixture of difficulties is preserved.
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
    # New objects: values cached for the first Gaussians do not hold for their replacements.
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


def curriculum(rng: Generator, dim: int, count: int, progress: float, hardness: float = 2.0) -> list[Difficulty]:
    """Difficulties of `count` sets. Each parameter lies between the easy end and a share `progress` of the way to the
    hard end, closer to the latter for larger `hardness`, since easy sets are learned soon.

    The parameters move independently, so that overlapping pairs of equal size occur as well as distant ones of very
    different size. kappa moves on a log scale, the others linearly, as in the paper.
    """
    easy, hard = difficulty(dim, "easy"), difficulty(dim, "hard")
    steps = progress * rng.beta(hardness, 1.0, size=(count, 3))
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
