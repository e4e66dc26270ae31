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
    return Needs(
        **likelihood(model),
        sparse=issparse(read.points),
        sampling=model.n_draws > 0 or model.n_chains not in ("auto", 1),
        to_learn=what_to_learn(model, read),
        remote=is_remote(read.points),
        partition_prior=partition_prior(model.partition_prior, model.alpha).name,
        weights=read.weights is not None,
        missing=read.n_missing > 0,
    )


def what_to_learn(model: DPMM, read: FitData) -> str | None:
    """What only the built-in sampler can choose for "auto" settings, as a clause; None for nothing."""
    families = families_of(model.family, model.tails)
    if families[0].reference and is_default(model.prior):
        if len(families) > 1:
            return "tails are to be chosen"
        if model.covariance_type == "auto":
            return "the covariance type is to be chosen"
        if learned_names(model.prior):
            return "the prior is to be learned"
    if model.n_chains == "auto" and chain_count("auto", 0, *read.points.shape) > 1:
        return "several chains are to be compared (n_chains)"
    return None


def likelihood(model: DPMM) -> dict[str, Any]:
    """The family or its kind, and whether Julia supports it."""
    family, *others = families_of(model.family, model.tails)
    kind = getattr(model.prior, "family", family.kind_of(model.covariance_type))
    known = kind in family.julia and not others
    if others:
        return {"family": " or ".join(one.name for one in (family, *others)), "julia": known}
    return {"family": family.name if known or len(family.kinds) == 1 else kind, "julia": known}


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
    reference_length = is_plain_reference(backend) and model.max_iter == "auto"
    return Settings(
        partition_prior_of(model, backend),
        choice.prior,
        # Julia's sampler learns no prior.
        hyperprior=None if backend.name == "julia" else choice.hyperprior,
        initializer=initializer,
        **search_length(JULIA_ITERATIONS if reference_length else model.max_iter),
        seed=seed,
        **starts_of(model, choice, seed, backend),
        max_clusters=model.max_clusters,
        outlier_weight=float(model.outlier_weight),
        outlier_prior=outlier_prior_of(model, choice),
        n_chains=n_chains_of(model, choice, backend),
        n_draws=int(model.n_draws),
        thin=int(model.thin),
        keep_labels=model.loss is not None,
        weights=choice.read.weights,
        truth=None if truth is None else choice.read.labels(truth, "truth"),
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


def n_chains_of(model: DPMM, choice: Choice, backend: Auto) -> int:
    rows, columns = choice.read.points.shape
    # Half a matrix for each point, in matrix products, which take half as long as other work for a number.
    size = columns**2 // 4 if choice.prior.is_costly(columns) else columns
    return 1 if backend.name == "julia" else chain_count(model.n_chains, model.n_draws, rows, size)


def starts_of(model: DPMM, choice: Choice, seed: int, backend: Auto) -> dict[str, Any]:
    """Where chains begin. By default, several chains begin in turn with one cluster, k-means cells, one cluster, and
    many small cells; a single chain with one cluster or k-means cells, whichever is better in short chains."""
    points = choice.read.points
    first = first_clusters(model, choice, seed, backend.ratio)
    by_default = isinstance(model.init_clusters, str) and model.init_clusters == "auto"
    if not by_default or choice.n_cells is None or not isinstance(first, int):
        return {"init_clusters": first}
    # Outliers would get cells of their own and keep them.
    if model.outlier_weight > 0 or choice.n_cells > (model.max_clusters or choice.n_cells):
        return {"init_clusters": first}
    several = n_chains_of(model, choice, backend) > 1
    if not several and not choice.cells_are_better():
        return {"init_clusters": first}
    cells = kmeans_cells(points, choice.n_cells, seed=0)
    if not several:
        return {"init_clusters": cells}
    return {"init_clusters": first, "other_starts": (cells, small_cells(choice, seed))}


def small_cells(choice: Choice, seed: int) -> Any:
    """The label of each point in many small cells."""
    X, prior = choice.read.points, choice.prior
    return many_clusters(X, seed, prior.embedder(X), prior.rows_per_cluster(X.shape[1]))


def first_clusters(model: DPMM, choice: Choice, seed: int, ratio: str) -> Any:
    first, X = model.init_clusters, choice.read.points
    if isinstance(first, str):
        if first not in ("auto", "many"):
            raise ValueError(f"init_clusters should be auto, many, a number or an array of labels, not {first!r}")
        splits_suffice = ratio in FULL_RATIOS and not choice.prior.is_wide(X)
        return 1 if first == "auto" and splits_suffice else small_cells(choice, seed)
    if isinstance(first, numbers.Integral):
        check_value("init_clusters", first, [at_least(1)])
        return min(int(first), int(X.shape[0]))
    return choice.read.labels(first, "init_clusters")


def outlier_prior_of(model: DPMM, choice: Choice) -> Any:
    read, prior = choice.read, choice.prior
    if model.outlier_weight == 0:
        return None
    if model.outlier_prior is None:
        return prior.outliers(read.points[sample_rows(read.points.shape[0], 0)], read.points.shape[0])
    if type(model.outlier_prior) is not type(prior):
        raise ValueError(f"outlier_prior should be a {type(prior).__name__} like the prior")
    return model.outlier_prior.shifted(read.offset)
