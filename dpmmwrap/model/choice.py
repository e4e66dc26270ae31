"""The model of a fit: the prior that was asked for, or the family's default, and which covariances it has.

Which covariances suit the data is asked of the data: short chains with each kind, on a sample, and how probable the
mixture that they end with makes it. All are densities of the same points, so the numbers can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families import FAMILIES, TAILS, families_of, prior_named
from dpmmwrap.families.base import Family, Points
from dpmmwrap.families.learned import defaults
from dpmmwrap.families.learned.base import LearnedPrior
from dpmmwrap.families.learned.ties import spread_ties, tied_steps
from dpmmwrap.model.data_prior import DataPrior, is_default, is_given
from dpmmwrap.model.directions import Clustering, Found, Kind, find_subspace
from dpmmwrap.model.inputs import FitData
from dpmmwrap.model.subspace import Subspace
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.numerics.cells import is_remote
from dpmmwrap.numerics.weights import rows_by_weight
from dpmmwrap.partitions import DirichletProcess, PartitionPrior
from dpmmwrap.sampler.proposals import NearPairs
from dpmmwrap.sampler.settings import Result, Settings
from dpmmwrap.starts import make_initializer

SHORT_CHAIN, SHORT_SAMPLE = 30, 3000
"""Iterations and points of a chain that only compares."""
CLUSTERS = 20
"""In many dimensions full covariances are tried only where so many clusters would have more points than dimensions."""
LARGEST_FULL_DIM = 200
"""Beyond, they are not tried at all: an iteration would take seconds."""


WEIGHTED_SAMPLE = 10_000
"""Rows, each as often as its weight says, from which the default prior of counts is made."""


class Choice(NamedTuple):
    """The points and the prior of a fit, and what there is to say about them."""

    read: FitData
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
    subspace: Subspace | None = None
    """What the points were projected on."""
    log_noise: float = 0.0
    """The mean log density of what that leaves out."""
    steps: Float64Array | None = None
    """Of the columns over whose steps points were spread; None for none."""


class ModelOptions(NamedTuple):
    """What the user says of the model."""

    prior: Any = None
    family: str = FAMILIES[0]
    covariance_type: str = "auto"
    partition_prior: PartitionPrior = DirichletProcess()
    exposure: int | None = None
    """The place of the column of exposures."""
    subspace: int | str | None = "auto"
    """Dimensions of the subspace that clusters share; "auto" for what evidence says, None for none."""
    tails: str = TAILS[0]

    @property
    def fixed(self) -> defaults.FixedHyperparameters:
        """The hyperparameters that are not learned."""
        if not isinstance(self.prior, DataPrior):
            return defaults.FixedHyperparameters()
        values = (self.prior.kappa, self.prior.width, self.prior.strength)
        return defaults.FixedHyperparameters(*(None if isinstance(value, str) else float(value) for value in values))


def choose_model(options: ModelOptions, read: FitData, only_full: bool = False) -> Choice:
    """The prior that was asked for, in the coordinates of the points, or the default of the family.

    With `only_full`, for a sampler that knows no others, covariances are full.
    """
    prior, families = options.prior, families_of(options.family, options.tails)
    family = families[0]
    for one in families:
        check_rows(one, read)
    check_subspace(options, families, read)
    if isinstance(prior, DataPrior) and not family.learned:
        raise ValueError(f"a DataPrior is for numeric columns, and the family {family.name} has counts")
    if is_given(prior):
        checked = own_prior(prior, families, options, read.points)
        return Choice(read, checked.shifted(read.offset), "the prior is given")
    if not is_default(prior) and prior != "reference":
        raise ValueError(f"prior should be data, reference or a prior such as NIW, not {prior!r}")
    if isinstance(prior, str) and prior == "reference":
        if not families[-1].reference or options.covariance_type not in ("auto", family.kinds[0]):
            raise ValueError("the reference prior is for full covariances")
        reference = family.prior_class().reference(read.points.shape[1]).shifted(read.offset)
        return Choice(read, reference, "the reference prior has full covariances")
    if not family.learned:
        exposure = {} if options.exposure is None else {"exposure": options.exposure}
        points = read.points if read.weights is None else read.points[rows_by_weight(read.weights, WEIGHTED_SAMPLE)]
        return Choice(read, family.prior_class().from_data(points, **exposure), family.reason)
    if family.mixes:
        return table_model(read, family, options)
    return numeric_model(read, families, options, only_full)


def check_rows(family: Family, read: FitData) -> None:
    """Refuse weights and missing values where the family does not take them."""
    if read.weights is not None and not family.weighted:
        raise ValueError(f"the family {family.name} takes no weights: leave out sample_weight, or the family")
    if read.n_missing and not family.gaps:
        raise ValueError(f"the family {family.name} needs every value: leave out the rows with gaps, or the family")


def check_subspace(options: ModelOptions, families: tuple[Family, ...], read: FitData) -> None:
    """Refuse a number of dimensions where there can be no subspace."""
    size, family = options.subspace, families[-1]
    if size is None or isinstance(size, str):
        return
    if (
        not family.reference
        or not is_default(options.prior)
        or options.covariance_type not in ("auto", *kinds_in_subspace(family))
    ):
        raise ValueError("a subspace is for Gaussian clusters with full or diagonal covariances and the default prior")
    if is_remote(read.points):
        raise ValueError("a subspace needs the data on one machine: project them first, or leave subspace out")
    if read.n_missing:
        raise ValueError("a subspace needs every value: leave out the rows with gaps, or leave subspace out")
    if read.weights is not None:
        raise ValueError("a subspace takes no weights: leave out sample_weight, or leave subspace out")
    if size > read.points.shape[1]:
        raise ValueError(f"a subspace of {size} dimensions needs as many features, not {read.points.shape[1]}")


def own_prior(prior: Any, families: tuple[Family, ...], options: ModelOptions, points: Any) -> Any:
    """A prior of the user's own, if it fits the data and the rest of the settings."""
    own, covariance_type = getattr(prior, "family", None), options.covariance_type
    kinds = [kind for family in families for kind in family.kinds]
    if covariance_type != "auto":
        kinds = [family.kind_of(covariance_type) for family in families]
    if own not in kinds:
        wanted = " or ".join(family.name for family in families)
        wanted = wanted if covariance_type == "auto" else f"{wanted}, {covariance_type}"
        raise ValueError(f"prior should be data, reference, or a prior of the family {wanted}, not {own or prior!r}")
    if prior.dim != points.shape[1]:
        raise ValueError(f"the prior has {prior.dim} dimensions, but the data have {points.shape[1]}")
    if options.exposure is not None and options.exposure != prior.exposure:
        raise ValueError(f"the prior's exposure is the column {prior.exposure}, but exposure is {options.exposure}")
    return prior


def table_model(read: FitData, family: Family, options: ModelOptions) -> Choice:
    """A table: numeric columns by how wide cells are, categorical ones by their levels."""
    assert read.columns is not None
    made = family.prior_class()
    if not read.points.numeric.shape[1]:
        return Choice(read, made.of_columns(read.columns, None), family.reason)
    numeric, scale, notes, steps = without_ties(read.points.numeric, read.weights)
    read = read._replace(points=type(read.points)(numeric, read.points.codes))
    choice = learned(read, scale, made.numeric_kind, options, family.reason, notes)
    assert choice.hyperprior is not None
    return choice._replace(
        prior=made.of_columns(read.columns, choice.prior), hyperprior=made.learned(choice.hyperprior), steps=steps
    )


def numeric_model(read: FitData, families: tuple[Family, ...], options: ModelOptions, only_full: bool) -> Choice:
    family = families[0]
    points, scale, notes, steps = without_ties(read.points, read.weights)
    read = read._replace(points=points)
    if isinstance(options.subspace, int):
        chosen = in_subspace(subspace_of(read, family, options, options.subspace), "a subspace was asked for")
    elif only_full:
        julia = learned(read, scale, family.julia[0], options, "Julia's sampler has full covariances", notes)
        return julia._replace(steps=steps)
    elif options.covariance_type != "auto" and len(families) == 1:
        chosen = Covariances(family.kind_of(options.covariance_type), "it was asked for")
    else:
        chosen = choose_covariances(read, scale, families, options)
    log_noise = 0.0
    if chosen.subspace is not None:
        log_noise = chosen.subspace.mean_log_noise(points)
        read = read._replace(points=chosen.subspace.points(points))
        scale = defaults.DataScale(read.points)

    def cells_are_better() -> bool:
        sample = compared(read)
        run = chosen.run or better_run(sample, scale, chosen.kind, options)
        if run.compared_starts:
            return run.from_cells
        return run.log_evidence > short_run(sample, scale, chosen.kind, options, from_cells=False).log_evidence

    choice = learned(read, scale, chosen.kind, options, chosen.reason, notes)
    return choice._replace(
        n_cells=scale.start(chosen.kind, options.fixed).n_cells,
        cells_are_better=cells_are_better,
        subspace=chosen.subspace,
        log_noise=log_noise,
        steps=steps,
    )


def learned(
    read: FitData, scale: defaults.DataScale, kind: str, options: ModelOptions, reason: str, notes: tuple[str, ...]
) -> Choice:
    """A default prior to begin with, and the distribution from which it is learned."""
    prior, hyperprior, _ = scale.start(kind, options.fixed)
    return Choice(read, prior, reason, notes, hyperprior)


class WithoutTies(NamedTuple):
    """The points, with columns of few values spread over their steps; their scale; and what was done."""

    points: Any
    scale: defaults.DataScale
    notes: tuple[str, ...] = ()
    steps: Float64Array | None = None


def without_ties(points: Any, weights: Any) -> WithoutTies:
    """Spread columns of few values over their steps."""
    scale, steps = defaults.DataScale(points, weights), tied_steps(points)
    steps[steps**2 <= scale.within_at_least(defaults.DOZEN)] = 0.0
    if not steps.any():
        return WithoutTies(points, scale)
    points = points.spread(steps) if is_remote(points) else spread_ties(points, steps)
    few = int((steps > 0).sum())
    verb, them = ("takes", "it") if few == 1 else ("take", "them")
    note = (
        f"{few} of the {len(steps)} columns in use {verb} few values: noise of half a step was added to {them}, so "
        "that no cluster has a width of zero"
    )
    return WithoutTies(points, defaults.DataScale(points, weights), (note,), steps)


class Covariances(NamedTuple):
    """The kind of covariances of a fit, and why."""

    kind: str
    reason: str
    run: ShortRun | None = None
    """None where there was nothing to compare."""
    subspace: Subspace | None = None


def choose_covariances(
    read: FitData, scale: defaults.DataScale, families: tuple[Family, ...], options: ModelOptions
) -> Covariances:
    """Full, diagonal or spherical covariances, or those of a subspace, with tails or without, by the evidence of what
    short chains find, and why."""
    points, family = read.points, families[0]
    (full, diagonal, *simpler), dim = family.kinds, scale.dim
    many = family.prior_class(full).is_costly(dim)
    if read.n_missing and (is_remote(points) or read.weights is not None):
        where = "on Dask" if is_remote(points) else "with weights"
        return Covariances(diagonal, f"values are missing, which full covariances do not allow {where}")
    if dim == 1 and len(families) == 1:
        return Covariances(full, "with one feature all are the same")
    simple = not (read.n_missing or is_remote(points) or read.weights is not None)
    by_type = options.covariance_type != "auto"
    projects = many and options.subspace == "auto" and simple and family.reference and not by_type
    too_many = dim > LARGEST_FULL_DIM or (many and len(points) < dim * CLUSTERS)
    if too_many and not projects and len(families) == 1:
        few = f"{len(points):,} points are too few" if dim <= LARGEST_FULL_DIM else "it takes too long"
        return Covariances(diagonal, f"with {dim} features {few} for full covariances")
    kinds = (diagonal,) if too_many else (full, diagonal) if many else (full, diagonal, *simpler)
    if by_type or dim == 1:
        kinds = (family.kind_of(options.covariance_type),)
    kinds = tuple(one.kinds[family.kinds.index(kind)] for one in families for kind in kinds)
    sample = compared(read)
    if many or len(points) <= SHORT_SAMPLE:
        runs = [better_run(sample, scale, kind, options) for kind in kinds]
    else:
        # Among many points one start tells kinds apart: on the ledger's sets the other one never changed the choice.
        runs = [short_run(sample, scale, kind, options, from_cells=True) for kind in kinds]
    best, *others = sorted(runs, key=lambda run: -run.log_evidence)
    if projects:
        found = subspace_of(read, family, options)
        if found.log_evidence > best.log_evidence:
            than = told_gain(best.called, found.log_evidence - best.log_evidence)
            return in_subspace(found, f"in a subspace {than}")
        others.append(ShortRun(f"{found.kind.name} ones in a subspace", found.log_evidence, False, found.labels))
    chose_tails = len(families) > 1 and best.kind in families[1].kinds
    # What speaks for tails is what Gaussians of any type lack.
    rest = [run for run in others if not chose_tails or run.kind not in families[1].kinds]
    second = max(rest, key=lambda run: run.log_evidence)
    gain = told_gain(second.called, best.log_evidence - second.log_evidence)
    return Covariances(best.kind, f"with tails {gain}" if chose_tails else gain, best)


def told_gain(others: str, gain: float) -> str:
    told = "less than a nat" if gain < 1 else f"{gain:,.0f} nats" if gain >= 10 else f"{gain:.1f} nats"
    return f"they make the data more probable than {others}, by {told} in short chains"


def in_subspace(found: Found, reason: str) -> Covariances:
    kind = found.kind.name
    run = ShortRun(kind, found.log_evidence, found.cells_were_better, found.labels, compared_starts=True)
    return Covariances(kind, reason, run, found.subspace)


def subspace_of(read: FitData, family: Family, options: ModelOptions, size: int | None = None) -> Found:
    """The subspace of so many dimensions, or of as many as evidence says."""
    asked = options.covariance_type
    kinds = kinds_in_subspace(family) if asked == "auto" else (asked,)
    points = compared(read).points.astype(np.float64)
    return find_subspace(points, [kind_in_subspace(kind, options) for kind in kinds], size)


def kinds_in_subspace(family: Family) -> tuple[str, ...]:
    """Covariances that do not depend on the units of directions: those of principal components mean nothing."""
    return family.kinds[:2]


def kind_in_subspace(kind: str, options: ModelOptions) -> Kind:
    from dpmmwrap.sampler.evidence import log_evidence_at_best

    def cluster(projected: FloatArray) -> Clustering:
        run = better_run(Compared(projected, None), defaults.DataScale(projected), kind, options)
        return Clustering(run.labels, run.log_evidence, run.from_cells)

    def log_evidence(projected: FloatArray, labels: IntArray) -> float:
        prior, hyperprior, _ = defaults.DataScale(projected).start(kind, options.fixed)
        return log_evidence_at_best(prior, hyperprior, projected, labels, options.partition_prior)

    return Kind(kind, cluster, log_evidence)


class ShortRun(NamedTuple):
    """What a short chain has found with one kind of covariances."""

    kind: str
    log_evidence: float
    from_cells: bool
    """Whether it began with cells, and not with one cluster."""
    labels: IntArray
    compared_starts: bool = False
    """Whether it is the better one of both."""

    @property
    def called(self) -> str:
        """Its covariances in words."""
        if self.kind.endswith("subspace"):
            return self.kind
        prior = prior_named(self.kind)
        return f"{getattr(prior, 'numeric_kind', self.kind)} {prior.ones}"


@dataclass(frozen=True, eq=False)
class Compared:
    """The points by which kinds of covariances are compared."""

    points: FloatArray
    weights: Float64Array | None
    near: NearPairs = field(default_factory=NearPairs)
    """Shared by the chains of all kinds."""


def compared(read: FitData) -> Compared:
    points, weights = read.points, read.weights
    if len(points) > SHORT_SAMPLE:
        rows = np.sort(np.random.default_rng(0).choice(len(points), SHORT_SAMPLE, replace=False))
        points = np.ascontiguousarray(points[rows])
        weights = None if weights is None else weights[rows]
    elif is_remote(points):
        points = points[np.arange(len(points))]
    # Where values recur a density has no bound, and one kind of covariances may be closer to that than another.
    return Compared(np.asarray(spread_ties(points, tied_steps(points))), weights)


def short_run(
    sample: Compared, scale: defaults.DataScale, kind: str, options: ModelOptions, from_cells: bool
) -> ShortRun:
    """Run a short chain on a sample, from cells or from one cluster, and see how probable the mixture that it ends with
    makes it, under the prior that is most probable for its own clusters."""
    from dpmmwrap.sampler.evidence import log_evidence_of

    points, (prior, hyperprior, n_cells) = sample.points, scale.start(kind, options.fixed)
    settings = Settings(
        options.partition_prior, prior, hyperprior=hyperprior,
        initializer=make_initializer("kmeans"), max_iter=SHORT_CHAIN, min_cluster_age=3, seed=0, restart_after=10,
        init_clusters=scale.cut(points, n_cells or 1) if from_cells else 1, weights=sample.weights, near=sample.near,
    )  # fmt: skip
    (best,) = short_chains(points, settings).candidates
    return ShortRun(kind, log_evidence_of(best, points, settings), from_cells, best.labels)


def better_run(sample: Compared, scale: defaults.DataScale, kind: str, options: ModelOptions) -> ShortRun:
    """The better of two short chains, from one cluster and from cells; where a chain takes long, only the former."""
    costly = prior_named(kind).is_costly(scale.dim)
    runs = [short_run(sample, scale, kind, options, cells) for cells in ((False,) if costly else (False, True))]
    return max(runs, key=lambda run: run.log_evidence)._replace(compared_starts=True)


def short_chains(points: Points, settings: Settings) -> Result:
    """What chains find that only compare: after Ctrl-C there is nothing to compare."""
    from dpmmwrap.backends.native import NativeBackend

    result = NativeBackend().fit(points, settings)
    if result.interrupted:
        raise KeyboardInterrupt
    return result
