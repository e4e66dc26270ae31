"""The model of a fit: the prior that was asked for, or the family's default, and which covariances it has.

Which covariances suit the data is asked of the data: short chains with each kind, on a sample, and how probable the
mixture that they end with makes it. All are densities of the same points, so the numbers can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.arrays import FloatArray
from dpmmwrap.backends import Result, Settings
from dpmmwrap.bins import is_remote, kmeans_bins
from dpmmwrap.dirichlet_process import ALPHA_PRIOR
from dpmmwrap.families import defaults
from dpmmwrap.families.base import Points
from dpmmwrap.families.gaussian import NIW
from dpmmwrap.families.hyperprior import Hyperparameters, Hyperprior
from dpmmwrap.families.ties import spread_ties, tied_columns
from dpmmwrap.inputs import Read
from dpmmwrap.starts import make_initializer

SHORT_CHAIN, SHORT_SAMPLE = 30, 3000
"""Iterations and points of a chain that only compares."""
CLUSTERS = 10
"""In many dimensions full covariances are tried only where so many clusters would have more points than dimensions."""
WORTH_IT = 0.01
"""There they cost much, and have to raise the log evidence by this share of it."""
CLOSE = 0.03
"""A family that needs fewer parameters for all its clusters is taken if it loses less than so many nats a point: more
clusters of a simpler kind are not a simpler answer."""
LARGEST_FULL_DIM = 200
"""Beyond, they are not tried at all: an iteration would take seconds."""


def concentration(alpha: float | str) -> dict[str, Any]:
    """The settings of a concentration that is fixed, or learned ("auto")."""
    if isinstance(alpha, str):
        return {"alpha": 1.0, "alpha_prior": ALPHA_PRIOR}
    return {"alpha": float(alpha)}


class Choice(NamedTuple):
    """The points and the prior of a fit, and what there is to say about them."""

    read: Read
    prior: Any
    reason: str
    """Why the covariances are full, diagonal or spherical."""
    notes: tuple[str, ...] = ()
    hyperprior: Hyperprior | None = None
    """The grid on which the prior is learned; None where it is fixed."""
    begins: Hyperparameters | None = None
    """The width and strength of a default prior, or where they begin if they are learned."""
    bins: int | None = None
    """k-means bins that chains may begin with; None where they are not known."""
    bins_are_better: Callable[[], bool] = lambda: False
    """Whether a short chain that begins with them finds more than one from a single cluster; it is run when asked."""


class Asked(NamedTuple):
    """What the user has said of the model."""

    prior: Any = None
    family: str = "gaussian"
    covariance_type: str = "auto"
    alpha: float | str = "auto"
    prior_width: float | str = "auto"
    prior_strength: float | str = "auto"

    def grid(self, found: defaults.Cuts, covariance_type: str) -> Hyperprior:
        """The default priors of a family, as far as they are not fixed."""
        return defaults.hyperprior_of(found, covariance_type, number(self.prior_width), number(self.prior_strength))

    @property
    def fixes_a_prior(self) -> bool:
        return self.prior_width != "auto" or self.prior_strength != "auto"


def number(value: float | str) -> float | None:
    """A number that was given; None for "auto"."""
    return None if isinstance(value, str) else float(value)


def choose_model(asked: Asked, read: Read, only_full: bool = False) -> Choice:
    """The prior that was asked for, in the coordinates of the points, or the default of the family.

    With `only_full`, for a sampler that learns no prior, it is fixed.
    """
    prior, family = asked.prior, asked.family
    given = prior is not None and prior != "data" if isinstance(prior, str) else prior is not None
    if asked.fixes_a_prior and (given or family == "multinomial"):
        raise ValueError("prior_width and prior_strength are for the default prior of numeric columns")
    if prior is not None and not isinstance(prior, str):
        checked = own_prior(prior, family, asked.covariance_type, read.points)
        return Choice(read, checked.shifted(read.offset), "the prior is given")
    if prior not in (None, "data", "reference"):
        raise ValueError(f"prior should be data, reference or a prior such as NIW, not {prior!r}")
    if prior == "reference":
        if family != "gaussian" or asked.covariance_type not in ("auto", "full"):
            raise ValueError("the reference prior is for full covariances")
        reference = NIW.reference(read.points.shape[1]).shifted(read.offset)
        return Choice(read, reference, "the reference prior has full covariances")
    if family == "multinomial":
        from dpmmwrap.families.multinomial import Dirichlet

        return Choice(read, Dirichlet.from_data(read.points), "counts are multinomial")
    if family == "mixed":
        return mixed_model(read, asked)
    return gaussian_model(read, asked, only_full)


def own_prior(prior: Any, family: str, covariance_type: str, points: Any) -> Any:
    """A prior of the user's own, if it fits the data and the rest of the settings."""
    kinds = {"gaussian": ("full", "diag", "spherical"), "multinomial": ("multinomial",), "mixed": ("mixed",)}[family]
    own = getattr(prior, "family", None)
    if own not in kinds or covariance_type not in ("auto", own):
        wanted = family if covariance_type == "auto" else f"{family}, {covariance_type}"
        raise ValueError(f"prior should be data, reference, or a prior of the family {wanted}, not {own or prior!r}")
    if prior.dim != points.shape[1]:
        raise ValueError(f"the prior has {prior.dim} dimensions, but the data have {points.shape[1]}")
    return prior


def mixed_model(read: Read, asked: Asked) -> Choice:
    """A mixed table: numeric columns by how wide bins are, categorical ones by their levels."""
    from dpmmwrap.families.categorical import CategoricalDirichlet
    from dpmmwrap.families.mixed import Mixed, MixedPoints

    assert read.columns is not None
    categories = CategoricalDirichlet.from_levels(read.columns.levels)
    reason = "mixed tables have diagonal covariances"
    if not read.points.numeric.shape[1]:
        return Choice(read, Mixed(defaults.no_columns(), categories), reason)
    numeric, found, notes = without_ties(read.points.numeric)
    read = read._replace(points=MixedPoints(numeric, read.points.codes))
    grid = asked.grid(found, "diag")
    own: Any = grid.make
    return learned(read, replace(grid, make=lambda *place: Mixed(own(*place), categories)), reason, notes)


def gaussian_model(read: Read, asked: Asked, only_full: bool) -> Choice:
    points, found, notes = without_ties(read.points)
    read = read._replace(points=points)
    if only_full:
        choice = learned(read, asked.grid(found, "full"), "Julia's sampler has full covariances", notes)
        return choice._replace(hyperprior=None)
    if asked.covariance_type != "auto":
        chosen = Chosen(asked.covariance_type, "it was asked for")
    else:
        chosen = choose_covariance(points, found, read.n_missing, asked)

    def bins_are_better() -> bool:
        return (chosen.tried or tried(points, found, chosen.kind, asked)).bins_were_better

    choice = learned(read, asked.grid(found, chosen.kind), chosen.reason, notes)
    return choice._replace(bins=found.best(chosen.kind).n_bins, bins_are_better=bins_are_better)


def learned(read: Read, grid: Hyperprior, reason: str, notes: tuple[str, ...]) -> Choice:
    """A default prior, and the grid on which it is learned if there is anything to learn."""
    several = len(grid.widths) * len(grid.strengths) > 1
    begins = grid.values(grid.start)
    return Choice(read, grid.prior(grid.start), reason, notes, grid if several else None, begins)


def without_ties(points: Any) -> tuple[Any, defaults.Cuts, tuple[str, ...]]:
    """The points, with columns of few values spread over their steps; their bins; and what was done."""
    found = defaults.Cuts(points)
    steps, count = tied_columns(points, found.nearest(defaults.MANY_BINS).variances)
    if not count:
        return points, found, ()
    points = points.spread(steps) if is_remote(points) else spread_ties(points, steps)
    note = (
        f"{count} of {len(steps)} columns take few values: noise of half a step was added to them, "
        "so that no cluster has a width of zero"
    )
    return points, defaults.Cuts(points), (note,)


class Chosen(NamedTuple):
    """The covariances of a fit, and why."""

    kind: str
    reason: str
    tried: Tried | None = None
    """None where there was nothing to compare."""


def choose_covariance(points: FloatArray, found: defaults.Cuts, n_missing: int, asked: Asked) -> Chosen:
    """Full, diagonal or spherical covariances, by the evidence of what short chains find, and why."""
    dim, many, kinds = found.dim, found.dim > defaults.MANY_DIMENSIONS, ["full", "diag", "spherical"]
    if n_missing:
        return Chosen("diag", "values are missing, which full covariances do not allow")
    if dim == 1:
        return Chosen("full", "with one feature all are the same")
    if dim > LARGEST_FULL_DIM or (many and len(points) < dim * CLUSTERS):
        few = f"{len(points):,} points are too few" if dim <= LARGEST_FULL_DIM else "it takes too long"
        return Chosen("diag", f"with {dim} features {few} for full covariances")
    if many:
        kinds.remove("spherical")
    best, second, *rest = sorted(
        (tried(points, found, kind, asked) for kind in kinds), key=lambda one: -one.log_evidence
    )
    if many and best.kind == "full" and len(points) < dim * best.n_clusters:
        # Most of such a covariance is what the prior says.
        return Chosen(second.kind, f"clusters of full ones would have fewer points than the {dim} features", second)
    gain = best.log_evidence - second.log_evidence
    nats = f"{gain:,.0f} nats in short chains"
    simpler = min((best, second, *rest), key=lambda one: one.n_parameters)
    lost = best.log_evidence - simpler.log_evidence
    if simpler is not best and lost < CLOSE * min(len(points), SHORT_SAMPLE):
        words = f"{best.kind} ones have more parameters in all, and make the data more probable by no more than"
        return Chosen(simpler.kind, f"{words} {lost:,.0f} nats in short chains", simpler)
    if defaults.is_costly(best.kind, dim) and gain < WORTH_IT * abs(best.log_evidence):
        reason = f"full ones make the data more probable by no more than {nats}, and take much longer"
        return Chosen(second.kind, reason, second)
    return Chosen(best.kind, f"they make the data more probable than {second.kind} ones, by {nats}", best)


class Tried(NamedTuple):
    """A family, and the evidence of what a short chain has found with it."""

    kind: str
    log_evidence: float
    bins_were_better: bool
    n_clusters: int
    n_parameters: int
    """Of all clusters."""


def tried(points: FloatArray, found: defaults.Cuts, kind: str, asked: Asked) -> Tried:
    """Run short chains on a sample, from one cluster and from bins, and see how probable the mixture that they end with
    makes it."""
    from dpmmwrap.evidence import log_evidence

    if len(points) > SHORT_SAMPLE:
        rows = np.sort(np.random.default_rng(0).choice(len(points), SHORT_SAMPLE, replace=False))
        points = np.ascontiguousarray(points[rows])
    elif is_remote(points):
        points = points[np.arange(len(points))]
    grid = asked.grid(found, kind)
    settings = Settings(
        **concentration(asked.alpha), prior=grid.prior(grid.start), hyperprior=grid,
        initializer=make_initializer("kmeans"), max_iter=SHORT_CHAIN, min_cluster_age=3, seed=0, restart_after=10,
        n_chains=1 if defaults.is_costly(kind, found.dim) else 2,
        other_start=bins_to_begin_with(points, found.best(kind).n_bins),
    )  # fmt: skip
    result = short_chains(points, settings)
    assert result.place is not None
    place = grid.best(result.place, grid.prior(result.place).statistics(points, result.labels))
    evidence = log_evidence(grid.prior(place), points, result.labels, result.alpha)
    count = int(result.labels.max()) + 1
    return Tried(kind, evidence, result.chain == 1, count, count * (defaults.parameters(kind, found.dim) + 1))


def short_chains(points: Points, settings: Settings) -> Result:
    """What chains find that only compare: after Ctrl-C there is nothing to compare."""
    from dpmmwrap.backends.native import NativeBackend

    result = NativeBackend().fit(points, settings)
    if result.interrupted:
        raise KeyboardInterrupt
    return result


def bins_to_begin_with(points: FloatArray, count: int) -> Any:
    """So many k-means bins of all points."""
    return kmeans_bins(points, count, seed=0)
