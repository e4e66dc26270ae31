"""The directions in which clusters differ: principal components, or directions that separate clusters best.

Short chains find clusters in some principal components. The evidence chooses the type of covariances and the number of
components:

    log p(X) = log p(X as one Gaussian) + log p(Y as a mixture) - log p(Y as one Gaussian),

because in all directions but those of Y the clusters are one Gaussian. It is a density of all columns, so it can be
compared with that of other models.

Fisher's discriminants, from the scatter between and within clusters, separate these clusters best. But they are fitted
to them: in 384 dimensions any labels of 400 rows can be separated. So each half of the rows judges the directions that
come from the other half, and only if these are better than the ones before, the next chain uses those of all rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh

from dpmmwrap.families.learned.one_gaussian import OneGaussian, one_gaussian
from dpmmwrap.model.short_chains import ShortRun
from dpmmwrap.model.subspace import Subspace
from dpmmwrap.numerics.arrays import Float64Array, IntArray

FIRST, LARGEST = 32, 64
"""The number of directions at first, and at most: twice as many make a chain up to four times slower."""
TURNS = 2
"""How often directions are computed again from better clusters, at most."""


class Kind(NamedTuple):
    """A type of covariances, for any subspace."""

    name: str
    run: Callable[[Any], ShortRun]
    """From points to the result of a short chain."""
    log_evidence: Callable[[Any, IntArray], float]
    """From points and labels to the evidence of the mixture of these clusters."""


class SubspaceRun(NamedTuple):
    """A subspace, and the run in it, with the evidence of all columns."""

    subspace: Subspace
    kind: Kind
    run: ShortRun


def find_subspace(X: Float64Array, kinds: Iterable[Kind], dim: int | None = None) -> SubspaceRun:
    """The subspace of `dim` dimensions, or of the most probable number, for a sample of rows."""
    whole = one_gaussian(X)

    def tried(basis: Float64Array, kind: Kind, size: int) -> SubspaceRun:
        subspace = Subspace(whole.mean, basis, size)
        points = subspace.points(X)
        run = kind.run(points)
        gain = run.log_evidence - log_evidence_of_one(points)
        return SubspaceRun(subspace, kind, run._replace(log_evidence=whole.log_evidence + gain))

    components, first = principal(whole), min(max(FIRST, dim or 0), X.shape[1])
    tries = [partial(tried, components, kind) for kind in kinds]
    starts = (climbed(one(first), one) if dim is None else one(first) for one in tries)
    best = max(starts, key=lambda result: result.run.log_evidence)
    size, halves = dim or best.subspace.dim, halves_of(X)
    score = judged_by_halves(X, best, size, halves, lambda rows, labels, one, size: components)
    for _ in range(TURNS if halves else 0):
        turned = judged_by_halves(X, best, size, halves, separating)
        if turned <= score:
            break
        result = tried(separating(X, best.run.labels, whole, size), best.kind, size)
        log_evidence = best.run.log_evidence + turned - score
        best, score = result._replace(run=result.run._replace(log_evidence=log_evidence)), turned
    return best if best.subspace.dim == size else tried(components, best.kind, size)


def climbed(first: SubspaceRun, tried: Callable[[int], SubspaceRun]) -> SubspaceRun:
    """Double the dimensions as long as that is better; or else halve them."""
    most = min(LARGEST, first.subspace.n_features)
    for factor in (2.0, 0.5):
        best, size = first, int(first.subspace.dim * factor)
        while 1 <= size <= most:
            result = tried(size)
            if result.run.log_evidence <= best.run.log_evidence:
                break
            best, size = result, int(size * factor)
        if best is not first:
            return best
    return first


Half = tuple[Any, OneGaussian]
"""A mask of rows, and the Gaussian of the others."""
Basis = Callable[[Float64Array, IntArray, OneGaussian, int], Float64Array]
"""From rows, their labels, their Gaussian and the number of directions in use to directions."""


def halves_of(X: Float64Array) -> list[Half]:
    """Two random halves; none if one of them has no two different rows."""
    half = np.random.default_rng(0).random(len(X)) < 0.5
    if not all((X[rows] != X[rows][:1]).any() for rows in (half, ~half)):
        return []
    return [(rows, one_gaussian(X[~rows])) for rows in (half, ~half)]


def judged_by_halves(X: Float64Array, result: SubspaceRun, size: int, halves: list[Half], basis_of: Basis) -> float:
    """How much more probable the clusters make each half of the rows than one Gaussian does, in directions that come
    from the other half (in nats, both halves together)."""
    total = 0.0
    for judging, other in halves:
        basis = basis_of(X[~judging], result.run.labels[~judging], other, size)
        points = Subspace(other.mean, basis, size).points(X[judging])
        labels = np.unique(result.run.labels[judging], return_inverse=True)[1].astype(np.int32)
        total += result.kind.log_evidence(points, labels) - log_evidence_of_one(points)
    return total


def log_evidence_of_one(points: Any) -> float:
    return one_gaussian(points.astype(np.float64)).log_evidence


def principal(whole: OneGaussian) -> Float64Array:
    """Principal components, scaled to a variance of 1."""
    variances, directions = np.linalg.eigh(whole.covariance)
    return np.asarray((directions / np.sqrt(variances))[:, ::-1])


def separating(X: Float64Array, labels: IntArray, whole: OneGaussian, size: int) -> Float64Array:
    """Uncorrelated directions of variance 1, by decreasing ratio of the variance to that within clusters.

    K clusters differ in at most K - 1 directions. If more are used, the principal components of the rest follow.
    """
    _, numbers = np.unique(labels, return_inverse=True)
    counts = np.bincount(numbers)
    sums = np.zeros((len(counts), X.shape[1]))
    np.add.at(sums, numbers, X - whole.mean)
    between = whole.share * (sums.T / counts) @ sums
    ratios, directions = eigh(whole.covariance, whole.covariance - between)
    basis = np.asarray((directions / np.sqrt(ratios))[:, ::-1])
    if size < len(counts):
        return basis
    rest = basis[:, len(counts) - 1 :]
    turn = np.linalg.svd(whole.covariance @ rest, full_matrices=False)[2].T
    return np.column_stack([basis[:, : len(counts) - 1], rest @ turn])
