"""The Dirichlet process over clusters: the Chinese restaurant's log joint, the weights, what splits and merges cost.

Compiled by numba, as every iteration asks for it. Marginal likelihoods come from the family.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.numerics.special import compiled_float64 as compiled
from dpmmwrap.numerics.special import inner_float64 as inner
from dpmmwrap.numerics.special import log_gamma
from dpmmwrap.numerics.variates import key_from, random_bits, standard_gammas, uniform

ALPHA_PRIOR = (1.0, 1.0)
"""Shape and rate of the concentration's Gamma prior where it is learned and nothing is said. Of a hundred points it
expects 1 to 12 clusters, of a million 1 to 40 (nine tenths of the prior); data with a hundred clusters outweigh it, at
the price of some twenty nats."""


@compiled
def draw_alpha(key: Any, alpha: Any, clusters: Any, points: Any, prior: Any) -> Any:
    """The concentration given the number of clusters, by Escobar and West's scheme (1995): with eta ~ Beta(alpha + 1,
    N), alpha is one of two Gamma variables."""
    shape = prior[0] + clusters
    shapes = np.empty(4)
    shapes[0], shapes[1], shapes[2], shapes[3] = alpha + 1.0, np.float64(points), shape, shape - 1.0
    gammas = standard_gammas(key, shapes)
    rate = prior[1] - math.log(gammas[0] / (gammas[0] + gammas[1]))
    odds = (shape - 1.0) / (points * rate)
    more = uniform(random_bits(key_from(key, 1 << 40), 0)) * (1.0 + odds) < odds
    return (gammas[2] if more else gammas[3]) / rate


@compiled
def log_joint(alpha: Any, counts: Any, log_marginal: Any) -> Any:
    """log probability of a seating with these numbers of guests per table in the Chinese restaurant process, and of
    the tables' data."""
    total, guests = log_gamma(alpha), 0.0
    for k in range(len(counts)):
        total += log_marginal[k]
        if counts[k] > 0.0:
            total += math.log(alpha) + log_gamma(counts[k])
            guests += counts[k]
    return total - log_gamma(alpha + guests)


def log_alpha_prior(alpha: float, prior: tuple[float, float] | None) -> float:
    """log density of the concentration's Gamma prior; 0 where the concentration is fixed."""
    if prior is None:
        return 0.0
    shape, rate = prior
    return shape * math.log(rate) - math.lgamma(shape) + (shape - 1.0) * math.log(alpha) - rate * alpha


def cluster_probabilities(points: int, alpha: float | tuple[float, float], nodes: int = 200) -> Any:
    """p(K | N) before the data are seen, K from 0 on, for a concentration or the shape and rate of its Gamma prior.

    Given the concentration, the i-th point founds a cluster with probability alpha / (alpha + i - 1), the first one
    always: their number is close to one more than a Poisson variable (Le Cam 1960).
    """
    from scipy import stats
    from scipy.special import digamma

    shares = (np.arange(nodes) + 0.5) / nodes
    values = np.array([alpha]) if isinstance(alpha, float) else stats.gamma(alpha[0], scale=1 / alpha[1]).ppf(shares)
    means = values * (digamma(values + points) - digamma(values)) - 1.0
    most = int(min(points, 1 + stats.poisson(means.max()).ppf(1 - 1e-9)))
    found = stats.poisson(means[:, None]).pmf(np.arange(most)).mean(axis=0)
    return np.append(0.0, found / found.sum())


def log_joint_with_outliers(
    alpha: float, alpha_prior: tuple[float, float] | None, counts: Any, log_marginal: Any, outlier_weight: float
) -> float:
    """log p(labels, concentration, X). With an outlier component, which comes first, each point is one of its own
    accord with that weight, and the others are guests of the restaurant."""
    outliers = int(outlier_weight > 0)
    total = float(log_joint(alpha, counts[outliers:], log_marginal[outliers:])) + log_alpha_prior(alpha, alpha_prior)
    if outliers:
        inside = float(counts[1:].sum())
        total += float(log_marginal[0]) + counts[0] * math.log(outlier_weight) + inside * math.log1p(-outlier_weight)
    return total


@inner
def fill_weight_shapes(shapes: Any, alpha: Any, counts: Any, sides: Any) -> Any:
    """Write the shapes of the gamma variables behind Dir(N_1, ..., N_K, alpha), and behind Dir(N_l + alpha/2,
    N_r + alpha/2) for each cluster; how many they are."""
    first = len(counts) + 1
    for k in range(len(counts)):
        shapes[k] = counts[k]
    shapes[len(counts)] = alpha
    for k in range(len(sides)):
        for side in range(2):
            shapes[first + 2 * k + side] = sides[k, side] + 0.5 * alpha
    return first + 2 * len(sides)


@inner
def log_weights_of(masses: Any, clusters: Any) -> Any:
    """log weights and (clusters, 2) log subweights from their gamma variables."""
    # A variable of a small shape may come out as zero.
    smallest = 1e-300
    first, total = len(masses) - 2 * clusters, 0.0
    weights, subweights = np.empty(first - 1), np.empty((clusters, 2))
    for k in range(first):
        total += masses[k]
    for k in range(first - 1):
        weights[k] = math.log(max(masses[k], smallest) / total)
    for k in range(clusters):
        left, right = max(masses[first + 2 * k], smallest), max(masses[first + 2 * k + 1], smallest)
        subweights[k, 0] = math.log(left / (left + right))
        subweights[k, 1] = math.log(right / (left + right))
    return weights, subweights


@compiled
def draw_weights(key: Any, alpha: Any, counts: Any, sides: Any) -> Any:
    """Draws of log weights ~ Dir(N_1, ..., N_K, alpha) and (K, 2) log subweights."""
    shapes = np.empty(len(counts) + 1 + 2 * len(sides))
    fill_weight_shapes(shapes, alpha, counts, sides)
    return log_weights_of(standard_gammas(key, shapes), len(sides))


@compiled
def log_split_prior(alpha: Any, left: Any, right: Any) -> Any:
    """What the restaurant says of a split: log of alpha Gamma(left) Gamma(right) / Gamma(both)."""
    return math.log(alpha) + log_gamma(left) + log_gamma(right) - log_gamma(left + right)


@compiled
def split_ratios(alpha: Any, sides: Any, log_marginal: Any) -> Any:
    """log H of splitting each of K clusters into its subclusters (the paper's equation for H_split).

    `sides` counts the points left and right; `log_marginal` has the K clusters, then their 2K subclusters. Minus
    infinity where a side is empty.
    """
    count = len(sides)
    ratios = np.empty(count)
    for k in range(count):
        ratios[k] = -np.inf
        left, right = sides[k, 0], sides[k, 1]
        if left > 0.0 and right > 0.0:
            gain = log_marginal[count + 2 * k] + log_marginal[count + 2 * k + 1] - log_marginal[k]
            ratios[k] = log_split_prior(alpha, left, right) + gain
    return ratios


@inner
def log_merge_ratio(alpha: Any, n1: Any, n2: Any, gain: Any, printed: Any) -> Any:
    """log H of merging two clusters, where gain = log f(both) - log f(one) - log f(other).

    `printed` is the paper's, one over the split's. The other is what DPMMSubClusters.jl computes, which also charges
    the merged cluster for the sublabels that it gets.
    """
    n = n1 + n2
    ratio = gain - log_split_prior(alpha, n1, n2)
    if printed:
        return ratio
    half = 0.5 * alpha
    sublabels = log_gamma(alpha) - log_gamma(n + alpha) - 2.0 * log_gamma(half)
    return ratio + sublabels + log_gamma(n1 + half) + log_gamma(n2 + half)


@compiled
def merge_ratios(alpha: Any, counts: Any, one: Any, other: Any, gains: Any, printed: Any) -> Any:
    """log H of merging pairs of clusters."""
    ratios = np.empty(len(one))
    for pair in range(len(one)):
        ratios[pair] = log_merge_ratio(alpha, counts[one[pair]], counts[other[pair]], gains[pair], printed)
    return ratios
