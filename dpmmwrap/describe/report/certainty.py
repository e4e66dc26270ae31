"""How certain each row's cluster is, and which rows are doubtful."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.model.empty_rows import with_values
from dpmmwrap.model.rows import telling
from dpmmwrap.numerics.arrays import Float64Array, IntArray, evenly_spaced

LOOKED_AT = 200_000
"""Without draws, probabilities are computed for at most this many rows, evenly spaced."""
CHUNK = 1 << 13
LISTED, SURE = 20, 0.95
"""The largest number of doubtful rows in the list, and the probability from which a row is not doubtful."""
CLASSES = ((0.99, "0.99 and more"), (0.9, "0.9 to 0.99"), (0.5, "0.5 to 0.9"), (0.0, "below 0.5"))
"""The lower end and the name of each class."""


class DoubtfulRow(NamedTuple):
    """A row between clusters."""

    row: int
    cluster: int
    """Its label."""
    probability: float
    """The probability of the most probable cluster; with draws, of the row's cluster."""
    candidates: tuple[tuple[int, float], ...]
    """The most probable clusters and their probabilities; -1 is the outlier component."""


class Certainty(NamedTuple):
    """The probabilities of all rows or some."""

    rows: IntArray
    probability: Float64Array
    from_draws: bool
    doubtful: list[DoubtfulRow]

    def classes(self) -> list[tuple[str, int]]:
        """The number of rows in each class of probability."""
        above = np.diff([0, *(int((self.probability >= low).sum()) for low, _ in CLASSES)])
        return [(name, int(count)) for (_, name), count in zip(CLASSES, above, strict=True)]

    def of_rows(self, rows: IntArray) -> Float64Array:
        """The probabilities of rows; NaN for a row without one."""
        indices = np.minimum(np.searchsorted(self.rows, rows), len(self.rows) - 1)
        return np.where(self.rows[indices] == rows, self.probability[indices], np.nan)


def certainty_of(model: Any, points: Any) -> Certainty:
    """With draws, the share of them in which a row is in its cluster; else the probability of its most probable one."""
    # Rows without values have no cluster.
    rows = np.flatnonzero(with_values(telling(model.mixture_, points).points))
    if model.confidence_ is not None:
        probability = np.asarray(model.confidence_, dtype=np.float64)[rows]
    else:
        rows = rows[evenly_spaced(len(rows), LOOKED_AT)]
        pieces = [rows[begin : begin + CHUNK] for begin in range(0, len(rows), CHUNK)]
        probability = np.concatenate([model.mixture_.predict_proba(points[some]).max(axis=1) for some in pieces])
    least = np.argsort(probability, kind="stable")[:LISTED]
    least = least[probability[least] < SURE]
    listed = []
    if len(least):
        probabilities = model.mixture_.predict_proba(points[rows[least]])
        names = np.arange(probabilities.shape[1])
        names[model.n_clusters_ :] = -1
        order = np.argsort(-probabilities, axis=1, kind="stable")[:, :3]
        for row, sure, each, best in zip(rows[least], probability[least], probabilities, order, strict=True):
            candidates = tuple((int(names[k]), float(each[k])) for k in best if each[k] >= 0.005)
            listed.append(DoubtfulRow(int(row), int(model.labels_[row]), float(sure), candidates))
    return Certainty(rows, probability, model.confidence_ is not None, listed)
