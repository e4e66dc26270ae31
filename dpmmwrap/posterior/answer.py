"""The answer of a fit, from the result of a backend."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.base import Points, Prior, Statistics, take
from dpmmwrap.families.learned.base import LearnedPrior, Summary
from dpmmwrap.families.tables import Columns
from dpmmwrap.mixture import Mixture
from dpmmwrap.numerics.arrays import Float64Array, IntArray, evenly_spaced
from dpmmwrap.numerics.cells import has_missing, is_remote
from dpmmwrap.partitions import PartitionPrior
from dpmmwrap.partitions.base import log_joint_with_outliers
from dpmmwrap.posterior.averaging import AveragedMixture
from dpmmwrap.posterior.diagnostics import Diagnostic, diagnose, disagreement
from dpmmwrap.posterior.matching import (
    confidence,
    largest_first,
    order_by_size,
    renumbered,
    without_gaps,
)
from dpmmwrap.posterior.representative import representative
from dpmmwrap.posterior.resampling import NOT_RESAMPLED, Resampling
from dpmmwrap.posterior.singletons import join_singletons
from dpmmwrap.sampler.draws import Draws
from dpmmwrap.sampler.settings import Result, Settings

SAMPLE_ROWS, SAMPLE_NUMBERS = 20_000, 10_000_000
"""A fitted model keeps at most this many rows, and numbers in them."""
ROUNDS = 20
"""Limit of the search for labels of rows with missing values."""


class Answer(NamedTuple):
    """The result of a fit."""

    labels: IntArray
    mixture: Mixture
    log_posterior: float
    partition_prior: PartitionPrior
    prior: Prior
    components: IntArray | None = None
    """The clusters before some were joined; None if none were."""
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
    """The partition that represents the draws best. Without draws, the best of the search, perhaps joined as samples of
    the rows join it. The largest cluster comes first."""
    draws = result.draws
    if draws is not None and draws.labels is not None:
        return answer_of_draws(result, draws, X, settings, loss, columns)
    answer = answer_of_search(result, X, settings, columns)
    if draws is not None:
        partition_prior = mean_of_draws(draws, answer.partition_prior)
        return answer._replace(partition_prior=partition_prior, **diagnosed(draws))
    if resampling.labels is not None:
        return answer_of_samples(answer, resampling, X, settings, columns)
    return answer


def answer_of_search(result: Result, X: Points, settings: Settings, columns: Columns | None) -> Answer:
    """The best labels of the search. If the points are on other machines, so are the labels."""
    prior, process = result.prior or settings.prior, result.partition_prior or settings.partition_prior
    log_posterior = float(result.log_posterior)
    if np.isnan(log_posterior):
        log_posterior = float(result.trace.log_posterior[-1])
    statistics: Any = result.statistics
    if statistics is not None:
        labels, statistics = remote_labels(result.labels, statistics, settings.outlier_prior is not None)
        mixture = Mixture.from_statistics(statistics, prior, settings.outlier_weight, settings.outlier_prior, columns)
        return Answer(labels, replace(mixture, size_shift=process.shift), log_posterior, process, prior)
    labels = largest_first(result.labels)
    if prior.correlated and has_missing(X):
        labels = largest_first(labels_of_observed(X, labels, prior, process, settings))
        log_posterior = log_posterior_of(X, labels, settings, process, prior)
    return Answer(labels, mixture_of(X, labels, prior, process, settings, columns), log_posterior, process, prior)


def answer_of_draws(
    result: Result, draws: Draws, X: Points, settings: Settings, loss: str, columns: Columns | None
) -> Answer:
    """The partition that represents the draws, under its most probable prior; predictions are averaged over draws."""
    prior, process = result.prior or settings.prior, result.partition_prior or settings.partition_prior
    process = mean_of_draws(draws, process)
    kept = draws.kept_labels
    joined, count = join_singletons(kept, representative(kept, loss, settings.seed).labels)  # type: ignore[arg-type]
    labels = largest_first(joined)
    if settings.hyperprior is None:
        prior = settings.prior
    else:
        statistics = settings.prior.statistics(X, labels, None, settings.weights)
        prior = settings.hyperprior.climb(prior, statistics)
    averaged = AveragedMixture.of(
        X, kept, labels, result.draw_priors, settings.outlier_weight, settings.outlier_prior,
        process.shift if draws.discount is None else -draws.discount.ravel(), settings.weights,
    )  # fmt: skip
    mixture = replace(mixture_of(X, labels, prior, process, settings, columns), averaged=averaged)
    log_posterior = log_posterior_of(X, labels, settings, process, prior)
    answer = Answer(labels, mixture, log_posterior, process, prior, confidence=confidence(kept, labels))
    answer = answer._replace(**diagnosed(draws))
    if not count:
        return answer
    rows = "1 row has" if count == 1 else f"{count:,} rows have"
    doubt = f"{rows} no cluster that most draws agree on, and joined the most probable: see confidence_"
    return answer._replace(doubts=(*answer.doubts, doubt))


def answer_of_samples(
    found: Answer, resampling: Resampling, X: Points, settings: Settings, columns: Columns | None
) -> Answer:
    """The clusters of the search, joined. The density, and all that describes the model, is that of the clusters before
    they were joined."""
    assert resampling.labels is not None
    points, components = (X.everything(), np.asarray(found.labels)) if is_remote(X) else (X, found.labels)
    prior, process, weights = found.prior, found.partition_prior, settings.weights
    joined = largest_first(resampling.labels)
    density = AveragedMixture.of(points, components[None], joined, [prior], 0.0, None, process.shift, weights)
    mixture = replace(mixture_of(points, joined, prior, process, settings, columns), averaged=density)
    labels = X.in_chunks(joined, found.labels) if is_remote(X) else joined
    whole, best = resampling.sizes[0], max(resampling.sizes, key=lambda size: size.agreement)
    doubt = (
        f"the data do not quite follow the model: {whole.n_clusters} clusters are joined into {best.n_clusters}, which "
        f"fits to samples of {best.n_rows:,} rows reproduce better (adjusted Rand index {best.agreement:.3f}, against "
        f"{whole.agreement:.3f}); n_chains=1 leaves them apart"
    )
    return found._replace(labels=labels, mixture=mixture, components=components, doubts=(doubt,))


def diagnosed(draws: Draws) -> dict[str, Any]:
    """Diagnostics of the draws, and doubts about them."""
    diagnostics = diagnose(draws)
    doubt = disagreement(diagnostics, draws.n_chains)
    return {"diagnostics": diagnostics, "doubts": () if doubt is None else (doubt,)}


def mixture_of(
    X: Points,
    labels: IntArray,
    prior: Prior,
    process: PartitionPrior,
    settings: Settings,
    columns: Columns | None = None,
) -> Mixture:
    """The mixture of a clustering, with weights by the prior over partitions."""
    outliers = (settings.outlier_weight, settings.outlier_prior)
    mixture = Mixture.from_labels(X, labels, prior, *outliers, columns, settings.weights)
    return replace(mixture, size_shift=process.shift)


def remote_labels(labels: Any, statistics: Statistics, outliers: bool) -> tuple[Any, Statistics]:
    """Labels on other machines, the largest cluster first, and the clusters' statistics in the same order."""
    count = len(statistics.counts) - int(outliers)
    order = order_by_size(statistics.counts[:count])
    ordered = labels.map_blocks(renumbered, order, dtype=labels.dtype)
    return ordered, take(statistics, np.append(order, np.arange(count, len(statistics.counts))))


def labels_of_observed(
    X: Points, labels: IntArray, prior: Prior, process: PartitionPrior, settings: Settings
) -> IntArray:
    """The most probable label of each row given its observed values, repeated until nothing changes. With missing
    values, a search ends with the most probable labels given values that it has drawn."""
    for _ in range(ROUNDS):
        predicted = mixture_of(X, labels, prior, process, settings).predict(X)
        if predicted.max() < 0 or np.array_equal(predicted, labels):
            break
        labels = without_gaps(predicted)
    return labels


def learned_values(result: Result, hyperprior: LearnedPrior | None, prior: Prior) -> Summary | None:
    """The learned hyperparameters of a default prior: those of the result, or the medians over draws."""
    if hyperprior is None:
        return None
    if not result.draw_priors:
        return hyperprior.summary(prior)
    return Summary(*np.median([hyperprior.summary(prior) for prior in result.draw_priors], axis=0).tolist())


def mean_of_draws(draws: Draws, process: PartitionPrior) -> PartitionPrior:
    """The prior over partitions with the means of its parameters."""
    drawn = [draws.alpha] if draws.discount is None else [draws.alpha, draws.discount]
    return process.at(tuple(float(values.mean()) for values in drawn))


def log_posterior_of(X: Points, labels: IntArray, settings: Settings, process: PartitionPrior, prior: Prior) -> float:
    """log p(labels, parameters of both priors, X), up to a constant."""
    outliers = int(settings.outlier_weight > 0)
    numbers, count = labels + np.int32(outliers), int(labels.max(initial=-1)) + 1 + outliers
    statistics = prior.statistics(X, numbers, count, settings.weights)
    whole, log_missing = prior.posterior(statistics).filled(X, numbers, settings.seed)
    if whole is not X:
        statistics = prior.statistics(whole, numbers, count)
    log_marginal = prior.log_marginal_likelihood(statistics)
    if settings.outlier_prior is not None:
        log_marginal[:1] = settings.outlier_prior.log_marginal_likelihood(take(statistics, slice(0, 1)))
    log_prior = 0.0 if settings.hyperprior is None else settings.hyperprior.log_density(prior)
    log_joint = log_joint_with_outliers(process, statistics.counts, log_marginal, settings.outlier_weight)
    return float(log_prior + log_joint - log_missing)


def sample_of(points: Points) -> Points:
    """The rows that a fitted model keeps; all of them if they are few."""
    rows = kept_rows(*points.shape)
    return points if len(rows) == points.shape[0] and not is_remote(points) else points[rows]


def kept_rows(rows: int, columns: int) -> IntArray:
    """The numbers of the rows that a fitted model keeps, evenly spaced."""
    return evenly_spaced(rows, min(SAMPLE_ROWS, SAMPLE_NUMBERS // max(1, columns)))
