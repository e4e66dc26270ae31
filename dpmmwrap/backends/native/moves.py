"""Split and merge proposals and their Hastings ratios (the paper's appendix; its equations for H)."""

from __future__ import annotations

import numpy as np

from dpmmwrap.arrays import Float64Array, IntArray
from dpmmwrap.backends import MergeRatio
from dpmmwrap.backends.native import pairs
from dpmmwrap.backends.native.gibbs import Evidence, Model


def split_ratios(model: Model, evidence: Evidence) -> Float64Array:
    """log H of splitting each cluster; minus infinity where a side is empty."""
    return np.asarray(pairs.split_ratios(model.alpha, evidence.sides, evidence.log_marginal))


def accepted_splits(ratios: Float64Array, begun: IntArray, latest: int, least: Float64Array) -> tuple[IntArray, int]:
    """Which clusters have a log H above their entry of `least` and subclusters begun by the iteration `latest`; and
    how many have the latter."""
    found: tuple[IntArray, int] = pairs.accepted_splits(ratios, begun, latest, least)
    return found


def likely_merges(
    model: Model, evidence: Evidence, candidates: IntArray, ratio: MergeRatio, least: Float64Array
) -> tuple[IntArray, IntArray, Float64Array]:
    """The pairs of candidates whose log H of merging is above their entry of `least`, and by how much."""
    prior, clusters, posterior = model.prior, evidence.clusters, evidence.posterior
    found: tuple[IntArray, IntArray, Float64Array] = pairs.merge_ratios(
        candidates, model.alpha, ratio != "reference", least,
        (float(prior.mean_strength), float(prior.degrees_of_freedom), prior.log_partition[0]),
        (clusters.counts, clusters.means, clusters.scatters),
        (posterior.mean_strength, posterior.mean, posterior.scale, posterior.factors[0], evidence.log_marginal),
    )  # fmt: skip
    return found


def disjoint(first: IntArray, second: IntArray, log_ratio: Float64Array) -> list[tuple[int, int]]:
    """Of accepted merges, those that can all be carried out: each cluster once, the most likely merge first."""
    taken: set[int] = set()
    chosen = []
    for pair in np.argsort(-log_ratio, kind="stable"):
        i, j = int(first[pair]), int(second[pair])
        if i not in taken and j not in taken:
            taken.update((i, j))
            chosen.append((i, j))
    return chosen
