"""Priors over partitions in compiled loops.

All priors of this package are of Gibbs type (Gnedin and Pitman 2006): a partition of N points into K clusters of sizes
n_k has probability V(N, K) W(n_1) ... W(n_K), with W(n) = Gamma(n + shift) / Gamma(1 + shift). The shift is 0 for the
Dirichlet process, minus the discount for Pitman-Yor, and gamma for finite mixtures. Moves only need ratios of V for one
cluster more or less.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.special import compiled_float64 as compiled
from dpmmwrap.numerics.special import log_gamma, new_array
from dpmmwrap.numerics.variates import standard_gammas

NO_FREEDOMS = np.empty(0)


class GibbsType(NamedTuple):
    """A prior over partitions in plain numbers."""

    log_new: Any
    """log V(N, K + 1) - log V(N, K) for K = 0, 1, ...: the log weight of a new cluster beside K others. Empty if only
    weights are drawn."""
    shift: Any
    """A cluster of n points attracts the next one with weight n + shift."""
    log_one: Any
    """log Gamma(1 + shift)."""
    rest: Any
    """The shape of the gamma variable for the weight of all clusters without points."""
    side: Any
    """Added to the sizes of subclusters when their weights are drawn."""


@compiled
def log_prior_of_split(prior: Any, clusters: Any, left: Any, right: Any) -> Any:
    """log prior ratio of splitting one of `clusters` into two of these sizes."""
    sizes = log_gamma(left + prior.shift) + log_gamma(right + prior.shift) - log_gamma(left + right + prior.shift)
    return prior.log_new[clusters] + sizes - prior.log_one


@compiled
def log_size_terms(prior: Any, counts: Any) -> Any:
    """log of the product of V(N, K) / V(N, 1) and all W(n_k); empty clusters do not count."""
    total, clusters = 0.0, 0
    for k in range(len(counts)):
        if counts[k] > 0.0:
            total += log_gamma(counts[k] + prior.shift) - prior.log_one
            if clusters > 0:
                total += prior.log_new[clusters]
            clusters += 1
    return total


@compiled
def gamma_shapes(prior: Any, counts: Any, sides: Any, freedoms: Any, dim: Any) -> Any:
    """The shapes of the gamma variables for Dir(n_1 + shift, ..., n_K + shift, rest), for Dir(n_l + side, n_r + side)
    of each cluster, and for `dim` halved chi-squares per cluster with one degree of freedom more each time."""
    first = len(counts) + 1
    shapes = new_array(first + 2 * len(sides) + dim * len(freedoms), np.float64)
    for k in range(len(counts)):
        shapes[k] = max(counts[k] + prior.shift, 0.0)
    shapes[len(counts)] = prior.rest
    for k in range(len(sides)):
        for side in range(2):
            shapes[first + 2 * k + side] = sides[k, side] + prior.side
    first += 2 * len(sides)
    for i in range(dim):
        for k in range(len(freedoms)):
            shapes[first + i * len(freedoms) + k] = 0.5 * (freedoms[k] - (dim - 1 - i))
    return shapes


@compiled
def log_weights_of(masses: Any, clusters: Any) -> Any:
    """log weights and (clusters, 2) log subweights from their gamma variables."""
    # A gamma variable with a small shape may be zero.
    smallest = 1e-300
    first, total = len(masses) - 2 * clusters, 0.0
    weights, subweights = new_array(first - 1, np.float64), new_array((clusters, 2), np.float64)
    for k in range(first):
        total += masses[k]
    for k in range(first - 1):
        weights[k] = math.log(max(masses[k], smallest) / total)
    for k in range(clusters):
        left, right = max(masses[first + 2 * k], smallest), max(masses[first + 2 * k + 1], smallest)
        subweights[k, 0] = math.log(left / (left + right))
        subweights[k, 1] = math.log(right / (left + right))
    return weights, subweights


def draw_weights(key: Any, prior: Any, counts: Any, sides: Any) -> Any:
    """Draws of the log weights of K clusters and of their (K, 2) log subweights."""
    shapes = gamma_shapes(prior, counts, sides, NO_FREEDOMS, 0)
    return log_weights_of(standard_gammas(key, shapes), len(sides))
