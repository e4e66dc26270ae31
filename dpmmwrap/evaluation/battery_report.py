"""The report of a battery: tables, a figure with a dot for each set and method, and text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, fields
from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.describe import plotting
from dpmmwrap.describe.plotting.theme import FAINT, INK, new_figure
from dpmmwrap.describe.report.engine import Picture, ReportTable, Section, write_sections
from dpmmwrap.describe.wording import counted
from dpmmwrap.evaluation.experiments import TABLE, Plan
from dpmmwrap.evaluation.figures import PAGE_WIDTH, save_both
from dpmmwrap.evaluation.methods import METHODS, OURS, OWN_PRIOR, with_hint
from dpmmwrap.evaluation.report import what_was_run
from dpmmwrap.evaluation.rivals import POINTS_PER_COMPONENT
from dpmmwrap.evaluation.samplers import CHANGED
from dpmmwrap.evaluation.scores import (
    CLOSE_NATS,
    CLOSE_SHARE,
    Ranks,
    Score,
    behind_table,
    long_table,
    mean_ranks,
    means_table,
    methods_in,
    published_table,
    scores_of,
    sets_table,
)
from dpmmwrap.evaluation.sets import Published
from dpmmwrap.evaluation.store import Store
from dpmmwrap.files import write_csv


def report_battery(
    folder: Path, store: Store, plan: Plan, command: str, groups: dict[str, tuple[str, ...]], published: Published
) -> tuple[ReportTable, ReportTable]:
    """Write sets.csv, means.csv, the figure, report.html and report.md; the tables of sets and of means."""
    scores = scores_of(store.finished(TABLE), store.kept(), groups)
    ranks = mean_ranks(scores)
    means, sets = means_table(scores, ranks), sets_table(scores)
    rows = [asdict(entry) for entry in scores]
    write_csv(folder / "sets.csv", {field.name: [row[field.name] for row in rows] for field in fields(Score)})
    write_csv(folder / "means.csv", dict(zip(means.header, zip(*means.lines, strict=True), strict=True)))
    words = ["Mean ARI of each method over the sets of a battery; the ARI on a set is the median over runs."]
    sections = [about(plan, scores), Section("Batteries", words, means)]
    if plotting.available():
        file = save_both(folder, "battery", battery_figure(scores, ranks))
        caption = "ARI by set and method, and mean ranks. Methods with hollow dots are given the number of classes."
        sections[1].pictures.append(Picture(file, caption))
    behind = [f"Where another method's ARI is furthest above that of {OURS}."]
    beside = ["Scores from index.csv. They are for all points of a set, and may use another scaling."]
    # How often our default comes close to the best known log posterior.
    ours = [entry for entry in scores if entry.method == OURS and entry.runs]
    close, runs = sum(entry.close for entry in ours), sum(entry.runs for entry in ours)
    near = f"within {CLOSE_NATS:g} nats or {100 * CLOSE_SHARE:g}% of the best known log posterior"
    reached = [f"{close} of {counted(runs, 'run')} of {OURS} ended {near}."] if ours else []
    problems = [f"{entry.method} failed on {entry.data}: {entry.problem}." for entry in scores if entry.problem]
    more = [
        Section(f"Where {OURS} is behind", behind, behind_table(scores)),
        Section("Beside published scores", beside, published_table(scores, published)),
        Section("Sets", ["ARI and, in brackets, the number of clusters."], sets),
        Section("Sets and methods", [MEASURES, *reached, *problems], long_table(scores)),
    ]
    sections += [section for section in more if section.table is not None]
    count = len({entry.data for entry in scores})
    write_sections(folder, f"A battery of {counted(count, 'set')}", command, sections)
    return sets, means


MEASURES = (
    "Medians over runs. The log posterior is that of the method's model; the next column is its distance in nats from "
    "the best one of the same set and model by any run in this folder. Every method runs on one thread."
)


def about(plan: Plan, scores: Sequence[Score]) -> Section:
    """What was run, on what, and what could not run."""
    methods = methods_in(scores)
    runs = max(entry.runs for entry in scores)
    words = [f"{counted(runs, 'run')} of each method on each set{'' if runs == 1 else '; medians are reported'}."]
    words += dict.fromkeys(f"{OURS if name in CHANGED else name}: {METHODS[name].about}" for name in methods)
    scaled = [name for name in methods if METHODS[name].scaled]
    if scaled:
        words.append(f"{', '.join(scaled)}: columns scaled to variance one. The others get the original points.")
    if OWN_PRIOR in methods:
        most = plan.runs[0].settings.upper_bound
        words.append(f"DPGMM may use up to {most} clusters, and at most one per {POINTS_PER_COMPONENT} points.")
    cut = {e.data: f"{e.data} ({e.points:,} of {e.total:,})" for e in scores if e.points < e.total}
    if cut:
        words.append(f"Some sets were reduced to a random sample, always the same: {', '.join(cut.values())}.")
    return what_was_run(plan, words)


LINE, RANK_LINE = 0.2, 0.24
"""The height of a set and of a rank, in inches."""
SPREAD = 0.3
"""The vertical spread of a set's methods, so that equal ones do not hide each other."""
OUR_MARKERS = "osD^vP*X<>h"
"""Our variants have one colour and different shapes."""


def battery_figure(scores: Sequence[Score], ranks: Ranks) -> Any:
    """The mean rank of each method, and below the ARI by set, grouped by battery."""
    methods = methods_in(scores)
    batteries = list(dict.fromkeys(entry.battery for entry in scores))
    by_battery = sorted(scores, key=lambda entry: batteries.index(entry.battery))
    sets = list(dict.fromkeys((entry.battery, entry.data) for entry in by_battery))
    heights = [RANK_LINE * max(len(ranks.by_method), 1) + 0.5, LINE * len(sets) + 0.5]
    with new_figure(PAGE_WIDTH, sum(heights) + 0.6) as figure:
        above, below = figure.subplots(2, 1, height_ratios=heights)
        draw_ranks(above, ranks)
        draw_sets(below, scores, sets, methods)
        marks = [below.plot([], [], label=with_hint(name), **look(name))[0] for name in methods]
        figure.legend(handles=marks, loc="outside upper center", ncols=min(4, len(marks)), fontsize=8)
    return figure


def look(name: str) -> dict[str, Any]:
    """The marker of a method: ours are blue; methods that are given the number of clusters are hollow."""
    ours, colour = name in CHANGED, METHODS[name].colour
    marker = OUR_MARKERS[list(CHANGED).index(name) % len(OUR_MARKERS)] if ours else "o"
    return {
        "color": colour,
        "marker": marker,
        "markersize": 5.5 if name == "DPMM" else 4,
        "markerfacecolor": "none" if METHODS[name].given_k else colour,
        "linestyle": "none",
        "zorder": 4 if ours else 3,
        "alpha": 0.9,
    }


def draw_ranks(axes: Any, ranks: Ranks) -> None:
    """The best method on top."""
    ordered = sorted(ranks.by_method.items(), key=lambda item: item[1])
    for line, (name, rank) in enumerate(ordered):
        axes.plot([1, rank], [line, line], color=FAINT, linewidth=1, zorder=1)
        axes.plot(rank, line, **look(name))
        axes.annotate(f"{rank:.2f}", (rank, line), (7, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(range(len(ordered)), [with_hint(name) for name, _ in ordered], fontsize=8)
    axes.set_ylim(len(ordered) - 0.4, -0.6)
    axes.set_xlim(1, max(len(ordered), 2) + 0.3)
    if ordered:
        axes.set_title(f"Mean rank by ARI over {ranks.sets} sets; 1 is best", fontsize=9)
    else:
        axes.set_visible(False)


def draw_sets(axes: Any, scores: Sequence[Score], sets: Sequence[tuple[str, str]], methods: Sequence[str]) -> None:
    lines = {data: line for line, (_, data) in enumerate(sets)}
    for name, offset in zip(methods, np.linspace(-SPREAD, SPREAD, len(methods)), strict=True):
        subset = [entry for entry in scores if entry.method == name and not math.isnan(entry.ari)]
        axes.plot([entry.ari for entry in subset], [lines[entry.data] + offset for entry in subset], **look(name))
    for line in range(1, len(sets)):
        same = sets[line][0] == sets[line - 1][0]
        axes.axhline(line - 0.5, color=FAINT if same else INK, linewidth=0.3 if same else 0.6, zorder=1)
    lowest = min((entry.ari for entry in scores if not math.isnan(entry.ari)), default=0.0)
    axes.set_xlim(min(-0.03, lowest - 0.03), 1.03)
    axes.set_yticks(range(len(sets)), [data for _, data in sets], fontsize=7)
    axes.set_ylim(len(sets) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("ARI")
    axes.set_title("Each dot is the median of a method's runs on a set", fontsize=9)
