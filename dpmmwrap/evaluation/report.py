"""The reports of experiments: figures, tables, and text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dpmmwrap.describe import plotting
from dpmmwrap.describe.report.engine import Picture, ReportTable, Section, write_sections
from dpmmwrap.describe.wording import counted
from dpmmwrap.evaluation import figures
from dpmmwrap.evaluation.experiments import QUALITATIVE, TABLE, Plan, Row
from dpmmwrap.evaluation.methods import METHODS, OUR_PRIOR, OWN_PRIOR
from dpmmwrap.evaluation.rivals import POINTS_PER_COMPONENT
from dpmmwrap.evaluation.sources import FromFile, Synthetic, load
from dpmmwrap.evaluation.store import Store
from dpmmwrap.evaluation.summary import (
    beside_the_paper,
    best_log_posteriors,
    distinct,
    formatted,
    key_of,
    method_table,
    paper_rows,
    select,
    values,
)

NO_MATPLOTLIB = "There are no figures, because matplotlib is not installed: pip install 'dpmmwrap[plot]'."
MEASURES = (
    "K is the number of clusters found, K-MAE its distance from the truth. The log posterior is that of each method's "
    "labels under the same prior and concentration. Every method runs on one thread. On a busy machine, CPU seconds "
    "are more reliable than seconds. The last column is the number of iterations after which the log posterior stays "
    "within 1% of its value before the final greedy steps."
)
PAPER_NUMBERS = "The paper's numbers for {}, with its features and its prior."
SYNTHETIC = "synthetic"
DATA_SET = ("data", "dim", "clusters", "data_seed")
"""The columns that identify a data set."""
BOXES = (
    "Each dot is a run; boxes are quartiles. The log posterior is shown as its distance from the best one of any "
    "method on the same data set."
)
PAPER_TIMES = {"DPGMM": "about 100", "moVB": "about 10", "SubC": "1"}
"""Running times on mixtures relative to a SubC sampler, the only ones in the paper's text."""


def report_synthetic(folder: Path, store: Store, plan: Plan, command: str) -> None:
    rows = store.finished(TABLE)
    source = plan.runs[0].source
    assert isinstance(source, Synthetic)
    words = [
        f"Each data set: {source.points:,} points from a mixture with weights Dir(5), means N(0, {source.spread:g}·I), "
        f"covariances IW(D+2, I). `dpmmwrap generate --dim {source.dim} --clusters K --points {source.points} "
        f"--spread {source.spread:g} --seed {source.data_seed}` draws the first one again."
    ]
    sections = [about(plan, words), table_section(rows, [("clusters", "true clusters")])]
    if plotting.available():
        sections[1].pictures.extend(table_pictures(folder, rows))
        sections += qualitative_sections(folder, store)
    write_sections(folder, f"Synthetic data in {source.dim} dimensions", command, sections)


def report_data(folder: Path, store: Store, plan: Plan, command: str, paper: str | None) -> None:
    rows = store.finished(TABLE)
    source = plan.runs[0].source
    assert isinstance(source, FromFile)
    projected = f", projected on {source.dim} principal components" if source.projected else ""
    words = [
        f"{source.data}: {source.points:,} points in {source.dim} dimensions{projected}, {source.clusters} classes."
    ]
    scaled = [name for name in plan.methods if METHODS[name].scaled]
    if scaled and plan.runs[0].settings.scale:
        words.append(f"{' and '.join(scaled)} get columns of variance one; the others get the original points.")
    elif scaled:
        words.append("All methods get unscaled principal components, which share a unit.")
    sections = [about(plan, words), table_section(rows, [])]
    if paper is not None:
        words = [PAPER_NUMBERS.format(paper)]
        sections.append(Section("Beside the paper", words, beside_the_paper(rows, paper_rows(paper))))
    if plotting.available():
        sections[1].pictures.extend(table_pictures(folder, rows))
    write_sections(folder, f"Methods on {source.data}", command, sections)


def report_paper(folder: Path, store: Store, plan: Plan, command: str) -> None:
    rows = store.finished(TABLE)
    # DPGMM (our prior) has a separate name for each upper bound.
    rows = [row | ({"method": f"DPGMM ({row['upper_bound']})"} if row["method"] == OUR_PRIOR else {}) for row in rows]
    best = best_log_posteriors(rows, DATA_SET)
    rows = [row | {"below_best": best.get(key_of(row, DATA_SET), math.nan) - row["log_posterior"]} for row in rows]
    mixtures, real = select(rows, data=SYNTHETIC), [row for row in rows if row["data"] != SYNTHETIC]
    words = ["The experiments of Winter, Dinari and Freifeld (2022), mean ± standard deviation over runs.", MEASURES]
    if mixtures:
        spreads = sorted({row["dim"]: row["spread"] for row in mixtures}.items())
        words.append(
            f"Mixtures: {mixtures[0]['points']:,} points, weights Dir(5), covariances IW(D+2, I), means N(0, s·I) with "
            f"{', '.join(f's = {spread:g} in D = {dim}' for dim, spread in spreads)}."
        )
    sections = [about(plan, words)]
    starts = [row for row in mixtures if row["method"].startswith("SubC")]
    if starts and plotting.available():
        file = figures.save_both(folder, "crowding", figures.failure_figure(starts))
        caption = "Mean ± standard deviation over data sets. Dashes: as many clusters found as there are."
        sections.append(Section("Where starts fail", pictures=[Picture(file, caption)]))
    for dim in sorted(distinct(mixtures, "dim")):
        subset = select(mixtures, dim=dim)
        sections.append(part(folder, f"Mixtures in {dim} dimensions", f"boxplots-d{dim}", subset))
    if mixtures:
        words = ["The paper shows its results on mixtures in figures; its text has only these numbers."]
        sections.append(Section("Running times beside the paper", words, times_table(mixtures)))
    for data in distinct(real, "data"):
        subset = select(real, data=data)
        name = data.lower().replace("-", "")
        size = f"{subset[0]['points']:,} points in {subset[0]['dim']} dimensions, {subset[0]['clusters']} classes."
        sections.append(part(folder, data, f"boxplots-{name}", subset, [size]))
        words = [PAPER_NUMBERS.format(data)]
        sections.append(Section(f"{data} beside the paper", words, beside_the_paper(subset, paper_rows(data))))
    if plotting.available():
        sections += qualitative_sections(folder, store)
    write_sections(folder, "The experiments of the paper", command, sections)


def part(folder: Path, title: str, name: str, rows: Sequence[Row], words: Sequence[str] = ()) -> Section:
    """The results of one dimension or one real data set: a table and box plots."""
    section = Section(title, [*words, *given_up(rows)], method_table(rows, [("clusters", "true clusters")]))
    if plotting.available():
        file = figures.save_both(folder, name, figures.boxes_figure(rows, figures.MORE_PANELS))
        section.pictures.append(Picture(file, BOXES))
    return section


def times_table(rows: Sequence[Row]) -> ReportTable:
    """Median processor time relative to the first SubC sampler, here and in the paper."""
    methods = distinct(rows, "method")
    medians = {
        name: float(np.median(values(select(rows, method=name), "cpu_seconds") or [math.nan])) for name in methods
    }
    unit = next((medians[name] for name in methods if name.startswith("SubC")), math.nan)
    lines = []
    for name in methods:
        printed = next((text for known, text in PAPER_TIMES.items() if name.startswith(known)), "–")
        lines.append([name, f"{medians[name]:.3g}", formatted(medians[name] / unit, ".3g"), printed])
    return ReportTable(["method", "CPU seconds, median", "relative to SubC, here", "relative to SubC, paper"], lines)


def what_was_run(plan: Plan, words: list[str]) -> Section:
    """The first section, with notes about what could not run."""
    missing = [] if plotting.available() else [NO_MATPLOTLIB]
    return Section("What was run", [*words, *(f"{note}." for note in plan.notes), *missing])


def about(plan: Plan, words: list[str]) -> Section:
    """What was run, and with which settings."""
    settings = plan.runs[0].settings
    first = {
        1: "one cluster, as in the paper",
        "many": "many clusters, which then merge",
        "auto": "one cluster, those on Julia with many, which then merge",
    }.get(settings.init_clusters, f"{settings.init_clusters} clusters")
    accepted = {
        "auto": "",
        "jain-neal": ", and accept splits by the whole Hastings ratio",
        "reference": ", and accept splits like the reference package, which never restarts subclusters",
    }
    prior = "a prior from the data" if settings.prior == "data" else "the reference package's prior"
    if isinstance(settings.prior, float):
        prior += f" with Psi = {settings.prior:g} I in place of I"
    sentences = [
        f"{settings.iterations} iterations, concentration {settings.alpha:g}, {prior}; the SubC "
        f"samplers begin with {first}{accepted[settings.ratio]}."
    ]
    bounds = dict.fromkeys(run.settings.upper_bound for run in plan.runs if run.method in (OUR_PRIOR, OWN_PRIOR))
    if bounds:
        sentences.append(f"DPGMM may use up to {' or '.join(f'{bound:,}' for bound in bounds)} clusters.")
    if OUR_PRIOR in plan.methods:
        sentences.append(f"{OUR_PRIOR} has our prior and concentration, and runs all iterations.")
    if OWN_PRIOR in plan.methods:
        sentences.append(
            f"{OWN_PRIOR} has scikit-learn's defaults and stopping rule; it may use at most one cluster per "
            f"{POINTS_PER_COMPONENT} points."
        )
    return what_was_run(plan, [*words, " ".join(sentences)])


def table_section(rows: Sequence[Row], groups: list[tuple[str, str]]) -> Section:
    words = ["Mean ± standard deviation over runs.", MEASURES]
    return Section("Results", [*words, *given_up(rows)], method_table(rows, groups))


def given_up(rows: Sequence[Row]) -> list[str]:
    """A sentence for each run in which a method failed."""
    return [f"{row['method']}, seed {row['seed']}: {row['problem']}." for row in rows if row["problem"]]


def table_pictures(folder: Path, rows: Sequence[Row]) -> list[Picture]:
    boxes = figures.save_both(folder, "boxplots", figures.boxes_figure(rows))
    times = figures.save_both(folder, "times", figures.times_figure(rows))
    return [
        Picture(boxes, "Clusters found, NMI and ARI by method. Each dot is a run; boxes are quartiles."),
        Picture(times, "Running times by method."),
    ]


def qualitative_sections(folder: Path, store: Store) -> list[Section]:
    """For each number of clusters, the iterations of several runs on one data set, and a plot of the first run."""
    kept = store.arrays(QUALITATIVE)
    rows = store.finished(QUALITATIVE)
    sections = []
    for clusters in dict.fromkeys(run.source.clusters for run, _ in kept):
        watched = [(run, arrays) for run, arrays in kept if run.source.clusters == clusters]
        names = list(dict.fromkeys(run.method for run, _ in watched))
        traces = {name: [arrays for run, arrays in watched if run.method == name] for name in names}
        lines = figures.iterations_figure(traces, clusters)
        file = figures.save_both(folder, f"iterations-k{clusters}", lines)
        pictures = [Picture(file, f"By iteration, for {clusters} true clusters in one data set.")]
        source = watched[0][0].source
        if source.dim > 1:
            X, truth = load(source)
            labellings = {f"Truth: {counted(len(np.unique(truth)), 'cluster')}": truth}
            for name in names:
                row = select(rows, clusters=clusters, method=name)[0]
                found = counted(int(row["n_clusters"]), "cluster")
                labellings[f"{name}: {found}, NMI {row['nmi']:.2f}"] = traces[name][0]["labels"]
            file = figures.save_both(folder, f"scatter-k{clusters}", figures.scatter_figure(X, labellings))
            pictures.append(Picture(file, "The truth, and the first run of each start."))
        sections.append(Section(f"Several runs on one data set with {clusters} clusters", pictures=pictures))
    return sections
