"""Split and merge proposals and their Hastings ratios (the paper's appendix; its equations for H)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.arrays import Float64Array, IntArray
from dpmmwrap.backends import FULL_RATIOS, MergeRatio
from dpmmwrap.families.gaussian import Statistics
from dpmmwrap.sampler.data import Evidence, Model, evidence_of
from dpmmwrap.sampler.kernels import pairs


class Moves(NamedTuple):
    """What is to be done: the clusters that split, those that others merge into and that are gone then, and how many
    leave because they are empty."""

    splits: IntArray
    into: IntArray
    gone: IntArray
    empty: int
    splits_proposed: int = 0
    merges_proposed: int = 0


NOBODY = np.empty(0, np.int64)


class Likely(NamedTuple):
    """The moves that the Hastings ratios let through."""

    split_ratios: Float64Array
    """log H of splitting each cluster; minus infinity where a side is empty."""
    splits: IntArray
    """The clusters that split."""
    splits_proposed: int
    merges: tuple[IntArray, IntArray, Float64Array]
    """The pairs that may merge, and by how much log H and luck are above zero."""
    merges_proposed: int
    empty: int
    """How many clusters have no points."""


def examine(
    model: Model, subclusters: Statistics, records: Any, latest: int, ratio: MergeRatio, luck: Float64Array
) -> tuple[Evidence, Likely]:
    """What the subclusters' statistics say, and which moves they make likely.

    Of clusters, and of pairs of them, that have been as they are since the iteration `latest`. A move's log H plus its
    luck has to be above zero: luck has an entry for each cluster's split, then one for each pair's merge.
    """
    prior = model.prior
    rules = (
        model.outliers, model.alpha, ratio != "reference", ratio in FULL_RATIOS, prior.fields, prior.log_partition[0]
    )  # fmt: skip
    found, likely = pairs.examined(
        rules, records, latest, luck, subclusters.counts, subclusters.means, subclusters.scatters
    )
    return evidence_of(model, subclusters, *found), Likely(*likely)


def split_ratios(model: Model, evidence: Evidence) -> Float64Array:
    """log H of splitting each cluster, the chance of the proposal left out; minus infinity where a side is empty."""
    return np.asarray(pairs.split_ratios(model.alpha, evidence.sides, evidence.log_marginal))


def disjoint(one: IntArray, other: IntArray, lead: Float64Array) -> tuple[IntArray, IntArray]:
    """Of merges with a lead above zero, those that can all be carried out: each cluster once, the best first."""
    hopeful = (lead > 0).nonzero()[0]
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
