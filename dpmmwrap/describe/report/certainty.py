"""How sure each row's cluster is, and which rows are doubtful."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.describe.profiles import evenly_spaced
from dpmmwrap.model.empty_rows import with_values
from dpmmwrap.model.rows import telling
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.numerics.cells import thread_pools

LOOKED_AT = 200_000
"""Rows whose probabilities are computed at most where there are no draws; of more, evenly spaced ones."""
CHUNK = 1 << 13
LISTED, SURE = 20, 0.95
"""Rows in the list of doubtful ones at most; a row of at least this probability is not doubtful."""
CLASSES = ((0.99, "0.99 and more"), (0.9, "0.9 to 0.99"), (0.5, "0.5 to 0.9"), (0.0, "below 0.5"))
"""Lower ends, from sure to unsure."""


class Doubtful(NamedTuple):
    """A row between clusters."""

    row: int
    cluster: int
    """Its label."""
    probability: float
    """Of the cluster that is most probable; with draws, of its own."""
    candidates: tuple[tuple[int, float], ...]
    """The most probable clusters and their probabilities; -1 is the outlier component."""


class Certainty(NamedTuple):
    """Probabilities of some rows or of all."""

    rows: IntArray
    probability: Float64Array
    from_draws: bool
    doubtful: list[Doubtful]

    def classes(self) -> list[tuple[str, int]]:
        """How many rows are how sure."""
        edges = [np.inf, *(low for low, _ in CLASSES)]
        return [
            (name, int(((self.probability >= edges[place + 1]) & (self.probability < edges[place])).sum()))
            for place, (_, name) in enumerate(CLASSES)
        ]

    def share_above(self, least: float) -> float:
        return float((self.probability >= least).mean())

    def of_rows(self, rows: IntArray) -> Float64Array:
        """Probabilities of rows; not a number where one was not looked at."""
        places = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where(self.rows[places] == rows, self.probability[places], np.nan)


def certainty_of(model: Any, points: Any) -> Certainty:
    """By the draws where there are any: the share of them in which a row is in its cluster. Else the probability of
    the most probable cluster, by `predict_proba`."""
    # Small products: more threads than idle cores make them ten times slower.
    with thread_pools().limit(limits=1):
        return certainty_by(model, points)


def certainty_by(model: Any, points: Any) -> Certainty:
    # What has no value has no cluster, and nothing to be sure of.
    known = np.flatnonzero(with_values(telling(model.mixture_, points).points))
    if model.confidence_ is not None:
        rows, probability = known, np.asarray(model.confidence_, dtype=np.float64)[known]
    else:
        rows = known[evenly_spaced(len(known), LOOKED_AT)]
        probability = np.empty(len(rows))
        for begin in range(0, len(rows), CHUNK):
            chosen = rows[begin : begin + CHUNK]
            probability[begin : begin + CHUNK] = model.mixture_.predict_proba(points[chosen]).max(axis=1)
    least = np.argsort(probability, kind="stable")[:LISTED]
    least = least[probability[least] < SURE]
    listed = doubtful_rows(model, points, rows[least], probability[least])
    return Certainty(rows, probability, model.confidence_ is not None, listed)


def doubtful_rows(model: Any, points: Any, rows: IntArray, probability: Float64Array) -> list[Doubtful]:
    if not len(rows):
        return []
    found = model.mixture_.predict_proba(points[rows])
    names = np.arange(found.shape[1])
    names[model.n_clusters_ :] = -1
    order = np.argsort(-found, axis=1, kind="stable")[:, :3]
    return [
        Doubtful(
            int(row),
            int(model.labels_[row]),
            float(sure),
            tuple((int(names[k]), float(found[place, k])) for k in order[place] if found[place, k] >= 0.005),
        )
        for place, (row, sure) in enumerate(zip(rows, probability, strict=True))
    ]
