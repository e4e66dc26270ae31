"""Which clusters are found again in samples of the data.

A mixture of Gaussians describes a class that is not quite Gaussian by several clusters, more of them the more points
there are. Their borders are arbitrary: another sample of the same data puts them elsewhere. So if the data do not
follow the model (`fit_check.py`), a small fit is repeated on samples of three quarters of the rows, of half, a quarter,
and so on. Each size joins the clusters of all rows as its samples do, and is judged by how well each of its samples
agrees with what results. If the samples of one size agree better than the largest ones agree with the clusters as they
are, by more than the standard error, the clusters are joined. If the data may well follow the model, the most probable
clusters are the answer, and nothing is repeated.

Choosing by reproducibility goes back to Ben-Hur, Elisseeff and Guyon (2002) and Lange et al. (2004).
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
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
from dpmmwrap.posterior.matching import contingency_table, count_clusters
from dpmmwrap.posterior.representative import Loss, representative
from dpmmwrap.sampler.evidence import log_scores
from dpmmwrap.sampler.settings import Result, Settings, has_few_numbers
from dpmmwrap.starts import make_initializer

SAMPLES = 4
"""Samples of each size."""


class Reproducibility(NamedTuple):
    """How well fits to samples of one size reproduce clusters."""

    n_rows: int
    """In each sample; all rows for their clusters as they are, which the largest samples have to reproduce."""
    agreement: float
    """The mean adjusted Rand index of the clusters, joined as the samples do, and of all rows' clusters by each sample.
    0 where all rows are one cluster: samples agree on nothing."""
    error: float
    """Its standard error, over the samples."""
    n_clusters: int
    """After joining."""

    def is_better(self, other: Reproducibility) -> bool:
        """Whether agreement is higher by more than the standard error of the difference."""
        return self.agreement - other.agreement > math.hypot(self.error, other.error)

    @property
    def is_complete(self) -> bool:
        """Whether no other size can agree better by more than the standard error."""
        return self.agreement + self.error >= 1


class Resampling(NamedTuple):
    """What samples of several sizes say about the clusters of all rows."""

    sizes: tuple[Reproducibility, ...]
    """First the clusters of all rows as they are; then from large samples to small ones."""
    labels: IntArray | None
    """The clusters of all rows, joined as the samples do that agree best (N,); None if nothing speaks against them."""
    interrupted: bool = False
    check: FitCheck | None = None
    """Whether the data follow the model, where that was checked."""


NOT_RESAMPLED = Resampling((), None)


def resample(X: Points, settings: Settings, result: Result, loss: Loss) -> Resampling:
    """Fit samples of decreasing size, and join the clusters of all rows if some size agrees better on fewer; only for
    data whose search is refined, and that do not follow the model."""
    if not settings.refine or not has_few_numbers(X) or X.shape[0] < SAMPLES:
        return NOT_RESAMPLED
    points = X.everything() if is_remote(X) else X
    prior, process = result.prior or settings.prior, result.partition_prior or settings.partition_prior
    if not can_check(prior, settings.outlier_weight, settings.weights):
        return NOT_RESAMPLED
    clusters = np.asarray(result.labels)
    probabilities = replace(Mixture.from_labels(points, clusters, prior), size_shift=process.shift).predict_proba(
        points
    )
    check = fit_check(points, probabilities, prior, settings.hyperprior, np.random.default_rng(settings.seed))
    if check.fits:
        return NOT_RESAMPLED._replace(check=check)
    sizes: list[Reproducibility] = []
    answers = [clusters]
    with Interrupt() as interrupt:
        fit = partial(labels_by, points, settings, interrupt)
        for number, samples in enumerate(nested_samples(len(clusters), settings.seed)):
            with ThreadPoolExecutor(settings.n_jobs) as pool:
                fits = np.array(list(pool.map(fit, samples, range(number * SAMPLES, (number + 1) * SAMPLES))))
            if interrupt.requested:
                return Resampling(tuple(sizes), None, True, check)
            if not number:
                sizes.append(reproducibility(clusters, fits, len(clusters)))
            of_fits = representative(fits, loss, settings.seed)
            answers.append(joined(clusters, of_fits.labels))
            sizes.append(reproducibility(answers[-1], fits, len(samples[0])))
            # Smaller samples of clusters that none of these tells apart find one cluster, too.
            if any(size.is_complete for size in sizes) or not fits.any():
                break
    best = max(range(len(sizes)), key=lambda number: sizes[number].agreement)
    labels = answers[best] if sizes[best].is_better(sizes[0]) else None
    return Resampling(tuple(sizes), labels, interrupt.requested, check)


def joined(clusters: IntArray, labels: IntArray) -> IntArray:
    """Each cluster's rows with the label that most of them have."""
    return np.asarray(contingency_table(clusters, labels).argmax(axis=1)[clusters], dtype=np.int32)


def nested_samples(rows: int, seed: int) -> Iterator[list[IntArray]]:
    """Four samples each of three quarters of the rows, half, a quarter, an eighth and so on."""
    quarters = np.array_split(np.random.default_rng(seed).permutation(rows), SAMPLES)
    for parts in (((1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)), ((0, 1), (2, 3), (0, 2), (1, 3))):
        yield [np.sort(np.concatenate([quarters[part] for part in some])) for some in parts]
    while len(quarters[-1]) > 1:
        yield [np.sort(quarter) for quarter in quarters]
        quarters = [quarter[: len(quarter) // 2] for quarter in quarters]


def labels_by(X: Points, settings: Settings, interrupt: Interrupt, rows: IntArray, number: int) -> IntArray:
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
    of_sample = replace(
        settings, prior=prior, hyperprior=hyperprior, init_clusters=first, other_starts=(), n_chains=1, n_jobs=1,
        initializer=make_initializer("kmeans"), seed=(settings.seed + 1 + number) % 2**31,
        truth=None, progress=None, checkpoint=None,
        weights=None if settings.weights is None else settings.weights[rows],
    )  # fmt: skip
    result = NativeBackend().fit(sample, of_sample, interrupt)
    shift = (result.partition_prior or of_sample.partition_prior).shift
    scores = log_scores(result.prior or prior, sample, result.labels, shift, at=X, weights=of_sample.weights)
    return np.asarray(scores.argmax(axis=0), dtype=np.int32)


def reproducibility(labels: IntArray, fits: IntArray, n_rows: int) -> Reproducibility:
    """How well fits to samples agree with some labels of all rows, and the standard error of that over the samples."""
    each = [adjusted_rand_score(labels, fit) if labels.any() or fit.any() else 0.0 for fit in fits]
    error = float(np.std(each, ddof=1)) / math.sqrt(len(each))
    return Reproducibility(n_rows, float(np.mean(each)), error, count_clusters(labels))
