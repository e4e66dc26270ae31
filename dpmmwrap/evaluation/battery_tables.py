"""The tables of a battery: mean ARI of each battery, a line per set, a line per set and method."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from dpmmwrap.evaluation.baselines import GIVEN_K
from dpmmwrap.evaluation.battery import OURS
from dpmmwrap.evaluation.scores import Ranks, Score
from dpmmwrap.evaluation.sets import PUBLISHED, Published
from dpmmwrap.evaluation.summary import Table

NONE = "–"
GROUPS = "at groups"
BEHIND, CLEARLY = 15, 0.02
"""Sets in the table of those where our default is furthest behind, and the least difference that counts."""


def methods_in(scores: Iterable[Score]) -> list[str]:
    return list(dict.fromkeys(entry.method for entry in scores))


Measure = Callable[[Score], float]


def columns_of(scores: Sequence[Score]) -> list[tuple[str, str, Measure]]:
    """The columns of a table of ARIs: heading, method, measure. Methods with groups have a second one."""
    found: list[tuple[str, str, Measure]] = []
    for name in methods_in(scores):
        found.append((f"{name}, given K" if name in GIVEN_K else name, name, lambda entry: entry.ari))
        if any(entry.method == name and not math.isnan(entry.groups_ari) for entry in scores):
            found.append((f"{name}, {GROUPS}", name, lambda entry: entry.groups_ari))
    return found


def means_table(scores: Sequence[Score], ranks: Ranks) -> Table:
    """Mean ARI of each battery and method; in brackets the number of sets, where it is not all of them; mean ranks."""
    columns = columns_of(scores)
    lines = []
    for battery in (*dict.fromkeys(entry.battery for entry in scores), None):
        own = [entry for entry in scores if battery in (entry.battery, None)]
        count = len({entry.data for entry in own})
        means = [
            mean_of([measure(entry) for entry in own if entry.method == name], count) for _, name, measure in columns
        ]
        lines.append([battery or "all", str(count), *means])
    if ranks.by_method:
        # A rank is by ARI without groups.
        shown = [ranks.by_method.get(name) if GROUPS not in heading else None for heading, name, _ in columns]
        lines.append(["mean rank", str(ranks.sets), *(NONE if rank is None else f"{rank:.2f}" for rank in shown)])
    return Table(["battery", "sets", *(heading for heading, _, _ in columns)], lines)


def mean_of(numbers: Sequence[float], count: int) -> str:
    known = [number for number in numbers if not math.isnan(number)]
    if not known:
        return NONE
    some = "" if len(known) == count else f" ({len(known)})"
    return f"{np.mean(known):.2f}{some}"


def sets_table(scores: Sequence[Score]) -> Table:
    """A line per set: ARI and, in brackets, clusters found by each method."""
    columns = columns_of(scores)
    lines = []
    for data in dict.fromkeys(entry.data for entry in scores):
        own = {entry.method: entry for entry in scores if entry.data == data}
        first = next(iter(own.values()))
        cells = [with_clusters(own.get(name), heading, measure) for heading, name, measure in columns]
        lines.append([data, f"{first.points:,}", str(first.dim), str(first.classes), *cells])
    return Table(["set", "points", "D", "classes", *(heading for heading, _, _ in columns)], lines)


def with_clusters(entry: Score | None, heading: str, measure: Measure) -> str:
    if entry is None or math.isnan(measure(entry)):
        return NONE
    found = "" if entry.method in GIVEN_K or GROUPS in heading else f" ({entry.n_clusters:g})"
    return f"{measure(entry):.2f}{found}"


def long_table(scores: Sequence[Score]) -> Table:
    """A line per set and method, with everything that was measured."""
    grouped = any(not math.isnan(entry.groups_ari) for entry in scores)
    header = ["set", "method", "runs", "K", "classes", "NMI", "ARI", *(["ARI at groups"] if grouped else [])]
    header += ["log posterior", "below the best", "seconds"]
    lines = [
        [
            *(entry.data, entry.method, str(entry.runs), number(entry.n_clusters, "g"), str(entry.classes)),
            *(number(entry.nmi, ".3f"), number(entry.ari, ".3f")),
            *([number(entry.groups_ari, ".3f")] if grouped else []),
            *(number(entry.log_posterior, ",.0f"), number(entry.gap, ",.1f"), number(entry.seconds, ".2f")),
        ]
        for entry in scores
    ]
    return Table(header, lines)


def number(value: float, form: str) -> str:
    return NONE if math.isnan(value) else format(value, form)


def behind_table(scores: Sequence[Score]) -> Table | None:
    """The sets where another method's ARI is furthest above that of our default; None if there are none."""
    found = []
    for data in dict.fromkeys(entry.data for entry in scores):
        own = [entry for entry in scores if entry.data == data and not math.isnan(entry.ari)]
        ours = next((entry for entry in own if entry.method == OURS), None)
        best = max(own, key=lambda entry: entry.ari, default=None)
        if ours is not None and best is not None and best.ari > ours.ari + CLEARLY:
            found.append((ours, best))
    found.sort(key=lambda pair: pair[0].ari - pair[1].ari)
    lines = [
        [ours.data, str(ours.classes), f"{ours.n_clusters:g}", f"{ours.ari:.2f}", best.method, f"{best.ari:.2f}"]
        for ours, best in found[:BEHIND]
    ]
    return Table(["set", "classes", f"K, {OURS}", f"ARI, {OURS}", "method", "its ARI"], lines) if lines else None


def published_table(scores: Sequence[Score], published: Published) -> Table | None:
    """Published scores beside ours; None if there are none for these sets."""
    sets = [data for data in dict.fromkeys(entry.data for entry in scores) if data in published]
    if not sets:
        return None
    names = list(dict.fromkeys(name for data in sets for name in published[data]))
    here = [name for name in methods_in(scores) if name == OURS or name in GIVEN_K]
    found = {(entry.data, entry.method): entry.ari for entry in scores}
    lines = [
        [
            data,
            *(number(found.get((data, name), math.nan), ".2f") for name in here),
            *(published[data].get(name) or NONE for name in names),
        ]
        for data in sets
    ]
    header = ["set", *(f"ARI, {name}, here" for name in here), *(name.removeprefix(PUBLISHED) for name in names)]
    return Table(header, lines)
