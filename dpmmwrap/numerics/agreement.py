"""Agreement of two clusterings, computed from their contingency table.

Where labels are available, scikit-learn's scores serve. The functions here return the same numbers where they are not,
or where scikit-learn is too slow: the trace needs a score in every iteration, and with Dask no process has all labels.
"""

from __future__ import annotations

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, IntArray

AGREEMENT = 0.8
"""Adjusted Rand index below which chains count as having found different clusterings. A clustering found by two chains
will be found again."""


def ari_of_table(table: IntArray) -> float:
    """The adjusted Rand index from a contingency table."""
    counts = np.asarray(table, dtype=np.float64)
    rows, columns = pairs(counts.sum(axis=1)), pairs(counts.sum(axis=0))
    chance = rows * columns / max(pairs(counts.sum(keepdims=True)), 1.0)
    most = (rows + columns) / 2
    # Both are a single cluster, or all singletons, so they agree.
    return 1.0 if most == chance else float((pairs(counts) - chance) / (most - chance))


def pairs(counts: Float64Array) -> float:
    """Number of pairs of points within groups of these sizes."""
    return float((counts * (counts - 1)).sum() / 2)


def nmi_of_table(table: IntArray) -> float:
    """Normalised mutual information (arithmetic mean) from a contingency table."""
    counts = np.asarray(table, dtype=np.float64)
    rows, columns = entropy(counts.sum(axis=1)), entropy(counts.sum(axis=0))
    if rows == 0 and columns == 0:
        return 1.0
    shared = rows + columns - entropy(counts.ravel())
    return max(0.0, 2 * shared / (rows + columns))


def entropy(counts: Float64Array) -> float:
    shares = counts[counts > 0] / counts.sum()
    return float(-(shares * np.log(shares)).sum())
