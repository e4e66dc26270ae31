"""The attributes of a fitted estimator."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from dpmmwrap.backends.choosing import BackendChoice
from dpmmwrap.mixture import Mixture
from dpmmwrap.model.choice import Choice
from dpmmwrap.model.estimator_parameters import LOSSES
from dpmmwrap.model.memory import Memory, digest_of
from dpmmwrap.numerics.cells import is_remote
from dpmmwrap.posterior.answer import answer_of, kept_rows, sample_of
from dpmmwrap.posterior.resampling import Resampling
from dpmmwrap.sampler.settings import Result, Settings
from dpmmwrap.sampler.stopping import stopped_by

if TYPE_CHECKING:
    from dpmmwrap.estimator import DPMM


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
