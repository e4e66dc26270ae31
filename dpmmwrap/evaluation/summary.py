"""Summaries of an experiment's rows: mean ± standard deviation over runs, beside the paper's numbers."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

import numpy as np

from dpmmwrap.describe.report.engine import ReportTable
from dpmmwrap.evaluation.experiments import Row
from dpmmwrap.evaluation.methods import given_k

COLUMNS: tuple[tuple[str, str, int], ...] = (
    ("K", "n_clusters", 1),
    ("K-MAE", "k_error", 1),
    ("NMI", "nmi", 3),
    ("ARI", "ari", 3),
    ("log posterior", "log_posterior", 0),
    ("seconds", "seconds", 1),
    ("CPU seconds", "cpu_seconds", 2),
    ("iterations to 1%", "settled_after", 0),
)


def select(rows: Sequence[Row], **wanted: object) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in wanted.items())]


def values(rows: Sequence[Row], column: str) -> list[float]:
    """The numbers of a column, without NaN."""
    return [float(row[column]) for row in rows if not math.isnan(row[column])]


def distinct(rows: Sequence[Row], column: str) -> list[Any]:
    """The values of a column in the order of their first row."""
    return list(dict.fromkeys(row[column] for row in rows))


Best = dict[tuple[object, ...], float]


def key_of(row: Row, columns: Sequence[str]) -> tuple[object, ...]:
    return tuple(row[column] for column in columns)


def best_log_posteriors(rows: Sequence[Row], columns: Sequence[str]) -> Best:
    """The best log posterior among the rows that agree in some columns."""
    best: Best = {}
    for row in rows:
        if not math.isnan(row["log_posterior"]):
            best[key_of(row, columns)] = max(row["log_posterior"], best.get(key_of(row, columns), -math.inf))
    return best


NONE = "–"


def formatted(value: float | str, form: str, otherwise: str = NONE) -> str:
    """A number or a word, or a dash if it is not known."""
    return otherwise if isinstance(value, float) and math.isnan(value) else format(value, form)


def mean_and_deviation(numbers: Sequence[float], digits: int) -> str:
    if not numbers:
        return NONE
    mean, deviation = float(np.mean(numbers)), float(np.std(numbers))
    return f"{mean:,.{digits}f} ± {deviation:,.{digits}f}"


def method_table(rows: Sequence[Row], groups: Sequence[tuple[str, str]]) -> ReportTable:
    """A line per method within each group, such as a number of clusters; groups are (column, heading)."""
    header = [heading for _, heading in groups]
    lines = []
    for group in sorted({tuple(row[column] for column, _ in groups) for row in rows}):
        same = select(rows, **dict(zip((column for column, _ in groups), group, strict=True)))
        for method in distinct(same, "method"):
            runs = select(same, method=method)
            finished = len(values(runs, "nmi"))
            given = {"n_clusters": "given", "k_error": NONE} if given_k(method) else {}
            cells = [given.get(name) or mean_and_deviation(values(runs, name), digits) for _, name, digits in COLUMNS]
            lines.append([*map(str, group), method, str(finished), *cells])
    return ReportTable([*header, "method", "runs", *(heading for heading, _, _ in COLUMNS)], lines)


PaperRow = dict[str, tuple[str, ...]]


def paper_rows(data: str) -> PaperRow:
    """From the paper's table of real data sets: by method K-MAE, NMI and ARI, mean ± deviation over 10 runs."""
    text = (files("dpmmwrap.evaluation") / "paper.csv").read_text(encoding="utf-8")
    return {method: tuple(cells) for name, method, *cells in csv.reader(text.splitlines()) if name == data}


def beside_the_paper(rows: Sequence[Row], paper: PaperRow) -> ReportTable:
    """K-MAE, NMI and ARI here and in the paper, with a line for each method of either."""
    measures = (("K-MAE", "k_error"), ("NMI", "nmi"), ("ARI", "ari"))
    header = ["method"]
    for heading, _ in measures:
        header += [f"{heading}, here", f"{heading}, paper"]
    here = distinct(rows, "method")
    others = [name for name in paper if all(method.split(" (")[0] != name for method in here)]
    lines = []
    for name in (*here, *others):
        runs = select(rows, method=name)
        # Samplers on Julia and DPGMM with either prior are compared with the paper's numbers for the method.
        printed = paper.get(name.split(" (")[0], (NONE,) * 3)
        line = [name]
        for (_, column), theirs in zip(measures, printed, strict=True):
            line += [
                "–" if column == "k_error" and given_k(name) else mean_and_deviation(values(runs, column), 2),
                theirs,
            ]
        lines.append(line)
    return ReportTable(header, lines)
