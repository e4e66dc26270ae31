"""Split and merge proposals and their Hastings ratios (the paper's appendix; its equations for H)."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from dpmmwrap.arrays import Float64Array, IntArray
from dpmmwrap.backends import MergeRatio
from dpmmwrap.backends.native import pairs
from dpmmwrap.backends.native.gibbs import Evidence, Model
from dpmmwrap.prior import NIW

HOPELESS = -40.0
"""A merge whose log Hastings ratio is known to be below this is not looked at: e^-40 never comes up."""


def log_split_ratio(
    alpha: float, sides: Float64Array, log_marginal: Float64Array, log_marginal_sides: Float64Array
) -> Float64Array:
    """log H of splitting clusters into their subclusters; minus infinity where a side is empty."""
    with np.errstate(invalid="ignore"):
        ratio = (
            math.log(alpha)
            + gammaln(sides).sum(axis=1)
            - gammaln(sides.sum(axis=1))
            + log_marginal_sides.sum(axis=1)
            - log_marginal
        )
    return np.where((sides > 0).all(axis=1), ratio, -np.inf)


def split_ratios(model: Model, evidence: Evidence) -> Float64Array:
    """log H of splitting each cluster."""
    count = evidence.n_clusters
    sides = evidence.log_marginal[count:].reshape(-1, 2)
    return log_split_ratio(model.alpha, evidence.sides, evidence.log_marginal[:count], sides)


def log_merge_ratio(
    alpha: float, n1: Float64Array, n2: Float64Array, gain: Float64Array, ratio: MergeRatio
) -> Float64Array:
    """log H of merging two clusters, where gain = log f(both) - log f(one) - log f(other).

    "printed" is the paper's, one over the split's; "reference" is what DPMMSubClusters.jl computes, which
    also charges the merged cluster for the sublabels that it gets.
    """
    n = n1 + n2
    if ratio == "printed":
        return np.asarray(-math.log(alpha) + gammaln(n) - gammaln(n1) - gammaln(n2) + gain)
    half = alpha / 2
    return np.asarray(
        -math.log(alpha)
        + gammaln(alpha)
        - 2 * gammaln(half)
        + gammaln(n)
        - gammaln(n + alpha)
        + gammaln(n1 + half)
        - gammaln(n1)
        + gammaln(n2 + half)
        - gammaln(n2)
        + gain
    )


def merge_ratios(
    model: Model, evidence: Evidence, candidates: IntArray, ratio: MergeRatio
) -> tuple[IntArray, IntArray, Float64Array]:
    """The pairs of candidates that could merge, and their log H; hopeless pairs are left out."""
    prior, clusters, posterior = model.prior, evidence.clusters, evidence.posterior
    own = evidence.log_marginal[: evidence.n_clusters]
    places = np.triu_indices(len(candidates), 1)
    first, second = candidates[places[0]], candidates[places[1]]
    n1, n2 = clusters.counts[first], clusters.counts[second]
    without_gain = log_merge_ratio(model.alpha, n1, n2, -own[first] - own[second], ratio)
    hopeful = pairs.could_merge(
        first, second, most_half_determinant(prior, n1 + n2, without_gain), clusters.counts, clusters.means,
        clusters.scatters, (posterior.mean_strength, posterior.mean, posterior.scale, posterior.cholesky),
    )  # fmt: skip
    first, second = first[hopeful], second[hopeful]
    together = prior.log_marginal_likelihood(clusters[first] + clusters[second])
    return first, second, without_gain[hopeful] + together


def most_half_determinant(prior: NIW, counts: Float64Array, without_gain: Float64Array) -> Float64Array:
    """Half the log determinant of a merged scale above which the merge is hopeless.

    The marginal likelihood's D gamma functions are bounded above by the outer two: the log gamma function is convex.
    """
    freedom = prior.degrees_of_freedom + counts
    gammas = 0.5 * prior.dim * (gammaln(freedom / 2) + gammaln((freedom - prior.dim + 1) / 2))
    strengths = 0.5 * prior.dim * np.log(prior.mean_strength + counts)
    shared = prior.log_partition[0] + 0.5 * prior.dim * math.log(math.pi) * counts
    return np.asarray((without_gain + gammas - strengths - shared - HOPELESS) / freedom)


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
