"""Data sets drawn from the prior: simulation-based calibration, and Geweke's joint distribution test.

Both ask whether draws of the posterior belong to the model that the data come from, not only to each other.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.learned.hyperprior import NARROW, Hyperparameters, Hyperprior
from dpmmwrap.families.multinomial.prior import Dirichlet
from dpmmwrap.sampler import sampling
from dpmmwrap.sampler.moves import hyperparameters
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.proposals import Near
from dpmmwrap.sampler.state import next_key
from exactness.enumeration import AlphaPrior
from exactness.running import problem_of, start, uneven_cluster_seeds

ALPHA_PRIOR: AlphaPrior = (2.0, 1.0)
ROW_LENGTH = 12
"""Counts of a row."""
PRIORS: dict[str, Any] = {
    "full": NIW(np.zeros(2), 0.2, 5 * np.eye(2), 6.0),
    "diag": NIG(np.zeros(2), 0.2, np.full(2, 4.0), 5.0),
    "counts": Dirichlet(np.full(4, 0.5)),
}
STRENGTHS = (2.0**1.5, 8.0, 32.0)
"""Of learned priors: with the strongest of the package's, widths follow the clusters too slowly for short chains."""


def with_strengths(hyperprior: Hyperprior) -> Hyperprior:
    """The same with few strengths."""
    vars(hyperprior)["strengths"] = np.array(STRENGTHS)
    return hyperprior


UNITS = np.ones(2), np.array([4.0, 1.0])
HYPERPRIORS = {
    "full, learned": with_strengths(Hyperprior(NIW, *UNITS)),
    "diag, learned above cells": with_strengths(Hyperprior(NIG, *UNITS, cells=np.array([0.4, 0.1]))),
}
"""Of priors that are drawn themselves."""
FAMILIES = (*PRIORS, *HYPERPRIORS)


class Simulated(NamedTuple):
    """What the model says can happen."""

    X: np.ndarray
    labels: np.ndarray
    alpha: float
    prior: Any


def draw_prior(hyperprior: Hyperprior, rng: np.random.Generator) -> Any:
    """A prior whose hyperparameters are drawn; until its clusters are seldom narrower than cells, if there are any."""
    mean, variances = hyperprior.mean, hyperprior.variances
    while True:
        widths = variances * rng.chisquare(1, len(variances))
        strength = float(rng.choice(hyperprior.strengths))
        if hyperprior.cells is not None:
            # A feature's variance is nu w over a chi-square variable.
            freedom = hyperprior.least_freedom + strength
            if (stats.chi2(strength).sf(freedom * widths / hyperprior.cells) > NARROW).any():
                continue
        location = mean + np.sqrt(variances) * rng.normal(size=len(mean))
        return hyperprior.make(Hyperparameters(location, float(rng.chisquare(1)), widths, strength))


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


def draw_points(prior: Any, labels: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Points given their partition: parameters of each cluster from the prior, then its points."""
    count = int(labels.max()) + 1
    if prior.family == "multinomial":
        proportions = rng.dirichlet(prior.concentration, count)
        return rng.multinomial(ROW_LENGTH, proportions[labels]).astype(np.float32)
    dim, strength, freedom = prior.dim, float(prior.mean_strength), float(prior.degrees_of_freedom)
    if prior.family == "diag":
        variances = prior.scale / rng.chisquare(freedom, (count, dim))
        deviations = np.sqrt(variances)
        means = prior.mean + deviations / np.sqrt(strength) * rng.normal(size=(count, dim))
        return (means[labels] + deviations[labels] * rng.normal(size=(len(labels), dim))).astype(np.float32)
    covariances = stats.invwishart(freedom, prior.scale).rvs(count, random_state=rng).reshape(count, dim, dim)
    factors = np.linalg.cholesky(covariances)
    means = prior.mean + np.einsum("kij,kj->ki", factors, rng.normal(size=(count, dim))) / np.sqrt(strength)
    steps = np.einsum("nij,nj->ni", factors[labels], rng.normal(size=(len(labels), dim)))
    return (means[labels] + steps).astype(np.float32)


def simulate(family: str, points: int, rng: np.random.Generator) -> Simulated:
    """The concentration, a partition, the prior if it is learned, and the points."""
    alpha = float(rng.gamma(ALPHA_PRIOR[0]) / ALPHA_PRIOR[1])
    labels = draw_partition(alpha, points, rng)
    prior = draw_prior(HYPERPRIORS[family], rng) if family in HYPERPRIORS else PRIORS[family]
    return Simulated(draw_points(prior, labels, rng), labels, alpha, prior)


class Running:
    """A chain over simulated data: its state, with the prior where it is learned, as `Chain.sample` has it."""

    def __init__(self, family: str, X: np.ndarray, prior: Any, labels: np.ndarray | None, alpha: float) -> None:
        self.problem = problem_of(X, prior, ALPHA_PRIOR, hyperprior=HYPERPRIORS.get(family))
        self.state = start(self.problem, labels)
        self.state.near, self.state.cluster_seeds = near_of_few(self.problem), uneven_cluster_seeds(len(X))
        self.state.partition_prior = self.state.partition_prior.at((alpha,))

    @property
    def prior(self) -> Any:
        return self.state.model.prior

    def step(self, source: np.random.Generator) -> None:
        self.state, _ = sampling.step(next_key(source), self.state, self.problem)
        if self.problem.settings.hyperprior is not None:
            self.state, _ = hyperparameters.step(next_key(source), self.state, self.problem)


def pair_share(labels: np.ndarray) -> float:
    """The share of pairs that are together."""
    counts = np.bincount(labels).astype(float)
    return float((counts * (counts - 1)).sum() / (len(labels) * (len(labels) - 1)))


def near_of_few(problem: Problem, neighbours: int = 5) -> Near:
    """Near pairs of a few points."""
    points = np.asarray(problem.data.points.plain_points, dtype=float)
    distances = ((points[:, None] - points[None]) ** 2).sum(axis=2)
    near = np.argsort(distances, axis=1, kind="stable")[:, 1 : neighbours + 1]
    every = np.arange(len(points))
    return Near(every, (every + 1) / len(points), near)


# Simulation-based calibration (Cook et al. 2006; Talts et al. 2018).


QUANTITIES = ("n_clusters", "alpha", "pairs", "some_pairs", "log_posterior")
"""What is ranked. Pairs: the share that is together; some: the same among the first ten points."""
LEARNED = ("location", "kappa", "width", "strength")
"""The same of a learned prior."""


def quantities_of(family: str) -> tuple[str, ...]:
    return QUANTITIES + (LEARNED if family in HYPERPRIORS else ())


def calibrate(family: str, sets: int, points: int, draws: int, thin: int, seed: int) -> dict[str, np.ndarray]:
    """The rank of the truth among draws of each data set, 0 to draws, with ties broken at random."""
    rng = np.random.default_rng(seed)
    names = quantities_of(family)
    ranks = np.empty((sets, len(names)), int)
    for number in range(sets):
        truth = simulate(family, points, rng)
        true_values = quantities(Running(family, truth.X, truth.prior, truth.labels, truth.alpha))
        # From one cluster and another prior, not from the truth.
        other = draw_prior(HYPERPRIORS[family], rng) if family in HYPERPRIORS else truth.prior
        chain = Running(family, truth.X, other, None, ALPHA_PRIOR[0] / ALPHA_PRIOR[1])
        source = np.random.Generator(np.random.SFC64(int(rng.integers(2**63))))
        found = np.empty((draws, len(true_values)))
        for step in range(-draws // 3, draws):
            for _ in range(thin):
                chain.step(source)
            if step >= 0:
                found[step] = quantities(chain)
        below, same = (found < true_values).sum(axis=0), (found == true_values).sum(axis=0)
        ranks[number] = below + rng.integers(0, same + 1)
    return dict(zip(names, ranks.T, strict=True))


def quantities(chain: Running) -> np.ndarray:
    state, labels = chain.state, chain.state.labels
    log_posterior = sampling.look(state, chain.problem).log_posterior
    # To nine digits: the same state has the same value, however it was reached.
    found = [
        state.n_clusters,
        state.alpha,
        pair_share(labels),
        pair_share(labels[:10]),
        round(log_posterior, 5),
    ]
    hyperprior: Any = chain.problem.settings.hyperprior
    if hyperprior is not None:
        location, kappa, widths, strength = hyperprior.values(chain.prior)
        found += [location[0], kappa, widths[0], round(strength, 6)]
    return np.array(found)


def uniformity(ranks: np.ndarray, draws: int, bins: int) -> float:
    """The chi-square test's p-value that ranks 0 to draws are uniform; (draws + 1) should be a multiple of bins."""
    seen = np.bincount(ranks * bins // (draws + 1), minlength=bins)
    return float(stats.chisquare(seen).pvalue)


# Geweke's joint distribution test (2004).


def features(X: np.ndarray, labels: np.ndarray, alpha: float, prior: Any, hyperprior: Hyperprior | None) -> np.ndarray:
    """Functions of data, partition, concentration and what is learned of the prior, all of them with moments."""
    one, other = np.triu_indices(len(labels), 1)
    together = labels[one] == labels[other]
    bounded = np.tanh(X / 3)
    near = np.exp(-np.abs(bounded[one] - bounded[other]).sum(axis=1))
    count = int(labels.max()) + 1
    found = [
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
    if hyperprior is not None:
        location, kappa, widths, strength = hyperprior.values(prior)
        # Bounded, as the data are: a chain does not see enough of long tails.
        its_kappa, its_width, place = np.tanh(np.log(kappa) / 3), np.tanh(np.log(widths) / 3).mean(), np.log2(strength)
        found += [
            location[0],
            location[1] ** 2,
            its_kappa,
            its_kappa**2,
            its_width,
            its_width**2,
            place,
            place**2,
            its_kappa * near.mean(),
            its_width * near.mean(),
            place * its_width,
        ]
    return np.array(found)


FEATURES = (
    "K", "K^2", "alpha", "alpha^2", "alpha K", "pairs", "first pair", "x", "x^2", "near", "near pairs", "K > 3, near",
)  # fmt: skip
LEARNED_FEATURES = (
    "location", "location^2", "kappa", "kappa^2", "width", "width^2", "strength", "strength^2", "kappa, near",
    "width, near", "strength, width",
)  # fmt: skip


def geweke(family: str, points: int, independent: int, iterations: int, seed: int) -> np.ndarray:
    """z-scores of the features' means: data, partition and prior drawn as the model says, against a chain that
    alternates between partition and prior given the data (by the sampler) and the data given these."""
    from arviz_stats.base.array import array_stats

    rng = np.random.default_rng(seed)
    hyperprior = HYPERPRIORS.get(family)
    marginal = np.array([features(*simulate(family, points, rng), hyperprior) for _ in range(independent)])
    source = np.random.Generator(np.random.SFC64(seed))
    X, labels, alpha, prior = simulate(family, points, rng)
    chain = np.empty((iterations, marginal.shape[1]))
    for iteration in range(iterations):
        running = Running(family, X, prior, labels, alpha)
        running.step(source)
        labels, alpha, prior = running.state.labels.copy(), running.state.alpha, running.prior
        X = draw_points(prior, labels, rng)
        chain[iteration] = features(X, labels, alpha, prior, hyperprior)
    ess: Callable[..., Any] = array_stats.ess
    sizes = np.array([float(ess(values[None], method="mean")) for values in chain.T])
    errors = np.sqrt(marginal.var(axis=0) / independent + chain.var(axis=0) / np.minimum(sizes, iterations))
    return np.asarray((chain.mean(axis=0) - marginal.mean(axis=0)) / errors)
