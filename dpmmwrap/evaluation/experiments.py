"""The experiments: lists of runs, each with the seeds and settings that reproduce it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap import __version__
from dpmmwrap.backends import julia
from dpmmwrap.describe.facts import agreement
from dpmmwrap.evaluation.baselines import (
    BATTERY_METHODS,
    METHODS,
    OF_COUNTS,
    OUR_PRIOR,
    OURS,
    OWN_PRIOR,
    OWN_RULES,
    PAPER_METHODS,
    RIVALS,
    SCALED,
    SEEDLESS,
    SHORT,
    SUBC,
    find_methods,
    missing,
    prepare,
    run_method,
    weights_file,
)
from dpmmwrap.evaluation.fits import FitSettings, MethodFit, iterations_until_settled
from dpmmwrap.evaluation.sets import BatterySet, Sets, fingerprint
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
        own_rules = settings.own_rules or self.method in OWN_RULES
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
            "scaled": "yes" if settings.scale and self.method in SCALED else "",
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


def usable(
    choice: Comparison, default: Sequence[str], among: Sequence[str] = tuple(METHODS)
) -> tuple[list[str], list[str]]:
    """The methods that can run here, and a sentence for each that cannot."""
    names = list(default) if choice.methods is None else find_methods(choice.methods, among)
    if not choice.in_processes and julia.is_set_up():
        # Before torch, which is imported to look for SplitNet's weights.
        prepare(names)
    problems = {name: missing(name, choice.settings) for name in names}
    notes = list(dict.fromkeys(problem for problem in problems.values() if problem is not None))
    names = [name for name in names if problems[name] is None]
    if not names:
        raise InputError("; ".join(notes))
    return names, notes


def plan_synthetic(
    choice: Comparison,
    dim: int,
    clusters: Sequence[int],
    points: int,
    datasets: int,
    spread: float | None,
    qualitative_runs: int,
) -> Plan:
    """The paper's box plots, and several runs on the first data set of each number of clusters."""
    plan = plan_mixtures("synthetic", choice, list(PAPER_METHODS), [dim], clusters, points, datasets, spread)
    return replace(
        plan, runs=[*plan.runs, *watched_runs(plan, choice, dim, clusters, points, spread, qualitative_runs)]
    )


def watched_runs(
    plan: Plan, choice: Comparison, dim: int, clusters: Sequence[int], points: int, spread: float | None, runs: int
) -> Iterator[Run]:
    """Several runs of the plan's starts on the first data set of each number of clusters, which keep all iterations."""
    watched = replace(choice, settings=replace(choice.settings, watch=True), runs=runs)
    starts = [name for name in methods_of(plan) if name in SUBC]
    # Starts on Julia only if there are no others: otherwise each colour would have two lines.
    starts = starts or [name for name in methods_of(plan) if name.startswith("SubC")]
    prints = weight_prints(choice.settings, [dim], starts)
    for count in clusters:
        source = synthetic_source(dim, count, points, spread, choice.seed)
        yield from all_runs(plan.runs[0].experiment, QUALITATIVE, source, starts, watched, prints)


def methods_of(plan: Plan) -> list[str]:
    return list(dict.fromkeys(run.method for run in plan.runs))


def plan_mixtures(
    experiment: str,
    choice: Comparison,
    default: Sequence[str],
    dims: Sequence[int],
    clusters: Sequence[int],
    points: int,
    datasets: int,
    spread: float | None,
) -> Plan:
    """Methods on random mixtures."""
    names, notes = usable(choice, default)
    prints = weight_prints(choice.settings, dims, names)
    runs = [
        run
        for number, dim, count in product(range(datasets), dims, clusters)
        for run in all_runs(
            experiment, TABLE, synthetic_source(dim, count, points, spread, choice.seed + number), names, choice, prints
        )
    ]
    return Plan(runs, notes)


def plan_data(choice: Comparison, source: FromFile) -> Plan:
    """The paper's methods and DPGMM with its own prior, several times, on the points of a file.

    Methods that depend on units get columns of variance one, except principal components, which share a unit.
    """
    choice = replace(choice, settings=replace(choice.settings, scale=not source.projected))
    # DPGMM with either prior, side by side.
    default = [name for known in PAPER_METHODS for name in (known, *((OWN_PRIOR,) if known == OUR_PRIOR else ()))]
    names, notes = usable(choice, default)
    prints = weight_prints(choice.settings, [source.dim], names)
    return Plan(list(all_runs("data", TABLE, source, names, choice, prints)), notes)


def plan_battery(choice: Comparison, data: Sets) -> Plan:
    """Every method on every set that it applies to, one set after the other."""
    if choice.methods is not None:
        names = (full for name in choice.methods for full in SHORT.get(name.lower(), (name,)))
        choice = replace(choice, methods=tuple(names))
    choice = replace(choice, settings=replace(choice.settings, scale=True, own_rules=True))
    methods, notes = usable(choice, (OURS, *RIVALS), BATTERY_METHODS)
    runs: list[Run] = []
    for entry in data.sets:
        runs += all_runs("battery", TABLE, entry, [name for name in methods if applies(name, entry)], choice, {})
    idle = [name for name in methods if not any(run.method == name for run in runs)]
    return Plan(
        runs, [*data.notes, *notes, *(f"{name} is left out: it applies to none of these sets" for name in idle)]
    )


def applies(name: str, entry: BatterySet) -> bool:
    """Whether a method applies to a set: some take no sparse matrices, and the multinomial takes only counts."""
    return name in OF_COUNTS if entry.sparse else name != "DPMM-multinomial" or entry.counts


def synthetic_source(dim: int, clusters: int, points: int, spread: float | None, seed: int) -> Synthetic:
    return Synthetic(dim, clusters, points, default_spread(dim) if spread is None else spread, seed)


def all_runs(
    experiment: str, part: str, source: Source, names: Sequence[str], choice: Comparison, prints: dict[int, str]
) -> Iterator[Run]:
    for name in names:
        weights = prints.get(source.dim, "") if name.startswith("SubC-SplitNet") else ""
        for number in range(1 if name in SEEDLESS else choice.runs):
            yield Run(experiment, part, source, name, number, choice.seed + number, choice.settings, weights)


def weight_prints(settings: FitSettings, dims: Sequence[int], names: Sequence[str]) -> dict[int, str]:
    """The fingerprint of SplitNet's weights for each dimension."""
    if not any(name.startswith("SubC-SplitNet") for name in names):
        return {}
    if settings.weights:
        from dpmmwrap.splitnet.weights_io import load_weights

        # Let a wrong file fail now, not after an hour of other runs.
        load_weights(settings.weights)
    files = {dim: Path(settings.weights) if settings.weights else weights_file() for dim in dims}
    return {dim: fingerprint(path) for dim, path in files.items() if path is not None}
