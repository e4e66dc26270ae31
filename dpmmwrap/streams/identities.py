"""What clusters are called from one batch to the next.

A cluster keeps its id where its rows go. Of clusters that merge the largest gives its id, and the others get theirs
back if they part again; of one that splits the larger half keeps it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpmmwrap.model.memory import Event
from dpmmwrap.numerics.arrays import Float64Array, IntArray


class Before(NamedTuple):
    """Clusters before a batch."""

    ids: IntArray
    next_id: int
    piece_ids: IntArray
    weights: Float64Array
    """Of the pieces."""


class Named(NamedTuple):
    """Ids of the clusters and of the pieces after a batch, and what became of those before it."""

    ids: IntArray
    next_id: int
    piece_ids: IntArray
    events: tuple[Event, ...]


def follow(before: Before, batch: int, homes: IntArray, moved: Float64Array) -> Named:
    """Ids of the clusters after a batch: `homes` are the clusters of the pieces now, and `moved` says how much of the
    free rows of each cluster is now in each (before, after)."""
    ids, next_id, pieces, weights = before.ids, before.next_id, before.piece_ids.copy(), before.weights
    events, count = list[Event](), moved.shape[1]
    # Pieces of one id that part: the larger half keeps it.
    for name in np.unique(pieces):
        own = np.flatnonzero(pieces == name)
        shares = np.bincount(homes[own], weights[own], count)
        for home in np.argsort(-shares, kind="stable")[1 : np.count_nonzero(shares)]:
            pieces[own[homes[own] == home]] = next_id
            next_id += 1
    table = moved.copy()
    home_of = dict(zip(pieces.tolist(), homes.tolist(), strict=True))
    for old, name in enumerate(ids.tolist()):
        if name in home_of:
            table[old, home_of[name]] += weights[pieces == name].sum()
    found = np.full(count, -1, np.int64)
    for old in np.lexsort((ids, -table.sum(axis=1))):
        name = int(ids[old])
        home = home_of.get(name, int(table[old].argmax()))
        if not table[old].any():
            events.append(Event(batch, "death", name))
        elif found[home] < 0:
            found[home] = name
        else:
            events.append(Event(batch, "merge", name, int(found[home])))
    for cluster in np.flatnonzero(found < 0):
        own = np.flatnonzero(homes == cluster)
        origin = int(table[:, cluster].argmax())
        if len(own):
            # What a cluster had absorbed, or a half of it, is on its own again.
            found[cluster] = pieces[own[weights[own].argmax()]]
            former = before.piece_ids[own[weights[own].argmax()]]
            source = former if former != found[cluster] else ids[origin] if table[origin, cluster] else -1
            events.append(Event(batch, "split", int(found[cluster]), int(source)))
            continue
        split = table[origin, cluster] > 0
        events.append(Event(batch, "split" if split else "birth", next_id, int(ids[origin]) if split else -1))
        found[cluster], next_id = next_id, next_id + 1
    return Named(found, next_id, pieces, tuple(events))
