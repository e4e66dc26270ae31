"""The bipartitions of a crowded cluster that are worth proposing, judged by their log Hastings ratios."""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln

from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.full.statistics import union
from dpmmwrap.families.full.wishart import Statistics
from dpmmwrap.numerics.arrays import Float64Array

LARGEST_GROUP = 6
"""Most components in a group. Beyond that, its complement or a smaller group scores better."""


def log_hastings(prior: NIW, left: Statistics, right: Statistics, alpha: float) -> Float64Array:
    """log alpha + lnGamma(Nl) + lnGamma(Nr) - lnGamma(N) + log f(l) + log f(r) - log f(all), pair by pair.

    A pair with an empty side is not a split: minus infinity.
    """
    whole = union(left, right)
    sizes = gammaln(np.maximum(left.counts, 1e-9)) + gammaln(np.maximum(right.counts, 1e-9))
    marginals = prior.log_marginal_likelihood(left) + prior.log_marginal_likelihood(right)
    ratio = np.log(alpha) + sizes - gammaln(whole.counts) + marginals - prior.log_marginal_likelihood(whole)
    return np.where((left.counts > 0) & (right.counts > 0), ratio, -np.inf)


def best_bipartitions(
    weights: Float64Array, means: Float64Array, covariances: Float64Array, count: int
) -> tuple[Float64Array, Float64Array]:
    """The `count` most worthwhile groups of each mixture: (B, count, K) as 0/1, and their gains per point (B, count).

    The gain is the limit of log H / N for many points,
        1/2 log|S| - p/2 log|S_l| - q/2 log|S_r| - h(p),
    where the last term comes from the Gamma functions. The search starts with single components and then adds
    components greedily as long as the group improves.
    """
    sets, components = weights.shape
    singles = np.broadcast_to(np.eye(components, dtype=bool), (sets, components, components))
    gains = _gains(weights, means, covariances, singles)
    order = np.argsort(-gains, axis=1)[:, :count]
    found = np.take_along_axis(singles, order[:, :, None], axis=1)
    best = np.take_along_axis(gains, order, axis=1)
    grown, gain = found[:, 0].copy(), best[:, 0].copy()
    for _ in range(LARGEST_GROUP - 1):
        larger = grown[:, None, :] | singles
        gains = _gains(weights, means, covariances, larger)
        choice = gains.argmax(axis=1)
        better = gains[np.arange(sets), choice] > gain + 1e-9
        if not better.any():
            break
        grown[better] = larger[better, choice[better]]
        gain[better] = gains[better, choice[better]]
    # The best single component remains a candidate: it moves down one place if growing it paid.
    improved = gain > best[:, 0] + 1e-9
    found[improved, 1:] = found[improved, :-1]
    best[improved, 1:] = best[improved, :-1]
    found[:, 0], best[:, 0] = grown, gain
    return found.astype(np.float64), best


def _gains(
    weights: Float64Array, means: Float64Array, covariances: Float64Array, subsets: Float64Array
) -> Float64Array:
    """The gain per point of each subset (B, M, K) against its complement; minus infinity if one is empty."""
    second = covariances + means[..., :, None] * means[..., None, :]
    p = subsets @ weights[:, :, None]
    total = weights.sum(axis=1)[:, None]
    p = p[..., 0]
    proper = (p > 1e-12) & (p < total - 1e-12)
    first = (subsets * weights[:, None, :]) @ means
    flat = second.reshape(*weights.shape, -1)
    squares = (subsets * weights[:, None, :]) @ flat
    all_first = (weights[:, :, None] * means).sum(axis=1)[:, None]
    all_squares = (weights[:, :, None] * flat).sum(axis=1)[:, None]
    q = total - p
    with np.errstate(divide="ignore", invalid="ignore"):
        gain = (
            0.5 * _log_determinant(total, all_first, all_squares)
            - 0.5 * p * _log_determinant(p, first, squares)
            - 0.5 * q * _log_determinant(q, all_first - first, all_squares - squares)
            + p * np.log(p)
            + q * np.log(q)
        )
    return np.where(proper, gain, -np.inf)


def _log_determinant(weight: Float64Array, first: Float64Array, squares: Float64Array) -> Float64Array:
    """log |covariance| from a weight (B, M), a weighted sum of points (B, M, D) and of squares (B, M, D * D)."""
    dim = first.shape[-1]
    mean = first / np.maximum(weight, 1e-12)[..., None]
    covariance = squares.reshape(*squares.shape[:-1], dim, dim) / np.maximum(weight, 1e-12)[..., None, None]
    covariance = covariance - mean[..., :, None] * mean[..., None, :]
    return np.asarray(np.linalg.slogdet(covariance)[1])
