"""From what a backend found to the answer."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpmmwrap.families.base import LearnedPrior, Points, Prior, Statistics, Summary, take
from dpmmwrap.families.tables import Columns
from dpmmwrap.mixture import Mixture
from dpmmwrap.numerics.arrays import Float64Array, IntArray, evenly_spaced
from dpmmwrap.numerics.cells import is_remote
from dpmmwrap.partitions import PartitionPrior
from dpmmwrap.partitions.base import log_joint_with_outliers
from dpmmwrap.posterior.averaging import Averaged
from dpmmwrap.sampler.draws import Draws
from dpmmwrap.sampler.settings import Result, Settings

if TYPE_CHECKING:
    from dpmmwrap.posterior.diagnostics import Diagnostic

LOSSES = ("vi", "binder")
SAMPLE_ROWS, SAMPLE_NUMBERS = 20_000, 10_000_000
"""Rows of the data, and numbers in them, that a fitted model keeps for `groups`."""


class Answer(NamedTuple):
    """The clustering that a fit ends with."""

    labels: IntArray
    mixture: Mixture
    log_posterior: float
    partition_prior: PartitionPrior
    prior: Prior
    confidence: Float64Array | None = None
    diagnostics: list[Diagnostic] | None = None
    doubts: tuple[str, ...] = ()
    """Sentences about what may be wrong with the draws."""


def answer_of(result: Result, X: Points, settings: Settings, loss: str, columns: Columns | None) -> Answer:
    """The partition that represents the draws best; without their labels, the best that the search has met. The largest
    cluster comes first."""
    outliers = (settings.outlier_weight, settings.outlier_prior)
    draws, prior = result.draws, result.prior or settings.prior
    partition_prior = result.partition_prior or settings.partition_prior
    best, statistics = best_of_search(result, settings.outlier_prior is not None)

    def found() -> Mixture:
        """Of the best clustering that the search has met."""
        if statistics is not None:
            own = Mixture.from_statistics(statistics, prior, *outliers, columns)
        else:
            own = Mixture.from_labels(X, best, prior, *outliers, columns)
        return replace(own, size_shift=partition_prior.shift)

    if draws is None:
        mixture = found()
        log_posterior = float(result.log_posterior)
        if np.isnan(log_posterior):
            log_posterior = float(result.trace.log_posterior[-1])
        return Answer(best, mixture, log_posterior, partition_prior, prior)
    from dpmmwrap.posterior.diagnostics import diagnose, disagreement

    partition_prior, diagnostics = mean_of_draws(draws, partition_prior), diagnose(draws)
    doubt = disagreement(diagnostics, draws.n_chains)
    said = (diagnostics, () if doubt is None else (doubt,))
    if draws.labels is None:
        return Answer(best, found(), float(result.log_posterior), partition_prior, prior, None, *said)
    from dpmmwrap.posterior.matching import confidence
    from dpmmwrap.posterior.representative import representative
    from dpmmwrap.posterior.singletons import claim_singletons

    claimed = claim_singletons(draws.kept_labels, representative(draws.kept_labels, loss, settings.seed).labels)  # type: ignore[arg-type]
    labels = largest_first(claimed.labels)
    if claimed.rows:
        rows = (
            "1 row that no cluster claims in most draws is"
            if claimed.rows == 1
            else f"{claimed.rows:,} rows that no cluster claims in most draws are"
        )
        said = (diagnostics, (*said[1], f"{rows} with the likeliest one: confidence_ says how unsure that is"))
    shifts = partition_prior.shift if draws.discount is None else -draws.discount.ravel()
    averaged = Averaged.of(X, draws.kept_labels, labels, result.draw_priors, *outliers, shifts)
    prior = best_prior(X, labels, settings, prior)
    mixture = Mixture.from_labels(X, labels, prior, *outliers, columns)
    mixture = replace(mixture, averaged=averaged, size_shift=partition_prior.shift)
    log_posterior = log_posterior_of(X, labels, settings, partition_prior, prior)
    sure = confidence(draws.kept_labels, labels)
    return Answer(labels, mixture, log_posterior, partition_prior, prior, sure, *said)


def largest_first(labels: IntArray) -> IntArray:
    """The same clusters by other numbers: 0 is the largest. Outliers (-1) stay."""
    return renumbered(labels, by_size(np.bincount(labels[labels >= 0])))


def by_size(sizes: Any) -> IntArray:
    """The numbers of clusters, the largest first."""
    return np.argsort(-sizes, kind="stable")


def renumbered(labels: IntArray, order: IntArray) -> IntArray:
    """Labels by the places of their clusters in an order."""
    numbers = np.empty(len(order) + 1, labels.dtype)
    numbers[order] = np.arange(len(order))
    # What -1 finds.
    numbers[-1] = -1
    return np.asarray(numbers[labels])


def best_of_search(result: Result, outliers: bool) -> tuple[Any, Statistics]:
    """The best labels that the search has met, the largest cluster first, and its statistics where they are known: of
    points that are elsewhere, as are their labels."""
    statistics: Any = result.statistics
    if statistics is None:
        return largest_first(result.labels), None
    count = len(statistics.counts) - int(outliers)
    order = by_size(statistics.counts[:count])
    labels: Any = result.labels
    own = labels.map_blocks(renumbered, order, dtype=labels.dtype)
    return own, take(statistics, np.append(order, np.arange(count, len(statistics.counts))))


def learned_values(result: Result, hyperprior: LearnedPrior | None, first: Prior) -> Summary | None:
    """What was learned of a default prior: what goes with the labels, or the draws' medians; of a backend that learns
    none, what the first prior says."""
    if hyperprior is None:
        return None
    if not result.draw_priors:
        return hyperprior.summary(result.prior or first)
    return Summary(*np.median([hyperprior.summary(prior) for prior in result.draw_priors], axis=0).tolist())


def best_prior(X: Points, labels: IntArray, settings: Settings, near: Prior) -> Prior:
    """The prior that is most probable given some labels."""
    if settings.hyperprior is None:
        return settings.prior
    prior: Prior = settings.hyperprior.climb(near, settings.prior.statistics(X, labels))
    return prior


def mean_of_draws(draws: Draws, partition_prior: PartitionPrior) -> PartitionPrior:
    """The prior over partitions with the means of its parameters."""
    drawn = [draws.alpha] if draws.discount is None else [draws.alpha, draws.discount]
    return partition_prior.at(tuple(float(values.mean()) for values in drawn))


def log_posterior_of(
    X: Points, labels: IntArray, settings: Settings, partition_prior: PartitionPrior, prior: Prior
) -> float:
    """log p(labels, parameters of both priors, X), up to a constant, of any labels."""
    outliers = int(settings.outlier_weight > 0)
    statistics = prior.statistics(X, labels + np.int32(outliers), int(labels.max(initial=-1)) + 1 + outliers)
    log_marginal = prior.log_marginal_likelihood(statistics)
    if settings.outlier_prior is not None:
        log_marginal[:1] = settings.outlier_prior.log_marginal_likelihood(take(statistics, slice(0, 1)))
    of_prior = 0.0 if settings.hyperprior is None else settings.hyperprior.log_density(prior)
    return of_prior + log_joint_with_outliers(partition_prior, statistics.counts, log_marginal, settings.outlier_weight)


def sample_of(points: Points) -> Points:
    """Rows that a fitted model keeps; all of them if they are few."""
    rows = kept_rows(*points.shape)
    return points if len(rows) == points.shape[0] and not is_remote(points) else points[rows]


def kept_rows(rows: int, columns: int) -> IntArray:
    """The numbers of the rows that a fitted model keeps, evenly spaced."""
    return evenly_spaced(rows, min(SAMPLE_ROWS, SAMPLE_NUMBERS // max(1, columns)))
