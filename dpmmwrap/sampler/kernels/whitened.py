"""The loops over points, compiled by numba, block by block (`blocks`).

One sweep draws every point's label and sublabel and sums the statistics, reading the data once:

- Points are taken in chunks that fit a core's second-level cache. Within a chunk they are put in order of
  their label, so that a block of LANES points has one current cluster and nearly the same competitors.
- A block is laid out feature by feature, points along the vector lanes, relative to its cluster's mean.
- For each cluster its neighbours are sorted by the distance at which they begin to matter
  (`pairs.neighbour_tables`). A block looks at its neighbours in that order and stops at the first that cannot matter to
  any of its points, so the cost follows the number of overlapping clusters, not the number of clusters.

A cluster whose probability is below e^-CUTOFF of the best is left out. A uniform number here has 24 bits, so
such a cluster could not have been drawn anyway: labels are those of the full sum.

All sums over points run in an order that depends on the data's shape alone, never on the threads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.sampler.kernels.blocks import (
    BUFFER,
    CUTOFF,
    LANES,
    add_points,
    draw,
    draw_uniforms,
    gather,
    log_chance,
    log_densities,
    new_block,
    set_aside,
)
from dpmmwrap.variates import compiled, exp_float32, key_from


@compiled
def _sort_by_label(labels: Any, starts: Any, order: Any) -> None:
    """Counting sort of a chunk: order holds rows, starts[k] the place of cluster k's first. O(n + K)."""
    for k in range(len(starts)):
        starts[k] = 0
    for row in range(len(labels)):
        starts[labels[row] + 1] += 1
    for k in range(1, len(starts)):
        starts[k] += starts[k - 1]
    for row in range(len(labels)):
        k = labels[row]
        order[starts[k]] = row
        starts[k] += 1
    for k in range(len(starts) - 1, 0, -1):
        starts[k] = starts[k - 1]
    starts[0] = 0


@compiled
def sort_chunks(labels: Any, bounds: Any, starts: Any, order: Any) -> None:
    """Put the rows of each chunk in order of their labels. O(n + K)."""
    for chunk in range(len(bounds) - 1):
        begin, end = bounds[chunk], bounds[chunk + 1]
        _sort_by_label(labels[begin:end], starts[chunk], order[begin:end])


@compiled
def _draw_labels(
    X: Any, labels: Any, starts: Any, sorted_rows: Any, clusters: Any, neighbours: Any, key: Any, greedy: Any, room: Any
) -> None:
    """New labels for the rows of a chunk that are in order of their old ones."""
    whitening, log_heights = clusters
    origins, offsets, order, radii = neighbours
    log_likelihoods, rows, block, flat, z, best, uniforms, total, chosen, survivors = room
    count = len(log_heights)
    for c in range(count):
        for first in range(starts[c], starts[c + 1], LANES):
            n = min(LANES, starts[c + 1] - first)
            gather(X, sorted_rows, first, n, origins[c], rows, block)
            # A cluster comes first among its own neighbours, with a radius below zero; then those that its farthest
            # point is far enough out to see.
            farthest = np.float32(0)
            found = 0
            rank = 0
            while rank < count and not radii[c, order[c, rank]] > farthest:
                k = order[c, rank]
                value = log_likelihoods[found]
                log_densities(whitening[k], offsets[c, k], log_heights[k], flat, z, value)
                lead = np.float32(0)
                if rank == 0:
                    lowest = np.float32(np.inf)
                    for b in range(LANES):
                        best[b] = value[b]
                        lowest = min(lowest, value[b])
                    farthest = np.float32(2) * (log_heights[k] - lowest)
                else:
                    lead = np.float32(-np.inf)
                    for b in range(LANES):
                        lead = max(lead, value[b] - best[b])
                        best[b] = max(best[b], value[b])
                if lead > np.float32(-CUTOFF):
                    survivors[found] = k
                    found += 1
                rank += 1
            if found == 1:
                continue
            if greedy:
                for b in range(LANES):
                    chosen[b] = 0
                for s in range(1, found):
                    for b in range(LANES):
                        if log_likelihoods[s, b] == best[b]:
                            chosen[b] = s
            else:
                draw_uniforms(key, rows, np.uint64(40), uniforms)
                draw(log_likelihoods, best, found, uniforms, total, chosen)
            for b in range(n):
                labels[rows[b]] = survivors[chosen[b]]


@compiled
def _draw_sublabels(
    X: Any, sublabels: Any, starts: Any, sorted_rows: Any, origins: Any, subclusters: Any, key: Any, greedy: Any,
    room: Any, statistics: Any,
) -> None:  # fmt: skip
    """New sublabels, and the statistics, for the rows of a chunk that are in order of their labels.

    Each cluster's entry of `log_chances` is lowered by the log probability with which its sublabels came up.
    """
    whitening, offsets, log_heights = subclusters
    counts, sums, squares, log_chances = statistics
    rows, block, flat, z, logs, uniforms, lanes, points = room
    filled = np.zeros(2, np.int64)
    found = np.zeros(2, np.int64)
    for c in range(len(origins)):
        for first in range(starts[c], starts[c + 1], LANES):
            n = min(LANES, starts[c + 1] - first)
            gather(X, sorted_rows, first, n, origins[c], rows, block)
            for side in range(2):
                log_densities(whitening[c, side], offsets[c, side], log_heights[c, side], flat, z, logs[side])
            if greedy:
                for b in range(LANES):
                    uniforms[b] = np.float32(0.5)
            else:
                draw_uniforms(key, rows, np.uint64(0), uniforms)
            for b in range(LANES):
                # Right if u < 1 / (1 + e^-t), with an exp that cannot overflow: e = e^-|t|.
                t = logs[1, b] - logs[0, b]
                odds = exp_float32(-abs(t))
                share = np.float32(1) if t > np.float32(0) else odds
                uniforms[b] = share - uniforms[b] * (np.float32(1) + odds)
                logs[0, b] = t
                logs[1, b] = np.float32(1) + odds
            log_chances[c] += log_chance(uniforms, logs[0], logs[1], n)
            right = 0
            for b in range(n):
                # Written to both lists, counted in one: no branch, and no counter that waits for memory.
                lanes[0, b - right] = b
                lanes[1, right] = b
                side = np.int64(uniforms[b] > np.float32(0))
                sublabels[rows[b]] = side
                right += side
            found[0], found[1] = n - right, right
            for side in range(2):
                set_aside(block, lanes[side], found[side], points[side], filled[side])
                filled[side] += found[side]
                if filled[side] > BUFFER - LANES:
                    add_points(points[side], filled[side], counts[c], sums[c], squares[c], side)
                    filled[side] = 0
        for side in range(2):
            add_points(points[side], filled[side], counts[c], sums[c], squares[c], side)
            filled[side] = 0


@compiled
def sweep(
    X: Any, labels: Any, sublabels: Any, bounds: Any, groups: Any, sorting: Any, clusters: Any, neighbours: Any,
    subclusters: Any, key: Any, greedy: Any, statistics: Any,
) -> None:  # fmt: skip
    """Labels, sublabels and statistics of groups of chunks, one after the other.

    Group g has the chunks groups[g] to groups[g + 1], chunk c the rows bounds[c] to bounds[c + 1], and each group sums
    into statistics of its own. `sorting` is the order by label, of the old labels and then of the new.
    """
    count, dim = neighbours[0].shape
    counts, sums, squares, log_chances = statistics
    order, starts = sorting
    rows, z = np.empty(LANES, np.uint64), np.empty(4 * LANES, np.float32)
    block, flat = new_block(dim)
    logs, uniforms = np.empty((2, LANES), np.float32), np.empty(LANES, np.float32)
    label_room = (
        np.empty((count + 1, LANES), np.float32), rows, block, flat, z, logs[0], uniforms,
        np.empty(LANES, np.float32), np.empty(LANES, np.int32), np.empty(count + 1, np.int32),
    )  # fmt: skip
    lanes, points = np.empty((2, LANES), np.uint64), np.empty((2, dim, BUFFER))
    sublabel_room = (rows, block, flat, z, logs, uniforms, lanes, points)
    for group in range(len(groups) - 1):
        own = (counts[group], sums[group], squares[group], log_chances[group])
        for chunk in range(groups[group], groups[group + 1]):
            begin, end = bounds[chunk], bounds[chunk + 1]
            part, its_labels, its_sublabels = X[begin:end], labels[begin:end], sublabels[begin:end]
            its_starts, its_order, its_key = starts[chunk], order[begin:end], key_from(key, begin)
            _draw_labels(part, its_labels, its_starts, its_order, clusters, neighbours, its_key, greedy, label_room)
            _sort_by_label(its_labels, its_starts, its_order)
            _draw_sublabels(
                part, its_sublabels, its_starts, its_order, neighbours[0], subclusters, its_key, greedy,
                sublabel_room, own,
            )  # fmt: skip


@compiled
def start_subclusters(
    X: Any, sublabels: Any, rows: Any, sides: Any, bounds: Any, origins: Any, counts: Any, sums: Any, squares: Any
) -> None:
    """Write the sublabels of whole clusters, and sum the statistics of their subclusters. O(n D^2).

    Cluster c has the rows and sides bounds[c] to bounds[c + 1].
    """
    dim = origins.shape[1]
    places, lanes, points = np.empty(LANES, np.uint64), np.empty(LANES, np.uint64), np.empty((dim, LANES))
    block, _ = new_block(dim)
    for c in range(len(origins)):
        for first in range(bounds[c], bounds[c + 1], LANES):
            n = min(LANES, bounds[c + 1] - first)
            gather(X, rows, first, n, origins[c], places, block)
            for b in range(n):
                sublabels[places[b]] = sides[first + b]
            for side in range(2):
                found = np.int64(0)
                for b in range(n):
                    # Written every time, counted when it is so: no branch that a coin decides.
                    lanes[found] = b
                    found += sides[first + b] == side
                set_aside(block, lanes, found, points, np.int64(0))
                add_points(points, found, counts[c], sums[c], squares[c], side)


@compiled
def collect_statistics(counts: Any, sums: Any, squares: Any, origins: Any) -> Any:
    """Counts, means and scatters of 2K subclusters, from sums of groups about their cluster's origin. O(G K D^2)."""
    groups, clusters, _, dim = sums.shape
    total = np.zeros(2 * clusters)
    means = np.zeros((2 * clusters, dim))
    scatters = np.zeros((2 * clusters, dim, dim))
    for k in range(2 * clusters):
        c, side = k // 2, k % 2
        for group in range(groups):
            total[k] += counts[group, c, side]
            for i in range(dim):
                means[k, i] += sums[group, c, side, i]
                for j in range(i + 1):
                    scatters[k, i, j] += squares[group, c, side, i, j]
        for i in range(dim):
            for j in range(i + 1):
                scatters[k, i, j] -= means[k, i] * means[k, j] / max(total[k], 1.0)
                scatters[k, j, i] = scatters[k, i, j]
        for i in range(dim):
            means[k, i] = means[k, i] / max(total[k], 1.0) + np.float64(origins[c, i])
    return total, means, scatters
