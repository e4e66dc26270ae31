"""Clusters of one in the partition that represents the draws.

If a row is in different clusters in different draws, no cluster has it in most draws, and the partition of least
expected loss may leave it alone. In the draws themselves it is rarely alone, so it joins its most probable cluster,
and its confidence shows the uncertainty.
"""

from __future__ import annotations

import numpy as np

from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.posterior.matching import without_gaps


def join_singletons(draws: IntArray, labels: IntArray) -> tuple[IntArray, int]:
    """Join clusters of one row with the cluster that they are with most often, unless they are alone in most draws.

    The new labels, from 0 without gaps, and the number of rows that joined. O(N) per draw and single row.
    """
    inside = labels >= 0
    sizes = np.bincount(labels[inside])
    others = np.flatnonzero(sizes > 1)
    alone = np.flatnonzero(inside & np.isin(labels, np.flatnonzero(sizes == 1)))
    if not len(alone) or not len(others):
        return labels, 0
    joined, count = labels.copy(), 0
    for row in alone:
        together = np.zeros(len(labels))
        solitary = 0
        for draw in draws:
            same = draw == draw[row]
            together += same
            solitary += int(same.sum() == 1)
        if 2 * solitary < len(draws):
            shares = np.bincount(labels[inside], together[inside])[others] / sizes[others]
            joined[row] = others[shares.argmax()]
            count += 1
    return without_gaps(joined), count
