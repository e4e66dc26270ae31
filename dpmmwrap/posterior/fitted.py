"""The answer of a fit, from the result of a backend, and the attributes of a fitted estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpmmwrap.backends.choosing import BackendChoice
from dpmmwrap.families.base import Points, Prior, take
from dpmmwrap.families.tables import Columns
from dpmmwrap.mixture import Mixture
from dpmmwrap.model.choice import Choice
from dpmmwrap.model.estimator_parameters import LOSSES
from dpmmwrap.model.memory import Memory, digest_of
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
from dpmmwrap.posterior.representative import Loss, representative
from dpmmwrap.posterior.resampling import NOT_RESAMPLED, Resampling
from dpmmwrap.sampler.draws import Draws
from dpmmwrap.sampler.settings import Result, Settings
from dpmmwrap.sampler.stopping import stopped_by

if TYPE_CHECKING:
    from dpmmwrap.estimator import DPMM

SAMPLE_ROWS, SAMPLE_NUMBERS = 20_000, 10_000_000
"""A fitted model keeps at most this many rows, and numbers in them."""
ROUNDS = 20
"""Limit of the search for labels of rows with missing values."""


def set_mixture(model: DPMM, mixture: Mixture) -> None:
    """Set the attributes that describe the clusters."""
    model._groups_known = model._fit_check = None
    model.mixture_, model.n_clusters_, model.weights_ = mixture, mixture.n_clusters, mixture.weights
    model.subspace_ = None if mixture.subspace is None else mixture.subspace.dim
    for name in mixture.posterior.estimates():
        # Covariances of hundreds of features take hundreds of megabytes: they are computed on access.
        if name != "covariances":
            setattr(model, f"{name}_", mixture.estimate(name))
    model.covariance_type_ = mixture.family
    if mixture.memory is not None:
        model.cluster_ids_, model.history_ = mixture.memory.ids, list(mixture.memory.history)


def keep(
    model: DPMM, result: Result, settings: Settings, backend: BackendChoice, choice: Choice, resampling: Resampling
) -> tuple[str, ...]:
    """Set the attributes from the results of a backend and of fits to samples; return doubts about them."""
    read = choice.read
    answer = answer_of(result, read.points, settings, model.loss or LOSSES[0], read.columns, resampling)
    names = getattr(model, "feature_names_in_", None)
    offset, subspace = read.offset, choice.subspace
    if subspace is not None:
        # The points are coordinates in the subspace, which has the offset.
        offset, subspace = np.zeros(subspace.dim), subspace.shifted(-offset)
    mixture, memory = answer.mixture.shifted(-offset), None
    if settings.outlier_prior is None:
        labels = np.asarray(answer.labels)
        first_rows = np.empty(int(labels.max()) + 1, np.int64)
        first_rows[labels[::-1]] = np.arange(len(labels))[::-1]
        memory = Memory.begin(
            mixture.statistics, prior=answer.prior, partition_prior=answer.partition_prior,
            rows=read.points[first_rows], hyperprior=settings.hyperprior, offset=offset, steps=choice.steps,
            digests=() if is_remote(read.points) else (digest_of(answer.prior, read.points, read.weights),),
        )  # fmt: skip
    mixture = replace(
        mixture, feature_names=None if names is None else tuple(map(str, names)), restored=read.restored,
        subspace=subspace, memory=memory, statistics=None,
    )  # fmt: skip
    set_mixture(model, mixture)
    model._fit_check, model.covariance_reason_ = resampling.check, choice.reason
    model.n_missing_ = read.n_missing
    model.trace_, model.traces_, model.n_iter_ = result.trace, result.traces or [result.trace], len(result.trace)
    model.chain_agreement_, model.reproducibility_ = result.agreement, resampling.sizes
    ended_by = stopped_by(result.trace, settings.max_iter, settings.stop_when_flat)
    model.interrupted_, model.stopped_by_ = result.interrupted, "interrupt" if result.interrupted else ended_by
    model.backend_, model.backend_reason_ = backend.backend.name, backend.reason
    model.startup_seconds_ = result.startup_seconds
    model.log_posterior_ = answer.log_posterior
    model.partition_prior_, model.alpha_ = answer.partition_prior, answer.partition_prior.alpha
    model.prior_kappa_ = model.prior_width_ = model.prior_strength_ = None
    if choice.hyperprior is not None:
        # With draws, the medians over them.
        values = np.median([choice.hyperprior.summary(p) for p in result.draw_priors or [answer.prior]], axis=0)
        model.prior_kappa_, model.prior_width_, model.prior_strength_ = values.tolist()
    model.labels_, model.sublabels_, model.draws_ = answer.labels, result.sublabels, result.draws
    model.confidence_, model.diagnostics_ = answer.confidence, answer.diagnostics
    present = model._present = read.present
    if present is not None:
        model.labels_ = present.spread(model.labels_, -1)
        model.sublabels_ = present.spread(model.sublabels_, 0)
        model.draws_ = present.spread_draws(model.draws_)
        # A row without values is in no cluster in any draw, as in the result.
        model.confidence_ = None if answer.confidence is None else present.spread(answer.confidence, 1.0)
    model._offset, model._some_points = offset, sample_of(read.points)
    model._some_weights = None if read.weights is None else read.weights[kept_rows(*read.points.shape)]
    model._log_noise = choice.log_noise
    model._components = None if answer.components is None else answer.components[kept_rows(*read.points.shape)]
    model._prior, model._hyperprior, model._outliers = answer.prior, choice.hyperprior, settings.outlier_prior
    return answer.doubts


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
    loss: Loss,
    columns: Columns | None,
    resampling: Resampling = NOT_RESAMPLED,
) -> Answer:
    """The partition that represents the draws best. Without draws, the best of the search, perhaps joined as samples of
    the rows join it. The largest cluster comes first."""
    draws = result.draws
    if draws is not None and draws.labels is not None:
        answer = answer_of_draws(result, draws, X, settings, loss, columns)
    else:
        answer = answer_of_search(result, X, settings, columns)
    if draws is not None:
        diagnostics = diagnose(draws)
        doubts = (*disagreement(diagnostics, draws.n_chains), *answer.doubts)
        process = mean_of_draws(draws, answer.partition_prior)
        return answer._replace(partition_prior=process, diagnostics=diagnostics, doubts=doubts)
    return answer if resampling.labels is None else answer_of_samples(answer, resampling, X, settings, columns)


def answer_of_search(result: Result, X: Points, settings: Settings, columns: Columns | None) -> Answer:
    """The best labels of the search. If the points are on other machines, so are the labels."""
    prior, process = result.prior or settings.prior, result.partition_prior or settings.partition_prior
    log_posterior = float(result.log_posterior)
    if np.isnan(log_posterior):
        log_posterior = float(result.trace.log_posterior[-1])
    remote: Any = result.labels
    if result.statistics is not None:
        statistics, outlier_prior = result.statistics, settings.outlier_prior
        count = len(statistics.counts) - int(outlier_prior is not None)
        order = order_by_size(statistics.counts[:count])
        labels = remote.map_blocks(renumbered, order, dtype=remote.dtype)
        statistics = take(statistics, np.append(order, np.arange(count, len(statistics.counts))))
        mixture = Mixture.from_statistics(statistics, prior, settings.outlier_weight, outlier_prior, columns)
        return Answer(labels, replace(mixture, size_shift=process.shift), log_posterior, process, prior)
    labels = largest_first(result.labels)
    if prior.correlated and has_missing(X):
        # The search ends with the most probable labels given values that it has drawn. Those given the observed values
        # are computed until nothing changes.
        for _ in range(ROUNDS):
            predicted = mixture_of(X, labels, prior, process, settings).predict(X)
            if predicted.max() < 0 or np.array_equal(predicted, labels):
                break
            labels = without_gaps(predicted)
        labels = largest_first(labels)
        log_posterior = log_posterior_of(X, labels, settings, process, prior)
    return Answer(labels, mixture_of(X, labels, prior, process, settings, columns), log_posterior, process, prior)


def answer_of_draws(
    result: Result, draws: Draws, X: Points, settings: Settings, loss: Loss, columns: Columns | None
) -> Answer:
    """The partition that represents the draws, under its most probable prior; predictions are averaged over draws."""
    process = mean_of_draws(draws, result.partition_prior or settings.partition_prior)
    kept, prior = draws.kept_labels, settings.prior
    joined, count = join_singletons(kept, representative(kept, loss, settings.seed).labels)
    labels = largest_first(joined)
    if settings.hyperprior is not None:
        statistics = prior.statistics(X, labels, None, settings.weights)
        prior = settings.hyperprior.climb(result.prior or prior, statistics)
    averaged = AveragedMixture.of(
        X, kept, labels, result.draw_priors, settings.outlier_weight, settings.outlier_prior,
        process.shift if draws.discount is None else -draws.discount.ravel(), settings.weights,
    )  # fmt: skip
    mixture = replace(mixture_of(X, labels, prior, process, settings, columns), averaged=averaged)
    doubts: tuple[str, ...] = ()
    if count:
        rows = "1 row has" if count == 1 else f"{count:,} rows have"
        doubts = (f"{rows} no cluster that most draws agree on, and joined the most probable: see confidence_",)
    log_posterior = log_posterior_of(X, labels, settings, process, prior)
    return Answer(labels, mixture, log_posterior, process, prior, confidence=confidence(kept, labels), doubts=doubts)


def join_singletons(draws: IntArray, labels: IntArray) -> tuple[IntArray, int]:
    """Join clusters of one row with the cluster that they are with most often, unless they are alone in most draws.

    If a row is in different clusters in different draws, no cluster has it in most draws, and the partition of least
    expected loss may leave it alone. In the draws themselves it is rarely alone, so it joins its most probable cluster,
    and its confidence shows the uncertainty. Returns the new labels, from 0 without gaps, and the number of rows that
    joined. O(N) per draw and single row.
    """
    inside = labels >= 0
    sizes = np.bincount(labels[inside])
    others = np.flatnonzero(sizes > 1)
    alone = np.flatnonzero(inside & np.isin(labels, np.flatnonzero(sizes == 1)))
    if not len(alone) or not len(others):
        return labels, 0
    joined, count = labels.copy(), 0
    for row in alone:
        together, solitary = np.zeros(len(labels)), 0
        for draw in draws:
            same = draw == draw[row]
            together += same
            solitary += int(same.sum() == 1)
        if 2 * solitary < len(draws):
            shares = np.bincount(labels[inside], together[inside])[others] / sizes[others]
            joined[row] = others[shares.argmax()]
            count += 1
    return without_gaps(joined), count


def answer_of_samples(
    answer: Answer, resampling: Resampling, X: Points, settings: Settings, columns: Columns | None
) -> Answer:
    """The clusters of the search, joined. The density, and all that describes the model, is that of the clusters before
    they were joined."""
    assert resampling.labels is not None
    points, components = (X.everything(), np.asarray(answer.labels)) if is_remote(X) else (X, answer.labels)
    prior, process, weights = answer.prior, answer.partition_prior, settings.weights
    joined = largest_first(resampling.labels)
    density = AveragedMixture.of(points, components[None], joined, [prior], 0.0, None, process.shift, weights)
    mixture = replace(mixture_of(points, joined, prior, process, settings, columns), averaged=density)
    labels = X.in_chunks(joined, answer.labels) if is_remote(X) else joined
    whole, best = resampling.sizes[0], max(resampling.sizes, key=lambda size: size.agreement)
    doubt = (
        f"the data do not quite follow the model: {whole.n_clusters} clusters are joined into {best.n_clusters}, which "
        f"fits to samples of {best.n_rows:,} rows reproduce better (adjusted Rand index {best.agreement:.3f}, against "
        f"{whole.agreement:.3f}); n_chains=1 leaves them apart"
    )
    return answer._replace(labels=labels, mixture=mixture, components=components, doubts=(doubt,))


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
