"""The exact posterior of a few points: all partitions summed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from scipy import stats
from scipy.special import gammaln, logsumexp

from dpmmwrap.partitions import DirichletProcess, FiniteMixture, PartitionPrior, PitmanYor

AlphaPrior = tuple[float, float]
Process = float | AlphaPrior | PartitionPrior
"""A prior over partitions, or the concentration of a Dirichlet process, or the shape and rate of its Gamma prior. Only
the numbers of the package's objects are taken: all formulas are written again here."""
MOST_COMPONENTS = 150


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
    discount: float = 0.0
    """The mean of the discount."""


class Learning(NamedTuple):
    """How the prior of one feature is learned (see `families.hyperprior`, of which this shares no code)."""

    mean: float
    variance: float
    """Of the data: the units."""
    strengths: np.ndarray
    """The possible degrees of freedom, all as probable."""
    cells: float | None = None
    narrow: float = 0.05
    """The prior expects at most this share of clusters to have a variance below that of cells."""


class Hyperparameters(NamedTuple):
    """Nodes of numerical integration, or what a posterior says of the hyperparameters."""

    location: Any
    log_kappa: Any
    log_width: Any
    """In the data's variance."""
    strength: Any


class ExpectedLearned(NamedTuple):
    """Of the posterior where the prior is learned."""

    partitions: Expected
    means: Hyperparameters
    """Means of the first three, probabilities of the strengths."""
    deviations: Hyperparameters
    """Of the first three; None of the strength."""


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


class Terms(NamedTuple):
    """What a prior over partitions says of clusters of some sizes."""

    log_prior: float
    alpha: float
    """The mean of its first parameter given the sizes."""
    discount: float = 0.0


def process_terms(sizes: tuple[int, ...], process: Process) -> Terms:
    """log probability of a partition into clusters of these sizes, integrated over what is learned."""
    if isinstance(process, PitmanYor):
        return pitman_yor_terms(sizes, process)
    if isinstance(process, FiniteMixture):
        return finite_terms(sizes, process)
    if isinstance(process, DirichletProcess):
        learned = process.concentration == "auto"
        process = process.prior if learned else float(process.concentration)
    log_prior, alpha = concentration_terms(len(sizes), sum(sizes), process)
    return Terms(log_prior + float(gammaln(sizes).sum()), alpha)


def pitman_yor_terms(sizes: tuple[int, ...], process: PitmanYor) -> Terms:
    """Guest by guest, table by table; on a grid of what is learned."""
    thetas, discounts, log_weights = np.ones(1), np.ones(1), np.zeros(1)
    if process.concentration == "auto":
        steps, step = np.linspace(-16, 4.5, 400, retstep=True)
        thetas, log_weights = np.exp(steps), steps - np.exp(steps) + np.log(step)
    else:
        thetas = thetas * float(process.concentration)
    if process.discount == "auto":
        nodes, own = np.polynomial.legendre.leggauss(60)
        discounts = (nodes + 1) / 2
        log_weights = log_weights[:, None] + np.log(own / 2)
    else:
        discounts, log_weights = discounts * float(process.discount), log_weights[:, None]
    theta, discount = thetas[:, None], discounts[None]
    logs, seated = log_weights, 0
    for table, size in enumerate(sizes):
        for guest in range(size):
            own = guest - discount if guest else theta + table * discount
            if seated:
                logs = logs + np.log(own / (theta + seated))
            seated += 1
    shares = np.exp(logs - logsumexp(logs))
    return Terms(float(logsumexp(logs)), float((shares * theta).sum()), float((shares * discount).sum()))


def finite_terms(sizes: tuple[int, ...], process: FiniteMixture) -> Terms:
    """Component by component: k of them, of which the clusters are some, in any order."""
    k = np.arange(len(sizes), MOST_COMPONENTS)
    gamma, points = process.gamma, sum(sizes)
    logs = stats.poisson(process.rate).logpmf(k - 1) + gammaln(k + 1) - gammaln(k - len(sizes) + 1)
    logs += gammaln(k * gamma) - gammaln(k * gamma + points) + (gammaln(np.array(sizes) + gamma) - gammaln(gamma)).sum()
    return Terms(float(logsumexp(logs)), gamma)


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
    alpha: Process,
    max_clusters: int | None = None,
    outliers: tuple[float, Any] | None = None,
    weights: np.ndarray | None = None,
) -> Expected:
    """Of a few points. `outliers` are a weight and a prior; the posterior is given that one point is none, as the
    sampler's is. A point of weight 3 is three equal points in all partitions that keep them together; where weights are
    not whole, statistics are weighted. O(Bell number)."""
    count = X.shape[0]
    every = labellings(count, outliers is not None)
    sizes = every.max(axis=1) + 1
    if max_clusters is not None:
        every, sizes = every[sizes <= max_clusters], sizes[sizes <= max_clusters]
    masks = 1 << np.arange(count)
    inside = np.array([log_marginal(X, prior, mask, weights) for mask in range(1 << count)])
    logs = np.zeros(len(every))
    for cluster in range(count):
        # The empty set weighs nothing.
        logs += inside[((every == cluster) * masks).sum(axis=1)]
    if outliers is not None:
        weight, broad = outliers
        outside = np.array([log_marginal(X, broad, mask, weights) for mask in range(1 << count)])
        logs += outside[((every < 0) * masks).sum(axis=1)]
        own = np.ones(count) if weights is None else weights
        logs += (own * np.where(every < 0, np.log(weight), np.log1p(-weight))).sum(axis=1)
    return expected_of(every, logs, alpha, weights)


def expected_of(every: np.ndarray, logs: np.ndarray, alpha: Process, weights: np.ndarray | None = None) -> Expected:
    """Of partitions (P, N) with these log weights (P,), but for their prior's part."""
    count, sizes = every.shape[1], every.max(axis=1) + 1
    terms = terms_of(every, alpha, weights)
    logs = logs + terms[:, 0]
    shares = np.exp(logs - logsumexp(logs))
    together = (every[:, :, None] == every[:, None, :]) & (every >= 0)[:, :, None]
    return Expected(
        np.bincount(sizes, shares, minlength=count + 1),
        np.einsum("p,pij->ij", shares, together.astype(float)),
        shares @ (every < 0),
        float(shares @ terms[:, 1]),
        float(logsumexp(logs)),
        float(shares @ terms[:, 2]),
    )


def terms_of(every: np.ndarray, alpha: Process, weights: np.ndarray | None = None) -> np.ndarray:
    """What the prior over partitions says of each of them (P, 3): it is a function of the sizes of clusters."""
    own = np.ones(every.shape[1], int) if weights is None else weights
    sizes = np.sort(((every[:, :, None] == np.arange(every.shape[1])) * own[:, None]).sum(axis=1), axis=1)
    kinds, which = np.unique(sizes, axis=0, return_inverse=True)
    terms = [process_terms(tuple(size for size in kind.tolist() if size), alpha) for kind in kinds]
    return np.array(terms)[which.ravel()]


def nodes_of(learning: Learning, strength: float, fineness: int = 1) -> tuple[Hyperparameters, np.ndarray]:
    """Nodes at one strength, all combinations along one axis, and their log weights: Gauss-Legendre times the
    hyperprior."""
    floor = -9.0
    if learning.cells is not None:
        # The variance is strength * width over a chi-square variable.
        quantile = stats.chi2(strength).isf(learning.narrow)
        floor = max(floor, float(np.log(learning.cells * quantile / strength / learning.variance)))
    ranges = ((-5.0, 5.0, 18), (-12.0, 3.5, 18), (floor, 3.5, 20))
    axes, weights = [], []
    for low, high, count in ranges:
        nodes, own = np.polynomial.legendre.leggauss(fineness * count)
        axes.append(low + (high - low) * (nodes + 1) / 2)
        weights.append(np.log(own * (high - low) / 2))
    z, log_kappa, log_width = (grid.ravel() for grid in np.meshgrid(*axes, indexing="ij"))
    logs = sum(grid.ravel() for grid in np.meshgrid(*weights, indexing="ij"))
    logs = logs + stats.norm.logpdf(z)
    for values in (log_kappa, log_width):
        logs = logs + stats.chi2(1).logpdf(np.exp(values)) + values
    location = learning.mean + z * np.sqrt(learning.variance)
    return Hyperparameters(location, log_kappa, log_width, strength), logs


def posterior_learned(
    x: np.ndarray, learning: Learning, alpha: Process, outliers: tuple[float, np.ndarray] | None = None
) -> ExpectedLearned:
    """Of a few points of one feature, whose prior is learned: all partitions and hyperparameters, summed. `outliers`
    are a weight and the log marginal likelihoods of all subsets, by their bits."""
    count = len(x)
    every = labellings(count, outliers is not None)
    masks = 1 << np.arange(count)
    which = np.stack([((every == cluster) * masks).sum(axis=1) for cluster in range(count)])
    fixed = terms_of(every, alpha)[:, 0]
    if outliers is not None:
        weight, outside = outliers
        fixed = fixed + outside[((every < 0) * masks).sum(axis=1)]
        fixed = fixed + np.where(every < 0, np.log(weight), np.log1p(-weight)).sum(axis=1)
    by_partition, by_node, nodes = [], [], []
    for strength in learning.strengths:
        own, logs = nodes_of(learning, float(strength))
        inside = np.ones((1 << count, len(logs)))
        scale = strength * learning.variance * np.exp(own.log_width)
        for mask in range(1, 1 << count):
            members = x[np.flatnonzero(mask & masks)]
            log_inside = log_marginal_of_feature(members, own.location, np.exp(own.log_kappa), scale, strength)
            inside[mask] = np.exp(log_inside)
        # A part of the nodes at a time: of all of them the table would be large.
        for part in np.array_split(np.arange(len(logs)), 64):
            few = inside[:, part]
            table = few[which[0]] * np.exp(logs[part])
            for rows in which[1:]:
                table *= few[rows]
            by_partition.append(table.sum(axis=1))
            by_node.append(np.exp(fixed) @ table)
        nodes.append(own)
    found = fixed + np.log(np.sum(by_partition, axis=0))
    shares = np.concatenate(by_node) / np.sum(np.concatenate(by_node))
    strengths = shares.reshape(len(learning.strengths), -1).sum(axis=1)
    means, deviations = [], []
    for field in range(3):
        values = np.concatenate([own[field] for own in nodes])
        means.append(float(shares @ values))
        deviations.append(float(shares @ (values - means[-1]) ** 2) ** 0.5)
    # The concentration is in the sums already.
    partitions = expected_of(every, found - terms_of(every, alpha)[:, 0], alpha)
    return ExpectedLearned(partitions, Hyperparameters(*means, strengths), Hyperparameters(*deviations, None))


def log_marginal_of_feature(x: np.ndarray, location: Any, kappa: Any, scale: Any, freedom: Any) -> Any:
    """log marginal likelihood of one feature's values, a multivariate Student's t, for arrays of hyperparameters."""
    n, middle = len(x), x.mean()
    total = scale + ((x - middle) ** 2).sum() + kappa * n / (kappa + n) * (middle - location) ** 2
    logs = gammaln((freedom + n) / 2) - gammaln(freedom / 2) - 0.5 * n * np.log(np.pi)
    return logs + 0.5 * (np.log(kappa / (kappa + n)) + freedom * np.log(scale) - (freedom + n) * np.log(total))


def log_marginal(X: Any, prior: Any, mask: int, weights: np.ndarray | None = None) -> float:
    """log marginal likelihood of the rows whose bits are set, each as often as its weight says."""
    rows = np.flatnonzero([mask >> row & 1 for row in range(X.shape[0])])
    if weights is not None and weights.dtype.kind == "f":
        statistics = prior.statistics(X[rows], None, None, weights[rows])
        return float(prior.log_marginal_likelihood(statistics)[0]) if len(rows) else 0.0
    if weights is not None:
        rows = np.repeat(rows, weights[rows])
    return float(prior.log_marginal_likelihood(prior.statistics(X[rows]))[0]) if len(rows) else 0.0
