"""Which clusters are found again in samples of the data.

A mixture of Gaussians describes a class that is not quite Gaussian by several clusters, more of them the more points
there are. Their borders are arbitrary: another sample of the same data puts them elsewhere. So if the data do not
follow the model (`fit_check.py`), a small fit is repeated on samples of three quarters of the rows, and then of half, a
quarter, and so on, as long as smaller samples agree better with each other than larger ones, by more than the standard
error. If they do, the partition that represents the samples of that size is the result. If the data may well follow the
model, the most probable clusters are the answer, and nothing is repeated.

Choosing by reproducibility goes back to Ben-Hur, Elisseeff and Guyon (2002) and Lange et al. (2004).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

import numpy as np
from sklearn.metrics import adjusted_rand_score

from dpmmwrap.backends.native import NativeBackend
from dpmmwrap.families.base import Points
from dpmmwrap.mixture import Mixture
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.numerics.cells import is_remote, kmeans_cells
from dpmmwrap.numerics.interrupt import Interrupt
from dpmmwrap.posterior.fit_check import FitCheck, can_check, fit_check
from dpmmwrap.sampler.evidence import log_scores
from dpmmwrap.sampler.settings import Result, Settings, has_few_numbers
from dpmmwrap.starts import make_initializer

SAMPLES = 4
"""Samples of each size: six pairs to compare."""


ALIKE = 0.99
"""Samples that agree so well leave smaller ones nothing to improve on: less than what the choice of samples changes."""


class Reproducibility(NamedTuple):
    """How well fits to samples of one size agree."""

    n_rows: int
    """In each sample."""
    agreement: float
    """The mean adjusted Rand index of two fits, each of which labels all rows; 0 for pairs of single clusters, which
    agree on nothing."""
    error: float
    """Its standard error, over the samples."""

    def is_better(self, other: Reproducibility) -> bool:
        """Whether agreement is higher by more than the standard error of the difference."""
        return self.agreement - other.agreement > math.hypot(self.error, other.error)


class Resampling(NamedTuple):
    """What samples of several sizes say about the clusters of all rows."""

    sizes: tuple[Reproducibility, ...]
    """From large samples to small ones, as far as they were tried."""
    labels: IntArray | None
    """The labels of all rows by each fit to the samples that agree best (4, N); None if those are the largest ones:
    then nothing speaks against the clusters of all rows."""
    interrupted: bool = False
    check: FitCheck | None = None
    """Whether the data follow the model, where that was checked."""


NOT_RESAMPLED = Resampling((), None)


def resample(X: Points, settings: Settings, result: Result) -> Resampling:
    """Fit samples of decreasing size as long as their agreement rises; only for data whose search is refined, and that
    do not follow the model."""
    if not settings.refine or not has_few_numbers(X) or X.shape[0] < SAMPLES:
        return NOT_RESAMPLED
    points = X.everything() if is_remote(X) else X
    check = check_of(points, settings, result)
    if check is None or check.fits:
        return NOT_RESAMPLED._replace(check=check)
    sizes: list[Reproducibility] = []
    best = None
    with Interrupt() as interrupt:
        for number, samples in enumerate(nested_samples(points.shape[0], settings.seed)):
            labels = labels_by_all(points, samples, settings, number * SAMPLES, interrupt)
            if labels is None:
                return Resampling(tuple(sizes), None, True, check)
            sizes.append(reproducibility(labels, len(samples[0])))
            if number and not sizes[-1].is_better(sizes[-2]):
                break
            best = labels if number else None
            if sizes[-1].agreement > ALIKE:
                break
    return Resampling(tuple(sizes), best, interrupt.requested, check)


def check_of(X: Points, settings: Settings, result: Result) -> FitCheck | None:
    """Whether the data follow the model that the search found; None if that cannot be checked."""
    prior, process = result.prior or settings.prior, result.partition_prior or settings.partition_prior
    if not can_check(prior, settings.outlier_weight, settings.weights):
        return None
    mixture = replace(Mixture.from_labels(X, np.asarray(result.labels), prior), size_shift=process.shift)
    rng = np.random.default_rng(settings.seed)
    return fit_check(X, mixture.predict_proba(X), prior, settings.hyperprior, rng)


def nested_samples(rows: int, seed: int) -> Iterator[list[IntArray]]:
    """Four samples each of three quarters of the rows, half, a quarter, an eighth and so on."""
    quarters = np.array_split(np.random.default_rng(seed).permutation(rows), SAMPLES)
    for parts in (((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)), ((0, 1), (2, 3), (0, 2), (1, 3))):
        yield [np.sort(np.concatenate([quarters[part] for part in some])) for some in parts]
    while len(quarters[-1]) > 1:
        yield [np.sort(quarter) for quarter in quarters]
        quarters = [quarter[: len(quarter) // 2] for quarter in quarters]


def labels_by_all(
    X: Points, samples: list[IntArray], settings: Settings, first: int, interrupt: Interrupt
) -> IntArray | None:
    """The labels of all rows by a fit to each sample (4, N), side by side; None after Ctrl-C."""
    numbers = range(first, first + len(samples))
    with ThreadPoolExecutor(settings.n_jobs) as pool:
        labels = list(pool.map(lambda rows, number: labels_by(X, rows, settings, number, interrupt), samples, numbers))
    return None if interrupt.requested else np.array(labels)


def labels_by(X: Points, rows: IntArray, settings: Settings, number: int, interrupt: Interrupt) -> IntArray:
    """The labels of all rows by a fit to some of them, which learns its own prior."""
    sample = X[rows]
    prior, hyperprior, cells = settings.prior, settings.hyperprior, None
    if hyperprior is not None:
        prior, hyperprior, cells = hyperprior.relearned(prior, sample)
    first = settings.init_clusters
    if not isinstance(first, int):
        first = np.unique(first[rows], return_inverse=True)[1].astype(np.int32)
    elif cells is not None and settings.other_starts:
        first = kmeans_cells(sample, cells, seed=0)
    own = replace(
        settings, prior=prior, hyperprior=hyperprior, init_clusters=first, other_starts=(), n_chains=1, n_jobs=1,
        initializer=make_initializer("kmeans"), seed=(settings.seed + 1 + number) % 2**31,
        truth=None, progress=None, checkpoint=None,
        weights=None if settings.weights is None else settings.weights[rows],
    )  # fmt: skip
    result = NativeBackend().fit(sample, own, interrupt)
    shift = (result.partition_prior or own.partition_prior).shift
    scores = log_scores(result.prior or prior, sample, result.labels, shift, at=X, weights=own.weights)
    return np.asarray(scores.argmax(axis=0), dtype=np.int32)


def reproducibility(labels: IntArray, n_rows: int) -> Reproducibility:
    """How well the labellings by samples of one size agree, and the standard error of that over the samples."""
    table = np.zeros((len(labels), len(labels)))
    for i, j in combinations(range(len(labels)), 2):
        one, other = labels[i], labels[j]
        table[i, j] = table[j, i] = adjusted_rand_score(one, other) if one.any() or other.any() else 0.0
    each = table.sum(axis=1) / (len(labels) - 1)
    return Reproducibility(n_rows, float(each.mean()), float(each.std(ddof=1) / math.sqrt(len(labels))))
