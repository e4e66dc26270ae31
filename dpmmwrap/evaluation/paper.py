"""The paper's experiments as a list of runs: its methods on its mixtures, and on its data sets if you have them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from dpmmwrap.evaluation.baselines import JULIA, OUR_PRIOR, PAPER_METHODS, SUBC
from dpmmwrap.evaluation.experiments import (
    TABLE,
    Comparison,
    Plan,
    all_runs,
    methods_of,
    plan_mixtures,
    watched_runs,
    weight_prints,
)
from dpmmwrap.evaluation.sets import Sets, names_in, open_set
from dpmmwrap.evaluation.sizes import PAPER_SETS, PaperSizes
from dpmmwrap.evaluation.summary import paper_set
from dpmmwrap.files import InputError

EXPERIMENT = "paper"
PLANE = 2
"""The dimension of the data sets whose iterations are plotted."""


def find_paper_sets(folder: Path | None, max_points: int) -> Sets:
    """The paper's real data sets among the .npz files of a folder, by their names, and a note about missing ones."""
    paths: dict[str, str] = {}
    for name, path in names_in(str(folder)).items() if folder is not None else ():
        known = paper_set(name)
        if known is not None:
            paths.setdefault(known, path)
    sets, notes = [], []
    for known in PAPER_SETS:
        if known in paths:
            try:
                sets.append(open_set(known, paths[known], max_points))
            except InputError as error:
                notes.append(f"{known} is left out: {error}")
    missing = [known for known in PAPER_SETS if known not in paths]
    if missing:
        where = "there is no --data" if folder is None else f"{folder} has no .npz file with such a name"
        notes.append(f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} left out: {where}")
    return Sets(sets, notes)


def paper_methods(backend: str) -> list[str]:
    """The paper's methods, with its sampler on this backend."""
    left_out = SUBC if backend == "julia" else tuple(name + JULIA for name in SUBC)
    return [name for name in PAPER_METHODS if name not in left_out]


def on_julia(name: str) -> str:
    return name + JULIA if name.lower() in map(str.lower, SUBC) else name


def plan_paper(choice: Comparison, sizes: PaperSizes, real: Sets, backend: str) -> Plan:
    """Every method on every data set, and several runs of each start on one data set of each number of clusters."""
    if backend == "julia" and choice.methods is not None:
        choice = replace(choice, methods=tuple(on_julia(name) for name in choice.methods))
    size = (sizes.dims, sizes.clusters, sizes.points, sizes.datasets)
    plan = plan_mixtures(EXPERIMENT, choice, paper_methods(backend), *size, None)
    several, runs = replace(choice, runs=sizes.runs), [*plan.runs]
    for entry in real.sets:
        prints = weight_prints(choice.settings, [entry.dim], methods_of(plan))
        runs += all_runs(EXPERIMENT, TABLE, entry, methods_of(plan), several, prints)
    clusters = sizes.clusters if PLANE in sizes.dims else ()
    watched = watched_runs(plan, choice, PLANE, clusters, sizes.points, None, sizes.runs)
    # DPGMM has a run for each upper bound.
    bounded = [
        replace(run, settings=replace(run.settings, upper_bound=bound))
        for run in runs
        for bound in (sizes.upper_bounds if run.method == OUR_PRIOR else sizes.upper_bounds[:1])
    ]
    return Plan([*bounded, *watched], [*real.notes, *plan.notes])
