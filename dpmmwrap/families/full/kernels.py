"""Compiled loops over points, block by block (`blocks`).

A sweep draws every label and sublabel and sums the statistics in one pass over the data:

- Points are processed in chunks that fit a core's second-level cache. Within a chunk they are ordered by label, so that
all LANES points of a block have the same current cluster and nearly the same competitors.
- A block stores points relative to their cluster's mean, feature by feature, with points along the vector lanes.
- The neighbours of each cluster are sorted by the distance at which they begin to matter (`pairs.neighbour_tables`). A
block visits them in this order and stops at the first that cannot matter to any of its points. The cost thus depends on
the number of overlapping clusters and not on the number of clusters.

Clusters whose probability is below e^-CUTOFF of the best are left out. A uniform number here has 24 bits and could not
have selected them, so the labels are those of the full sum.

The order of all sums over points depends only on the shape of the data, never on the threads.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.full.blocks import (
    BUFFER,
    LANES,
    add_points,
    draw,
    draw_uniforms,
    fatten,
    gather,
    log_densities,
    narrow,
    padded,
    proposal_log_prob,
    set_aside,
    take_weights,
    weigh,
)
from dpmmwrap.families.full.wishart import Statistics
from dpmmwrap.numerics.labels import CUTOFF
from dpmmwrap.numerics.special import compiled, exp_float32, new_zeros


class ClusterTables(NamedTuple):
    """Drawn parameters of the clusters in the kernels' layout, padded with zeros to whole blocks."""

    factors: Any
    """Lower triangular W (K, D, D), with W'W the precision."""
    log_peaks: Any
    """Log of weight times density at the mean (K,)."""
    heaviness: Any
    """One over the degrees of freedom of Student's t, 0 for Gaussians (K,); empty if all are Gaussian."""
    powers: Any
    """Half the sum of these degrees of freedom and the dimension (K,)."""
    least_shares: Any
    """Lower bounds on the cluster's posterior probability up to some radii (`pairs.LEVELS`), for clusters with tails;
    empty without tails."""


class Neighbours(NamedTuple):
    """What the loops need to know about the other clusters when they visit the points of a cluster."""

    origins: Any
    """The clusters' means in float32 (K, D), to which points are relative."""
    offsets: Any
    """W_k (m_k - origin_c) in row c K + k (K^2, D)."""
    order: Any
    """The clusters around each cluster, nearest first (K, K)."""
    radii: Any
    """Squared radius about c within which k cannot matter (K, K)."""


class SubclusterTables(NamedTuple):
    """The tables of each cluster's two subclusters: (2K, ...)."""

    factors: Any
    offsets: Any
    log_peaks: Any


class Tables(NamedTuple):
    """All drawn parameters of a sweep."""

    clusters: ClusterTables
    neighbours: Neighbours
    subclusters: SubclusterTables


class Sums(NamedTuple):
    """Sums of a sweep for each group of chunks, cluster and side, relative to the clusters' origins."""

    counts: Any
    sums: Any
    squares: Any
    proposal_log_probs: Any
    """Log probability with which each cluster's sublabels were drawn."""


class Workspace(NamedTuple):
    """Arrays that are overwritten for every block."""

    rows: Any
    block: Any
    flat: Any
    z: Any
    logs: Any
    uniforms: Any
    log_likelihoods: Any
    total: Any
    chosen: Any
    survivors: Any
    lanes: Any
    points: Any
    lane_weights: Any
    weights: Any
    """Weights of the points; empty if points have none."""


def new_workspace(count: int, dim: int, weighted: bool) -> Workspace:
    """Arrays for blocks of points with `count` clusters."""
    padded_dim = padded.py_func(dim)
    flat = np.zeros(padded_dim * LANES, np.float32)
    return Workspace(
        np.empty(LANES, np.uint64), flat.reshape(padded_dim, LANES), flat, np.empty(4 * LANES, np.float32),
        np.empty((2, LANES), np.float32), np.empty(LANES, np.float32), np.empty((count + 1, LANES), np.float32),
        np.empty(LANES, np.float32), np.empty(LANES, np.int32), np.empty(count + 1, np.int32),
        np.empty((2, LANES), np.uint64), np.empty((2, dim, BUFFER)), np.empty(LANES),
        np.empty((2, BUFFER if weighted else 0)),
    )  # fmt: skip


@compiled
def draw_labels(
    X: Any, weights: Any, labels: Any, starts: Any, sorted_rows: Any, clusters: Any, neighbours: Any, key: Any,
    greedy: Any, work: Any,
) -> None:  # fmt: skip
    """Draw new labels for the rows of a chunk, which are ordered by their old labels."""
    factors, log_peaks = clusters.factors, clusters.log_peaks
    origins, offsets, order, radii = neighbours.origins, neighbours.offsets, neighbours.order, neighbours.radii
    rows, block, flat, z, uniforms = work.rows, work.block, work.flat, work.z, work.uniforms
    log_likelihoods, best, total = work.log_likelihoods, work.logs[0], work.total
    chosen, survivors = work.chosen, work.survivors
    count = len(log_peaks)
    for c in range(count):
        for first in range(starts[c], starts[c + 1], LANES):
            n = min(LANES, starts[c + 1] - first)
            gather(X, sorted_rows, first, n, origins, c, rows, block)
            take_weights(weights, rows, work.lane_weights)
            # A cluster comes first among its own neighbours, with a negative radius; then those that its farthest point
            # is far enough out to see.
            farthest = np.float32(0)
            # A literal 0 would have a type of its own, for which `log_densities` would be compiled again.
            found = np.int64(0)
            rank = 0
            while rank < count and not radii[c, order[c, rank]] > farthest:
                k = order[c, rank]
                log_densities(factors, k, offsets, c * count + k, log_peaks[k], flat, z, log_likelihoods, found)
                margin = np.float32(0)
                if rank == 0:
                    lowest = np.float32(np.inf)
                    for b in range(LANES):
                        lowest = min(lowest, log_likelihoods[found, b])
                    farthest = np.float32(2) * (log_peaks[k] - lowest)
                fatten(log_likelihoods, found, log_peaks[k], clusters.heaviness, clusters.powers, k)
                weigh(log_likelihoods, found, weights, work.lane_weights)
                if rank == 0:
                    for b in range(LANES):
                        best[b] = log_likelihoods[found, b]
                else:
                    margin = np.float32(-np.inf)
                    for b in range(LANES):
                        value = log_likelihoods[found, b]
                        margin = max(margin, value - best[b])
                        best[b] = max(best[b], value)
                if margin > np.float32(-CUTOFF):
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
def draw_sublabels(
    X: Any, weights: Any, sublabels: Any, starts: Any, sorted_rows: Any, origins: Any, subclusters: Any, key: Any,
    greedy: Any, work: Any, own: Any, scaled: Any, given: Any, most: Any,
) -> None:  # fmt: skip
    """Draw new sublabels for the rows of a chunk, which are ordered by label, and sum the statistics. A weight counts
    copies of a point or, with `scaled`, multiplies its precision.

    The log probability with which each cluster's sublabels were drawn is added to its entry of proposal_log_probs.
    Sublabels that are `given` (one per row, in the order of `sorted_rows`) are only written and their statistics
    summed. The points of a side are added to its sums as soon as there are more than `most`.
    """
    factors, offsets, log_peaks = subclusters.factors, subclusters.offsets, subclusters.log_peaks
    counts, sums, squares, proposal_log_probs = own.counts, own.sums, own.squares, own.proposal_log_probs
    rows, block, flat, z, logs = work.rows, work.block, work.flat, work.z, work.logs
    uniforms, lanes, points = work.uniforms, work.lanes, work.points
    filled = np.zeros(2, np.int64)
    for c in range(len(origins)):
        for first in range(starts[c], starts[c + 1], LANES):
            n = min(LANES, starts[c + 1] - first)
            gather(X, sorted_rows, first, n, origins, c, rows, block)
            take_weights(weights, rows, work.lane_weights)
            if len(given) > 0:
                for b in range(n):
                    uniforms[b] = given[first + b]
            else:
                for side in range(2):
                    k = 2 * c + side
                    log_densities(factors, k, offsets, k, log_peaks[k], flat, z, logs, side)
                    if scaled:
                        narrow(logs, side, log_peaks[k], work.lane_weights)
                    else:
                        weigh(logs, side, weights, work.lane_weights)
                if greedy:
                    for b in range(LANES):
                        uniforms[b] = np.float32(0.5)
                else:
                    draw_uniforms(key, rows, np.uint64(0), uniforms)
                for b in range(LANES):
                    # Right if u < 1 / (1 + e^-t). With e = e^-|t| the exponential cannot overflow.
                    t = logs[1, b] - logs[0, b]
                    odds = exp_float32(-abs(t))
                    share = np.float32(1) if t > np.float32(0) else odds
                    uniforms[b] = share - uniforms[b] * (np.float32(1) + odds)
                    logs[0, b] = t
                    logs[1, b] = np.float32(1) + odds
                proposal_log_probs[c] += proposal_log_prob(uniforms, logs, n)
            right: Any = 0
            for b in range(n):
                # Written to both lists and counted in one: this avoids a branch, and a counter that waits for memory.
                lanes[0, b - right] = b
                lanes[1, right] = b
                is_right = np.int64(uniforms[b] > np.float32(0))
                sublabels[rows[b]] = is_right
                right += is_right
            for side in range(counts.shape[1]):
                found = right if side else n - right
                set_aside(block, work.lane_weights, lanes, found, points, work.weights, side, filled[side])
                filled[side] += found
                if filled[side] > most:
                    add_points(points, work.weights, filled[side], counts, sums, squares, c, side)
                    filled[side] = 0
        for side in range(counts.shape[1]):
            add_points(points, work.weights, filled[side], counts, sums, squares, c, side)
            filled[side] = 0


@compiled
def collect_statistics(counts: Any, sums: Any, squares: Any, origins: Any) -> Any:
    """Counts, means and scatters of K clusters or 2K subclusters, from the sums of groups about the clusters' origins.
    O(G K D^2)."""
    groups, clusters, sides, dim = sums.shape
    total = new_zeros(sides * clusters, np.float64)
    means = new_zeros((sides * clusters, dim), np.float64)
    scatters = new_zeros((sides * clusters, dim, dim), np.float64)
    for k in range(sides * clusters):
        c, side = k // sides, k % sides
        for group in range(groups):
            total[k] += counts[group, c, side]
            for i in range(dim):
                means[k, i] += sums[group, c, side, i]
                for j in range(i + 1):
                    scatters[k, i, j] += squares[group, c, side, i, j]
        for i in range(dim):
            for j in range(i + 1):
                scatters[k, i, j] -= means[k, i] * means[k, j] / max(total[k], 1e-300)
                scatters[k, j, i] = scatters[k, i, j]
        for i in range(dim):
            means[k, i] = means[k, i] / max(total[k], 1e-300) + np.float64(origins[c, i])
    return Statistics(total, means, scatters)
