"""The experiments: lists of runs, each with the seeds and settings that reproduce it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, partial
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap import __version__
from dpmmwrap.backends import julia
from dpmmwrap.describe.facts import agreement
from dpmmwrap.evaluation.fits import FitSettings, MethodFit, iterations_until_settled
from dpmmwrap.evaluation.methods import (
    BATTERY_METHODS,
    JULIA,
    METHODS,
    OUR_PRIOR,
    OURS,
    OWN_PRIOR,
    PAPER_METHODS,
    RIVALS,
    SHORT,
    SUBC,
    find_methods,
    missing,
    prepare,
    run_method,
)
from dpmmwrap.evaluation.sets import BatterySet, Sets, fingerprint, names_in, open_set
from dpmmwrap.evaluation.sizes import PAPER_SETS, Sizes, paper_set
from dpmmwrap.evaluation.sources import FromFile, Source, Synthetic, default_spread, load
from dpmmwrap.files import InputError

TABLE, QUALITATIVE = "table", "qualitative"

Row = dict[str, Any]


@dataclass(frozen=True)
class Run:
    """One method on one data set with one seed."""

    experiment: str
    part: str
    """`TABLE`, or `QUALITATIVE`: one of several runs on a data set whose iterations are plotted."""
    source: Source
    method: str
    number: int
    seed: int
    settings: FitSettings
    weights: str = ""
    """The fingerprint of SplitNet's weights, on which the result depends."""

    def identity(self) -> dict[str, str | int | float]:
        """Everything that the result depends on; settings that the method does not use are empty."""
        settings, sampler = self.settings, self.method.startswith("SubC")
        own_rules = settings.own_rules or METHODS[self.method].own_rule
        return {
            "experiment": self.experiment,
            "part": self.part,
            **self.source.identity(),
            "method": self.method,
            "run": self.number,
            "seed": self.seed,
            # The log posterior of any method's labels depends on these two.
            "alpha": "" if settings.own_rules else settings.alpha,
            "prior": "" if settings.own_rules else settings.prior,
            "iterations": "" if own_rules else settings.iterations,
            "ratio": settings.ratio if sampler else "",
            "init_clusters": settings.init_clusters if sampler else "",
            "upper_bound": settings.upper_bound if self.method in (OUR_PRIOR, OWN_PRIOR) else "",
            "scaled": "yes" if settings.scale and METHODS[self.method].scaled else "",
            "weights": self.weights,
            "version": __version__,
        }


@dataclass(frozen=True)
class Outcome:
    """The measures of a run, by the names of their columns, and arrays for figures."""

    measures: dict[str, Any]
    arrays: dict[str, np.ndarray[Any, Any]] = field(default_factory=dict)


MEASURES = (
    "n_clusters",
    "k_error",
    "nmi",
    "ari",
    "groups_ari",
    "log_posterior",
    "model",
    "seconds",
    "cpu_seconds",
    "iterations_done",
    "settled_after",
    "problem",
)


def execute(run: Run) -> Outcome:
    """Run it in this process. If another method fails, the report says so, and the experiment continues."""
    X, truth = load(run.source)
    try:
        fit = run_method(run.method, X, truth, run.settings, run.seed)
    # Other libraries may raise anything; the paper's samplers should not fail on any data.
    except Exception as error:
        if run.method.startswith("SubC"):
            raise
        problem = " ".join(str(error).split()) or type(error).__name__
        return Outcome({**dict.fromkeys(MEASURES, math.nan), "model": "", "problem": problem})
    arrays = fit.trace | {"labels": fit.labels.astype(np.int32)} if run.settings.watch else {}
    return Outcome(measure(fit, truth), arrays)


def measure(fit: MethodFit, truth: np.ndarray[Any, Any]) -> dict[str, Any]:
    """Compare with the known classes. Noise does not count as a cluster, but is compared as one."""
    scores = agreement(truth, fit.labels)
    clusters = len(np.unique(fit.labels[fit.labels >= 0]))
    posterior = fit.trace.get("log_posterior")
    return {
        "n_clusters": clusters,
        "k_error": abs(clusters - scores["true_clusters"]),
        "nmi": scores["nmi"],
        "ari": scores["ari"],
        "groups_ari": math.nan if fit.groups is None else agreement(truth, fit.groups)["ari"],
        "log_posterior": fit.log_posterior,
        "model": fit.model,
        "seconds": fit.seconds,
        "cpu_seconds": fit.cpu_seconds,
        "iterations_done": fit.iterations,
        "settled_after": math.nan if posterior is None else iterations_until_settled(posterior),
        "problem": "",
    }


@dataclass(frozen=True)
class Plan:
    """The runs of an experiment, and a sentence for each method that cannot run here."""

    runs: list[Run]
    notes: list[str]

    @property
    def methods(self) -> list[str]:
        return list(dict.fromkeys(run.method for run in self.runs))


@dataclass(frozen=True)
class Comparison:
    """The settings that all experiments have in common."""

    methods: tuple[str, ...] | None
    """None for all that can run here."""
    settings: FitSettings
    runs: int
    seed: int
    in_processes: bool = False
    """Whether runs are executed in other processes."""

    def usable(self, default: Sequence[str], among: Sequence[str] = tuple(METHODS)) -> tuple[list[str], list[str]]:
        """The methods that can run here, and a sentence for each that cannot."""
        names = list(default) if self.methods is None else find_methods(self.methods, among)
        if not self.in_processes and julia.is_set_up():
            # Before torch, which is imported to look for SplitNet's weights.
            prepare(names)
        problems = {name: missing(name, self.settings) for name in names}
        notes = list(dict.fromkeys(problem for problem in problems.values() if problem is not None))
        names = [name for name in names if problems[name] is None]
        if not names:
            raise InputError("; ".join(notes))
        return names, notes

    def on(self, experiment: str, part: str, sources: Iterable[Source], names: Sequence[str]) -> Iterator[Run]:
        """The runs of some methods on some sources."""
        print_of = cache(partial(weight_print, self.settings.weights))
        for source, name in product(sources, names):
            weights = print_of(source.dim) if name.startswith("SubC-SplitNet") else ""
            for number in range(self.runs if METHODS[name].random else 1):
                yield Run(experiment, part, source, name, number, self.seed + number, self.settings, weights)


def plan_synthetic(choice: Comparison, sizes: Sizes, spread: float | None) -> Plan:
    """The paper's box plots, and several runs on the first data set of each number of clusters."""
    plan = plan_mixtures("synthetic", choice, tuple(PAPER_METHODS), sizes, spread)
    return replace(plan, runs=[*plan.runs, *watched_runs(plan, choice, sizes.dims[0], sizes, spread)])


def plan_mixtures(
    experiment: str, choice: Comparison, default: Sequence[str], sizes: Sizes, spread: float | None = None
) -> Plan:
    """Methods on random mixtures."""
    names, notes = choice.usable(default)
    sources = (
        Synthetic(dim, count, sizes.points, spread or default_spread(dim), choice.seed + number)
        for number, dim, count in product(range(sizes.datasets), sizes.dims, sizes.clusters)
    )
    return Plan(list(choice.on(experiment, TABLE, sources, names)), notes)


def watched_runs(plan: Plan, choice: Comparison, dim: int, sizes: Sizes, spread: float | None = None) -> Iterator[Run]:
    """Several runs of the plan's starts on the first data set of each number of clusters, which keep all iterations."""
    watched = replace(choice, settings=replace(choice.settings, watch=True), runs=sizes.runs)
    starts = [name for name in plan.methods if name in SUBC]
    # Starts on Julia only if there are no others: otherwise each colour would have two lines.
    starts = starts or [name for name in plan.methods if name.startswith("SubC")]
    spread = spread or default_spread(dim)
    sources = (Synthetic(dim, count, sizes.points, spread, choice.seed) for count in sizes.clusters)
    return watched.on(plan.runs[0].experiment, QUALITATIVE, sources, starts)


def plan_data(choice: Comparison, source: FromFile) -> Plan:
    """The paper's methods and DPGMM with its own prior, several times, on the points of a file.

    Methods that depend on units get columns of variance one, except principal components, which share a unit.
    """
    choice = replace(choice, settings=replace(choice.settings, scale=not source.projected))
    # DPGMM with either prior, side by side.
    default = [name for known in PAPER_METHODS for name in (known, *((OWN_PRIOR,) if known == OUR_PRIOR else ()))]
    names, notes = choice.usable(default)
    return Plan(list(choice.on("data", TABLE, [source], names)), notes)


def plan_battery(choice: Comparison, data: Sets) -> Plan:
    """Every method on every set that it applies to, one set after the other."""
    methods = choice.methods and tuple(full for name in choice.methods for full in SHORT.get(name.lower(), (name,)))
    settings = replace(choice.settings, scale=True, own_rules=True)
    choice = replace(choice, methods=methods, settings=settings)
    names, notes = choice.usable((OURS, *RIVALS), BATTERY_METHODS)

    def applies(name: str, entry: BatterySet) -> bool:
        """Some methods take no sparse matrices, and the multinomial takes only counts."""
        return METHODS[name].counts if entry.sparse else name != "DPMM-multinomial" or entry.counts

    runs: list[Run] = []
    for entry in data.sets:
        runs += choice.on("battery", TABLE, [entry], [name for name in names if applies(name, entry)])
    plan = Plan(runs, [*data.notes, *notes])
    idle = [f"{name} is left out: it applies to none of these sets" for name in names if name not in plan.methods]
    return replace(plan, notes=plan.notes + idle)


def weight_print(weights: str | None, dim: int) -> str:
    """The fingerprint of SplitNet's weights for a dimension."""
    from dpmmwrap.splitnet.weights_io import load_weights, shipped_path

    if weights:
        # Let a wrong file fail now, not after an hour of other runs.
        load_weights(weights)
    path = Path(weights) if weights else shipped_path()
    return fingerprint(path) if path.is_file() else ""


PLANE = 2
"""The dimension of the data sets whose iterations are plotted for the paper."""


def find_paper_sets(folder: Path | None, max_points: int) -> Sets:
    """The paper's real data sets among the .npz files of a folder, by their names, and a note about missing ones."""
    paths: dict[str | None, str] = {}
    for name, path in names_in(str(folder)).items() if folder is not None else ():
        paths.setdefault(paper_set(name), path)
    sets, notes = [], []
    for known in PAPER_SETS:
        if known in paths:
            try:
                sets.append(open_set(known, paths[known], max_points))
            except InputError as error:
                notes.append(f"{known} is left out: {error}")
    lacking = [known for known in PAPER_SETS if known not in paths]
    if lacking:
        where = "there is no --data" if folder is None else f"{folder} has no .npz file with such a name"
        notes.append(f"{', '.join(lacking)} {'is' if len(lacking) == 1 else 'are'} left out: {where}")
    return Sets(sets, notes)


def paper_methods(backend: str) -> list[str]:
    """The paper's methods, with its sampler on this backend."""
    left_out = SUBC if backend == "julia" else tuple(name + JULIA for name in SUBC)
    return [name for name in PAPER_METHODS if name not in left_out]


def on_julia(name: str) -> str:
    return name + JULIA if name.lower() in map(str.lower, SUBC) else name


def plan_paper(choice: Comparison, sizes: Sizes, real: Sets, backend: str) -> Plan:
    """Every method on every data set, and several runs of each start on one data set of each number of clusters."""
    if backend == "julia" and choice.methods is not None:
        choice = replace(choice, methods=tuple(on_julia(name) for name in choice.methods))
    plan = plan_mixtures("paper", choice, paper_methods(backend), sizes)
    runs = [*plan.runs]
    for entry in real.sets:
        runs += replace(choice, runs=sizes.runs).on("paper", TABLE, [entry], plan.methods)
    # DPGMM has a run for each upper bound.
    bounded = [
        replace(run, settings=replace(run.settings, upper_bound=bound))
        for run in runs
        for bound in (sizes.upper_bounds if run.method == OUR_PRIOR else sizes.upper_bounds[:1])
    ]
    watched = watched_runs(plan, choice, PLANE, sizes) if PLANE in sizes.dims else ()
    return Plan([*bounded, *watched], [*real.notes, *plan.notes])
