"""Compiled draws of labels and sublabels from log probabilities, common to all linear families and vectorised over
clusters."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.numerics.labels import CUTOFF
from dpmmwrap.numerics.special import compiled, exp_float32
from dpmmwrap.numerics.variates import random_bits, uniform


@compiled
def draw_labels(scores: Any, key: Any, greedy: Any, labels: Any) -> None:
    """Draw a label for each row with probability proportional to exp of its scores (n, K), which are overwritten. O(n
    K)."""
    rows, count = scores.shape
    for row in range(rows):
        own = scores[row]
        best, at = own[0], 0
        for k in range(1, count):
            best = max(best, own[k])
        total = np.float32(0)
        for k in range(count):
            gap = own[k] - best
            value = exp_float32(gap) if gap > np.float32(-CUTOFF) else np.float32(0)
            own[k] = value
            total += value
        if greedy or total == np.float32(1):
            while own[at] < np.float32(1):
                at += 1
        else:
            left = uniform(random_bits(key, row) >> np.uint64(40)) * total
            # Rounding may leave a remainder, which goes to the last cluster.
            while at < count - 1 and left >= own[at]:
                left -= own[at]
                at += 1
        labels[row] = at


@compiled
def draw_sublabels(
    logs: Any, rows: Any, starts: Any, log_peaks: Any, weights: Any, key: Any, greedy: Any, sublabels: Any,
    log_probs: Any,
) -> None:  # fmt: skip
    """Draw a sublabel for each row, ordered by label, from the log densities (n, 2) of its two subclusters, multiplied
    by its weight if any.

    The log probability with which each cluster's sublabels were drawn is added to its entry of log_probs. O(n).
    """
    for c in range(len(starts) - 1):
        odds = np.float64(log_peaks[2 * c + 1]) - np.float64(log_peaks[2 * c])
        total = 0.0
        for i in range(starts[c], starts[c + 1]):
            t = np.float64(logs[i, 1]) - np.float64(logs[i, 0]) + odds
            t *= weights[rows[i]] if len(weights) > 0 else 1.0
            less = math.exp(-abs(t))
            share = (1.0 if t > 0.0 else less) / (1.0 + less)
            u = 0.5 if greedy else np.float64(uniform(random_bits(key, rows[i])))
            right = u < share
            sublabels[rows[i]] = right
            total -= math.log1p(less) + (abs(t) if right != (t > 0.0) else 0.0)
        log_probs[c] += total


@compiled
def pair_log_prob(logs: Any, weights: Any, first: Any, odds: Any) -> Any:
    """Log probability that the rows before `first` draw the first of two labels and the others the second, given their
    log densities (n, 2), the log odds of the second label's weight, and the rows' weights, if any. O(n)."""
    total = 0.0
    for i in range(len(logs)):
        t = np.float64(logs[i, 1]) - np.float64(logs[i, 0]) + odds
        t *= weights[i] if len(weights) > 0 else 1.0
        against = t if i < first else -t
        total -= math.log1p(math.exp(-abs(t))) + max(against, 0.0)
    return total


@compiled
def sort_by_side(labels: Any, sublabels: Any, rows_by_label: Any, starts: Any, rows: Any, side_starts: Any) -> None:
    """Sort rows that are ordered by label further by sublabel; side_starts[2 k] is where the left subcluster of cluster
    k begins. O(n + K)."""
    for c in range(len(starts) - 1):
        right = 0
        for i in range(starts[c], starts[c + 1]):
            right += sublabels[rows_by_label[i]]
        left_at, right_at = starts[c], starts[c + 1] - right
        side_starts[2 * c], side_starts[2 * c + 1] = left_at, right_at
        for i in range(starts[c], starts[c + 1]):
            row = rows_by_label[i]
            if sublabels[row]:
                rows[right_at] = row
                right_at += 1
            else:
                rows[left_at] = row
                left_at += 1
    side_starts[-1] = starts[-1]
