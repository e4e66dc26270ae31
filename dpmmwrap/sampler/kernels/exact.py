"""The loops of the exact moves, compiled by numba, for every family: `collapsed` knows the clusters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.sampler.kernels.collapsed import add_point, clear, log_predictive
from dpmmwrap.special import compiled_float64 as compiled

SIDE_STRENGTH = 1.0
"""Added to a side's number of points when the next ones choose a side."""


@compiled
def gibbs_points(clusters: Any, used: Any, X: Any, rows: Any, uniforms: Any, alpha: Any, labels: Any) -> Any:
    """Neal's algorithm 3 on some rows, one after the other: each may join a cluster or found one.

    `used` clusters come first; those that are born take an empty place. How many places are used then. O(K D) a row, or
    O(K D^2) with full covariances.
    """
    scores = np.empty(len(clusters.counts))
    for t in range(len(rows)):
        row = rows[t]
        own = labels[row]
        add_point(clusters, own, X, row, -1.0)
        clusters.counts[own] -= 1.0
        if clusters.counts[own] == 0.0:
            # Nothing of the rounding stays behind.
            clear(clusters, own)
        vacant, best = used, -np.inf
        for k in range(used):
            if clusters.counts[k] > 0.0:
                scores[k] = math.log(clusters.counts[k]) + log_predictive(clusters, k, X, row)
                best = max(best, scores[k])
            else:
                scores[k] = -np.inf
                vacant = k
        scores[used] = -np.inf
        scores[vacant] = math.log(alpha) + log_predictive(clusters, vacant, X, row)
        best = max(best, scores[vacant])
        total = 0.0
        for k in range(used + 1):
            scores[k] = math.exp(scores[k] - best)
            total += scores[k]
        left, chosen = uniforms[t] * total, 0
        while chosen < used and left >= scores[chosen]:
            left -= scores[chosen]
            chosen += 1
        if scores[chosen] == 0.0:
            # What rounding left over goes to where it was.
            chosen = own if clusters.counts[own] > 0.0 else vacant
        labels[row] = chosen
        add_point(clusters, chosen, X, row, 1.0)
        clusters.counts[chosen] += 1.0
        used = max(used, chosen + 1)
    return used


@compiled
def allocate(clusters: Any, X: Any, rows: Any, sides: Any, uniforms: Any, draw: Any, first: Any) -> Any:
    """log probability of dividing rows between two sides, which their first two found, in the order given.

    One by one up to `first`, then in blocks that double: within a block, points choose independently, given the sides
    so far. With `draw` the sides are drawn, else they are as given. Sides are the first two places of `clusters`.
    """
    count = len(rows)
    for side in range(2):
        clear(clusters, side)
        sides[side] = side
        add_point(clusters, side, X, rows[side], 1.0)
        clusters.counts[side] = 1.0
    log_prob = 0.0
    begin = 2
    while begin < count:
        end = begin + 1 if begin < first else min(count, 2 * begin)
        odds = math.log(clusters.counts[1] + SIDE_STRENGTH) - math.log(clusters.counts[0] + SIDE_STRENGTH)
        for place in range(begin, end):
            row = rows[place]
            t = odds + log_predictive(clusters, 1, X, row) - log_predictive(clusters, 0, X, row)
            less = math.exp(-abs(t))
            if draw:
                share = (1.0 if t > 0.0 else less) / (1.0 + less)
                sides[place] = uniforms[place] < share
            against = (sides[place] == 1) != (t > 0.0)
            log_prob -= math.log1p(less) + (abs(t) if against else 0.0)
        for place in range(begin, end):
            add_point(clusters, sides[place], X, rows[place], 1.0)
            clusters.counts[sides[place]] += 1.0
        begin = end
    return log_prob
