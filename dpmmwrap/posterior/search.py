"""The greedy search for the partition of least expected loss, in the manner of SALSO (Dahl, Johnson and Mueller 2022).

One table has the overlaps of a candidate's clusters with the clusters of all draws. A point that joins a cluster of n
points adds f(n + 1) - f(n) to a sum of f, so the table shows what a move changes.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.random import Generator

from dpmmwrap.numerics.arrays import Float64Array, IntArray, evenly_spaced
from dpmmwrap.numerics.special import compiled, compiled_float64
from dpmmwrap.posterior.matching import numbered

MIN_DRAWS, MAX_DRAWS = 16, 400
"""The number of draws that the search uses, evenly spaced; all if there are fewer."""
MAX_WORK = 1e9
"""Limit of points x clusters x draws, which reduces the draws: 43 of a million points in 23 clusters."""
CACHED_CELLS = 4_000_000
"""Limit of clusters x clusters x draws, so that tables stay in the cache."""
MAX_CELLS = 24_000_000
"""Limit of the table of overlaps, of 12 bytes per cell: candidates have fewer clusters if a draw has thousands."""
CANDIDATES = 32
"""Draws that are compared as candidates."""
MIN_STARTS, MAX_STARTS, STARTS_WORK = 4, 16, 150_000_000
"""The number of best draws to refine, and of partitions to build point by point: more if points x clusters x draws is
small. Seeds differ in the fourth digit of the loss with 4 starts, and hardly with 16."""
FIRST_SWEEPS, SWEEPS = 4, 30
"""The numbers of sweeps of each start, and of the best of them."""
TOLERANCE = 1e-9
"""Smaller changes may be rounding errors, and do not move a point."""


class SearchData(NamedTuple):
    """The draws that the search uses."""

    draws: IntArray
    """Their numbers (S,)."""
    classes: Any
    """Each point's cluster in each of them, without gaps (N, S): a point's entries are contiguous."""
    first: IntArray
    """The table's row of each draw's first cluster, then how many rows there are (S + 1,)."""
    outliers: IntArray
    """The table's rows of outliers."""
    capacity: int
    """The largest number of clusters during the search."""
    limit: int
    """The largest number of clusters in the end: as many as a draw has."""
    beyond: IntArray
    """A few of the draws that have more."""
    values: Float64Array
    """f(0), ..., f(N)."""
    steps: Float64Array
    """f(n + 1) - f(n), for n = 0, ..., N."""


class Candidate(NamedTuple):
    """A partition and its table of overlaps. Changed in place."""

    labels: IntArray
    """(N,), -1 for points that have no cluster yet."""
    sizes: IntArray
    """The sizes of its clusters, 0 where a number is free (capacity,)."""
    counts: IntArray
    """How many points each of the draws' clusters shares with each of its clusters (all draws' clusters, capacity)."""
    gains: Float64Array
    """f(n + 1) - f(n) of each of these counts."""


def search(data: SearchData, seed: int) -> Candidate:
    """The best candidate found, from the best of the draws and from partitions that are built in random order."""
    rng = np.random.default_rng(seed)
    nobody = np.full(len(data.classes), -1, np.int32)
    runs = []
    affordable = STARTS_WORK // (len(data.classes) * int(data.first[-1]))
    n_starts = min(max(affordable, MIN_STARTS), MAX_STARTS)
    for start in best_draws(data, n_starts) + [nobody.copy() for _ in range(n_starts)]:
        candidate = refine(new_candidate(start, data), data, rng, FIRST_SWEEPS)
        # Without the limit, draws from several modes would be represented by all intersections of their clusters, which
        # are more than any draw has.
        while np.count_nonzero(candidate.sizes) > data.limit:
            merge(candidate, data, best_pair(candidate, data))
        labels = np.unique(candidate.labels, return_inverse=True)[1].astype(np.int32)
        runs.append((total_loss(new_candidate(labels, data), data), labels))
    # Tables are large, so only one is kept at a time.
    best = min(runs, key=lambda run: run[0])[1]
    data = data._replace(capacity=max(data.limit, int(best.max()) + 1))
    return refine(new_candidate(best, data), data, rng, SWEEPS)


def read_draws(draws: IntArray, values: Float64Array, steps: Float64Array) -> SearchData:
    """Evenly spaced draws, one at a time. O(N) a draw."""
    points = draws.shape[1]
    most = max(len(numbered(draws[draw])[1]) for draw in evenly_spaced(len(draws), MIN_DRAWS))
    affordable = min(MAX_WORK / (points * most), CACHED_CELLS / most**2)
    chosen = evenly_spaced(len(draws), int(min(max(affordable, MIN_DRAWS), MAX_DRAWS)))
    classes: Any = np.empty((points, len(chosen)), np.uint16)
    first, outliers = [0], []
    for column, draw in enumerate(chosen):
        numbers, names = numbered(draws[draw])
        if names[0] < 0:
            outliers.append(first[-1])
        if len(names) > np.iinfo(np.uint16).max:
            classes = classes.astype(np.int32, copy=False)
        classes[:, column] = numbers
        first.append(first[-1] + len(names))
    most = int(np.diff(first).max())
    capacity = min(most + max(8, most // 2), points, max(MAX_CELLS // first[-1], 2))
    beyond = chosen[np.diff(first) > capacity]
    beyond = beyond[evenly_spaced(len(beyond), MIN_STARTS)] if len(beyond) else beyond
    sizes = (capacity, min(most, capacity))
    return SearchData(chosen, classes, np.array(first), np.array(outliers, int), *sizes, beyond, values, steps)


def best_draws(data: SearchData, wanted: int) -> list[IntArray]:
    """The labels of the draws with the least expected loss, among some evenly spaced ones."""
    by_loss: dict[float, IntArray] = {}
    for draw in evenly_spaced(len(data.draws), CANDIDATES):
        if data.first[draw + 1] - data.first[draw] <= data.capacity:
            labels = data.classes[:, draw].astype(np.int32)
            # Draws of the same loss are nearly always the same partition.
            by_loss[round(total_loss(new_candidate(labels, data), data), 6)] = labels
    return [by_loss[loss] for loss in sorted(by_loss)[:wanted]]


def new_candidate(labels: IntArray, data: SearchData) -> Candidate:
    """Count a partition's overlaps with all draws. O(N S)."""
    counts = np.zeros((data.first[-1], data.capacity), np.int32)
    count_overlaps(data.classes, data.first, labels, counts)
    sizes = np.bincount(labels[labels >= 0], minlength=data.capacity).astype(np.int32)
    return Candidate(labels, sizes, counts, data.steps[counts])


def total_loss(candidate: Candidate, data: SearchData) -> float:
    """The part of the expected loss that depends on the candidate: sum f(n_k) minus twice the mean of sum f(n_kl)."""
    overlaps = float(data.values[candidate.counts].sum())
    return float(data.values[candidate.sizes].sum()) - 2 * overlaps / len(data.draws)


def refine(candidate: Candidate, data: SearchData, rng: Generator, sweeps: int) -> Candidate:
    """Move points and merge clusters until nothing lowers the expected loss, at most `sweeps` times. In place."""
    for _ in range(sweeps):
        order = rng.permutation(len(data.classes)).astype(np.int32)
        moves = sweep(order, data.classes, data.first, *candidate, data.steps)
        merges = merge_clusters(candidate, data)
        if not moves and not merges:
            break
    return candidate


class Pair(NamedTuple):
    """Two clusters, the change in the expected loss from joining them, and the scale of its rounding errors."""

    kept: int
    gone: int
    change: float
    scale: float


def merge_clusters(candidate: Candidate, data: SearchData) -> int:
    """Merge pairs of clusters while that lowers the expected loss, the best first; the number of merges. In place."""
    merges = 0
    while np.count_nonzero(candidate.sizes) > 1:
        pair = best_pair(candidate, data)
        if pair.change >= -TOLERANCE * max(1.0, pair.scale):
            break
        merge(candidate, data, pair)
        merges += 1
    return merges


def best_pair(candidate: Candidate, data: SearchData) -> Pair:
    """The pair whose union is best, or least bad."""
    labels, sizes, counts, _ = candidate
    clusters = np.flatnonzero(sizes)
    # On the diagonal, twice a cluster may be more than all points; only entries above it are used.
    both = data.values[np.minimum(sizes[clusters, None] + sizes[clusters], len(labels))]
    alone = data.values[sizes[clusters]]
    change = both - alone[:, None] - alone - 2 / len(data.draws) * merged_overlaps(counts[:, clusters], data.values)
    change[np.tril_indices(len(clusters))] = np.inf
    one, other = np.unravel_index(change.argmin(), change.shape)
    return Pair(int(clusters[one]), int(clusters[other]), float(change[one, other]), float(both[one, other]))


def merge(candidate: Candidate, data: SearchData, pair: Pair) -> None:
    """Put a cluster into another. In place."""
    labels, sizes, counts, gains = candidate
    labels[labels == pair.gone] = pair.kept
    for array in (sizes, counts):
        array[..., pair.kept] += array[..., pair.gone]
        array[..., pair.gone] = 0
    columns = [pair.kept, pair.gone]
    gains[:, columns] = data.steps[counts[:, columns]]


@compiled
def count_overlaps(classes: Any, first: Any, labels: Any, counts: Any) -> None:
    """Add each point to the cells of its draws' clusters and its own cluster. O(N S)."""
    for i in range(len(labels)):
        if labels[i] >= 0:
            for draw in range(classes.shape[1]):
                counts[first[draw] + classes[i, draw], labels[i]] += 1


@compiled_float64
def merged_overlaps(counts: Any, values: Any) -> Any:
    """The sum over the table's rows of f(a + b) - f(a) - f(b), for each pair of columns. O(cells x clusters) at worst:
    only overlaps that are not empty count, and each of the draws' clusters overlaps with few."""
    total = np.zeros((counts.shape[1], counts.shape[1]))
    present = np.empty(counts.shape[1], np.int32)
    for row in range(len(counts)):
        n_present = 0
        for k in range(counts.shape[1]):
            if counts[row, k] > 0:
                present[n_present] = k
                n_present += 1
        for one in range(n_present):
            a = counts[row, present[one]]
            for other in range(one + 1, n_present):
                b = counts[row, present[other]]
                total[present[one], present[other]] += values[a + b] - values[a] - values[b]
    return total


@compiled_float64
def sweep(order: Any, classes: Any, first: Any, labels: Any, sizes: Any, counts: Any, gains: Any, steps: Any) -> Any:
    """Move each point to the cluster, or to a new one, with the least expected loss; how many moved. O(N S K)."""
    n_draws, used, moves = classes.shape[1], 0, 0
    joining, rows = np.empty(len(sizes)), np.empty(n_draws, np.int32)
    for k in range(len(sizes)):
        if sizes[k] > 0:
            used = k + 1
    for position in range(len(order)):
        i = order[position]
        current = labels[i]
        joining[:used] = 0.0
        for draw in range(n_draws):
            row = first[draw] + classes[i, draw]
            rows[draw] = row
            for k in range(used):
                joining[k] += gains[row, k]
        # Without the point, its own cluster and its overlaps are smaller by one.
        least = np.inf
        if current >= 0:
            overlaps = 0.0
            for draw in range(n_draws):
                overlaps += steps[counts[rows[draw], current] - 1]
            least = steps[sizes[current] - 1] - 2.0 / n_draws * overlaps
            least -= TOLERANCE * max(1.0, abs(least))
        best, free = current, -1
        for k in range(used):
            if sizes[k] == 0:
                free = k if free < 0 else free
            elif k != current:
                change = steps[sizes[k]] - 2.0 / n_draws * joining[k]
                if change < least:
                    best, least = k, change
        if free < 0 and used < len(sizes):
            free = used
        # A new cluster costs the same as a present cluster of one, so a single point stays (see TOLERANCE).
        if free >= 0 and steps[0] < least:
            best = free
        if best == current:
            continue
        for draw in range(n_draws):
            row = rows[draw]
            if current >= 0:
                counts[row, current] -= 1
                gains[row, current] = steps[counts[row, current]]
            counts[row, best] += 1
            gains[row, best] = steps[counts[row, best]]
        if current >= 0:
            sizes[current] -= 1
        sizes[best] += 1
        labels[i] = best
        used = max(used, best + 1)
        moves += 1
    return moves
