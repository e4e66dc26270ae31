"""What clusters are called from one batch to the next.

A cluster keeps its id where its rows go. Of clusters that merge the largest gives its id, of one that splits the larger
half keeps it; but rows that are gone keep theirs together with what is kept of them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpmmwrap.model.memory import Event
from dpmmwrap.numerics.arrays import Float64Array, IntArray


class Named(NamedTuple):
    """Ids of the clusters after a batch, and what became of those before it."""

    ids: IntArray
    next_id: int
    events: tuple[Event, ...]


def follow(
    ids: IntArray, next_id: int, batch: int, kept: Float64Array, homes: IntArray, moved: Float64Array, born: IntArray
) -> Named:
    """Ids of the clusters after a batch.

    Of the clusters before it: their `ids`, the weight of what is `kept` of each (0 of those whose rows are all free),
    and where that is now (`homes`, -1 for nothing). `moved` says how much of the free rows of each is now in each
    cluster (before, after). `born` are the clusters after it, by number, in the order in which new ids are given.
    """
    table = moved.copy()
    there = np.flatnonzero(homes >= 0)
    table[there, homes[there]] += kept[there]
    homes = np.where(homes >= 0, homes, table.argmax(axis=1) if table.shape[1] else -1)
    found, events = np.full(table.shape[1], -1, np.int64), list[Event]()
    # The largest first: it gives its id.
    for old in np.lexsort((ids, -table.sum(axis=1))):
        home = int(homes[old])
        if not table[old].any():
            events.append(Event(batch, "death", int(ids[old])))
        elif found[home] < 0:
            found[home] = ids[old]
        else:
            events.append(Event(batch, "merge", int(ids[old]), int(found[home])))
    for cluster in born[found[born] < 0]:
        origin = int(table[:, cluster].argmax()) if len(table) else 0
        if len(table) and table[origin, cluster]:
            events.append(Event(batch, "split", next_id, int(ids[origin])))
        else:
            events.append(Event(batch, "birth", next_id))
        found[cluster], next_id = next_id, next_id + 1
    return Named(found, next_id, tuple(events))
