"""Update a model with a batch: cluster the new rows and those of the window beside the pieces of all other rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.backends.native import NativeBackend
from dpmmwrap.families.base import Points, Statistics, take
from dpmmwrap.families.screening import log_sum
from dpmmwrap.model.memory import Event, Memory, Pieces, Window, joined_points, of_cluster
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.sampler.kept import grouped_kept, kept_beside
from dpmmwrap.sampler.settings import Result, Settings, chain_count, search_length
from dpmmwrap.sampler.stopping import stopped_by
from dpmmwrap.starts import Initializer
from dpmmwrap.streams.identities import follow
from dpmmwrap.streams.pieces import absorbed, added, thinned

LONGEST, FLAT, LAST = 100, 2, 2
"""Most iterations of a batch's search, the number that have to be as good as those before them, and the number that
take the most likely labels at the end: known clusters need few."""
BLOCK = 1 << 14
"""Number of rows whose probabilities are computed at a time."""
DEAD = 1.0
"""A cluster without free rows that has faded to less than this many rows dies."""


@dataclass(frozen=True)
class Stream:
    """The settings of an update."""

    window: int
    """Number of rows that stay free."""
    forget: float
    """The share of the old statistics that is forgotten per row, or per unit of time."""
    freeze: bool
    """Whether the clusters so far stay apart."""
    elapsed: float
    """Rows or time since the last batch."""
    initializer: Initializer
    sampler: dict[str, Any]
    """Other settings of the sampler."""
    seed: int
    max_iter: int | None = None
    max_clusters: int | None = None


class Batch(NamedTuple):
    """The rows of a batch that have values."""

    points: Points
    numbers: IntArray
    """Which rows of the batch they are."""
    total: int
    """Rows of the batch."""
    weights: Float64Array | None = None

    def spread(self, values: Any, fill: Any) -> Any:
        """Values of these rows as values of all rows of the batch."""
        every = np.full(self.total, fill, values.dtype)
        every[self.numbers] = values
        return every


class Updated(NamedTuple):
    """The result of an update; clusters are in order of size."""

    memory: Memory
    whole: Statistics
    """The statistics of all rows, including those of the window."""
    labels: IntArray
    """The clusters of the window's rows before the batch, then of the batch's rows."""
    row_ids: IntArray
    """The ids of their pieces; `of_cluster` for free rows."""
    novelty: Float64Array
    """For each row of the batch, the probability that it belongs to no earlier cluster."""
    result: Result
    stopped_by: str


class Begun(NamedTuple):
    """What is known of rows before a search."""

    labels: IntArray
    """The most probable cluster of each row, one more than there are if that is a new one."""
    certainty: Float64Array
    """Its probability."""
    novelty: Float64Array
    """The probability of a new cluster."""


def begin_rows(memory: Memory, whole: Statistics, points: Points) -> Begun:
    """The most probable cluster of each row, and how probable a new one is."""
    count = points.shape[0]
    begun = Begun(np.empty(count, np.int32), np.empty(count), np.empty(count))
    for begin in range(0, count, BLOCK):
        rows = slice(begin, begin + BLOCK)
        logs = memory.log_densities(whole, points[rows])
        total = log_sum(logs)
        begun.labels[rows] = logs.argmax(axis=1)
        begun.certainty[rows] = np.exp(logs.max(axis=1) - total)
        begun.novelty[rows] = np.exp(logs[:, -1] - total)
    return begun


def whole_statistics(memory: Memory) -> Statistics:
    """The statistics of the clusters of all rows: those in pieces and those of the window."""
    window, prior = memory.window, memory.prior
    kept = grouped_kept(prior, memory.statistics, memory.pieces.labels, memory.n_clusters)
    if window is None or not window.n_rows:
        return kept
    return added(prior, kept, prior.statistics(window.points, window.labels, memory.n_clusters, window.weights))


def forgotten(memory: Memory, forget: float, elapsed: float) -> Memory:
    """Discount the pieces; clusters that have faded and have no free rows die."""
    if not forget:
        return memory
    statistics: Any = memory.statistics
    statistics = statistics.scaled((1.0 - forget) ** elapsed)
    window, pieces = memory.window, memory.pieces
    left = np.bincount(pieces.labels, statistics.counts, memory.n_clusters)
    lasting = left >= DEAD
    alive = lasting.copy()
    if window is not None:
        alive[window.labels] = True
    if not alive.any():
        alive[left.argmax()] = lasting[left.argmax()] = True
    deaths = tuple(Event(memory.batches + 1, "death", int(name)) for name in memory.ids[~alive])
    rank, there = np.cumsum(alive) - 1, lasting[pieces.labels]
    if window is not None:
        window = window._replace(labels=rank[window.labels].astype(np.int32))
    died = np.stack([pieces.ids, of_cluster(memory.ids[pieces.labels])], axis=1)[~there]
    rows = None if pieces.rows is None else pieces.rows[there]
    pieces = Pieces(rank[pieces.labels[there]], pieces.sides[there], pieces.ids[there], rows)
    memory = replace(
        memory, statistics=take(statistics, there), pieces=pieces, ids=memory.ids[alive],
        aliases=np.concatenate([memory.aliases, died]), history=(*memory.history, *deaths), window=window,
    )  # fmt: skip
    # Priors over partitions are not meant for pieces of less than a row: join them to others.
    counts = memory.statistics.counts
    order = np.lexsort((-counts, pieces.labels))
    largest = order[np.flatnonzero(np.diff(pieces.labels[order], prepend=-1))]
    return thinned(memory, np.union1d(largest, np.flatnonzero(counts >= DEAD)))


def update(memory: Memory, batch: Batch, digest: str, stream: Stream) -> Updated:
    """Add a batch to what a model keeps."""
    points, weights = batch.points, batch.weights
    memory, rng = forgotten(memory, stream.forget, stream.elapsed), np.random.default_rng(stream.seed)
    whole = whole_statistics(memory)
    labels, certainty, novelty = begin_rows(memory, whole, points)
    seen = float(whole.counts.sum()) + (len(labels) if weights is None else float(weights.sum()))
    free, window = Window(points, labels, memory.next_row + batch.numbers, certainty, weights), 0
    if memory.window is not None:
        window, free = memory.window.n_rows, joined(memory.window, free)
    # Whole clusters are kept apart, so no earlier row may be free.
    fixed = window if stream.freeze else 0
    memory, early = absorbed(memory, free.part(slice(fixed)), np.zeros(fixed, np.uint8), rng)
    begun = free.part(slice(fixed, None))
    long = not stream.freeze and (seen >= 2 * memory.searched or is_first_to_leave(memory, begun, stream))
    if long:
        memory = with_new_prior(replace(memory, searched=seen), begun)
    settings = settings_of(memory, begun, stream, long)
    result = NativeBackend().fit(begun.points, settings)
    kept = sides = np.empty(0, np.int64)
    if result.kept_labels is not None and result.kept_sides is not None:
        kept, sides = result.kept_labels.astype(np.int64), result.kept_sides.astype(np.int64)
    if stream.freeze:
        kept, sides = kept[memory.pieces.labels], sides[memory.pieces.labels]
    moved = moved_between(memory, kept, begun, result.labels)
    now = follow(memory.ids, memory.next_id, memory.batches + 1, moved)
    memory = replace(
        memory, prior=result.prior or memory.prior, partition=result.partition_prior or memory.partition, ids=now.ids,
        next_id=now.next_id, history=(*memory.history, *now.events), batches=memory.batches + 1,
        digests=(*memory.digests, digest), next_row=memory.next_row + batch.total,
        pieces=memory.pieces._replace(labels=kept, sides=sides),
    )  # fmt: skip
    ended = begun._replace(labels=result.labels)
    if long:
        clusters = whole_statistics(replace(memory, window=ended))
        ended = ended._replace(certainty=begin_rows(memory, clusters, ended.points).certainty)
    every = np.concatenate([moved.argmax(axis=1)[free.labels[:fixed]], result.labels])
    row_ids = np.concatenate([early, of_cluster(now.ids[result.labels])])
    gone = leaving(ended, stream.window, oldest=stream.forget > 0)
    memory, row_ids[fixed + gone] = absorbed(memory, ended.part(gone), result.sublabels[gone], rng)
    memory = replace(memory, window=ended.without(gone))
    whole = whole_statistics(memory)
    order = np.argsort(-whole.counts, kind="stable")
    rank = np.argsort(order).astype(np.int32)
    ended_by = stopped_by(result.trace, settings.max_iter, settings.stop_when_flat)
    if memory.hyperprior is not None and settings.hyperprior is None:
        result = replace(result, log_posterior=result.log_posterior + memory.hyperprior.log_density(memory.prior))
    return Updated(in_order(memory, order), take(whole, order), rank[every], row_ids, novelty, result, ended_by)


def moved_between(memory: Memory, kept: IntArray, free: Window, labels: IntArray) -> Float64Array:
    """How many rows went from each cluster to each: those of the pieces, with their new labels, and the free rows."""
    moved = np.zeros((memory.n_clusters, 1 + int(max(labels.max(initial=-1), kept.max(initial=-1)))))
    np.add.at(moved, (memory.pieces.labels, kept), memory.statistics.counts)
    known = np.flatnonzero(free.labels < memory.n_clusters)
    sizes = np.ones(len(known)) if free.weights is None else free.weights[known]
    np.add.at(moved, (free.labels[known], labels[known]), sizes)
    return moved


def leaving(free: Window, window: int, oldest: bool = False) -> IntArray:
    """The rows that leave so that `window` stay: the most certain ones of the older half, whose labels would hardly
    change, or the oldest ones."""
    count = max(0, free.n_rows - window)
    if oldest or not count:
        return np.arange(count)
    return np.sort(np.argsort(-free.certainty[: free.n_rows - window // 2], kind="stable")[:count])


def in_order(memory: Memory, order: IntArray) -> Memory:
    """The memory with its clusters in this order."""
    rank, window, pieces = np.argsort(order), memory.window, memory.pieces
    window = None if window is None else window._replace(labels=rank[window.labels].astype(np.int32))
    return replace(memory, ids=memory.ids[order], pieces=pieces._replace(labels=rank[pieces.labels]), window=window)


def is_first_to_leave(memory: Memory, free: Window, stream: Stream) -> bool:
    """Whether all rows have been free so far, and some are about to leave the window."""
    return not len(memory.pieces.ids) and free.n_rows > stream.window


def with_new_prior(memory: Memory, free: Window) -> Memory:
    """Start the learned prior from scratch while all rows are free: the prior of a few rows can be far off."""
    if memory.hyperprior is None or len(memory.pieces.ids):
        return memory
    start = memory.hyperprior.relearned(memory.prior, free.points)
    return replace(memory, prior=start.prior, hyperprior=start.hyperprior)


def settings_of(memory: Memory, free: Window, stream: Stream, long: bool) -> Settings:
    """The settings of a search that starts from these labels, beside the pieces; a long one is as long as a fit's."""
    prior, pieces, statistics = memory.prior, memory.pieces, memory.statistics
    labels, sides = pieces.labels, pieces.sides.astype(np.uint8)
    if stream.freeze:
        statistics = grouped_kept(prior, statistics, labels, memory.n_clusters)
        labels, sides = np.arange(memory.n_clusters), np.zeros(memory.n_clusters, np.uint8)
    length = search_length("auto" if stream.max_iter is None else stream.max_iter)
    if stream.max_iter is None and not long:
        length |= {"max_iter": LONGEST, "flat_window": FLAT, "last_steps": LAST}
    kept = None
    if len(labels) or not long:
        kept = kept_beside(free.points, prior, statistics, labels, stream.freeze, sides)
    return Settings(
        memory.partition_prior, prior, hyperprior=memory.hyperprior if long else None, **length, near_pairs=long,
        initializer=stream.initializer, init_clusters=free.labels, seed=stream.seed,
        n_chains=chain_count("auto", 0, *free.points.shape) if kept is None else 1, max_clusters=stream.max_clusters,
        weights=free.weights, kept=kept, **stream.sampler,
    )  # fmt: skip


def joined(one: Window, other: Window) -> Window:
    """The rows of both."""
    weights = None
    if one.weights is not None or other.weights is not None:
        weights = np.concatenate(
            [np.ones(rows.n_rows) if rows.weights is None else rows.weights for rows in (one, other)]
        )
    labels, numbers, certainty = (np.concatenate(pair) for pair in zip(one[1:4], other[1:4], strict=True))
    return Window(joined_points([one.points, other.points]), labels, numbers, certainty, weights)
