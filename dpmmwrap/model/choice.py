"""The model of a fit: the given prior or the default one, and the type of its covariances.

The type is chosen by evidence: short chains with each type run on a sample of the points, and the best is the type
whose mixture makes the sample most probable. All are densities of the same points, so they can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families import families_of
from dpmmwrap.families.base import Family
from dpmmwrap.families.learned import defaults
from dpmmwrap.families.learned.base import LearnedPrior
from dpmmwrap.families.learned.ties import spread_ties, tied_steps
from dpmmwrap.model.data_prior import DataPrior, is_default, is_given
from dpmmwrap.model.directions import Kind, SubspaceRun, find_subspace
from dpmmwrap.model.estimator_parameters import EstimatorParameters
from dpmmwrap.model.inputs import FitData, exposure_column
from dpmmwrap.model.short_chains import SAMPLE, Sample, ShortRun, ShortRuns, sample_of
from dpmmwrap.model.subspace import Subspace
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray, evenly_spaced
from dpmmwrap.numerics.cells import is_remote
from dpmmwrap.numerics.weights import rows_by_weight
from dpmmwrap.partitions import PartitionPrior
from dpmmwrap.sampler.evidence import log_evidence_at_best

CLUSTERS = 20
"""In many dimensions, full covariances are tried only if this many clusters would have more points than dimensions."""
LARGEST_FULL_DIM = 200
"""Above, they are never tried: an iteration would take seconds."""
NOISE_NUMBERS = 10_000_000
"""The mean noise outside of a subspace is that of evenly spaced rows with at most this many numbers."""
WEIGHTED_SAMPLE = 10_000
"""Rows, repeated by their weights, from which the default prior of counts is made."""


class Choice(NamedTuple):
    """The points and the prior of a fit."""

    read: FitData
    prior: Any
    reason: str
    """Why the covariances have their type."""
    notes: tuple[str, ...] = ()
    hyperprior: LearnedPrior | None = None
    """The distribution of a default prior of numeric columns; None for other priors."""
    n_cells: int | None = None
    """The number of k-means cells that chains may begin with, if there is one."""
    cells_are_better: Callable[[], bool] = lambda: False
    """Whether short chains find more from these cells than from one cluster. They run when this is called."""
    subspace: Subspace | None = None
    """The subspace onto which the points were projected."""
    log_noise: float = 0.0
    """The mean log density outside of it."""
    steps: Float64Array | None = None
    """The steps of the columns to which noise was added; None for no noise."""


def choose_model(
    model: EstimatorParameters, read: FitData, partition_prior: PartitionPrior, only_full: bool = False
) -> Choice:
    """The given prior, in the coordinates of the points, or the family's default prior.

    With `only_full`, for Julia's sampler, covariances are full.
    """
    prior, families = model.prior, families_of(model.family, model.tails)
    family, exposure = families[0], exposure_column(model)
    for one in families:
        if read.weights is not None and not one.weighted:
            raise ValueError(f"the family {one.name} takes no weights: leave out sample_weight, or the family")
        if read.n_missing and not one.gaps:
            raise ValueError(f"the family {one.name} needs every value: leave out the rows with gaps, or the family")
    if model.subspace is not None and not isinstance(model.subspace, str):
        check_subspace(model, model.subspace, families[-1], read)
    if isinstance(prior, DataPrior) and not family.learned:
        raise ValueError(f"a DataPrior is for numeric columns, and the family {family.name} has counts")
    if is_given(prior):
        check_prior(prior, families, model.covariance_type, exposure, read.points.shape[1])
        return Choice(read, prior.shifted(read.offset), "the prior is given")
    if not is_default(prior) and prior != "reference":
        raise ValueError(f"prior should be data, reference or a prior such as NIW, not {prior!r}")
    if isinstance(prior, str) and prior == "reference":
        if not families[-1].reference or model.covariance_type not in ("auto", family.kinds[0]):
            raise ValueError("the reference prior is for full covariances")
        reference = family.prior_class().reference(read.points.shape[1]).shifted(read.offset)
        return Choice(read, reference, "the reference prior has full covariances")
    if not family.learned:
        of_exposure = {} if exposure is None else {"exposure": exposure}
        points = read.points if read.weights is None else read.points[rows_by_weight(read.weights, WEIGHTED_SAMPLE)]
        return Choice(read, family.prior_class().from_data(points, **of_exposure), family.reason)
    fixed = defaults.FixedHyperparameters(*(prior.fixed if isinstance(prior, DataPrior) else ()))
    if not family.mixes:
        return numeric_model(model, read, families, fixed, partition_prior, only_full)
    # The numeric columns of a mixed table have a learned prior.
    assert read.columns is not None
    made = family.prior_class()
    if not read.points.numeric.shape[1]:
        return Choice(read, made.of_columns(read.columns, None), family.reason)
    numeric, scale, notes, steps = without_ties(read.points.numeric, read.weights)
    read = read._replace(points=type(read.points)(numeric, read.points.codes))
    learned, hyperprior, _ = scale.start(made.numeric_kind, fixed)
    whole = made.of_columns(read.columns, learned)
    return Choice(read, whole, family.reason, notes, made.learned(hyperprior), steps=steps)


def check_subspace(model: EstimatorParameters, size: int, family: Family, read: FitData) -> None:
    """Refuse a number of dimensions if there can be no subspace."""
    types = ("auto", *kinds_in_subspace(family))
    if not family.reference or not is_default(model.prior) or model.covariance_type not in types:
        raise ValueError("a subspace is for Gaussian clusters with full or diagonal covariances and the default prior")
    if is_remote(read.points):
        raise ValueError("a subspace needs the data on one machine: project them first, or leave subspace out")
    if read.n_missing:
        raise ValueError("a subspace needs every value: leave out the rows with gaps, or leave subspace out")
    if read.weights is not None:
        raise ValueError("a subspace takes no weights: leave out sample_weight, or leave subspace out")
    if size > read.points.shape[1]:
        raise ValueError(f"a subspace of {size} dimensions needs as many features, not {read.points.shape[1]}")
    if is_constant(read.points):
        raise ValueError("a subspace needs rows that differ: every column is constant")


def is_constant(points: Any) -> bool:
    """Whether all rows are the same. Constant columns are left out unless there are no others."""
    return not np.ptp(points[:, 0])


def check_prior(prior: Any, families: tuple[Family, ...], covariance_type: str, exposure: int | None, dim: int) -> None:
    """Refuse a given prior that does not fit the data or the other settings."""
    kind = getattr(prior, "family", None)
    wanted = " or ".join(family.name for family in families)
    if covariance_type == "auto":
        kinds = [kind for family in families for kind in family.kinds]
    else:
        kinds, wanted = [family.kind_of(covariance_type) for family in families], f"{wanted}, {covariance_type}"
    if kind not in kinds:
        raise ValueError(f"prior should be data, reference, or a prior of the family {wanted}, not {kind or prior!r}")
    if prior.dim != dim:
        raise ValueError(f"the prior has {prior.dim} dimensions, but the data have {dim}")
    if exposure is not None and exposure != prior.exposure:
        raise ValueError(f"the prior's exposure is the column {prior.exposure}, but exposure is {exposure}")


def numeric_model(
    model: EstimatorParameters, read: FitData, families: tuple[Family, ...], fixed: defaults.FixedHyperparameters,
    partition_prior: PartitionPrior, only_full: bool,
) -> Choice:  # fmt: skip
    """The model of numeric columns, with the type of covariances that is given or makes the data most probable."""
    family, subspace, log_noise = families[0], None, 0.0
    points, scale, notes, steps = without_ties(read.points, read.weights)
    read = read._replace(points=points)

    def runs() -> ShortRuns:
        return ShortRuns(sample_of(read.points, read.weights), scale, fixed, partition_prior)

    if model.subspace is not None and not isinstance(model.subspace, str):
        chosen = in_subspace(subspace_of(model, family, runs(), model.subspace), "a subspace was asked for")
    elif only_full:
        prior, hyperprior, _ = scale.start(family.julia[0], fixed)
        return Choice(read, prior, "Julia's sampler has full covariances", notes, hyperprior, steps=steps)
    elif model.covariance_type != "auto" and len(families) == 1:
        chosen = Covariances(family.kind_of(model.covariance_type), "it was asked for")
    else:
        chosen = choose_covariances(model, read, families, runs)
    if chosen.subspace is not None:
        subspace, log_noise = (
            chosen.subspace,
            float(
                chosen.subspace.log_noise(points[evenly_spaced(len(points), NOISE_NUMBERS // points.shape[1])]).mean()
            ),
        )
        read = read._replace(points=subspace.points(points))
        scale = defaults.DataScale(read.points)

    def cells_are_better() -> bool:
        run = chosen.run or runs().better(chosen.kind)
        if run.compared_starts:
            return run.from_cells
        return run.log_evidence > runs().run(chosen.kind, from_cells=False).log_evidence

    prior, hyperprior, n_cells = scale.start(chosen.kind, fixed)
    return Choice(read, prior, chosen.reason, notes, hyperprior, n_cells, cells_are_better, subspace, log_noise, steps)


def without_ties(points: Any, weights: Any) -> tuple[Any, defaults.DataScale, tuple[str, ...], Float64Array | None]:
    """The points, with noise on columns of few values: half a step between neighbouring values. Also their scale, a
    note, and the steps of these columns."""
    scale, steps = defaults.DataScale(points, weights), tied_steps(points)
    steps[steps**2 <= scale.within_at_least(defaults.DOZEN)] = 0.0
    if not steps.any():
        return points, scale, (), None
    points = points.spread(steps) if is_remote(points) else spread_ties(points, steps)
    few = int((steps > 0).sum())
    verb, them = ("takes", "it") if few == 1 else ("take", "them")
    note = (
        f"{few} of the {len(steps)} columns in use {verb} few values: noise of half a step was added to {them}, so "
        "that no cluster has a width of zero"
    )
    return points, defaults.DataScale(points, weights), (note,), steps


class Covariances(NamedTuple):
    """The type of the covariances, and why."""

    kind: str
    reason: str
    run: ShortRun | None = None
    """The run that won; None if nothing was compared."""
    subspace: Subspace | None = None


def choose_covariances(
    model: EstimatorParameters, read: FitData, families: tuple[Family, ...], runs: Callable[[], ShortRuns]
) -> Covariances:
    """The type, with tails or without, perhaps in a subspace, that makes the data most probable in short chains."""
    points, family = read.points, families[0]
    (full, diagonal, *simpler), dim = family.kinds, points.shape[1]
    many = family.prior_class(full).is_costly(dim)
    if read.n_missing and (is_remote(points) or read.weights is not None):
        where = "on Dask" if is_remote(points) else "with weights"
        return Covariances(diagonal, f"values are missing, which full covariances do not allow {where}")
    if dim == 1 and len(families) == 1:
        return Covariances(full, "with one feature all are the same")
    simple = not (read.n_missing or is_remote(points) or read.weights is not None)
    by_type = model.covariance_type != "auto"
    projects = many and model.subspace == "auto" and simple and family.reference and not by_type
    projects = projects and not is_constant(points)
    too_many = dim > LARGEST_FULL_DIM or (many and len(points) < dim * CLUSTERS)
    if too_many and not projects and len(families) == 1:
        few = f"{len(points):,} points are too few" if dim <= LARGEST_FULL_DIM else "it takes too long"
        return Covariances(diagonal, f"with {dim} features {few} for full covariances")
    kinds = (diagonal,) if too_many else (full, diagonal) if many else (full, diagonal, *simpler)
    if by_type or dim == 1:
        kinds = (family.kind_of(model.covariance_type),)
    kinds = tuple(one.kinds[family.kinds.index(kind)] for one in families for kind in kinds)
    short = runs()
    if many or len(points) <= SAMPLE:
        tried = [short.better(kind) for kind in kinds]
    else:
        # Among many points one start is enough: on the ledger's sets the other one never changed the choice.
        tried = [short.run(kind, from_cells=True) for kind in kinds]
    best, *others = sorted(tried, key=lambda run: -run.log_evidence)
    if projects:
        result = subspace_of(model, family, short)
        if result.run.log_evidence > best.log_evidence:
            return in_subspace(result, f"in a subspace {gain_over(best, result.run)}")
        others.append(result.run)
    if len(families) == 1 or best.kind not in families[1].kinds:
        return Covariances(best.kind, gain_over(max(others, key=lambda run: run.log_evidence), best), best)
    # Tails compete with Gaussian clusters of any type.
    gaussian = max((run for run in others if run.kind not in families[1].kinds), key=lambda run: run.log_evidence)
    return Covariances(best.kind, f"with tails {gain_over(gaussian, best)}", best)


def gain_over(other: ShortRun, best: ShortRun) -> str:
    gain = best.log_evidence - other.log_evidence
    nats = "less than a nat" if gain < 1 else f"{gain:,.0f} nats" if gain >= 10 else f"{gain:.1f} nats"
    return f"they make the data more probable than {other.covariances}, by {nats} in short chains"


def in_subspace(result: SubspaceRun, reason: str) -> Covariances:
    return Covariances(result.kind.name, reason, result.run, result.subspace)


def subspace_of(model: EstimatorParameters, family: Family, runs: ShortRuns, size: int | None = None) -> SubspaceRun:
    """The subspace of `size` dimensions, or of the most probable number."""
    asked = model.covariance_type
    kinds = kinds_in_subspace(family) if asked == "auto" else (asked,)
    points = runs.sample.points.astype(np.float64)
    return find_subspace(points, [kind_in_subspace(kind, runs.fixed, runs.partition_prior) for kind in kinds], size)


def kinds_in_subspace(family: Family) -> tuple[str, ...]:
    """Full and diagonal covariances: spherical ones would depend on the arbitrary units of the directions."""
    return family.kinds[:2]


def kind_in_subspace(kind: str, fixed: defaults.FixedHyperparameters, partition_prior: PartitionPrior) -> Kind:
    def run(projected: FloatArray) -> ShortRun:
        runs = ShortRuns(Sample(projected), defaults.DataScale(projected), fixed, partition_prior)
        return runs.better(kind)._replace(in_subspace=True)

    def log_evidence(projected: FloatArray, labels: IntArray) -> float:
        prior, hyperprior, _ = defaults.DataScale(projected).start(kind, fixed)
        return log_evidence_at_best(prior, hyperprior, projected, labels, partition_prior)

    return Kind(kind, run, log_evidence)
