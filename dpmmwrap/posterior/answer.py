"""From the result of a backend to the answer of a fit."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpmmwrap.families.base import LearnedPrior, Points, Prior, Statistics, Summary, take
from dpmmwrap.families.tables import Columns
from dpmmwrap.mixture import Mixture
from dpmmwrap.numerics.arrays import Float64Array, IntArray, evenly_spaced
from dpmmwrap.numerics.cells import has_missing, is_remote
from dpmmwrap.partitions import PartitionPrior
from dpmmwrap.partitions.base import log_joint_with_outliers
from dpmmwrap.posterior.averaging import AveragedMixture
from dpmmwrap.posterior.matching import confidence, count_clusters, largest_first, order_by_size, renumbered
from dpmmwrap.posterior.resampling import NOT_RESAMPLED, Resampling
from dpmmwrap.sampler.draws import Draws
from dpmmwrap.sampler.settings import Result, Settings

if TYPE_CHECKING:
    from dpmmwrap.posterior.diagnostics import Diagnostic

LOSSES = ("vi", "binder")
SAMPLE_ROWS, SAMPLE_NUMBERS = 20_000, 10_000_000
"""Rows of the data, and numbers in them, that a fitted model keeps for `groups`."""


SETTLE = 20
"""Times that labels are looked for given what is observed, at most."""


class Answer(NamedTuple):
    """The result of a fit."""

    labels: IntArray
    mixture: Mixture
    log_posterior: float
    partition_prior: PartitionPrior
    prior: Prior
    confidence: Float64Array | None = None
    diagnostics: list[Diagnostic] | None = None
    doubts: tuple[str, ...] = ()
    """Sentences about possible problems with the draws."""


def answer_of(
    result: Result,
    X: Points,
    settings: Settings,
    loss: str,
    columns: Columns | None,
    resampling: Resampling = NOT_RESAMPLED,
) -> Answer:
    """The partition that represents the draws, or fits to samples of the rows, best; without either, the best of the
    search. The largest cluster comes first."""
    outliers = (settings.outlier_weight, settings.outlier_prior)
    draws, prior = result.draws, result.prior or settings.prior
    partition_prior = result.partition_prior or settings.partition_prior
    best, statistics = best_of_search(result, settings.outlier_prior is not None)
    if prior.correlated and statistics is None and has_missing(X):
        best = largest_first(labels_of_observed(X, best, prior, partition_prior, settings))

    def mixture_of_search() -> Mixture:
        if statistics is not None:
            own = Mixture.from_statistics(statistics, prior, *outliers, columns)
        else:
            own = Mixture.from_labels(X, best, prior, *outliers, columns, settings.weights)
        return replace(own, size_shift=partition_prior.shift)

    if draws is None and resampling.labels is not None:
        most = count_clusters(best) if statistics is None else len(statistics.counts)
        represented = labels_of_samples(resampling.labels, loss, settings.seed, most)
        if represented is not None:
            return answer_of_samples(result, X, settings, columns, represented, reproduced(resampling, len(X)))
    if draws is None:
        mixture = mixture_of_search()
        log_posterior = float(result.log_posterior)
        if best is not None and prior.correlated and statistics is None and has_missing(X):
            log_posterior = log_posterior_of(X, best, settings, partition_prior, prior)
        if np.isnan(log_posterior):
            log_posterior = float(result.trace.log_posterior[-1])
        return Answer(best, mixture, log_posterior, partition_prior, prior)
    from dpmmwrap.posterior.diagnostics import diagnose, disagreement

    partition_prior, diagnostics = mean_of_draws(draws, partition_prior), diagnose(draws)
    doubt = disagreement(diagnostics, draws.n_chains)
    doubts = () if doubt is None else (doubt,)
    if draws.labels is None:
        found = float(result.log_posterior)
        return Answer(best, mixture_of_search(), found, partition_prior, prior, None, diagnostics, doubts)
    from dpmmwrap.posterior.representative import representative
    from dpmmwrap.posterior.singletons import join_singletons

    best = representative(draws.kept_labels, loss, settings.seed).labels  # type: ignore[arg-type]
    joined, rows = join_singletons(draws.kept_labels, best)
    labels = largest_first(joined)
    if rows:
        which = "1 row that is in no cluster" if rows == 1 else f"{rows:,} rows that are in no cluster"
        doubts = (*doubts, f"{which} in most draws joined the most probable one: confidence_ shows how unsure that is")
    shifts = partition_prior.shift if draws.discount is None else -draws.discount.ravel()
    averaged = AveragedMixture.of(X, draws.kept_labels, labels, result.draw_priors, *outliers, shifts, settings.weights)
    prior = best_prior(X, labels, settings, prior)
    mixture = Mixture.from_labels(X, labels, prior, *outliers, columns, settings.weights)
    mixture = replace(mixture, averaged=averaged, size_shift=partition_prior.shift)
    log_posterior = log_posterior_of(X, labels, settings, partition_prior, prior)
    sure = confidence(draws.kept_labels, labels)
    return Answer(labels, mixture, log_posterior, partition_prior, prior, sure, diagnostics, doubts)


def labels_of_samples(samples: IntArray, loss: str, seed: int, most: int) -> IntArray | None:
    """The partition that represents fits to samples of the rows. None if it has more clusters than all rows give: then
    boundaries have only added up that are elsewhere in each fit."""
    from dpmmwrap.posterior.representative import representative

    labels = representative(samples, loss, seed).labels  # type: ignore[arg-type]
    return labels if count_clusters(labels) <= most else None


def answer_of_samples(
    result: Result, X: Points, settings: Settings, columns: Columns | None, labels: Any, doubt: str
) -> Answer:
    """The partition that represents fits to samples of the rows, with the prior that is most probable for it."""
    points = X.everything() if is_remote(X) else X
    partition_prior = result.partition_prior or settings.partition_prior
    prior = best_prior(points, labels, settings, result.prior or settings.prior)
    mixture = Mixture.from_labels(points, labels, prior, columns=columns, sample_weight=settings.weights)
    mixture = replace(mixture, size_shift=partition_prior.shift)
    log_posterior = log_posterior_of(points, labels, settings, partition_prior, prior)
    if is_remote(X):
        labels = X.in_chunks(labels, result.labels)
    return Answer(labels, mixture, log_posterior, partition_prior, prior, doubts=(doubt,))


def reproduced(resampling: Resampling, rows: int) -> str:
    """What the clusters rest on, and why not on all rows."""
    largest, best = resampling.sizes[0], max(resampling.sizes, key=lambda size: size.agreement)
    return (
        "the data do not quite follow the model, and samples of "
        f"{best.n_rows:,} of the {rows:,} rows agree better on their clusters (adjusted Rand index "
        f"{best.agreement:.2f}) than samples of {largest.n_rows:,} ({largest.agreement:.2f}): labels_ are what the "
        "smaller samples agree on; n_chains=1 takes what all rows give"
    )


def best_of_search(result: Result, outliers: bool) -> tuple[Any, Statistics]:
    """The best labels of the search, the largest cluster first, and their statistics if points and labels are on other
    machines."""
    statistics: Any = result.statistics
    if statistics is None:
        return largest_first(result.labels), None
    count = len(statistics.counts) - int(outliers)
    order = order_by_size(statistics.counts[:count])
    labels: Any = result.labels
    ordered = labels.map_blocks(renumbered, order, dtype=labels.dtype)
    return ordered, take(statistics, np.append(order, np.arange(count, len(statistics.counts))))


def labels_of_observed(
    X: Points, labels: IntArray, prior: Prior, partition_prior: PartitionPrior, settings: Settings
) -> IntArray:
    """The most probable label of each row given what is observed of it, and of all rows given these. A search ends with
    labels that are most probable given drawn values where some are missing."""
    outliers = (settings.outlier_weight, settings.outlier_prior)
    for _ in range(SETTLE):
        own = replace(Mixture.from_labels(X, labels, prior, *outliers), size_shift=partition_prior.shift)
        found = own.predict(X)
        kept, numbers = np.unique(found[found >= 0], return_inverse=True)
        if not len(kept) or np.array_equal(found, labels):
            break
        labels = np.full(len(found), -1, np.int32)
        labels[found >= 0] = numbers
    return labels


def learned_values(result: Result, hyperprior: LearnedPrior | None, prior: Prior) -> Summary | None:
    """The learned hyperparameters of a default prior: those of the result's prior, or the medians over draws."""
    if hyperprior is None:
        return None
    if not result.draw_priors:
        return hyperprior.summary(prior)
    return Summary(*np.median([hyperprior.summary(prior) for prior in result.draw_priors], axis=0).tolist())


def best_prior(X: Points, labels: IntArray, settings: Settings, near: Prior) -> Prior:
    """The prior that is most probable given some labels."""
    if settings.hyperprior is None:
        return settings.prior
    prior: Prior = settings.hyperprior.climb(near, settings.prior.statistics(X, labels, None, settings.weights))
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
    count = int(labels.max(initial=-1)) + 1 + outliers
    statistics = prior.statistics(X, labels + np.int32(outliers), count, settings.weights)
    whole, log_missing = prior.posterior(statistics).filled(X, labels + np.int32(outliers), settings.seed)
    if whole is not X:
        statistics = prior.statistics(whole, labels + np.int32(outliers), count)
    log_marginal = prior.log_marginal_likelihood(statistics)
    if settings.outlier_prior is not None:
        log_marginal[:1] = settings.outlier_prior.log_marginal_likelihood(take(statistics, slice(0, 1)))
    of_prior = 0.0 if settings.hyperprior is None else settings.hyperprior.log_density(prior)
    found = log_joint_with_outliers(partition_prior, statistics.counts, log_marginal, settings.outlier_weight)
    return float(of_prior + found - log_missing)


def sample_of(points: Points) -> Points:
    """Rows that a fitted model keeps; all of them if they are few."""
    rows = kept_rows(*points.shape)
    return points if len(rows) == points.shape[0] and not is_remote(points) else points[rows]


def kept_rows(rows: int, columns: int) -> IntArray:
    """The numbers of the rows that a fitted model keeps, evenly spaced."""
    return evenly_spaced(rows, min(SAMPLE_ROWS, SAMPLE_NUMBERS // max(1, columns)))
