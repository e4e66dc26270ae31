"""What the methods of a battery came to: medians over seeds, gaps to the best log posterior, ranks."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dpmmwrap.evaluation.experiments import Row
from dpmmwrap.evaluation.summary import distinct, select, values

MEDIANS = ("n_clusters", "nmi", "ari", "groups_ari", "log_posterior", "seconds")
CLOSE_NATS, CLOSE_SHARE = 10.0, 0.001
"""A log posterior that is as near to the best one, in nats or as a share of it, counts as the same."""


@dataclass(frozen=True)
class Score:
    """What a method came to on a set: medians over its seeds, not a number where there is none."""

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
    """How far the log posterior is below the best one known of the same model, of any run in the folder."""
    close: int
    """Runs whose log posterior is close to the best one."""
    seconds: float
    problem: str


def scores_of(rows: Sequence[Row], kept: Sequence[Row], groups: Mapping[str, Sequence[str]]) -> list[Score]:
    """A score per set and method, in the order of the rows; `kept` are all rows that know a log posterior."""
    best = best_known(kept)
    return [
        score(select(rows, data=data, method=method), battery_of(str(data), groups), best)
        for data in distinct(rows, "data")
        for method in distinct(select(rows, data=data), "method")
    ]


def battery_of(name: str, groups: Mapping[str, Sequence[str]]) -> str:
    """The first group with a pattern that the name matches; else what stands before its first underscore."""
    for group, patterns in groups.items():
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns):
            return group
    return name.split("_", maxsplit=1)[0]


Best = dict[tuple[object, ...], float]


def best_known(rows: Iterable[Row]) -> Best:
    """The best log posterior of each set and model."""
    best: Best = {}
    for row in rows:
        if row["model"] and not math.isnan(row["log_posterior"]):
            best[model_key(row)] = max(row["log_posterior"], best.get(model_key(row), -math.inf))
    return best


def model_key(row: Row) -> tuple[object, ...]:
    """The points and the model: where both are the same, log posteriors compare."""
    return row["data"], row["fingerprint"], row["points"], row["model"]


def score(rows: Sequence[Row], battery: str, best: Best) -> Score:
    first = rows[0]
    found = [(row["log_posterior"], best[model_key(row)]) for row in rows if model_key(row) in best]
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
        gap=median([highest - reached for reached, highest in found]),
        close=sum(highest - reached <= max(CLOSE_NATS, CLOSE_SHARE * abs(highest)) for reached, highest in found),
        problem=problems[0] if problems else "",
    )


def median(numbers: Sequence[float]) -> float:
    return float(np.median(numbers)) if numbers else math.nan


@dataclass(frozen=True)
class Ranks:
    """Each method's mean rank by ARI (1 is best, ties share theirs) over the sets that all of them have."""

    by_method: dict[str, float]
    sets: int


def mean_ranks(scores: Sequence[Score]) -> Ranks:
    """Of the methods that have at least half of the sets: one for counts alone has no rank among the others."""
    from scipy.stats import rankdata

    # Rounded, or ties would be decided by the last bit.
    aris = {(entry.data, entry.method): round(entry.ari, 6) for entry in scores if not math.isnan(entry.ari)}
    sets = list(dict.fromkeys(entry.data for entry in scores))
    methods = [
        name
        for name in dict.fromkeys(entry.method for entry in scores)
        if 2 * sum((data, name) in aris for data in sets) >= len(sets)
    ]
    common = [data for data in sets if methods and all((data, name) in aris for name in methods)]
    if not common:
        return Ranks({}, 0)
    ranks = np.array([rankdata([-aris[data, name] for name in methods]) for data in common])
    return Ranks(dict(zip(methods, ranks.mean(axis=0).tolist(), strict=True)), len(common))
