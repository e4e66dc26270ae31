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
def collect_members(labels: Any, slot_of: Any, starts: Any, rows: Any) -> None:
    """Row numbers of the clusters that have a slot (slot_of[k] >= 0), slot after slot. O(n).

    `starts` says where each slot begins, and then where it ends.
    """
    for row in range(len(labels)):
        slot = slot_of[labels[row]]
        if slot >= 0:
            rows[starts[slot]] = row
            starts[slot] += 1


@compiled
def contingency(first: Any, second: Any, table: Any) -> None:
    """How often each pair of labels occurs. O(n)."""
    for row in range(len(first)):
        table[first[row], second[row]] += 1
