"""The scores of a battery's methods, their ranks, and tables of both."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpmmwrap.describe.report.engine import ReportTable
from dpmmwrap.evaluation.experiments import Row
from dpmmwrap.evaluation.methods import OURS, given_k, with_hint
from dpmmwrap.evaluation.sets import PUBLISHED, Published
from dpmmwrap.evaluation.summary import NONE, Best, best_log_posteriors, distinct, formatted, key_of, select, values

MEDIANS = ("n_clusters", "nmi", "ari", "groups_ari", "log_posterior", "seconds")
CLOSE_NATS, CLOSE_SHARE = 10.0, 0.001
"""Log posteriors within this many nats, or this share, of the best one count as equal to it."""


@dataclass(frozen=True)
class Score:
    """The results of a method on a set: medians over its seeds, or NaN."""

    data: str
    battery: str
    points: int
    total: int
    dim: int
    classes: int
    method: str
    runs: int
    n_clusters: float
    nmi: float
    ari: float
    groups_ari: float
    """At the suggested cut of the tree of groups."""
    log_posterior: float
    gap: float
    """How far the log posterior is below the best one of the same model, by any run in the folder."""
    close: int
    """Runs whose log posterior is close to the best one."""
    seconds: float
    problem: str


def scores_of(rows: Sequence[Row], kept: Sequence[Row], groups: Mapping[str, Sequence[str]]) -> list[Score]:
    """A score per set and method, in the order of the rows; `kept` has all rows of the folder."""
    best = best_log_posteriors([row for row in kept if row["model"]], MODEL)
    return [
        score(select(rows, data=data, method=method), battery_of(data, groups), best)
        for data in distinct(rows, "data")
        for method in distinct(select(rows, data=data), "method")
    ]


def battery_of(name: str, groups: Mapping[str, Sequence[str]]) -> str:
    """The first group with a pattern that the name matches; else the part of the name before its first underscore."""
    for group, patterns in groups.items():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            return group
    return name.split("_", maxsplit=1)[0]


MODEL = ("data", "fingerprint", "points", "model")
"""The log posteriors of rows that agree in these columns are comparable."""


def score(rows: Sequence[Row], battery: str, best: Best) -> Score:
    first = rows[0]
    pairs = [(row["log_posterior"], best[key_of(row, MODEL)]) for row in rows if key_of(row, MODEL) in best]
    problems = [row["problem"] for row in rows if row["problem"]]
    return Score(
        data=first["data"],
        battery=battery,
        points=first["points"],
        total=first["total"],
        dim=first["dim"],
        classes=first["clusters"],
        method=first["method"],
        runs=len(values(rows, "ari")),
        **{name: median(values(rows, name)) for name in MEDIANS},
        gap=median([highest - reached for reached, highest in pairs]),
        close=sum(highest - reached <= max(CLOSE_NATS, CLOSE_SHARE * abs(highest)) for reached, highest in pairs),
        problem=problems[0] if problems else "",
    )


def median(numbers: Sequence[float]) -> float:
    return float(np.median(numbers)) if numbers else math.nan


@dataclass(frozen=True)
class Ranks:
    """Each method's mean rank by ARI (1 is best; ties share a rank) over the sets that all of them ran on."""

    by_method: dict[str, float]
    sets: int


def mean_ranks(scores: Sequence[Score]) -> Ranks:
    """Rank the methods with results on at least half of the sets, which leaves out those for counts only."""
    from scipy.stats import rankdata

    # Rounding keeps ties that differ in the last bit.
    aris = {(entry.data, entry.method): round(entry.ari, 6) for entry in scores if not math.isnan(entry.ari)}
    sets = list(by_set(scores))
    methods = [name for name in methods_in(scores) if 2 * sum((data, name) in aris for data in sets) >= len(sets)]
    common = [data for data in sets if methods and all((data, name) in aris for name in methods)]
    if not common:
        return Ranks({}, 0)
    ranks = np.array([rankdata([-aris[data, name] for name in methods]) for data in common])
    return Ranks(dict(zip(methods, ranks.mean(axis=0).tolist(), strict=True)), len(common))


GROUPS = "at groups"
BEHIND, CLEARLY = 15, 0.02
"""The largest number of sets where our default is behind, and the smallest difference that counts."""


def by_set(scores: Iterable[Score]) -> dict[str, dict[str, Score]]:
    """The scores of each set, by method."""
    sets: dict[str, dict[str, Score]] = {}
    for entry in scores:
        sets.setdefault(entry.data, {})[entry.method] = entry
    return sets


def methods_in(scores: Iterable[Score]) -> list[str]:
    return list(dict.fromkeys(entry.method for entry in scores))


Measure = Callable[[Score], float]


def columns_of(scores: Sequence[Score]) -> list[tuple[str, str, Measure]]:
    """The columns of a table of ARIs: heading, method, measure. Methods with groups have two columns."""
    columns: list[tuple[str, str, Measure]] = []
    for name in methods_in(scores):
        columns.append((with_hint(name), name, lambda entry: entry.ari))
        if any(entry.method == name and not math.isnan(entry.groups_ari) for entry in scores):
            columns.append((f"{name}, {GROUPS}", name, lambda entry: entry.groups_ari))
    return columns


def means_table(scores: Sequence[Score], ranks: Ranks) -> ReportTable:
    """Mean ARI of each battery and method, with the number of sets in brackets if some are missing; mean ranks."""
    columns = columns_of(scores)
    lines = []
    for battery in (*dict.fromkeys(entry.battery for entry in scores), None):
        subset = [entry for entry in scores if battery in (entry.battery, None)]
        count = len({entry.data for entry in subset})
        line = [battery or "all", str(count)]
        for _, name, measure in columns:
            aris = [measure(entry) for entry in subset if entry.method == name and not math.isnan(measure(entry))]
            some = "" if len(aris) == count else f" ({len(aris)})"
            line.append(f"{np.mean(aris):.2f}{some}" if aris else NONE)
        lines.append(line)
    if ranks.by_method:
        # Ranks compare ARIs without groups.
        shown = [ranks.by_method.get(name) if GROUPS not in heading else None for heading, name, _ in columns]
        lines.append(["mean rank", str(ranks.sets), *(NONE if rank is None else f"{rank:.2f}" for rank in shown)])
    return ReportTable(["battery", "sets", *(heading for heading, _, _ in columns)], lines)


def sets_table(scores: Sequence[Score]) -> ReportTable:
    """A line per set: the ARI of each method and, in brackets, its number of clusters."""
    columns = columns_of(scores)
    lines = []
    for data, entries in by_set(scores).items():
        first = next(iter(entries.values()))
        line = [data, f"{first.points:,}", str(first.dim), str(first.classes)]
        for heading, name, measure in columns:
            ari = formatted(measure(entries[name]), ".2f") if name in entries else NONE
            more = ari != NONE and GROUPS not in heading and not given_k(name)
            line.append(f"{ari} ({entries[name].n_clusters:g})" if more else ari)
        lines.append(line)
    return ReportTable(["set", "points", "D", "classes", *(heading for heading, _, _ in columns)], lines)


def long_table(scores: Sequence[Score]) -> ReportTable:
    """A line per set and method, with all measures."""
    grouped = any(not math.isnan(entry.groups_ari) for entry in scores)
    columns = {
        "set": ("data", "s"), "method": ("method", "s"), "runs": ("runs", "d"), "K": ("n_clusters", "g"),
        "classes": ("classes", "d"), "NMI": ("nmi", ".3f"), "ARI": ("ari", ".3f"),
        **({"ARI at groups": ("groups_ari", ".3f")} if grouped else {}),
        "log posterior": ("log_posterior", ",.0f"), "below the best": ("gap", ",.1f"), "seconds": ("seconds", ".2f"),
    }  # fmt: skip
    lines = [[formatted(getattr(entry, name), form) for name, form in columns.values()] for entry in scores]
    return ReportTable(list(columns), lines)


def behind_table(scores: Sequence[Score]) -> ReportTable | None:
    """The sets where another method's ARI is furthest above that of our default; None if there are none."""
    pairs = []
    for entries in by_set([entry for entry in scores if not math.isnan(entry.ari)]).values():
        best = max(entries.values(), key=lambda entry: entry.ari)
        if OURS in entries and best.ari > entries[OURS].ari + CLEARLY:
            pairs.append((entries[OURS], best))
    pairs.sort(key=lambda pair: pair[0].ari - pair[1].ari)
    lines = [
        [ours.data, str(ours.classes), f"{ours.n_clusters:g}", f"{ours.ari:.2f}", best.method, f"{best.ari:.2f}"]
        for ours, best in pairs[:BEHIND]
    ]
    return ReportTable(["set", "classes", f"K, {OURS}", f"ARI, {OURS}", "method", "its ARI"], lines) if lines else None


def published_table(scores: Sequence[Score], published: Published) -> ReportTable | None:
    """Published scores beside ours; None if there are none for these sets."""
    sets = {data: entries for data, entries in by_set(scores).items() if data in published}
    if not sets:
        return None
    names = list(dict.fromkeys(name for data in sets for name in published[data]))
    here = [name for name in methods_in(scores) if name == OURS or given_k(name)]
    lines = []
    for data, entries in sets.items():
        aris = [formatted(entries[name].ari, ".2f") if name in entries else NONE for name in here]
        lines.append([data, *aris, *(published[data].get(name) or NONE for name in names)])
    header = ["set", *(f"ARI, {name}, here" for name in here), *(name.removeprefix(PUBLISHED) for name in names)]
    return ReportTable(header, lines)
