"""Small compiled loops over labels: sorting, relabelling and counting."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.special import compiled, new_array, new_zeros
from dpmmwrap.numerics.variates import random_bits

CUTOFF = 30.0
"""A cluster whose log probability is this far below the best one is left out."""


class LabelOrder(NamedTuple):
    """The rows of each chunk, ordered by label."""

    rows: Any
    """Row numbers within the chunk (N,)."""
    starts: Any
    """Index of each cluster's first row (chunks, K + 1)."""


@compiled
def sort_by_label(labels: Any, starts: Any, order: Any) -> None:
    """Counting sort of a chunk: `order` receives the rows, starts[k] the index of cluster k's first row. O(n + K)."""
    for k in range(len(starts)):
        starts[k] = 0
    for row in range(len(labels)):
        starts[labels[row] + 1] += 1
    for k in range(1, len(starts)):
        starts[k] += starts[k - 1]
    for row in range(len(labels)):
        k = labels[row]
        order[starts[k]] = row
        starts[k] += 1
    for k in range(len(starts) - 1, 0, -1):
        starts[k] = starts[k - 1]
    starts[0] = 0


@compiled
def random_labels(key: Any, first_row: Any, count: Any, labels: Any) -> None:
    """Draw a label below `count` for each row; row numbers start at `first_row`. O(n)."""
    for row in range(len(labels)):
        labels[row] = random_bits(key, first_row + row) % np.uint64(count)


@compiled
def relabel(labels: Any, sublabels: Any, to_label: Any, to_sublabel: Any) -> None:
    """Map each pair of label and sublabel to a new one. O(n)."""
    for row in range(len(labels)):
        k, side = labels[row], sublabels[row]
        labels[row] = to_label[k, side]
        sublabels[row] = to_sublabel[k, side]


@compiled
def collect_members(order: Any, starts: Any, bounds: Any, clusters: Any, ends: Any, rows: Any) -> None:
    """Concatenate the row numbers of some clusters; `ends` receives the end of each. O(members).

    Uses each chunk's rows ordered by label, which the sweep keeps up to date.
    """
    at = 0
    for number in range(len(clusters)):
        c = clusters[number]
        for chunk in range(len(bounds) - 1):
            for member in range(bounds[chunk] + starts[chunk, c], bounds[chunk] + starts[chunk, c + 1]):
                rows[at] = bounds[chunk] + order[member]
                at += 1
        ends[number] = at


@compiled
def contingency(first: Any, second: Any, table: Any) -> None:
    """Count each pair of labels. O(n)."""
    for row in range(len(first)):
        table[first[row], second[row]] += 1


@compiled
def refuse_to_empty(before: Any, labels: Any, count: Any, fixed: Any) -> Any:
    """Undo the label changes that would empty a cluster; return the rows that stay and where they would have gone.

    Rows are processed in order: a change is refused if its cluster has no other point at that moment. A cluster that
    keeps one of its points throughout cannot become empty, so only the others are examined. O(N).
    """
    staying, left = new_zeros(count, np.int64), new_zeros(count, np.int64)
    for row in range(len(labels)):
        left[before[row]] += 1
        staying[before[row]] += labels[row] == before[row]
    deserted = False
    for k in range(fixed, count):
        deserted |= left[k] > 0 and staying[k] == 0
    refused, refusals = new_array((count, 2), np.int64), 0
    if deserted:
        for row in range(len(labels)):
            old, new = before[row], labels[row]
            if old != new:
                if old >= fixed and left[old] == 1:
                    labels[row] = old
                    refused[refusals, 0], refused[refusals, 1] = row, new
                    refusals += 1
                else:
                    left[old] -= 1
                    left[new] += 1
    return refused[:refusals]
