"""The exact posterior of a few points: all partitions summed."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import gammaln, logsumexp

from dpmmwrap.families.hyperprior import Hyperprior, Place

AlphaPrior = tuple[float, float]


class Expected(NamedTuple):
    """Of the posterior."""

    clusters: np.ndarray
    """p(K | X) for K = 0, ..., N."""
    together: np.ndarray
    """The probability that two points share a cluster (N, N); outliers share none."""
    outside: np.ndarray
    """The probability that a point is an outlier (N,)."""
    alpha: float
    """The mean of the concentration."""
    log_evidence: float
    """log p(X), up to a constant of the concentration's."""


class ExpectedOnGrid(NamedTuple):
    """Of the posterior where the prior is learned."""

    partitions: Expected
    places: np.ndarray
    """The probability of each place (widths, strengths)."""


def partitions(count: int, labels: tuple[int, ...] = (), clusters: int = 0) -> Iterator[tuple[int, ...]]:
    """Every partition once, as restricted growth strings."""
    if len(labels) == count:
        yield labels
        return
    for label in range(clusters + 1):
        yield from partitions(count, (*labels, label), max(clusters, label + 1))


def labellings(count: int, outliers: bool) -> np.ndarray:
    """All partitions (P, N); with outliers (-1), all partitions of all subsets but the empty one."""
    if not outliers:
        return np.array(list(partitions(count)))
    # One guest more, whose table is the outliers'.
    every = np.array(list(partitions(count + 1)))[:, 1:] - 1
    return every[every.max(axis=1) >= 0]


def concentration_terms(clusters: int, points: int, alpha: float | AlphaPrior) -> tuple[float, float]:
    """log of alpha^K Gamma(alpha) / Gamma(alpha + N), integrated over alpha's Gamma prior if it is learned; and the
    mean of alpha given K."""
    if isinstance(alpha, float):
        return float(clusters * np.log(alpha) + gammaln(alpha) - gammaln(alpha + points)), alpha
    # By log alpha, where the integrand is smooth and both ends vanish: the trapezoidal rule is all but exact.
    steps, step = np.linspace(-16, 8, 4001, retstep=True)
    values = np.exp(steps)
    logs = clusters * steps + gammaln(values) - gammaln(values + points) + steps
    logs += stats.gamma(alpha[0], scale=1 / alpha[1]).logpdf(values)
    whole = logsumexp(logs)
    return float(whole + np.log(step)), float(np.exp(logsumexp(logs + steps) - whole))


def posterior(
    X: Any,
    prior: Any,
    alpha: float | AlphaPrior,
    max_clusters: int | None = None,
    outliers: tuple[float, Any] | None = None,
) -> Expected:
    """Of a few points. `outliers` are a weight and a prior; the posterior is given that one point is none, as the
    sampler's is. O(Bell number)."""
    count = X.shape[0]
    every = labellings(count, outliers is not None)
    sizes = every.max(axis=1) + 1
    if max_clusters is not None:
        every, sizes = every[sizes <= max_clusters], sizes[sizes <= max_clusters]
    masks = 1 << np.arange(count)
    inside = np.array([cluster_log_weight(X, prior, mask) for mask in range(1 << count)])
    logs = np.zeros(len(every))
    for cluster in range(count):
        # The empty set weighs nothing.
        logs += inside[((every == cluster) * masks).sum(axis=1)]
    if outliers is not None:
        weight, broad = outliers
        outside = np.array([log_marginal(X, broad, mask) for mask in range(1 << count)])
        logs += outside[((every < 0) * masks).sum(axis=1)]
        logs += np.where(every < 0, np.log(weight), np.log1p(-weight)).sum(axis=1)
    guests = (every >= 0).sum(axis=1)
    kinds, which = np.unique(np.stack([sizes, guests], axis=1), axis=0, return_inverse=True)
    terms = np.array([concentration_terms(int(k), int(n), alpha) for k, n in kinds])[which.ravel()]
    logs += terms[:, 0]
    shares = np.exp(logs - logsumexp(logs))
    together = (every[:, :, None] == every[:, None, :]) & (every >= 0)[:, :, None]
    return Expected(
        np.bincount(sizes, shares, minlength=count + 1),
        np.einsum("p,pij->ij", shares, together.astype(float)),
        shares @ (every < 0),
        float(shares @ terms[:, 1]),
        float(logsumexp(logs)),
    )


def posterior_on_grid(X: Any, hyperprior: Hyperprior, alpha: float | AlphaPrior, **options: Any) -> ExpectedOnGrid:
    """Of a few points, with the prior learned on a grid whose places are equally probable at first."""
    places = list(itertools.product(range(len(hyperprior.widths)), range(len(hyperprior.strengths))))
    each = [posterior(X, hyperprior.prior(Place(*place)), alpha, **options) for place in places]
    logs = np.array([one.log_evidence for one in each])
    shares = np.exp(logs - logsumexp(logs))
    means = [sum(share * np.asarray(one[field]) for share, one in zip(shares, each, strict=True)) for field in range(4)]
    shape = len(hyperprior.widths), len(hyperprior.strengths)
    return ExpectedOnGrid(Expected(*means, float(logsumexp(logs))), shares.reshape(shape))  # type: ignore[arg-type]


def log_marginal(X: Any, prior: Any, mask: int) -> float:
    """log marginal likelihood of the rows whose bits are set."""
    rows = np.flatnonzero([mask >> row & 1 for row in range(X.shape[0])])
    return float(prior.log_marginal_likelihood(prior.statistics(X[rows]))[0]) if len(rows) else 0.0


def cluster_log_weight(X: Any, prior: Any, mask: int) -> float:
    """What a cluster adds to the log joint, but for the concentration."""
    return log_marginal(X, prior, mask) + (float(gammaln(mask.bit_count())) if mask else 0.0)
