"""In which directions clusters differ: principal components, or directions that separate clusters best.

Short chains find clusters in some principal components. Which kind of covariances they have there, and how many
components are needed, is a matter of evidence:

    log p(X) = log p(X as one Gaussian) + log p(Y as a mixture) - log p(Y as one Gaussian),

as in all directions but those of Y the clusters are one Gaussian. It is a density of all columns, which can be compared
with those of other kinds of covariances.

Of the scatter between and within clusters come directions that separate them, the best first (Fisher's). They have
been fitted to these clusters: of 400 rows in 384 dimensions any labels can be separated. So half of the rows judges
directions that come from the other half, and only if these are better than the ones before, the next chain has
directions of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh

from dpmmwrap.families.learned.one_gaussian import OneGaussian, one_gaussian
from dpmmwrap.model.subspace import Subspace
from dpmmwrap.numerics.arrays import Float64Array, IntArray

FIRST, LARGEST = 32, 64
"""Directions to begin with, and at most: each doubling takes a chain up to four times as long."""
TURNS = 2
"""Times that directions are found anew from better clusters, at most."""


class Clustering(NamedTuple):
    """What a short chain has found among some points."""

    labels: IntArray
    log_evidence: float
    cells_were_better: bool = False
    """Than one cluster, to begin with."""


class Kind(NamedTuple):
    """Covariances of one kind, in any subspace."""

    name: str
    cluster: Callable[[Any], Clustering]
    """From points to what a short chain finds."""
    log_evidence: Callable[[Any, IntArray], float]
    """Of points as a mixture of the clusters that labels say."""


class Found(NamedTuple):
    """A subspace, the clusters that were found in it, and log p of all columns."""

    subspace: Subspace
    kind: Kind
    labels: IntArray
    log_evidence: float
    cells_were_better: bool = False


def find_subspace(X: Float64Array, kinds: Iterable[Kind], dim: int | None = None) -> Found:
    """The subspace of `dim` dimensions, or of as many as evidence says, for a sample of rows."""
    whole = one_gaussian(X)

    def tried(basis: Float64Array, kind: Kind, size: int) -> Found:
        subspace = Subspace(whole.mean, basis, size)
        points = subspace.points(X)
        found = kind.cluster(points)
        gain = found.log_evidence - log_evidence_of_one(points)
        return Found(subspace, kind, found.labels, whole.log_evidence + gain, found.cells_were_better)

    components, first = principal(whole), min(max(FIRST, dim or 0), X.shape[1])
    tries = [partial(tried, components, kind) for kind in kinds]
    best = max((climbed(one(first), one) if dim is None else one(first) for one in tries), key=lambda f: f.log_evidence)
    size, halves = dim or best.subspace.dim, halves_of(X)
    score = judged_by_halves(X, best, size, halves, lambda rows, labels, one, size: components)
    for _ in range(TURNS):
        turned = judged_by_halves(X, best, size, halves, separating)
        if turned <= score:
            break
        found = tried(separating(X, best.labels, whole, size), best.kind, size)
        best, score = found._replace(log_evidence=best.log_evidence + turned - score), turned
    return best if best.subspace.dim == size else tried(components, best.kind, size)


def climbed(first: Found, tried: Callable[[int], Found]) -> Found:
    """The best of twice as many dimensions, and so on as long as that is better, or else of half as many."""
    most = min(LARGEST, first.subspace.n_features)
    for factor in (2.0, 0.5):
        best, size = first, int(first.subspace.dim * factor)
        while 1 <= size <= most:
            found = tried(size)
            if found.log_evidence <= best.log_evidence:
                break
            best, size = found, int(size * factor)
        if best is not first:
            return best
    return first


Half = tuple[Any, OneGaussian]
"""Which rows it has, and the Gaussian of the others."""
Basis = Callable[[Float64Array, IntArray, OneGaussian, int], Float64Array]
"""From rows, their labels and their Gaussian to directions of which so many are used."""


def halves_of(X: Float64Array) -> list[Half]:
    half = np.random.default_rng(0).random(len(X)) < 0.5
    return [(rows, one_gaussian(X[~rows])) for rows in (half, ~half)]


def judged_by_halves(X: Float64Array, found: Found, size: int, halves: list[Half], basis_of: Basis) -> float:
    """How much more probable the clusters make each half of the rows than one Gaussian does, in directions that come
    from the other half."""
    total = 0.0
    for judging, other in halves:
        basis = basis_of(X[~judging], found.labels[~judging], other, size)
        points = Subspace(other.mean, basis, size).points(X[judging])
        labels = np.unique(found.labels[judging], return_inverse=True)[1].astype(np.int32)
        total += found.kind.log_evidence(points, labels) - log_evidence_of_one(points)
    return total


def log_evidence_of_one(points: Any) -> float:
    return one_gaussian(points.astype(np.float64)).log_evidence


def principal(whole: OneGaussian) -> Float64Array:
    """Principal components, scaled to a variance of 1."""
    variances, directions = np.linalg.eigh(whole.covariance)
    return np.asarray((directions / np.sqrt(variances))[:, ::-1])


def separating(X: Float64Array, labels: IntArray, whole: OneGaussian, size: int) -> Float64Array:
    """Directions in which the variance over that within clusters is largest, then the next, each uncorrelated with
    those before; all scaled to a variance of 1.

    K clusters differ in at most K - 1 directions. If more are used, these are followed by the principal components of
    what they leave.
    """
    _, own = np.unique(labels, return_inverse=True)
    counts = np.bincount(own)
    sums = np.zeros((len(counts), X.shape[1]))
    np.add.at(sums, own, X - whole.mean)
    between = whole.share * (sums.T / counts) @ sums
    ratios, directions = eigh(whole.covariance, whole.covariance - between)
    basis = np.asarray((directions / np.sqrt(ratios))[:, ::-1])
    if size < len(counts):
        return basis
    rest = basis[:, len(counts) - 1 :]
    turn = np.linalg.svd(whole.covariance @ rest, full_matrices=False)[2].T
    return np.column_stack([basis[:, : len(counts) - 1], rest @ turn])
