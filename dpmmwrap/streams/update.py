"""One batch more: the new rows, and those of the window, among the clusters of all that was seen before."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.backends.native import NativeBackend
from dpmmwrap.families.base import Points, Prior, Statistics, take
from dpmmwrap.families.screening import log_sum
from dpmmwrap.model.memory import Event, Memory, Window, joined_points
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.sampler.kept import grouped_kept, kept_beside, union
from dpmmwrap.sampler.settings import Result, Settings
from dpmmwrap.starts import Initializer
from dpmmwrap.streams.identities import follow

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
    if memory.window is None or not len(memory.window):
        return memory.statistics
    window, prior = memory.window, memory.prior
    free = prior.statistics(window.points, window.labels, memory.n_clusters, window.weights)
    return added(prior, memory.statistics, free)


def added(prior: Prior, one: Statistics, other: Statistics) -> Statistics:
    """The statistics of both, cluster by cluster; where one counts observed values, both do."""
    if any(own.shape != its.shape for own, its in zip(one, other, strict=True)):
        one, other = prior.counting_observed(one), prior.counting_observed(other)
    return union(prior, one, other)


def forgotten(memory: Memory, forget: float, elapsed: float) -> Memory:
    """With less of what is kept; clusters that fade away die."""
    if not forget:
        return memory
    statistics: Any = memory.statistics
    statistics = statistics.scaled((1.0 - forget) ** elapsed)
    free = np.zeros(memory.n_clusters, bool)
    if memory.window is not None:
        free[memory.window.labels] = True
    alive = free | (statistics.counts >= DEAD)
    if not alive.any():
        alive[statistics.counts.argmax()] = True
    deaths = tuple(Event(memory.batches + 1, "death", int(name)) for name in memory.ids[~alive])
    window = memory.window
    if window is not None:
        window = window._replace(labels=(np.cumsum(alive) - 1)[window.labels].astype(np.int32))
    statistics = take(statistics, alive)
    # What has faded, of a cluster with free rows, is gone.
    faded = statistics.counts < DEAD
    if faded.any() and not faded.all():
        keep = np.where(faded, 0.0, 1.0)
        statistics = type(statistics)(*(array * keep.reshape(-1, *[1] * (array.ndim - 1)) for array in statistics))
    return replace(
        memory, statistics=statistics, ids=memory.ids[alive], history=(*memory.history, *deaths), window=window
    )


def update(memory: Memory, points: Points, weights: Float64Array | None, digest: str, stream: Stream) -> Updated:
    """Go on with a batch."""
    memory = forgotten(memory, stream.forget, stream.elapsed)
    whole, window, prior = whole_statistics(memory), memory.window, memory.prior
    first, novelty = begin_rows(memory, whole, points)
    labels, free = first, points
    if window is not None and len(window):
        labels, free = np.concatenate([window.labels, first]), joined_points([window.points, points])
    own_weights = weights_of(window, weights, points.shape[0])
    present = np.flatnonzero(memory.statistics.counts > 0)
    result = run(memory, present, labels, free, own_weights, stream)
    assert result.kept_labels is not None
    count = int(max(result.labels.max(initial=-1), result.kept_labels.max(initial=-1))) + 1
    prior = result.prior or prior
    gone = max(0, len(labels) - stream.window)
    kept = grouped_kept(prior, take(memory.statistics, present), result.kept_labels, count)
    kept = add_rows(prior, kept, free, result.labels, own_weights, slice(0, gone))
    everything = add_rows(prior, kept, free, result.labels, own_weights, slice(gone, None))
    order = np.argsort(-everything.counts, kind="stable")
    place = np.empty(count, np.int32)
    place[order] = np.arange(count)
    found = place[result.labels]
    named = named_clusters(memory, window, present, place[result.kept_labels], found, count, own_weights)
    left = Window(free[gone:], found[gone:], None if own_weights is None else own_weights[gone:])
    memory = replace(
        memory, statistics=take(kept, order), prior=prior, ids=named.ids, next_id=named.next_id,
        partition_prior=result.partition_prior or memory.partition_prior, batches=memory.batches + 1,
        digests=(*memory.digests, digest), history=(*memory.history, *named.events),
        window=left if len(left) else None,
    )  # fmt: skip
    return Updated(memory, take(everything, order), found, novelty, result)


def run(
    memory: Memory, present: IntArray, labels: IntArray, free: Points, weights: Float64Array | None, stream: Stream
) -> Result:
    """What a search finds that begins with these labels, beside the clusters of which something is kept."""
    statistics, prior = take(memory.statistics, present), memory.prior
    settings = Settings(
        memory.partition_prior, prior, hyperprior=memory.hyperprior, initializer=stream.initializer,
        max_iter=stream.max_iter or LONGEST, stop_when_flat=stream.max_iter is None, flat_window=FLAT,
        near_pairs=False, seed=stream.seed, init_clusters=labels, max_clusters=stream.max_clusters, weights=weights,
        kept=kept_beside(free, prior, statistics, present, stream.freeze), **stream.sampler,
    )  # fmt: skip
    return NativeBackend().fit(free, settings)


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
    before = np.empty(0) if window is None else np.ones(len(window)) if window.weights is None else window.weights
    return np.concatenate([before, np.ones(rows) if weights is None else weights])


def named_clusters(
    memory: Memory, window: Window | None, present: IntArray, kept: IntArray, labels: IntArray, count: int, weights: Any
) -> Any:
    """What the clusters are called now."""
    homes = np.full(memory.n_clusters, -1)
    homes[present] = kept
    moved = np.zeros((memory.n_clusters, count))
    if window is not None:
        own = 1.0 if weights is None else weights[: len(window)]
        np.add.at(moved, (window.labels, labels[: len(window)]), own)
    return follow(
        memory.ids, memory.next_id, memory.batches + 1, memory.statistics.counts, homes, moved, np.arange(count)
    )
