"""Training and validation batches: sets in their frames, and the splits that the network should find."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.splitnet.bipartitions import best_bipartitions
from dpmmwrap.splitnet.frame import to_frame
from dpmmwrap.splitnet.synthesis import (
    LEVELS,
    TEST_CONCENTRATION,
    TRAINING_LOG_HASTINGS,
    Mixtures,
    curriculum,
    draw_alike_pairs,
    draw_crowds,
    draw_splittable_pairs,
    draw_test_sets,
)

TARGETS = 4
"""Number of target splits per set. A pair has a single true split, which is repeated."""
POINTS = (16, 2000)
"""Points per set that the network reads."""
POINTS_PER_DIM = 3
"""With fewer points per dimension, two covariances cannot be estimated."""
FRAME_POINTS = (400, 1300)
LARGER_FRAMES = 0.5
"""The share of batches in which the frame of a set is computed from more points (FRAME_POINTS) than the network reads,
as for the contexts of clusters."""
POINTS_PER_STEP = 256
"""Points per step divided by the batch size: a step with small sets has more of them."""
LARGEST_BATCH = 64
ALIKE_SHARE, REGULAR_SHARE = 0.2, 0.4
"""The share of pairs with a common covariance, and of crowds with round components."""
HEAVY_SHARE, FREEDOM = 0.2, (2.5, 30.0)
"""The share of sets with Student-t components, and the range of their degrees of freedom."""
NOISY_SHARE, NOISE, NOISE_WIDTH = 0.2, (0.003, 0.05), 3.0
"""The share of sets with noise, the share of noise points in them, and the width of the noise in standard deviations of
the set."""


class Stage(NamedTuple):
    """The distribution of training sets from a given step on."""

    begins: int
    dims: tuple[int, ...]
    regular: bool
    """Whether some pairs have a common covariance, and some crowds nearly so."""
    hardness: float
    """How close to the hard end pairs are drawn."""


@dataclass(frozen=True)
class Batch:
    """Points (B, n, D) in their frames, the probability of the first half for each target split (B, T, n), and which
    points are not noise and so have such a probability (B, n)."""

    X: Tensor
    targets: Tensor
    known: Tensor


def crowd_share(dim: int) -> float:
    """The share of crowded clusters among the training sets. The fewer dimensions, the more crowding matters."""
    return 0.3 if dim <= 5 else 0.2


def set_size(rng: Generator, dim: int) -> int:
    """Log-uniform, the larger of two draws: small sets are not very informative."""
    least, most = np.log(max(POINTS[0], POINTS_PER_DIM * dim)), np.log(POINTS[1])
    return int(np.exp(rng.uniform(least, most, size=2).max()))


def training_batch(seed: int, step: int, stage: Stage, sets: int, progress: float) -> Batch:
    """The batch of one step, all in one dimension. It depends only on the seed and the step, so a run can be resumed
    exactly."""
    rng = np.random.default_rng((seed, step))
    dim = int(rng.choice(stage.dims))
    n = set_size(rng, dim)
    # About the same number of points in every batch, so that a step with small sets is not wasted.
    sets = min(LARGEST_BATCH, max(2, round(sets * POINTS_PER_STEP / n)))
    crowded = int(rng.binomial(sets, crowd_share(dim)))
    n_frame = max(n, int(rng.integers(*FRAME_POINTS))) if rng.random() < LARGER_FRAMES else n
    alike = int(rng.binomial(sets - crowded, ALIKE_SHARE)) if stage.regular else 0
    pairs = sets - crowded - alike
    difficulties = curriculum(rng, dim, pairs, progress, stage.hardness)
    parts = []
    if pairs:
        mixtures, X, _ = draw_splittable_pairs(
            rng, dim, difficulties, n_frame, TRAINING_LOG_HASTINGS, TEST_CONCENTRATION
        )
        parts.append(_training_sets(rng, mixtures, X, first_side(pairs), n))
    if alike:
        mixtures = draw_alike_pairs(rng, dim, alike)
        parts.append(_training_sets(rng, mixtures, mixtures.sample(rng, n_frame)[0], first_side(alike), n))
    if crowded:
        mixtures, sides = draw_worthwhile_crowds(rng, dim, crowded, REGULAR_SHARE if stage.regular else 0.0)
        X, _ = mixtures.sample(rng, n_frame)
        parts.append(_training_sets(rng, mixtures, X, sides, n))
    return Batch(*(torch.cat([getattr(part, name) for part in parts]) for name in ("X", "targets", "known")))


def first_side(pairs: int) -> Float64Array:
    """Targets (pairs, TARGETS, 2) of pairs, which can be split in one way only."""
    return np.tile([1.0, 0.0], (pairs, TARGETS, 1))


def draw_worthwhile_crowds(rng: Generator, dim: int, count: int, regular: float = 0.0) -> tuple[Mixtures, Float64Array]:
    """Crowded clusters with a split that pays, and the sides (count, TARGETS, K) of their best splits.

    Twice as many are drawn; those with the largest best gain are kept (a gain at or below zero is no split).
    """
    mixtures = draw_crowds(rng, dim, 2 * count, regular=regular)
    sides, gains = best_bipartitions(mixtures.weights, mixtures.means, mixtures.covariances, TARGETS)
    pays = np.flatnonzero(gains[:, 0] > 0.005)
    kept = np.argsort(-gains[:, 0])[:count] if len(pays) < count else pays[:count]
    sides, gains = sides[kept], gains[kept]
    # A target that is much worse than the best one is not worth learning: repeat the best one.
    poor = ~(gains > 0.25 * gains[:, :1])
    sides = np.where(poor[:, :, None], sides[:, :1], sides)
    return mixtures[kept], sides


def _training_sets(rng: Generator, mixtures: Mixtures, X: Float64Array, sides: Float64Array, n: int) -> Batch:
    """Sets of n points in their frames, some with heavy tails, some with noise."""
    heavy = np.flatnonzero(rng.random(len(X)) < HEAVY_SHARE)
    if len(heavy):
        freedom = np.full(len(X), np.inf)
        freedom[heavy] = np.exp(rng.uniform(math.log(FREEDOM[0]), math.log(FREEDOM[1]), len(heavy)))
        mixtures = replace(mixtures, freedom=freedom)
        X[heavy], _ = mixtures[heavy].sample(rng, X.shape[1])
    targets = sides @ mixtures.responsibilities(X[:, :n])
    X = _scaled(X)
    share = np.exp(rng.uniform(math.log(NOISE[0]), math.log(NOISE[1]), len(X))) * (rng.random(len(X)) < NOISY_SHARE)
    noise = rng.random(X.shape[:2]) < share[:, None]
    X[noise] = NOISE_WIDTH * rng.standard_normal((int(noise.sum()), X.shape[2]))
    frames = to_frame(torch.from_numpy(X))
    known = torch.from_numpy(~noise[:, :n])
    return Batch(frames[:, :n].float(), torch.from_numpy(targets).float(), known)


def _scaled(X: Float64Array) -> Float64Array:
    """Centre and scale each feature, just enough to keep the whitening of float32 data well conditioned."""
    centred = X - X.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.maximum(centred.std(axis=1, keepdims=True), 1e-30))


@dataclass(frozen=True)
class Validation:
    """Fixed sets of one kind and dimension: points in their frames and the true labels."""

    name: str
    X: Tensor
    labels: IntArray


def validation_sets(seed: int, dims: Sequence[int], sets: int = 32, n: int = 1024) -> list[Validation]:
    """Sets of every kind in each dimension, from a stream that training never uses."""
    return [kind for dim in sorted(set(dims)) for kind in validation_sets_in(seed, dim, sets, n)]


def validation_sets_in(seed: int, dim: int, sets: int, n: int) -> list[Validation]:
    """The paper's easy, medium and hard sets and crowded clusters."""
    rng = np.random.default_rng((seed, 0x7A11DA7E, dim))
    found = []
    for level in LEVELS:
        _, X, labels = draw_test_sets(rng, dim, level, sets, n=2048 if dim >= 10 else 1024)
        frames = to_frame(torch.from_numpy(_scaled(X)))
        found.append(Validation(f"{level} {dim}", frames[:, :n].float(), labels[:, :n]))
    mixtures, sides = draw_worthwhile_crowds(rng, dim, sets)
    X, components = mixtures.sample(rng, 1024)
    labels = np.take_along_axis(sides[:, 0].astype(np.int64), components, axis=1)
    found.append(Validation(f"crowded {dim}", to_frame(torch.from_numpy(_scaled(X)))[:, :n].float(), labels[:, :n]))
    return found
