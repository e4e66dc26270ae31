"""Pieces: what is kept of rows that have left the window.

A piece is the statistics of rows of one cluster that are near each other, and the row that it started with. The first
rows are a random sample of all rows seen: every row starts a piece with the same probability (Vitter 1985), and the
others are added to the nearest piece of their cluster.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.random import Generator

from dpmmwrap.families.base import Points, Prior, Statistics, concatenate, nothing_like
from dpmmwrap.model.memory import Memory, Pieces, Window, joined_points
from dpmmwrap.numerics.arrays import IntArray, UInt8Array
from dpmmwrap.numerics.cells import nearest
from dpmmwrap.sampler.kept import grouped_kept, union

MOST, NUMBERS = 250, 1_000_000
"""Most pieces, and most numbers in their statistics: for wide data there are fewer pieces."""


def added(prior: Prior, one: Statistics, other: Statistics) -> Statistics:
    """The sums of both statistics, cluster by cluster; if one counts observed values, both do."""
    if any(own.shape != its.shape for own, its in zip(one, other, strict=True)):
        one, other = prior.counting_observed(one), prior.counting_observed(other)
    return union(prior, one, other)


def absorbed(memory: Memory, left: Window, sides: UInt8Array, rng: Generator) -> tuple[Memory, IntArray]:
    """Add rows to pieces; return the ids of their pieces, too."""
    if not left.n_rows:
        return memory, np.empty(0, np.int64)
    prior, count, before = memory.prior, left.n_rows, memory.statistics.counts
    old, room = len(before), room_for(memory.statistics)
    weight = count if left.weights is None else left.weights.sum()
    begun = rng.permutation(count)[: count if old + count <= room else round(room * weight / (weight + before.sum()))]
    # Any piece may go, but each cluster keeps one.
    chances = np.append(rng.random(old), np.full(count, -1.0))
    chances[old + begun] = rng.random(len(begun))
    every = np.concatenate([memory.pieces.labels, left.labels])
    order = np.lexsort((-chances, np.arange(old + count) >= old, every))
    best = order[np.flatnonzero(np.diff(every[order], prepend=-2))]
    chances[best] += 3.0
    stays = np.sort(np.argsort(-chances, kind="stable")[: max(len(best), min(room, old + len(begun)))])
    memory, new = thinned(memory, stays[stays < old]), stays[stays >= old] - old
    pieces, ids = memory.pieces, memory.next_piece + np.arange(len(new))
    rows = left.points[new] if not old else joined_points([pieces.rows, left.points[new]])
    pieces = Pieces(
        np.concatenate([pieces.labels, left.labels[new]]), np.concatenate([pieces.sides, sides[new]]),
        np.concatenate([pieces.ids, ids]), rows,
    )  # fmt: skip
    home = nearest_of_their_cluster(prior, left.points, left.labels, pieces)
    home[new] = len(pieces.ids) - len(new) + np.arange(len(new))
    kept = concatenate([memory.statistics, nothing_like(memory.statistics, len(new))])
    whole = whole_rows(memory, left, int(rng.integers(2**62)))
    kept = added(prior, kept, prior.statistics(whole, home.astype(np.int32), len(pieces.ids), left.weights))
    return replace(memory, statistics=kept, pieces=pieces, next_piece=memory.next_piece + len(new)), pieces.ids[home]


def whole_rows(memory: Memory, rows: Window, seed: int) -> Any:
    """Draw what is unknown of rows given their clusters: missing values, scales of heavy tails."""
    prior, kept = memory.prior, memory.pieces.labels
    count = 1 + max(int(rows.labels.max()), int(kept.max(initial=-1)))
    clusters = added(
        prior, grouped_kept(prior, memory.statistics, kept, count),
        prior.statistics(rows.points, rows.labels.astype(np.int32), count, rows.weights),
    )  # fmt: skip
    return prior.posterior(clusters).filled(rows.points, rows.labels, seed)[0]


def thinned(memory: Memory, stays: IntArray) -> Memory:
    """Keep these pieces, at least one of each cluster, and join the others to the nearest of them."""
    pieces, gone = memory.pieces, np.setdiff1d(np.arange(len(memory.pieces.ids)), stays)
    if not len(gone):
        return memory
    left = Pieces(pieces.labels[stays], pieces.sides[stays], pieces.ids[stays], pieces.rows[stays])
    home = np.empty(len(pieces.ids), np.int64)
    home[stays] = np.arange(len(stays))
    home[gone] = nearest_of_their_cluster(memory.prior, pieces.rows[gone], pieces.labels[gone], left)
    return replace(
        memory, statistics=grouped_kept(memory.prior, memory.statistics, home, len(stays)), pieces=left,
        aliases=np.concatenate([memory.aliases, np.stack([pieces.ids, left.ids[home]], axis=1)[gone]]),
    )  # fmt: skip


def room_for(statistics: Statistics) -> int:
    """The number of pieces to keep."""
    return max(1, min(MOST, NUMBERS // sum(int(np.prod(array.shape[1:])) for array in statistics)))


def nearest_of_their_cluster(prior: Prior, rows: Points, labels: IntArray, pieces: Pieces) -> IntArray:
    """For each row, the piece of its cluster whose first row is nearest."""
    embed = prior.embedder(pieces.rows)
    home = np.empty(len(labels), np.int64)
    for cluster in np.unique(labels):
        own, its = np.flatnonzero(labels == cluster), np.flatnonzero(pieces.labels == cluster)
        centres: Any = embed(pieces.rows[its])
        home[own] = its[nearest(rows[own], centres.toarray() if hasattr(centres, "toarray") else centres, embed)]
    return home
