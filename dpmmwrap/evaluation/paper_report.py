"""The report of the paper's experiments: a section for each dimension and each real data set."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from dpmmwrap.describe import plotting
from dpmmwrap.describe.report.sections import Picture, ReportTable, Section, write_sections
from dpmmwrap.evaluation import figures
from dpmmwrap.evaluation.baselines import OUR_PRIOR
from dpmmwrap.evaluation.experiments import TABLE, Plan, Row
from dpmmwrap.evaluation.report import MEASURES, PAPER_NUMBERS, about, given_up, qualitative_sections, spreads
from dpmmwrap.evaluation.store import Store
from dpmmwrap.evaluation.summary import (
    beside_the_paper,
    best_log_posteriors,
    distinct,
    key_of,
    method_table,
    paper_rows,
    select,
    values,
)

SYNTHETIC = "synthetic"
DATA_SET = ("data", "dim", "clusters", "data_seed")
"""The columns that identify a data set."""
BOXES = (
    "Each dot is a run; boxes are quartiles. The log posterior is shown as its distance from the best one of any "
    "method on the same data set."
)
PAPER_TIMES = {"DPGMM": "about 100", "moVB": "about 10", "SubC": "1"}
"""Running times on mixtures relative to a SubC sampler: the only ones that the paper's text gives."""


def report_paper(folder: Path, store: Store, plan: Plan, command: str) -> None:
    rows = with_distances([named(row) for row in store.finished(TABLE)])
    mixtures, real = select(rows, data=SYNTHETIC), [row for row in rows if row["data"] != SYNTHETIC]
    words = ["The experiments of Winter, Dinari and Freifeld (2022), mean ± standard deviation over runs.", MEASURES]
    if mixtures:
        words.append(
            f"Mixtures: {mixtures[0]['points']:,} points, weights Dir(5), covariances IW(D+2, I), means N(0, s·I) with "
            f"{spreads(mixtures)}."
        )
    sections = [about(plan, words)]
    starts = [row for row in mixtures if row["method"].startswith("SubC")]
    if starts and plotting.available():
        file = figures.save_both(folder, "crowding", figures.failure_figure(starts))
        caption = "Mean ± standard deviation over data sets. Dashes: as many clusters found as there are."
        sections.append(Section("Where starts fail", pictures=[Picture(file, caption)]))
    for dim in sorted(distinct(mixtures, "dim")):
        own = select(mixtures, dim=dim)
        sections.append(part(folder, f"Mixtures in {dim} dimensions", f"boxplots-d{dim}", own))
    if mixtures:
        words = ["The paper shows its results on mixtures in figures; its text has only these numbers."]
        sections.append(Section("Running times beside the paper", words, times_table(mixtures)))
    for data in distinct(real, "data"):
        own = select(real, data=data)
        name = data.lower().replace("-", "")
        size = f"{own[0]['points']:,} points in {own[0]['dim']} dimensions, {own[0]['clusters']} classes."
        sections.append(part(folder, data, f"boxplots-{name}", own, [size]))
        words = [PAPER_NUMBERS.format(data)]
        sections.append(Section(f"{data} beside the paper", words, beside_the_paper(own, paper_rows(data))))
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


def named(row: Row) -> Row:
    """With another name of DPGMM (our prior) for each upper bound."""
    return row | {"method": f"DPGMM ({row['upper_bound']})"} if row["method"] == OUR_PRIOR else row


def with_distances(rows: Sequence[Row]) -> list[Row]:
    """With a column `below_best`: how far the log posterior is below the best one on the data set."""
    best = best_log_posteriors(rows, DATA_SET)
    return [row | {"below_best": best.get(key_of(row, DATA_SET), math.nan) - row["log_posterior"]} for row in rows]


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
        here = "–" if math.isnan(medians[name] / unit) else f"{medians[name] / unit:.3g}"
        lines.append([name, f"{medians[name]:.3g}", here, printed])
    return ReportTable(["method", "CPU seconds, median", "relative to SubC, here", "relative to SubC, paper"], lines)
