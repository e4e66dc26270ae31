"""The rows of an experiment in a few numbers: mean ± standard deviation over runs, and the paper's beside them."""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import numpy as np

from dpmmwrap.describe.report.sections import Table
from dpmmwrap.evaluation.baselines import GIVEN_K
from dpmmwrap.evaluation.experiments import Row

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
    """The numbers of a column; runs that gave none are left out."""
    return [float(row[column]) for row in rows if not math.isnan(row[column])]


def distinct(rows: Sequence[Row], column: str) -> list[Any]:
    """The values of a column in the order of their first row."""
    return list(dict.fromkeys(row[column] for row in rows))


def mean_and_deviation(numbers: Sequence[float], digits: int) -> str:
    if not numbers:
        return "–"
    mean, deviation = float(np.mean(numbers)), float(np.std(numbers))
    return f"{mean:,.{digits}f} ± {deviation:,.{digits}f}"


def method_table(rows: Sequence[Row], groups: Sequence[tuple[str, str]]) -> Table:
    """A line per method within each group, such as a number of clusters; groups are (column, heading)."""
    header = [heading for _, heading in groups]
    lines = []
    for group in sorted({tuple(row[column] for column, _ in groups) for row in rows}):
        same = select(rows, **dict(zip((column for column, _ in groups), group, strict=True)))
        for method in distinct(same, "method"):
            own = select(same, method=method)
            finished = len(values(own, "nmi"))
            told = {"n_clusters": "given", "k_error": "–"} if method in GIVEN_K else {}
            cells = [told.get(name) or mean_and_deviation(values(own, name), digits) for _, name, digits in COLUMNS]
            lines.append([*map(str, group), method, str(finished), *cells])
    return Table([*header, "method", "runs", *(heading for heading, _, _ in COLUMNS)], lines)


@dataclass(frozen=True)
class NmiGap:
    """By how much a method's NMI differs from another's, on average over the runs that both have."""

    group: dict[str, object]
    other: str
    nmi: float
    runs: int


def worst_gap(rows: Sequence[Row], method: str, columns: Sequence[str]) -> NmiGap | None:
    """The group (by these columns) where a method falls furthest behind another one that is not given K."""
    gaps = []
    for group in sorted({tuple(row[column] for column in columns) for row in rows}):
        where = dict(zip(columns, group, strict=True))
        same = select(rows, **where)
        for other in distinct(same, "method"):
            if other not in (method, *GIVEN_K):
                gaps.append(gap(select(same, method=method), select(same, method=other), where, other))
    known = [found for found in gaps if found.runs]
    return min(known, key=lambda found: found.nmi) if known else None


def gap(ours: Sequence[Row], theirs: Sequence[Row], where: dict[str, object], other: str) -> NmiGap:
    """Over common data sets and seeds only: an unfinished method may so far have met the easy ones."""
    found = {(row["data_seed"], row["seed"]): float(row["nmi"]) for row in theirs if not math.isnan(row["nmi"])}
    differences = [
        float(row["nmi"]) - found[row["data_seed"], row["seed"]]
        for row in ours
        if (row["data_seed"], row["seed"]) in found
    ]
    return NmiGap(where, other, float(np.mean(differences)) if differences else math.nan, len(differences))


PAPER_SETS = ("MNIST", "FMNIST", "CIFAR10", "CIFAR20", "STL-10")
PaperRow = dict[str, tuple[str, ...]]


def paper_rows(data: str) -> PaperRow:
    """The paper's table of real data sets: by method K-MAE, NMI and ARI, mean ± standard deviation over 10 runs, as
    printed."""
    text = (files("dpmmwrap.evaluation") / "paper.csv").read_text(encoding="utf-8")
    return {method: tuple(cells) for name, method, *cells in csv.reader(text.splitlines()) if name == data}


def paper_set(name: str) -> str | None:
    """Which of the paper's data sets a file's name speaks of, if any."""
    plain = name.lower().replace("-", "").replace("_", "")
    marks = (("fashion", "FMNIST"), ("fmnist", "FMNIST"), ("mnist", "MNIST"), ("cifar10", "CIFAR10"))
    more = (("cifar20", "CIFAR20"), ("stl10", "STL-10"))
    # CIFAR-100's 20 superclasses are the paper's CIFAR20; its 100 classes are none of the paper's sets.
    if "cifar100" in plain:
        return None
    return next((found for mark, found in (*marks, *more) if mark in plain), None)


def beside_the_paper(rows: Sequence[Row], paper: PaperRow) -> Table:
    """Ours and the paper's K-MAE, NMI and ARI, a line per method of either."""
    measures = (("K-MAE", "k_error"), ("NMI", "nmi"), ("ARI", "ari"))
    header = ["method"]
    for heading, _ in measures:
        header += [f"{heading}, here", f"{heading}, paper"]
    here = distinct(rows, "method")
    others = [name for name in paper if all(found.split(" (")[0] != name for found in here)]
    lines = []
    for name in (*here, *others):
        own = select(rows, method=name)
        # A sampler on Julia, or DPGMM with any prior, stands beside the paper's number for the same method.
        printed = paper.get(name.split(" (")[0], ("–",) * 3)
        line = [name]
        for (_, column), theirs in zip(measures, printed, strict=True):
            given = column == "k_error" and name in GIVEN_K
            line += ["–" if given else mean_and_deviation(values(own, column), 2), theirs]
        lines.append(line)
    return Table(header, lines)
