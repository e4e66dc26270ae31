"""Clusters of one in the partition that represents the draws.

Where a row is now with one cluster and now with another, no cluster claims it in most draws, and the partition of least
expected loss may set it apart. It is seldom alone in the draws themselves: then it belongs to its likeliest cluster,
and its confidence says how unsure that is.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpmmwrap.numerics.arrays import IntArray


class Claimed(NamedTuple):
    """Labels in which rows that are seldom alone are with others, and how many rows that concerns."""

    labels: IntArray
    rows: int


def claim_singletons(draws: IntArray, labels: IntArray) -> Claimed:
    """Give clusters of one to the cluster whose rows they are with most often, unless they are alone in most draws.

    Labels run from 0 without gaps again. O(N) a draw and row that is set apart.
    """
    inside = labels >= 0
    sizes = np.bincount(labels[inside])
    others = np.flatnonzero(sizes > 1)
    alone = np.flatnonzero(inside & np.isin(labels, np.flatnonzero(sizes == 1)))
    if not len(alone) or not len(others):
        return Claimed(labels, 0)
    claimed, count = labels.copy(), 0
    for row in alone:
        together = np.zeros(len(labels))
        solitary = 0
        for draw in draws:
            same = draw == draw[row]
            together += same
            solitary += int(same.sum() == 1)
        if 2 * solitary < len(draws):
            shares = np.bincount(labels[inside], together[inside])[others] / sizes[others]
            claimed[row] = others[shares.argmax()]
            count += 1
    claimed[inside] = np.unique(claimed[inside], return_inverse=True)[1]
    return Claimed(claimed, count)
