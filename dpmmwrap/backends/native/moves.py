"""Split and merge proposals and their Hastings ratios (the paper's appendix; its equations for H)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.arrays import Float64Array, IntArray
from dpmmwrap.backends import FULL_RATIOS, MergeRatio
from dpmmwrap.backends.native import pairs
from dpmmwrap.backends.native.gibbs import Evidence, Model


class Moves(NamedTuple):
    """What is to be done: the clusters that split, and those that others merge into and that are gone then."""

    splits: IntArray
    into: IntArray
    gone: IntArray
    splits_proposed: int
    merges_proposed: int


NOBODY = np.empty(0, np.int64)
NO_MOVES = Moves(NOBODY, NOBODY, NOBODY, 0, 0)


class Likely(NamedTuple):
    """The moves that the Hastings ratios let through."""

    split_ratios: Float64Array
    """log H of splitting each cluster; minus infinity where a side is empty."""
    splits: IntArray
    """The clusters that split."""
    splits_proposed: int
    merges: tuple[IntArray, IntArray, Float64Array]
    """The pairs that may merge, and by how much their log H is above what it has to be."""
    merges_proposed: int


def likely_moves(
    model: Model, evidence: Evidence, records: Any, latest: int, ratio: MergeRatio, least: Float64Array
) -> Likely:
    """Judge the splits of all clusters and the merges of all pairs that are as they are since the iteration `latest`.

    A move's log H has to be above its entry of `least`: a cluster's split, cluster by cluster, then a pair's merge,
    pair by pair.
    """
    prior, clusters, posterior = model.prior, evidence.clusters, evidence.posterior
    return Likely(*pairs.likely_moves(
        model.outliers, model.alpha, ratio != "reference", ratio in FULL_RATIOS, records, latest, least,
        prior.fields, prior.log_partition[0], evidence.sides,
        (clusters.counts, clusters.means, clusters.scatters),
        (posterior.mean_strength, posterior.mean, posterior.scale, posterior.factors[0], evidence.log_marginal),
    ))  # fmt: skip


def split_ratios(model: Model, evidence: Evidence) -> Float64Array:
    """log H of splitting each cluster, the chance of the proposal left out; minus infinity where a side is empty."""
    return np.asarray(pairs.split_ratios(model.alpha, evidence.sides, evidence.log_marginal))


def disjoint(one: IntArray, other: IntArray, lead: Float64Array) -> tuple[IntArray, IntArray]:
    """Of merges with a lead above zero, those that can all be carried out: each cluster once, the best first."""
    hopeful = np.flatnonzero(lead > 0)
    if not len(hopeful):
        return NOBODY, NOBODY
    taken: set[int] = set()
    chosen = []
    for pair in hopeful[np.argsort(-lead[hopeful], kind="stable")]:
        both = {int(one[pair]), int(other[pair])}
        if not both & taken:
            taken |= both
            chosen.append(pair)
    return one[chosen], other[chosen]
