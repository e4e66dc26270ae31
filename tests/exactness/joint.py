"""Data sets drawn from the prior: simulation-based calibration, and Geweke's joint distribution test.

Both ask whether draws of the posterior belong to the model that the data come from, not only to each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from dpmmwrap.families.diagonal import NIG
from dpmmwrap.families.gaussian import NIW
from dpmmwrap.families.multinomial import Dirichlet
from dpmmwrap.sampler import sampling
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.moves.split_merge import Near, SequentialAllocation, Tools, scratches_for
from dpmmwrap.sampler.partition import Partition
from dpmmwrap.sampler.state import next_key
from exactness.enumeration import AlphaPrior
from exactness.running import context_of, start, uneven_founders

ALPHA_PRIOR: AlphaPrior = (2.0, 1.0)
ROW_LENGTH = 12
"""Counts of a row."""
PRIORS: dict[str, Any] = {
    "full": NIW(np.zeros(2), 0.2, 5 * np.eye(2), 6.0),
    "diag": NIG(np.zeros(2), 0.2, np.full(2, 4.0), 5.0),
    "counts": Dirichlet(np.full(4, 0.5)),
}


class Simulated(NamedTuple):
    """What the model says can happen."""

    X: np.ndarray
    labels: np.ndarray
    alpha: float


def draw_partition(alpha: float, points: int, rng: np.random.Generator) -> np.ndarray:
    """Labels from the Chinese restaurant process, guest by guest."""
    counts: list[float] = []
    labels = np.empty(points, np.int32)
    for guest in range(points):
        shares = np.array([*counts, alpha])
        table = int(rng.choice(len(shares), p=shares / shares.sum()))
        if table == len(counts):
            counts.append(0)
        counts[table] += 1
        labels[guest] = table
    return labels


def draw_points(family: str, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Points given their partition: parameters of each cluster from the prior, then its points."""
    prior, count = PRIORS[family], int(labels.max()) + 1
    if family == "counts":
        proportions = rng.dirichlet(prior.concentration, count)
        return rng.multinomial(ROW_LENGTH, proportions[labels]).astype(np.float32)
    dim, strength = prior.dim, float(prior.mean_strength)
    if family == "diag":
        freedom = float(prior.degrees_of_freedom)
        variances = prior.scale / rng.chisquare(freedom, (count, dim))
        deviations = np.sqrt(variances)
        means = prior.mean + deviations / np.sqrt(strength) * rng.normal(size=(count, dim))
        return (means[labels] + deviations[labels] * rng.normal(size=(len(labels), dim))).astype(np.float32)
    # A covariance is the inverse of a sum of as many outer products as there are degrees of freedom.
    normals = rng.normal(size=(count, int(prior.degrees_of_freedom), dim))
    normals = normals @ np.linalg.cholesky(np.linalg.inv(prior.scale)).T
    factors = np.linalg.cholesky(np.linalg.inv(np.swapaxes(normals, 1, 2) @ normals))
    means = prior.mean + np.einsum("kij,kj->ki", factors, rng.normal(size=(count, dim))) / np.sqrt(strength)
    steps = np.einsum("nij,nj->ni", factors[labels], rng.normal(size=(len(labels), dim)))
    return (means[labels] + steps).astype(np.float32)


def simulate(family: str, points: int, rng: np.random.Generator) -> Simulated:
    """The concentration, a partition and its points from the prior."""
    alpha = float(rng.gamma(ALPHA_PRIOR[0]) / ALPHA_PRIOR[1])
    labels = draw_partition(alpha, points, rng)
    return Simulated(draw_points(family, labels, rng), labels, alpha)


def pair_share(labels: np.ndarray) -> float:
    """The share of pairs that are together."""
    counts = np.bincount(labels).astype(float)
    return float((counts * (counts - 1)).sum() / (len(labels) * (len(labels) - 1)))


def quick_tools(context: Context, neighbours: int = 5) -> Tools:
    """What split and merge moves need, for a few points."""
    points = np.asarray(context.data.loop_points, dtype=float)
    distances = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    near = np.argsort(distances, axis=1, kind="stable")[:, 1 : neighbours + 1]
    every = np.arange(len(points))
    return Tools(Near(every, (every + 1) / len(points), near), SequentialAllocation(), scratches_for(context))


# Simulation-based calibration (Cook et al. 2006; Talts et al. 2018).


class Ranks(NamedTuple):
    """Where the truth is among the draws, of each data set."""

    n_clusters: np.ndarray
    alpha: np.ndarray
    pairs: np.ndarray
    """The share of pairs that are together."""
    some_pairs: np.ndarray
    """The same among the first ten points."""
    log_posterior: np.ndarray


def calibrate(family: str, sets: int, points: int, draws: int, thin: int, seed: int) -> Ranks:
    """The rank of the truth among draws, 0 to draws, with ties broken at random."""
    rng = np.random.default_rng(seed)
    ranks = np.empty((sets, len(Ranks._fields)), int)
    for number in range(sets):
        truth = simulate(family, points, rng)
        context = context_of(truth.X, PRIORS[family], ALPHA_PRIOR)
        tools, founders = quick_tools(context), uneven_founders(points)
        partition = start(context, truth.labels)
        partition.alpha = truth.alpha
        true_values = quantities(partition, context)
        # From one cluster, not from the truth.
        partition, source = start(context), np.random.Generator(np.random.SFC64(int(rng.integers(2**63))))
        found = np.empty((draws, len(true_values)))
        for step in range(-draws // 3, draws):
            for _ in range(thin):
                partition, _ = sampling.step(next_key(source), partition, context, tools, founders)
            if step >= 0:
                found[step] = quantities(partition, context)
        below, same = (found < true_values).sum(axis=0), (found == true_values).sum(axis=0)
        ranks[number] = below + rng.integers(0, same + 1)
    return Ranks(*ranks.T)


def quantities(partition: Partition, context: Context) -> np.ndarray:
    labels = partition.labels
    log_posterior = sampling.look(partition, context).log_posterior
    # To nine digits: the same state has the same value, however it was reached.
    return np.array(
        [partition.n_clusters, partition.alpha, pair_share(labels), pair_share(labels[:10]), round(log_posterior, 5)]
    )


def uniformity(ranks: np.ndarray, draws: int, bins: int) -> float:
    """The chi-square test's p-value that ranks 0 to draws are uniform; (draws + 1) should be a multiple of bins."""
    seen = np.bincount(ranks * bins // (draws + 1), minlength=bins)
    return float(stats.chisquare(seen).pvalue)


# Geweke's joint distribution test (2004).


def features(X: np.ndarray, labels: np.ndarray, alpha: float) -> np.ndarray:
    """Functions of data, partition and concentration, all of them with moments."""
    one, other = np.triu_indices(len(labels), 1)
    together = labels[one] == labels[other]
    bounded = np.tanh(X / 3)
    near = np.exp(-np.abs(bounded[one] - bounded[other]).sum(axis=1))
    count = int(labels.max()) + 1
    return np.array(
        [
            count,
            count**2,
            alpha,
            alpha**2,
            alpha * count,
            together.mean(),
            labels[0] == labels[1],
            bounded.mean(),
            (bounded**2).mean(),
            near.mean(),
            (near * together).mean(),
            (count > 3) * near.mean(),
        ]
    )


FEATURES = (
    "K", "K^2", "alpha", "alpha^2", "alpha K", "pairs", "first pair", "x", "x^2", "near", "near pairs", "K > 3, near",
)  # fmt: skip


def geweke(family: str, points: int, independent: int, iterations: int, seed: int) -> np.ndarray:
    """z-scores of the features' means: data and partition drawn from the prior, against a chain that alternates
    between the partition given the data (by the sampler) and the data given the partition."""
    from arviz_stats.base.array import array_stats

    rng = np.random.default_rng(seed)
    marginal = np.array([features(*simulate(family, points, rng)) for _ in range(independent)])
    source = np.random.Generator(np.random.SFC64(seed))
    X, labels, alpha = simulate(family, points, rng)
    founders = uneven_founders(points)
    chain = np.empty((iterations, marginal.shape[1]))
    for iteration in range(iterations):
        context = context_of(X, PRIORS[family], ALPHA_PRIOR)
        partition = start(context, labels)
        partition.alpha = alpha
        partition, _ = sampling.step(next_key(source), partition, context, quick_tools(context), founders)
        labels, alpha = partition.labels.copy(), partition.alpha
        X = draw_points(family, labels, rng)
        chain[iteration] = features(X, labels, alpha)
    ess: Callable[..., Any] = array_stats.ess
    sizes = np.array([float(ess(values[None], method="mean")) for values in chain.T])
    errors = np.sqrt(marginal.var(axis=0) / independent + chain.var(axis=0) / np.minimum(sizes, iterations))
    return np.asarray((chain.mean(axis=0) - marginal.mean(axis=0)) / errors)
