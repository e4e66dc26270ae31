"""The small loops over labels, compiled by numba: who is where, and what is called what."""

from __future__ import annotations

from typing import Any

from dpmmwrap.backends.native.kernels import compiled


@compiled
def relabel(labels: Any, sublabels: Any, to_label: Any, to_sublabel: Any) -> None:
    """Give each point the label and sublabel that its old pair maps to. O(n)."""
    for row in range(len(labels)):
        k, side = labels[row], sublabels[row]
        labels[row] = to_label[k, side]
        sublabels[row] = to_sublabel[k, side]


@compiled
def collect_members(order: Any, starts: Any, bounds: Any, clusters: Any, ends: Any, rows: Any) -> None:
    """Row numbers of some clusters, one after the other; `ends` says where each has ended. O(members).

    From each chunk's rows in order of their labels, as the sweep keeps them.
    """
    place = 0
    for number in range(len(clusters)):
        c = clusters[number]
        for chunk in range(len(bounds) - 1):
            for member in range(bounds[chunk] + starts[chunk, c], bounds[chunk] + starts[chunk, c + 1]):
                rows[place] = bounds[chunk] + order[member]
                place += 1
        ends[number] = place


@compiled
def contingency(first: Any, second: Any, table: Any) -> None:
    """How often each pair of labels occurs. O(n)."""
    for row in range(len(first)):
        table[first[row], second[row]] += 1
