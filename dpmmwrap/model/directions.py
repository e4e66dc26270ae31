"""In which directions clusters differ: from principal components to those that separate clusters best.

A short chain finds clusters in some principal components. Of their scatter between and within them come directions
that separate them, the best first (Fisher's), and a chain in a few of these finds better ones. How many are needed is a
matter of evidence:

    log p(X) = log p(X as one Gaussian) + log p(Y as a mixture) - log p(Y as one Gaussian),

as in all directions but those of Y the clusters are one Gaussian. It is a density of all columns, which can be compared
with those of other kinds of covariances.
"""

from __future__ import annotations

from collections.abc import Callable
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


class Found(NamedTuple):
    """A subspace, the clusters that were found in it, and log p of all columns."""

    subspace: Subspace
    labels: IntArray
    log_evidence: float
    cells_were_better: bool = False


Cluster = Callable[[Any], Clustering]
"""From points to what a short chain finds."""


def find_subspace(X: Float64Array, cluster: Cluster, dim: int | None = None) -> Found:
    """The subspace of `dim` dimensions, or of as many as evidence says, for a sample of rows."""
    whole = one_gaussian(X)

    def tried(basis: Float64Array, size: int) -> Found:
        subspace = Subspace(whole.mean, basis, size)
        points = subspace.points(X)
        found = cluster(points)
        gain = found.log_evidence - one_gaussian(points.astype(np.float64)).log_evidence
        return Found(subspace, found.labels, whole.log_evidence + gain, found.cells_were_better)

    best = first = tried(principal(whole), min(max(FIRST, dim or 0), X.shape[1]))
    for turn in range(TURNS):
        if not best.labels.any():
            break
        basis = separating(X, best.labels, whole)
        found = tried(basis, dim or best.subspace.dim)
        if dim is None and turn == 0:
            # Clusters should have more points than dimensions, on average.
            most = min(LARGEST, X.shape[1], len(X) // (int(found.labels.max()) + 1))
            found = climbed(found, most, partial(tried, basis))
        if found.log_evidence <= best.log_evidence and best.subspace.dim == (dim or best.subspace.dim):
            break
        best = found
    return best if dim in (None, best.subspace.dim) else tried(first.subspace.basis, dim)


def climbed(first: Found, most: int, tried: Callable[[int], Found]) -> Found:
    """The best of twice as many dimensions, and so on as long as that is better, or else of half as many."""
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


def principal(whole: OneGaussian) -> Float64Array:
    """Principal components, scaled to a variance of 1."""
    variances, directions = np.linalg.eigh(whole.covariance)
    return np.asarray((directions / np.sqrt(variances))[:, ::-1])


def separating(X: Float64Array, labels: IntArray, whole: OneGaussian) -> Float64Array:
    """Directions in which the variance over that within clusters is largest, then the next, each uncorrelated with
    those before; all scaled to a variance of 1.

    K clusters differ in at most K - 1 directions. After them come the principal components of what these leave.
    """
    _, own = np.unique(labels, return_inverse=True)
    counts = np.bincount(own)
    sums = np.zeros((len(counts), X.shape[1]))
    np.add.at(sums, own, X - whole.mean)
    between = whole.share * (sums.T / counts) @ sums
    ratios, directions = eigh(whole.covariance, whole.covariance - between)
    basis = (directions / np.sqrt(ratios))[:, ::-1]
    rest = basis[:, len(counts) - 1 :]
    turn = np.linalg.svd(whole.covariance @ rest, full_matrices=False)[2].T
    return np.column_stack([basis[:, : len(counts) - 1], rest @ turn])
