"""The settings of a run, from the parameters of an estimator and the model of its data."""

from __future__ import annotations

import numbers
from typing import TYPE_CHECKING, Any

from scipy.sparse import issparse

from dpmmwrap.backends import Auto
from dpmmwrap.backends.choosing import Needs
from dpmmwrap.families import families_of, family_of
from dpmmwrap.model.choice import Choice
from dpmmwrap.model.data_prior import is_default, learned_names
from dpmmwrap.model.inputs import FitData
from dpmmwrap.model.parameters import at_least, check_value
from dpmmwrap.model.warning import warn_caller
from dpmmwrap.numerics.cells import is_remote, kmeans_cells, many_clusters, sample_rows
from dpmmwrap.partitions import PartitionPrior, partition_prior
from dpmmwrap.sampler.settings import FULL_RATIOS, Progress, Settings, chain_count, search_length
from dpmmwrap.starts import Initializer, NetworkUnavailable, check_torch, make_initializer

if TYPE_CHECKING:
    from dpmmwrap.estimator import DPMM

JULIA_ALPHA, JULIA_ITERATIONS = 10.0, 100
"""The defaults of the reference package. With its own ratio it neither learns its concentration nor when to stop."""


def needs_of(model: DPMM, read: FitData) -> Needs:
    """What the fit needs of a backend."""
    family, *others = families_of(model.family, model.tails)
    kind = getattr(model.prior, "family", family.kind_of(model.covariance_type))
    julia = kind in family.julia and not others
    if others:
        name = " or ".join(one.name for one in (family, *others))
    else:
        name = family.name if julia or len(family.kinds) == 1 else kind
    # What only the built-in sampler can choose for "auto" settings.
    to_learn = None
    if family.reference and is_default(model.prior):
        if others:
            to_learn = "tails are to be chosen"
        elif model.covariance_type == "auto":
            to_learn = "the covariance type is to be chosen"
        elif learned_names(model.prior):
            to_learn = "the prior is to be learned"
    if to_learn is None and model.n_chains == "auto" and chain_count("auto", 0, *read.points.shape) > 1:
        to_learn = "several chains are to be compared (n_chains)"
    return Needs(
        family=name,
        julia=julia,
        sparse=issparse(read.points),
        sampling=model.n_draws > 0 or model.n_chains not in ("auto", 1),
        to_learn=to_learn,
        remote=is_remote(read.points),
        partition_prior=partition_prior(model.partition_prior, model.alpha).name,
        weights=read.weights is not None,
        missing=read.n_missing > 0,
    )


def loops_of(model: DPMM, read: FitData) -> tuple[str, ...]:
    """The kinds of compiled loops that a fit may need."""
    kind = getattr(model.prior, "family", model.covariance_type)
    return tuple(
        loops
        for family in families_of(model.family, model.tails)
        for loops in family.examples().kinds_for(kind, read.points, read.n_missing > 0)
    )


def is_plain_reference(backend: Auto) -> bool:
    return backend.name == "julia" and backend.ratio not in FULL_RATIOS


def partition_prior_of(model: DPMM, backend: Auto) -> PartitionPrior:
    asked = partition_prior(model.partition_prior, model.alpha)
    if backend.ratio == "reference" and asked.name != "dirichlet":
        raise ValueError(f"the ratio reference is for the Dirichlet process, not for {asked.name}")
    return asked.at((JULIA_ALPHA,)).fixed() if asked.learned and is_plain_reference(backend) else asked


def run_settings(
    model: DPMM, choice: Choice, backend: Auto, initializer: Initializer, seed: int, truth: Any,
    progress: Progress | None,
) -> Settings:  # fmt: skip
    read, prior, outlier_prior = choice.read, choice.prior, None
    rows, columns = read.points.shape
    # Half a matrix for each point, in matrix products, which take half as long as other work for a number.
    size = columns**2 // 4 if prior.is_costly(columns) else columns
    n_chains = 1 if backend.name == "julia" else chain_count(model.n_chains, model.n_draws, rows, size)
    if model.outlier_weight > 0:
        if model.outlier_prior is None:
            outlier_prior = prior.outliers(read.points[sample_rows(rows, 0)], rows)
        elif type(model.outlier_prior) is type(prior):
            outlier_prior = model.outlier_prior.shifted(read.offset)
        else:
            raise ValueError(f"outlier_prior should be a {type(prior).__name__} like the prior")
    reference_length = is_plain_reference(backend) and model.max_iter == "auto"
    return Settings(
        partition_prior_of(model, backend),
        prior,
        # Julia's sampler learns no prior.
        hyperprior=None if backend.name == "julia" else choice.hyperprior,
        initializer=initializer,
        **search_length(JULIA_ITERATIONS if reference_length else model.max_iter),
        seed=seed,
        **starts_of(model, choice, seed, backend.ratio, n_chains),
        max_clusters=model.max_clusters,
        outlier_weight=float(model.outlier_weight),
        outlier_prior=outlier_prior,
        n_chains=n_chains,
        n_draws=int(model.n_draws),
        thin=int(model.thin),
        keep_labels=model.loss is not None,
        weights=read.weights,
        truth=None if truth is None else read.labels(truth, "truth"),
        progress=progress,
        **backend.settings(),
    )


def initializer_of(model: DPMM, prior: Any, backend: Auto) -> tuple[Initializer, list[str]]:
    """How subclusters begin, and a note if it is not what "auto" should be."""
    gaussian = family_of(prior.family).network
    start, notes = model.init, list[str]()
    if isinstance(start, str) and start == "auto":
        # With the whole Hastings ratio 2-means is as good; without it, it does not split crowds.
        full_ratio = backend.name != "julia" and backend.ratio in FULL_RATIOS
        start = "splitnet" if gaussian and not full_ratio else "kmeans"
        try:
            if start == "splitnet":
                check_torch()
        except NetworkUnavailable as problem:
            start, notes = "kmeans", [f"subclusters begin by 2-means: {problem}"]
            warn_caller(notes[0])
    if isinstance(start, str) and start == "splitnet" and not gaussian:
        raise ValueError(f"init splitnet is for Gaussian clusters; for the family {prior.family} use kmeans")
    model.init_ = start if isinstance(start, str) else type(start).__name__
    return make_initializer(start), notes


def starts_of(model: DPMM, choice: Choice, seed: int, ratio: str, n_chains: int) -> dict[str, Any]:
    """Where chains begin. By default, several chains begin in turn with one cluster, k-means cells, one cluster, and
    many small cells; a single chain with one cluster or k-means cells, whichever is better in short chains."""
    first, X, prior = model.init_clusters, choice.read.points, choice.prior

    def small_cells() -> Any:
        return many_clusters(X, seed, prior.embedder(X), prior.rows_per_cluster(X.shape[1]))

    if isinstance(first, numbers.Integral):
        check_value("init_clusters", first, [at_least(1)])
        return {"init_clusters": min(int(first), int(X.shape[0]))}
    if not isinstance(first, str):
        return {"init_clusters": choice.read.labels(first, "init_clusters")}
    if first not in ("auto", "many"):
        raise ValueError(f"init_clusters should be auto, many, a number or an array of labels, not {first!r}")
    if first == "many" or ratio not in FULL_RATIOS or prior.is_wide(X):
        return {"init_clusters": small_cells()}
    # Outliers would get cells of their own and keep them.
    cells, most = choice.n_cells, model.max_clusters
    if cells is None or model.outlier_weight > 0 or (most is not None and cells > most):
        return {"init_clusters": 1}
    if n_chains > 1:
        return {"init_clusters": 1, "other_starts": (kmeans_cells(X, cells, seed=0), small_cells())}
    return {"init_clusters": kmeans_cells(X, cells, seed=0) if choice.cells_are_better() else 1}
