"""The model of a fit: the prior that was asked for, or the family's default, and which covariances it has.

Which covariances suit the data is asked of the data: short chains with each kind, on a sample, and how probable the
mixture that they end with makes it. All are densities of the same points, so the numbers can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families import FAMILIES, family_named
from dpmmwrap.families.base import Family, LearnedPrior, Points
from dpmmwrap.families.learned import defaults
from dpmmwrap.families.learned.ties import spread_ties, tied_steps
from dpmmwrap.model.data_prior import DataPrior, is_default, is_given
from dpmmwrap.model.inputs import Read
from dpmmwrap.numerics.arrays import FloatArray
from dpmmwrap.numerics.cells import is_remote, kmeans_bins
from dpmmwrap.partitions import DirichletProcess, PartitionPrior
from dpmmwrap.sampler.settings import Result, Settings
from dpmmwrap.starts import make_initializer

SHORT_CHAIN, SHORT_SAMPLE = 30, 3000
"""Iterations and points of a chain that only compares."""
CLUSTERS = 20
"""In many dimensions full covariances are tried only where so many clusters would have more points than dimensions."""
LARGEST_FULL_DIM = 200
"""Beyond, they are not tried at all: an iteration would take seconds."""


class Choice(NamedTuple):
    """The points and the prior of a fit, and what there is to say about them."""

    read: Read
    prior: Any
    reason: str
    """Why the covariances are full, diagonal or spherical."""
    notes: tuple[str, ...] = ()
    hyperprior: LearnedPrior | None = None
    """The distribution of a default prior of numeric columns; None of other priors."""
    n_cells: int | None = None
    """k-means cells that chains may begin with; None where they are not known."""
    cells_are_better: Callable[[], bool] = lambda: False
    """Whether a short chain that begins with them finds more than one from a single cluster; it is run when asked."""


class ModelOptions(NamedTuple):
    """What the user says of the model."""

    prior: Any = None
    family: str = FAMILIES[0]
    covariance_type: str = "auto"
    partition_prior: PartitionPrior = DirichletProcess()
    exposure: int | None = None
    """The place of the column of exposures."""

    @property
    def fixed(self) -> defaults.Fixed:
        """The hyperparameters that are not learned."""
        if not isinstance(self.prior, DataPrior):
            return defaults.Fixed()
        values = (self.prior.kappa, self.prior.width, self.prior.strength)
        return defaults.Fixed(*(None if isinstance(value, str) else float(value) for value in values))


def choose_model(options: ModelOptions, read: Read, only_full: bool = False) -> Choice:
    """The prior that was asked for, in the coordinates of the points, or the default of the family.

    With `only_full`, for a sampler that knows no others, covariances are full.
    """
    prior, family = options.prior, family_named(options.family)
    if isinstance(prior, DataPrior) and not family.learned:
        raise ValueError(f"a DataPrior is for numeric columns, and the family {family.name} has counts")
    if is_given(prior):
        checked = own_prior(prior, family, options, read.points)
        return Choice(read, checked.shifted(read.offset), "the prior is given")
    if not is_default(prior) and prior != "reference":
        raise ValueError(f"prior should be data, reference or a prior such as NIW, not {prior!r}")
    if isinstance(prior, str) and prior == "reference":
        if not family.reference or options.covariance_type not in ("auto", family.kinds[0]):
            raise ValueError("the reference prior is for full covariances")
        reference = family.prior_class().reference(read.points.shape[1]).shifted(read.offset)
        return Choice(read, reference, "the reference prior has full covariances")
    if not family.learned:
        exposure = {} if options.exposure is None else {"exposure": options.exposure}
        return Choice(read, family.prior_class().from_data(read.points, **exposure), family.reason)
    if family.mixes:
        return table_model(read, family, options)
    return numeric_model(read, family, options, only_full)


def own_prior(prior: Any, family: Family, options: ModelOptions, points: Any) -> Any:
    """A prior of the user's own, if it fits the data and the rest of the settings."""
    own, covariance_type = getattr(prior, "family", None), options.covariance_type
    if own not in family.kinds or covariance_type not in ("auto", own):
        wanted = family.name if covariance_type == "auto" else f"{family.name}, {covariance_type}"
        raise ValueError(f"prior should be data, reference, or a prior of the family {wanted}, not {own or prior!r}")
    if prior.dim != points.shape[1]:
        raise ValueError(f"the prior has {prior.dim} dimensions, but the data have {points.shape[1]}")
    if options.exposure is not None and options.exposure != prior.exposure:
        raise ValueError(f"the prior's exposure is the column {prior.exposure}, but exposure is {options.exposure}")
    return prior


def table_model(read: Read, family: Family, options: ModelOptions) -> Choice:
    """A table: numeric columns by how wide cells are, categorical ones by their levels."""
    assert read.columns is not None
    made = family.prior_class()
    if not read.points.numeric.shape[1]:
        return Choice(read, made.of_columns(read.columns, None), family.reason)
    numeric, scale, notes = without_ties(read.points.numeric)
    read = read._replace(points=type(read.points)(numeric, read.points.codes))
    choice = learned(read, scale, made.numeric_kind, options, family.reason, notes)
    assert choice.hyperprior is not None
    return choice._replace(
        prior=made.of_columns(read.columns, choice.prior), hyperprior=made.learned(choice.hyperprior)
    )


def numeric_model(read: Read, family: Family, options: ModelOptions, only_full: bool) -> Choice:
    points, scale, notes = without_ties(read.points)
    read = read._replace(points=points)
    if only_full:
        return learned(read, scale, family.julia[0], options, "Julia's sampler has full covariances", notes)
    if options.covariance_type != "auto":
        chosen = Covariances(options.covariance_type, "it was asked for")
    else:
        chosen = choose_covariances(points, scale, read.n_missing, family, options)

    def cells_are_better() -> bool:
        return (chosen.run or short_run(points, scale, chosen.kind, options)).cells_were_better

    choice = learned(read, scale, chosen.kind, options, chosen.reason, notes)
    return choice._replace(n_cells=scale.start(chosen.kind, options.fixed).n_cells, cells_are_better=cells_are_better)


def learned(
    read: Read, scale: defaults.DataScale, kind: str, options: ModelOptions, reason: str, notes: tuple[str, ...]
) -> Choice:
    """A default prior to begin with, and the distribution from which it is learned."""
    prior, hyperprior, _ = scale.start(kind, options.fixed)
    return Choice(read, prior, reason, notes, hyperprior)


def without_ties(points: Any) -> tuple[Any, defaults.DataScale, tuple[str, ...]]:
    """The points, with columns of few values spread over their steps; their scale; and what was done."""
    scale, steps = defaults.DataScale(points), tied_steps(points)
    steps[steps**2 <= scale.within_at_least(defaults.DOZEN)] = 0.0
    if not steps.any():
        return points, scale, ()
    points = points.spread(steps) if is_remote(points) else spread_ties(points, steps)
    note = (
        f"{(steps > 0).sum()} of {len(steps)} columns take few values: noise of half a step was added to them, "
        "so that no cluster has a width of zero"
    )
    return points, defaults.DataScale(points), (note,)


class Covariances(NamedTuple):
    """The kind of covariances of a fit, and why."""

    kind: str
    reason: str
    run: ShortRun | None = None
    """None where there was nothing to compare."""


def choose_covariances(
    points: FloatArray, scale: defaults.DataScale, n_missing: int, family: Family, options: ModelOptions
) -> Covariances:
    """Full, diagonal or spherical covariances, by the evidence of what short chains find, and why."""
    (full, diagonal, *simpler), dim = family.kinds, scale.dim
    many = family.prior_class(full).is_costly(dim)
    if n_missing:
        return Covariances(diagonal, "values are missing, which full covariances do not allow")
    if dim == 1:
        return Covariances(full, "with one feature all are the same")
    if dim > LARGEST_FULL_DIM or (many and len(points) < dim * CLUSTERS):
        few = f"{len(points):,} points are too few" if dim <= LARGEST_FULL_DIM else "it takes too long"
        return Covariances(diagonal, f"with {dim} features {few} for full covariances")
    kinds = (full, diagonal) if many else (full, diagonal, *simpler)
    runs = [short_run(points, scale, kind, options) for kind in kinds]
    best, second, *_ = sorted(runs, key=lambda run: -run.log_evidence)
    gain = f"{best.log_evidence - second.log_evidence:,.0f} nats in short chains"
    return Covariances(best.kind, f"they make the data more probable than {second.kind} ones, by {gain}", best)


class ShortRun(NamedTuple):
    """What short chains have found with one kind of covariances."""

    kind: str
    log_evidence: float
    cells_were_better: bool


def short_run(points: FloatArray, scale: defaults.DataScale, kind: str, options: ModelOptions) -> ShortRun:
    """Run short chains on a sample, from one cluster and from cells, and see how probable the mixture that they end
    with makes it, each under the prior that is most probable for its own clusters."""
    from dpmmwrap.sampler.evidence import log_evidence_of

    if len(points) > SHORT_SAMPLE:
        rows = np.sort(np.random.default_rng(0).choice(len(points), SHORT_SAMPLE, replace=False))
        points = np.ascontiguousarray(points[rows])
    elif is_remote(points):
        points = points[np.arange(len(points))]
    # Where values recur a density has no bound, and one kind of covariances may be closer to that than another.
    points = spread_ties(points, tied_steps(points))
    prior, hyperprior, n_cells = scale.start(kind, options.fixed)
    settings = Settings(
        options.partition_prior, prior, hyperprior=hyperprior,
        initializer=make_initializer("kmeans"), max_iter=SHORT_CHAIN, min_cluster_age=3, seed=0, restart_after=10,
        n_chains=1 if prior.is_costly(scale.dim) else 2,
        other_starts=(kmeans_bins(points, n_cells, seed=0),),
    )  # fmt: skip
    result = short_chains(points, settings)
    evidences = [log_evidence_of(one, points, settings) for one in result.candidates]
    return ShortRun(kind, max(evidences), bool(np.argmax(evidences) == 1))


def short_chains(points: Points, settings: Settings) -> Result:
    """What chains find that only compare: after Ctrl-C there is nothing to compare."""
    from dpmmwrap.backends.native import NativeBackend

    result = NativeBackend().fit(points, settings)
    if result.interrupted:
        raise KeyboardInterrupt
    return result
