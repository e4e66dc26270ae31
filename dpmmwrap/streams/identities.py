"""What clusters are called from one batch to the next.

A cluster keeps its id where most of its rows go. Of clusters that merge the largest gives its id; of one that splits
the larger half keeps it, and the other gets a new one. No id is used twice.
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


def follow(ids: IntArray, next_id: int, batch: int, moved: Float64Array) -> Named:
    """Ids of the clusters after a batch: `moved` says how much of each cluster before it is now in each (before,
    after)."""
    events = list[Event]()
    after = np.full(moved.shape[1], -1, np.int64)
    for old in np.lexsort((ids, -moved.sum(axis=1))):
        name, home = int(ids[old]), int(moved[old].argmax())
        if after[home] < 0:
            after[home] = name
        else:
            events.append(Event(batch, "merge", name, int(after[home])))
    for new in np.flatnonzero(after < 0):
        origin = int(moved[:, new].argmax())
        split = moved[origin, new] > 0
        events.append(Event(batch, "split" if split else "birth", next_id, int(ids[origin]) if split else -1))
        after[new], next_id = next_id, next_id + 1
    return Named(after, next_id, tuple(events))
