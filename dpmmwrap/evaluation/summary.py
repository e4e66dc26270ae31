"""The rows of an experiment in a few numbers: mean ± standard deviation over runs, and the paper's beside them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from dpmmwrap.evaluation.baselines import GIVEN_K
from dpmmwrap.evaluation.experiments import Row


@dataclass(frozen=True)
class Table:
    """Words in rows and columns."""

    header: list[str]
    lines: list[list[str]]


def text_table(table: Table) -> str:
    """For a terminal: the first column to the left, the others to the right."""
    lines = [table.header, *table.lines]
    widths = [max(len(line[place]) for line in lines) for place in range(len(table.header))]
    padded = [
        "  ".join(cell.rjust(width) if place else cell.ljust(width) for place, (cell, width) in enumerate(cells))
        for cells in (list(zip(line, widths, strict=True)) for line in lines)
    ]
    return "\n".join(line.rstrip() for line in padded)


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


def distinct(rows: Sequence[Row], column: str) -> list[object]:
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
            lines.append([*map(str, group), str(method), str(finished), *summarised(own, str(method))])
    return Table([*header, "method", "runs", *(heading for heading, _, _ in COLUMNS)], lines)


def summarised(rows: Sequence[Row], method: str) -> list[str]:
    told = {"n_clusters": "given", "k_error": "–"} if method in GIVEN_K else {}
    return [told.get(column) or mean_and_deviation(values(rows, column), digits) for _, column, digits in COLUMNS]


@dataclass(frozen=True)
class Gap:
    """By how much a method's NMI differs from another's, on average over the runs that both have."""

    group: dict[str, object]
    other: str
    nmi: float
    runs: int


def worst_gap(rows: Sequence[Row], method: str, columns: Sequence[str]) -> Gap | None:
    """The group (by these columns) where a method falls furthest behind another one that is not given K."""
    gaps = []
    for group in sorted({tuple(row[column] for column in columns) for row in rows}):
        where = dict(zip(columns, group, strict=True))
        same = select(rows, **where)
        for other in distinct(same, "method"):
            if other not in (method, *GIVEN_K):
                gaps.append(gap(select(same, method=method), select(same, method=other), where, str(other)))
    known = [found for found in gaps if found.runs]
    return min(known, key=lambda found: found.nmi) if known else None


def gap(ours: Sequence[Row], theirs: Sequence[Row], where: dict[str, object], other: str) -> Gap:
    """Over common data sets and seeds only: an unfinished method may so far have met the easy ones."""
    found = {(row["data_seed"], row["seed"]): float(row["nmi"]) for row in theirs if not math.isnan(row["nmi"])}
    differences = [
        float(row["nmi"]) - found[row["data_seed"], row["seed"]]
        for row in ours
        if (row["data_seed"], row["seed"]) in found
    ]
    return Gap(where, other, float(np.mean(differences)) if differences else math.nan, len(differences))


PaperRow = dict[str, tuple[str, str, str]]
PAPER: dict[str, PaperRow] = {
    "MNIST": {
        "DPGMM": ("10.0 ± 0.00", "0.68 ± 0.01", "0.47 ± 0.02"),
        "moVB": ("1.00 ± 0.00", "0.64 ± 0.00", "0.46 ± 0.00"),
        "SubC-Random": ("0.80 ± 0.44", "0.66 ± 0.04", "0.48 ± 0.04"),
        "SubC-K-means": ("0.00 ± 0.00", "0.68 ± 0.01", "0.51 ± 0.00"),
        "SubC-SplitNet": ("0.00 ± 0.00", "0.69 ± 0.01", "0.52 ± 0.01"),
        "K-means": ("–", "0.51 ± 0.01", "0.37 ± 0.01"),
        "EM-GMM": ("–", "0.67 ± 0.01", "0.53 ± 0.04"),
    },
    "FMNIST": {
        "DPGMM": ("10.0 ± 0.00", "0.57 ± 0.01", "0.35 ± 0.01"),
        "moVB": ("0.00 ± 0.00", "0.58 ± 0.00", "0.39 ± 0.00"),
        "SubC-Random": ("1.40 ± 0.54", "0.56 ± 0.01", "0.36 ± 0.01"),
        "SubC-K-means": ("1.69 ± 0.89", "0.57 ± 0.00", "0.36 ± 0.01"),
        "SubC-SplitNet": ("1.20 ± 2.16", "0.58 ± 0.01", "0.38 ± 0.01"),
        "K-means": ("–", "0.51 ± 0.01", "0.53 ± 0.00"),
        "EM-GMM": ("–", "0.57 ± 0.02", "0.38 ± 0.01"),
    },
    "CIFAR10": {
        "DPGMM": ("10.0 ± 0.00", "0.71 ± 0.01", "0.58 ± 0.01"),
        "moVB": ("14.00 ± 0.00", "0.68 ± 0.00", "0.53 ± 0.00"),
        "SubC-Random": ("1.30 ± 0.68", "0.68 ± 0.02", "0.55 ± 0.04"),
        "SubC-K-means": ("1.00 ± 0.82", "0.72 ± 0.02", "0.61 ± 0.05"),
        "SubC-SplitNet": ("2.00 ± 0.00", "0.74 ± 0.00", "0.64 ± 0.00"),
        "K-means": ("–", "0.79 ± 0.00", "0.78 ± 0.00"),
        "EM-GMM": ("–", "0.72 ± 0.00", "0.60 ± 0.00"),
    },
    "CIFAR20": {
        "DPGMM": ("20.0 ± 0.00", "0.44 ± 0.01", "0.20 ± 0.01"),
        "moVB": ("2.00 ± 0.00", "0.41 ± 0.00", "0.19 ± 0.00"),
        "SubC-Random": ("6.90 ± 1.85", "0.43 ± 0.01", "0.25 ± 0.01"),
        "SubC-K-means": ("8.20 ± 1.47", "0.56 ± 0.01", "0.28 ± 0.01"),
        "SubC-SplitNet": ("8.50 ± 1.95", "0.46 ± 0.01", "0.27 ± 0.01"),
        "K-means": ("–", "0.49 ± 0.00", "0.33 ± 0.00"),
        "EM-GMM": ("–", "0.44 ± 0.00", "0.24 ± 0.00"),
    },
    "STL-10": {
        "DPGMM": ("10.0 ± 0.00", "0.63 ± 0.00", "0.51 ± 0.01"),
        "moVB": ("10.00 ± 0.00", "0.62 ± 0.00", "0.51 ± 0.00"),
        "SubC-Random": ("1.80 ± 1.09", "0.60 ± 0.03", "0.47 ± 0.05"),
        "SubC-K-means": ("1.20 ± 0.83", "0.63 ± 0.02", "0.52 ± 0.04"),
        "SubC-SplitNet": ("1.00 ± 0.00", "0.67 ± 0.00", "0.56 ± 0.00"),
        "K-means": ("–", "0.70 ± 0.00", "0.67 ± 0.00"),
        "EM-GMM": ("–", "0.61 ± 0.00", "0.46 ± 0.00"),
    },
}
"""The paper's table of real data sets: K-MAE, NMI and ARI, mean ± standard deviation over 10 runs, as printed."""


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
    here = [str(name) for name in distinct(rows, "method")]
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
