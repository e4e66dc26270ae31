"""How good a clustering is, given the truth."""

from __future__ import annotations

import numpy as np

from dpmmwrap.arrays import Float64Array, IntArray


def entropy(counts: Float64Array) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())


def nmi_of_table(table: IntArray) -> float:
    """Normalised mutual information (arithmetic mean) from a contingency table.

    The same number as scikit-learn's, without its passes over the labels: a trace wants it every iteration.
    """
    counts = np.asarray(table, dtype=np.float64)
    rows, columns = entropy(counts.sum(axis=1)), entropy(counts.sum(axis=0))
    if rows == 0 and columns == 0:
        return 1.0
    shared = rows + columns - entropy(counts.ravel())
    return max(0.0, 2 * shared / (rows + columns))
