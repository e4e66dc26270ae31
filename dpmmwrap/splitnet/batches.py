"""Training and validation batches: sets in their frames, with the splits that the network should find."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from dpmmwrap.arrays import Float64Array, IntArray
from dpmmwrap.splitnet.bipartitions import best_bipartitions
from dpmmwrap.splitnet.frame import to_frame
from dpmmwrap.splitnet.synthesis import (
    LEVELS,
    TEST_CONCENTRATION,
    TRAINING_LOG_HASTINGS,
    Mixtures,
    curriculum,
    draw_crowds,
    draw_splittable_pairs,
    draw_test_sets,
)

TARGETS = 4
"""Worthwhile splits per set that the network is shown; in a pair all of them are the one true split."""
POINTS = (128, 512)
"""Points per set that the network sees."""
FRAME_POINTS = (400, 1300)
"""Points per set that its frame is computed from: a cluster's context is larger than what the network reads."""
PADDED_SHARE = 0.2
SMALLEST_DIM = {3: 3, 5: 4, 10: 6, 20: 11}


@dataclass(frozen=True)
class Batch:
    """Points (B, n, D) in their frames, and for each target split the probability of its first side (B, T, n)."""

    X: Tensor
    targets: Tensor


def crowd_share(dim: int) -> float:
    """The share of crowded clusters among the training sets: the fewer dimensions, the more crowding matters."""
    return 0.3 if dim <= 5 else 0.2


def training_batch(seed: int, step: int, dim: int, sets: int, progress: float) -> Batch:
    """The batch of one step. It depends on the seed and the step alone, so a run can be resumed exactly."""
    rng = np.random.default_rng((seed, step))
    n = int(np.exp(rng.uniform(*np.log(POINTS))))
    # The same number of points in every batch, so that a step of small sets is not wasted.
    sets = max(4, round(sets * 256 / n))
    drawn = dim
    if rng.random() < PADDED_SHARE:
        drawn = int(rng.integers(SMALLEST_DIM.get(dim, max(1, dim - 2)), dim + 1))
    crowded = int(rng.binomial(sets, crowd_share(dim)))
    n_frame = max(n, int(rng.integers(*FRAME_POINTS)))
    difficulties = curriculum(rng, drawn, sets - crowded, progress)
    parts = []
    if sets - crowded:
        mixtures, X, _ = draw_splittable_pairs(
            rng, drawn, difficulties, n_frame, TRAINING_LOG_HASTINGS, TEST_CONCENTRATION
        )
        sides = np.zeros((sets - crowded, TARGETS, 2))
        sides[:, :, 0] = 1.0
        parts.append(_in_frames(rng, mixtures, X, sides, n, dim))
    if crowded:
        mixtures, sides = draw_worthwhile_crowds(rng, drawn, crowded)
        X, _ = mixtures.sample(rng, n_frame)
        parts.append(_in_frames(rng, mixtures, X, sides, n, dim))
    return Batch(torch.cat([part.X for part in parts]), torch.cat([part.targets for part in parts]))


def draw_worthwhile_crowds(rng: Generator, dim: int, count: int) -> tuple[Mixtures, Float64Array]:
    """Crowded clusters with a split that pays, and the sides (count, TARGETS, K) of their best splits.

    Twice as many are drawn; those with the largest best gain are kept (a gain at or below zero is no split).
    """
    mixtures = draw_crowds(rng, dim, 2 * count)
    sides, gains = best_bipartitions(mixtures.weights, mixtures.means, mixtures.covariances, TARGETS)
    pays = np.flatnonzero(gains[:, 0] > 0.005)
    kept = np.argsort(-gains[:, 0])[:count] if len(pays) < count else pays[:count]
    sides, gains = sides[kept], gains[kept]
    # A target that is much worse than the best one teaches nothing: show the best one again.
    poor = ~(gains > 0.25 * gains[:, :1])
    sides = np.where(poor[:, :, None], sides[:, :1], sides)
    return mixtures[kept], sides


def _in_frames(rng: Generator, mixtures: Mixtures, X: Float64Array, sides: Float64Array, n: int, dim: int) -> Batch:
    """Pads to D with noise where fewer dimensions were drawn, frames all points, and keeps n of them."""
    targets = sides @ mixtures.responsibilities(X[:, :n])
    points = pad_with_noise(rng, _scaled(X), dim)
    frames = to_frame(torch.from_numpy(points))
    return Batch(frames[:, :n].float(), torch.from_numpy(targets).float())


def _scaled(X: Float64Array) -> Float64Array:
    """Centred and scaled per feature: no more than what keeps the whitening of float32 data well conditioned."""
    centred = X - X.mean(axis=1, keepdims=True)
    return np.asarray(centred / np.maximum(centred.std(axis=1, keepdims=True), 1e-30))


def pad_with_noise(rng: Generator, X: Float64Array, dim: int) -> Float64Array:
    """More dimensions that say nothing: independent standard normals. Constants would not be whitened."""
    missing = dim - X.shape[-1]
    if missing <= 0:
        return X
    return np.concatenate([X, rng.standard_normal((*X.shape[:-1], missing))], axis=-1)


@dataclass(frozen=True)
class Validation:
    """Fixed sets of one kind: points in their frames and the true labels."""

    name: str
    X: Tensor
    labels: IntArray


def validation_sets(seed: int, dim: int, sets: int = 48, n: int = 512) -> list[Validation]:
    """The paper's easy, medium and hard sets and crowded clusters, from a stream that training never uses."""
    rng = np.random.default_rng((seed, 0x7A11DA7E, dim))
    found = []
    for level in LEVELS:
        _, X, labels = draw_test_sets(rng, dim, level, sets, n=2048 if dim >= 10 else 1024)
        frames = to_frame(torch.from_numpy(_scaled(X)))
        found.append(Validation(level, frames[:, :n].float(), labels[:, :n]))
    mixtures, sides = draw_worthwhile_crowds(rng, dim, sets)
    X, components = mixtures.sample(rng, 1024)
    labels = np.take_along_axis(sides[:, 0].astype(np.int64), components, axis=1)
    found.append(Validation("crowded", to_frame(torch.from_numpy(_scaled(X)))[:, :n].float(), labels[:, :n]))
    return found
