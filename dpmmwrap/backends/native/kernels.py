"""The loops over points, compiled by numba. This file imports nothing of ours.

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

import math
from typing import Any

import numpy as np
from numba import njit, types
from numba.extending import intrinsic

LANES = 64
BUFFER = 4 * LANES
"""Points of a subcluster that are put together before they are added to its sums."""
CUTOFF = 30.0
# Contracted and reordered sums, but infinities and NaNs keep their meaning.
OPTIONS: Any = {
    "cache": True, "nogil": True, "fastmath": {"reassoc", "contract", "arcp", "nsz"}, "error_model": "numpy",
    "no_cfunc_wrapper": True,
}  # fmt: skip
compiled: Any = njit(**OPTIONS)
inlined: Any = njit(**OPTIONS | {"inline": "always"})
"""For what is called for every block: a call, with views of arrays to pass, costs as much as ten points."""
untyped_intrinsic: Any = intrinsic


@untyped_intrinsic
def _float_from_bits(typing_context: Any, bits: Any) -> Any:
    """The float32 with these 32 bits, without leaving the vector registers."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.float32))

    return types.float32(types.int32), generate


@compiled
def exp_float32(x: Any) -> Any:
    """exp of a float32 at or below 0, to about 2 units in the last place; what is below e^-86 becomes e^-86."""
    x = max(x, np.float32(-86.0))
    n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = (x - n * np.float32(0.693359375)) + n * np.float32(2.12194440e-4)
    p = np.float32(1.0 / 720)
    p = p * r + np.float32(1.0 / 120)
    p = p * r + np.float32(1.0 / 24)
    p = p * r + np.float32(1.0 / 6)
    p = p * r + np.float32(0.5)
    p = p * r + np.float32(1.0)
    p = p * r + np.float32(1.0)
    return p * _float_from_bits((np.int32(n) + np.int32(127)) << np.int32(23))


@compiled
def key_from(key: Any, index: Any) -> Any:
    """The key whose first number is the given key's index-th."""
    return np.uint64(key) + np.uint64(index) * np.uint64(0x9E3779B97F4A7C15)


@compiled
def random_bits(key: Any, index: Any) -> Any:
    """64 random bits for a point: the index-th output of splitmix64 seeded with key (Steele et al. 2014)."""
    z = key_from(key, np.uint64(index) + np.uint64(1))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@compiled
def _uniform(bits: Any) -> Any:
    """A float32 strictly between 0 and 1 from the low 24 of the given bits."""
    return (np.float32(np.uint32(bits & np.uint64(0xFFFFFF))) + np.float32(0.5)) * np.float32(2.0**-24)


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


@inlined
def gather(X: Any, order: Any, first: Any, count: Any, origin: Any, rows: Any, block: Any) -> None:
    """Lay count rows feature by feature into a block, relative to origin; the last row fills the rest. O(n D)."""
    for lane in range(LANES):
        rows[lane] = order[first + min(lane, count - 1)]
    for j in range(len(origin)):
        middle = origin[j]
        for lane in range(LANES):
            block[j, lane] = X[rows[lane], j] - middle


@inlined
def _draw_uniforms(key: Any, rows: Any, shift: Any, uniforms: Any) -> None:
    """A uniform number for every lane, from the 24 bits above `shift` of its point's random bits."""
    for lane in range(LANES):
        uniforms[lane] = _uniform(random_bits(key, rows[lane]) >> shift)


@inlined
def squared_distances(whitening: Any, offset: Any, block: Any, z: Any, out: Any) -> None:
    """out = |W y - offset|^2 for every lane: D (D + 1) / 2 multiply-adds a point, W lower triangular.

    Four columns at a time, so that a running sum is loaded and stored once for four products. In the plane all of it in
    one pass.
    """
    if len(offset) == 2:
        w0, w1, w2 = whitening[0, 0], whitening[1, 0], whitening[1, 1]
        o0, o1 = offset[0], offset[1]
        for b in range(LANES):
            t0 = w0 * block[0, b] - o0
            t1 = w1 * block[0, b] + w2 * block[1, b] - o1
            out[b] = t0 * t0 + t1 * t1
    else:
        for b in range(LANES):
            out[b] = np.float32(0)
        for i in range(len(offset)):
            w = whitening[i]
            o = offset[i]
            for b in range(LANES):
                z[b] = -o
            j = 0
            while j + 4 <= i:
                w0, w1, w2, w3 = w[j], w[j + 1], w[j + 2], w[j + 3]
                for b in range(LANES):
                    z[b] += w0 * block[j, b] + w1 * block[j + 1, b] + w2 * block[j + 2, b] + w3 * block[j + 3, b]
                j += 4
            while j < i:
                w0 = w[j]
                for b in range(LANES):
                    z[b] += w0 * block[j, b]
                j += 1
            w0 = w[i]
            for b in range(LANES):
                t = z[b] + w0 * block[i, b]
                out[b] += t * t


@inlined
def _draw(log_likelihoods: Any, best: Any, found: Any, uniforms: Any, total: Any, chosen: Any) -> None:
    """Draw one of the first `found` rows for each lane in proportion to exp of it: one exp per point and row."""
    for b in range(LANES):
        total[b] = np.float32(0)
    for s in range(found):
        for b in range(LANES):
            gap = log_likelihoods[s, b] - best[b]
            value = exp_float32(gap) if gap > np.float32(-CUTOFF) else np.float32(0)
            log_likelihoods[s, b] = value
            total[b] += value
    for b in range(LANES):
        uniforms[b] *= total[b]
        total[b] = np.float32(0)
        chosen[b] = 0
    for s in range(found - 1):
        for b in range(LANES):
            total[b] += log_likelihoods[s, b]
            chosen[b] += total[b] <= uniforms[b]


@compiled
def _draw_labels(
    X: Any, labels: Any, starts: Any, sorted_rows: Any, clusters: Any, neighbours: Any, key: Any, greedy: Any, room: Any
) -> None:
    """New labels for the rows of a chunk that are in order of their old ones."""
    whitening, log_heights = clusters
    origins, offsets, order, radii = neighbours
    log_likelihoods, rows, block, z, distance, best, uniforms, total, chosen, survivors = room
    count = len(log_heights)
    for c in range(count):
        for first in range(starts[c], starts[c + 1], LANES):
            n = min(LANES, starts[c + 1] - first)
            gather(X, sorted_rows, first, n, origins[c], rows, block)
            for b in range(LANES):
                best[b] = np.float32(-np.inf)
            # A cluster comes first among its own neighbours, with a radius below zero.
            farthest = np.float32(0)
            found = 0
            rank = 0
            while rank < count and not radii[c, order[c, rank]] > farthest:
                k = order[c, rank]
                squared_distances(whitening[k], offsets[c, k], block, z, distance)
                lead = np.float32(-np.inf)
                for b in range(LANES):
                    value = log_heights[k] - np.float32(0.5) * distance[b]
                    log_likelihoods[found, b] = value
                    lead = max(lead, value - best[b])
                    best[b] = max(best[b], value)
                if rank == 0:
                    for b in range(LANES):
                        farthest = max(farthest, distance[b])
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
                _draw_uniforms(key, rows, np.uint64(40), uniforms)
                _draw(log_likelihoods, best, found, uniforms, total, chosen)
            for b in range(n):
                labels[rows[b]] = survivors[chosen[b]]


@compiled
def _add_points(points: Any, count: Any, counts: Any, sums: Any, squares: Any, side: Any) -> None:
    """Add count points, feature by feature, to a subcluster's sums: D (D + 1) / 2 multiply-adds a point, in float64.

    Two features by two at a time, so that four loads serve four products.
    """
    dim = points.shape[0]
    counts[side] += count
    for i in range(dim):
        total = 0.0
        for b in range(count):
            total += points[i, b]
        sums[side, i] += total
    for i in range(0, dim - 1, 2):
        for j in range(0, i + 1, 2):
            t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
            for b in range(count):
                t0 += points[i, b] * points[j, b]
                t1 += points[i, b] * points[j + 1, b]
                t2 += points[i + 1, b] * points[j, b]
                t3 += points[i + 1, b] * points[j + 1, b]
            squares[side, i, j] += t0
            squares[side, i, j + 1] += t1
            squares[side, i + 1, j] += t2
            squares[side, i + 1, j + 1] += t3
    if dim % 2:
        for j in range(dim):
            t0 = 0.0
            for b in range(count):
                t0 += points[dim - 1, b] * points[j, b]
            squares[side, dim - 1, j] += t0


@compiled
def _set_aside(block: Any, lanes: Any, count: Any, points: Any, filled: Any) -> None:
    """Append the given lanes of a block to a side's points. O(n D)."""
    for j in range(block.shape[0]):
        for m in range(count):
            points[j, filled + m] = block[j, lanes[m]]


@inlined
def log_chance(drawn: Any, t: Any, total: Any, count: Any) -> Any:
    """log probability of the sides drawn for the first lanes (right where drawn > 0), with log odds t of the right
    and total = 1 + e^-|t|: that is -log total for the likelier side, and |t| less for the other. One log a block."""
    product, against = np.float32(1), np.float32(0)
    for b in range(count):
        product *= total[b]
        against += abs(t[b]) if (drawn[b] > np.float32(0)) != (t[b] > np.float32(0)) else np.float32(0)
    return -np.float64(against) - math.log(np.float64(product))


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
    rows, block, z, distances, uniforms, lanes, points = room
    filled = np.zeros(2, np.int64)
    found = np.zeros(2, np.int64)
    for c in range(len(origins)):
        lead = log_heights[c, 1] - log_heights[c, 0]
        for first in range(starts[c], starts[c + 1], LANES):
            n = min(LANES, starts[c + 1] - first)
            gather(X, sorted_rows, first, n, origins[c], rows, block)
            for side in range(2):
                squared_distances(whitening[c, side], offsets[c, side], block, z, distances[side])
            if greedy:
                for b in range(LANES):
                    uniforms[b] = np.float32(0.5)
            else:
                _draw_uniforms(key, rows, np.uint64(0), uniforms)
            for b in range(LANES):
                # Right if u < 1 / (1 + e^-t), with an exp that cannot overflow: e = e^-|t|.
                t = lead + np.float32(0.5) * (distances[0, b] - distances[1, b])
                odds = exp_float32(-abs(t))
                share = np.float32(1) if t > np.float32(0) else odds
                uniforms[b] = share - uniforms[b] * (np.float32(1) + odds)
                distances[0, b] = t
                distances[1, b] = np.float32(1) + odds
            log_chances[c] += log_chance(uniforms, distances[0], distances[1], n)
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
                _set_aside(block, lanes[side], found[side], points[side], filled[side])
                filled[side] += found[side]
                if filled[side] > BUFFER - LANES:
                    _add_points(points[side], filled[side], counts[c], sums[c], squares[c], side)
                    filled[side] = 0
        for side in range(2):
            _add_points(points[side], filled[side], counts[c], sums[c], squares[c], side)
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
    rows, block, z = np.empty(LANES, np.int64), np.empty((dim, LANES), np.float32), np.empty(LANES, np.float32)
    distances, uniforms = np.empty((2, LANES), np.float32), np.empty(LANES, np.float32)
    label_room = (
        np.empty((count + 1, LANES), np.float32), rows, block, z, distances[0], distances[1], uniforms,
        np.empty(LANES, np.float32), np.empty(LANES, np.int32), np.empty(count + 1, np.int32),
    )  # fmt: skip
    lanes, points = np.empty((2, LANES), np.int64), np.empty((2, dim, BUFFER))
    sublabel_room = (rows, block, z, distances, uniforms, lanes, points)
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
    places, block = np.empty(LANES, np.int64), np.empty((dim, LANES), np.float32)
    lanes, points = np.empty(LANES, np.int64), np.empty((dim, LANES))
    for c in range(len(origins)):
        for first in range(bounds[c], bounds[c + 1], LANES):
            n = min(LANES, bounds[c + 1] - first)
            gather(X, rows, first, n, origins[c], places, block)
            for side in range(2):
                found = 0
                for b in range(n):
                    if sides[first + b] == side:
                        sublabels[places[b]] = side
                        lanes[found] = b
                        found += 1
                _set_aside(block, lanes, found, points, 0)
                _add_points(points, found, counts[c], sums[c], squares[c], side)


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
