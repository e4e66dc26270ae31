"""One batch more: the new rows, and those of the window, among the clusters of all that was seen before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.backends.native import NativeBackend
from dpmmwrap.families.base import Points, Prior, Statistics, take
from dpmmwrap.families.screening import log_sum
from dpmmwrap.model.memory import Event, Memory, Pieces, Window, joined_points
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.sampler.kept import grouped_kept, kept_beside, union
from dpmmwrap.sampler.settings import Result, Settings
from dpmmwrap.starts import Initializer
from dpmmwrap.streams.identities import Before, follow

LONGEST, FLAT = 100, 4
"""Iterations of a batch's search at most, and how many have to be as good as those before them: clusters that are known
need few."""
BLOCK = 1 << 14
"""Rows whose probabilities are worked out at a time."""
DEAD = 1.0
"""A cluster that is forgotten to less than one row, and has no new one, dies."""


@dataclass(frozen=True)
class Stream:
    """How a model goes on."""

    window: int
    """The last rows, so many, stay free."""
    forget: float
    """The share of what is kept that is forgotten per row, or per unit of time."""
    freeze: bool
    """Whether the clusters that are known stay apart."""
    elapsed: float
    """Rows or time since the batch before."""
    initializer: Initializer
    sampler: dict[str, Any]
    """Other settings of the sampler."""
    seed: int
    max_iter: int | None = None
    max_clusters: int | None = None


class Updated(NamedTuple):
    """What a batch has led to; clusters are in order of size."""

    memory: Memory
    whole: Statistics
    """Of all rows, those of the window among them."""
    labels: IntArray
    """Of the window's rows and the batch's."""
    row_ids: IntArray
    """The ids of these rows: of their clusters, or of those that these have absorbed."""
    novelty: Float64Array
    """Of the batch's rows: how probably each was in none of the clusters before it."""
    result: Result


def begin_rows(memory: Memory, whole: Statistics, points: Points) -> tuple[IntArray, Float64Array]:
    """The most probable cluster of each row, one more than there are if that is a new one; and how probable the latter
    is."""
    labels, novelty = np.empty(points.shape[0], np.int32), np.empty(points.shape[0])
    for begin in range(0, len(labels), BLOCK):
        rows = slice(begin, begin + BLOCK)
        logs = memory.log_densities(whole, points[rows])
        labels[rows] = logs.argmax(axis=1)
        novelty[rows] = np.exp(logs[:, -1] - log_sum(logs))
    return labels, novelty


def whole_statistics(memory: Memory) -> Statistics:
    """Of all rows: those that are gone, and those of the window."""
    window, prior = memory.window, memory.prior
    kept = grouped_kept(prior, memory.statistics, memory.pieces.labels, memory.n_clusters)
    if window is None or not window.n_rows:
        return kept
    return added(prior, kept, prior.statistics(window.points, window.labels, memory.n_clusters, window.weights))


def added(prior: Prior, one: Statistics, other: Statistics) -> Statistics:
    """The statistics of both, cluster by cluster; where one counts observed values, both do."""
    if any(own.shape != its.shape for own, its in zip(one, other, strict=True)):
        one, other = prior.counting_observed(one), prior.counting_observed(other)
    return union(prior, one, other)


def forgotten(memory: Memory, forget: float, elapsed: float) -> Memory:
    """With less of what is kept; pieces that have faded are gone, and clusters without rows die."""
    if not forget:
        return memory
    statistics: Any = memory.statistics
    statistics = statistics.scaled((1.0 - forget) ** elapsed)
    there = statistics.counts >= DEAD
    window, pieces = memory.window, memory.pieces
    alive = np.isin(np.arange(memory.n_clusters), pieces.labels[there])
    if window is not None:
        alive[window.labels] = True
    if not alive.any():
        largest = int(statistics.counts.argmax())
        there[largest] = alive[pieces.labels[largest]] = True
    deaths = tuple(Event(memory.batches + 1, "death", int(name)) for name in memory.ids[~alive])
    place = np.cumsum(alive) - 1
    if window is not None:
        window = window._replace(labels=place[window.labels].astype(np.int32))
    pieces = Pieces(place[pieces.labels[there]], pieces.sides[there], pieces.ids[there])
    return replace(
        memory, statistics=take(statistics, there), pieces=pieces, ids=memory.ids[alive],
        history=(*memory.history, *deaths), window=window,
    )  # fmt: skip


def update(memory: Memory, points: Points, weights: Float64Array | None, digest: str, stream: Stream) -> Updated:
    """Go on with a batch."""
    memory = forgotten(memory, stream.forget, stream.elapsed)
    whole, window = whole_statistics(memory), memory.window
    labels, novelty = begin_rows(memory, whole, points)
    free = points
    if window is not None and window.n_rows:
        labels, free = np.concatenate([window.labels, labels]), joined_points([window.points, points])
    own_weights = weights_of(window, weights, points.shape[0])
    result = run(memory, labels, free, own_weights, stream)
    prior, count = (
        result.prior or memory.prior,
        1 + max(int(labels.max(initial=-1)) for labels in (result.labels, result.kept_labels) if labels is not None),
    )
    assert result.kept_labels is not None and result.kept_sides is not None
    memory = named(memory, result.kept_labels, result.labels, count, own_weights)
    # All pieces on one side of a cluster become one, with the rows that are gone.
    gone = max(0, len(labels) - stream.window)
    halves = 2 * result.labels.astype(np.int64) + result.sublabels
    places = 2 * result.kept_labels.astype(np.int64) + result.kept_sides
    memory, names = fused(memory, places, count)
    kept = grouped_kept(prior, memory.statistics, places, 2 * count)
    kept = add_rows(prior, kept, free, halves, own_weights, slice(0, gone))
    clusters = grouped_kept(prior, kept, np.repeat(np.arange(count), 2), count)
    clusters = add_rows(prior, clusters, free, result.labels, own_weights, slice(gone, None))
    order = np.argsort(-clusters.counts, kind="stable")
    place = np.empty(count, np.int32)
    place[order] = np.arange(count)
    found, there = place[result.labels], np.flatnonzero(kept.counts > 0)
    left = Window(free[gone:], found[gone:], None if own_weights is None else own_weights[gone:])
    memory = replace(
        memory, statistics=take(kept, there), prior=prior, ids=memory.ids[order],
        pieces=Pieces(place[there // 2].astype(np.int64), there % 2, names[there]),
        partition=result.partition_prior or memory.partition, batches=memory.batches + 1,
        digests=(*memory.digests, digest), window=left if left.n_rows else None,
    )  # fmt: skip
    return Updated(memory, take(clusters, order), found, names[halves], novelty, result)


def run(memory: Memory, labels: IntArray, free: Points, weights: Float64Array | None, stream: Stream) -> Result:
    """What a search finds that begins with these labels, beside what is kept."""
    prior, pieces = memory.prior, memory.pieces
    sides = pieces.sides.astype(np.uint8)
    settings = Settings(
        memory.partition_prior, prior, hyperprior=memory.hyperprior, initializer=stream.initializer,
        max_iter=stream.max_iter or LONGEST, stop_when_flat=stream.max_iter is None, flat_window=FLAT,
        near_pairs=False, seed=stream.seed, init_clusters=labels, max_clusters=stream.max_clusters, weights=weights,
        kept=kept_beside(free, prior, memory.statistics, pieces.labels, stream.freeze, sides), **stream.sampler,
    )  # fmt: skip
    return NativeBackend().fit(free, settings)


def fused(memory: Memory, places: IntArray, count: int) -> tuple[Memory, IntArray]:
    """What rows in each half of each cluster are called; ids of pieces that have become one are noted."""
    names, aliases = np.repeat(memory.ids, 2), list(memory.aliases)
    for half in np.unique(places):
        own = np.flatnonzero(places == half)
        called = memory.pieces.ids[own]
        if memory.ids[half // 2] not in called:
            names[half] = called[memory.statistics.counts[own].argmax()]
        aliases += [(int(name), int(names[half])) for name in np.unique(called) if name != names[half]]
    # An id that is still that of a piece elsewhere is none that has gone.
    return replace(memory, aliases=tuple(aliases)), names


def add_rows(
    prior: Prior, statistics: Statistics, points: Points, labels: IntArray, weights: Float64Array | None, rows: slice
) -> Statistics:
    """With the rows of a slice."""
    if not len(labels[rows]):
        return statistics
    own = None if weights is None else weights[rows]
    return added(prior, statistics, prior.statistics(points[rows], labels[rows], len(statistics.counts), own))


def weights_of(window: Window | None, weights: Float64Array | None, rows: int) -> Float64Array | None:
    """Of the window's rows and the batch's; None where all weigh 1."""
    if weights is None and (window is None or window.weights is None):
        return None
    before = np.empty(0) if window is None else np.ones(window.n_rows) if window.weights is None else window.weights
    return np.concatenate([before, np.ones(rows) if weights is None else weights])


def named(memory: Memory, kept: IntArray, labels: IntArray, count: int, weights: Any) -> Memory:
    """With the ids of the clusters that are there now."""
    window, pieces = memory.window, memory.pieces
    moved = np.zeros((memory.n_clusters, count))
    if window is not None:
        own = 1.0 if weights is None else weights[: window.n_rows]
        np.add.at(moved, (window.labels, labels[: window.n_rows]), own)
    before = Before(memory.ids, memory.next_id, pieces.ids, memory.statistics.counts)
    now = follow(before, memory.batches + 1, kept, moved)
    return replace(
        memory, ids=now.ids, next_id=now.next_id, pieces=pieces._replace(ids=now.piece_ids),
        history=(*memory.history, *now.events),
    )  # fmt: skip
