"""Compiled loops of the exact moves for all families, on top of `families.collapsed`.

Random numbers come from a key and an index. Row numbers by remainder are close enough to uniform, with 2^64 random
values.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.families.collapsed import (
    add_cluster,
    add_point,
    add_rows,
    clear,
    copy_cluster,
    log_marginal,
    log_predictive,
    prepare,
    weight_of,
)
from dpmmwrap.numerics.special import compiled_float64 as compiled
from dpmmwrap.numerics.special import inner_float64 as inner
from dpmmwrap.numerics.special import log_gamma, new_array, new_zeros
from dpmmwrap.numerics.variates import random_bits

SIDE_STRENGTH = 1.0
"""Added to a side's number of points in the probability that the next point chooses it."""
ONE_BY_ONE = 32
"""Number of points allocated one by one before blocks start to double."""
KEPT_KEY = 1 << 40
"""Offset of the index for a kept cluster; rows use smaller numbers."""
UNION = 2
"""Index of the scratch cluster for unions, after the two sides."""


@inner
def uniform53(key: Any, index: Any) -> Any:
    """A float64 strictly between 0 and 1, from 53 bits."""
    return (np.float64(random_bits(key, index) >> np.uint64(11)) + 0.5) * 2.0**-53


@inner
def random_row(key: Any, index: Any, rows: Any) -> Any:
    return np.int64(random_bits(key, index) % np.uint64(rows))


@inner
def index_of(u: Any, cumulative: Any) -> Any:
    """The first index whose cumulative share is at least u, or the last one."""
    first, last = np.int64(0), np.int64(len(cumulative) - 1)
    while first < last:
        middle = (first + last) // 2
        if cumulative[middle] < u:
            first = middle + 1
        else:
            last = middle
    return first


@compiled
def draw_rows(key: Any, count: Any, n_rows: Any, likely: Any, cumulative: Any) -> Any:
    """Draw `count` row numbers, and a uniform number for each. Every other row is drawn from `likely`, if there are
    any, by their cumulative shares."""
    chosen, uniforms = new_array(count, np.int64), new_array(count, np.float64)
    for t in range(count):
        uniforms[t] = uniform53(key, 2 * t + 1)
        if t % 2 and len(likely) > 0:
            chosen[t] = likely[index_of(uniform53(key, 2 * t), cumulative)]
        else:
            chosen[t] = random_row(key, 2 * t, n_rows)
    return chosen, uniforms


@inner
def log_rise(prior: Any, count: Any, weight: Any) -> Any:
    """Log prior weight of a cluster of this size for a row of this weight: log W(count + weight) - log W(count)."""
    if weight == 1.0:
        return math.log(count + prior.shift)
    return log_gamma(count + prior.shift + weight) - log_gamma(count + prior.shift)


@inner
def log_first(prior: Any, weight: Any) -> Any:
    """log W(weight): 0 for a row of weight 1."""
    return 0.0 if weight == 1.0 else log_gamma(weight + prior.shift) - prior.log_one


@compiled
def seeding_probabilities(clusters: Any, used: Any, fixed: Any, X: Any, rows: Any, prior: Any) -> Any:
    """The probability that each row, if it chose again, would start a new cluster. O(K D^2) per row."""
    probabilities = new_array(len(rows), np.float64)
    for k in range(used):
        prepare(clusters, k)
    log_new = prior.log_new[used - fixed]
    clear(clusters, used)
    prepare(clusters, used)
    for t in range(len(rows)):
        weight = weight_of(X, rows[t])
        base = log_new + log_first(prior, weight) + log_predictive(clusters, used, X, rows[t])
        total = 1.0
        for k in range(fixed, used):
            gap = log_rise(prior, clusters.counts[k], weight) + log_predictive(clusters, k, X, rows[t]) - base
            total += math.exp(min(gap, 700.0))
        probabilities[t] = 1.0 / total
    return probabilities


@compiled
def gibbs_points(
    clusters: Any, used: Any, fixed: Any, most: Any, X: Any, rows: Any, uniforms: Any, prior: Any, labels: Any
) -> Any:
    """Neal's algorithm 3 on some rows, one after the other: each may join a cluster or start a new one.

    `prior` is the prior over partitions of all points (`partitions.gibbs_type`). The first `used` clusters are in use;
    the first `fixed` of these (outliers) stay as they are. A new cluster takes an empty one as long as there are no
    more than `most`. Returns the number of clusters then in use and the number of rows that moved. O(K D) per row, or
    O(K D^2) with full covariances.
    """
    scores, stale = new_array(len(clusters.counts), np.float64), new_array(used + 3, np.int64)
    alive, moved = 0, 0
    for k in range(used):
        stale[k] = k
        alive += k >= fixed and clusters.counts[k] > 0.0
    # The clusters to prepare: all of them at first. This is the only call, because numba compiles one for each place.
    changed = used
    for t in range(len(rows)):
        row = rows[t]
        own: Any = np.int64(labels[row])
        if own < fixed:
            continue
        weight = weight_of(X, row)
        add_point(clusters, own, X, row, -1.0)
        clusters.counts[own] -= weight
        if clusters.counts[own] == 0.0:
            # Remove what rounding left behind.
            clear(clusters, own)
            alive -= 1
        clear(clusters, used)
        stale[changed], stale[changed + 1] = own, used
        for index in range(changed + 2):
            prepare(clusters, stale[index])
        vacant, best = used, -np.inf
        for k in range(fixed, used):
            if clusters.counts[k] == 0.0:
                vacant = k
        for k in range(fixed, used + 1):
            scores[k] = -np.inf
            if k < used and clusters.counts[k] > 0.0:
                prior_weight = log_rise(prior, clusters.counts[k], weight)
            elif k == vacant and alive < most:
                prior_weight = prior.log_new[alive] + log_first(prior, weight)
            else:
                continue
            scores[k] = prior_weight + log_predictive(clusters, k, X, row)
            best = max(best, scores[k])
        total = 0.0
        for k in range(fixed, used + 1):
            scores[k] = math.exp(scores[k] - best)
            total += scores[k]
        left, chosen = uniforms[t] * total, fixed
        while chosen < used and left >= scores[chosen]:
            left -= scores[chosen]
            chosen += 1
        if scores[chosen] == 0.0:
            # Rounding may leave a remainder: then the row stays where it was.
            chosen = own if clusters.counts[own] > 0.0 else vacant
        labels[row] = chosen
        alive += clusters.counts[chosen] == 0.0
        add_point(clusters, chosen, X, row, 1.0)
        clusters.counts[chosen] += weight
        stale[0], changed = chosen, 1
        moved += chosen != own
        used = max(used, chosen + 1)
    return used, moved


@compiled
def allocate_kept(
    clusters: Any, X: Any, rows: Any, sides: Any, kept: Any, numbers: Any, kept_sides: Any, key: Any, draw: Any
) -> Any:
    """Log probability of dividing kept clusters between two sides that the first two rows start, one after the other by
    the probability of their rows given the side. With `draw` the sides are drawn."""
    allocate(clusters, X, rows[:2], sides, key, False, 2, False)
    gains = np.empty(2, np.float64)
    log_prob = 0.0
    for index in range(len(numbers)):
        for side in range(2):
            copy_cluster(clusters, UNION, clusters, side)
            add_cluster(clusters, UNION, kept, numbers[index], 1.0)
            gains[side] = log_marginal(clusters, UNION) - log_marginal(clusters, side)
        t = gains[1] - gains[0]
        less = math.exp(-abs(t))
        if draw:
            share = (1.0 if t > 0.0 else less) / (1.0 + less)
            kept_sides[index] = uniform53(key, KEPT_KEY + index) < share
        log_prob -= math.log1p(less) + (abs(t) if (kept_sides[index] == 1) != (t > 0.0) else 0.0)
        chosen = kept_sides[index]
        add_cluster(clusters, chosen, kept, numbers[index], 1.0)
        clusters.counts[chosen] += kept.counts[numbers[index]]
        prepare(clusters, chosen)
    return log_prob


@compiled
def better_sides(halves: Any, kept: Any, numbers: Any, places: Any, begun: Any, sides: Any) -> None:
    """Move kept clusters, one after the other, to the side of their cluster that makes their rows more probable.

    `halves` are the sides of some clusters in turn. `places` gives the cluster of each kept one, and `begun` whether it
    is already on one of the sides.
    """
    for t in range(len(numbers)):
        left, weight = 2 * places[t], weight_of(kept, numbers[t])
        if begun[t]:
            add_point(halves, left + sides[t], kept, numbers[t], -1.0)
            halves.counts[left + sides[t]] -= weight
            if halves.counts[left + sides[t]] == 0.0:
                clear(halves, left + sides[t])
        gain = log_predictive(halves, left + 1, kept, numbers[t]) - log_predictive(halves, left, kept, numbers[t])
        gain += weight * math.log(halves.counts[left + 1] + SIDE_STRENGTH)
        gain -= weight * math.log(halves.counts[left] + SIDE_STRENGTH)
        sides[t] = gain > 0.0
        add_point(halves, left + sides[t], kept, numbers[t], 1.0)
        halves.counts[left + sides[t]] += weight


@compiled
def nearer_sides(halves: Any, left: Any, X: Any, rows: Any, sides: Any) -> None:
    """The more probable side for each row, of the two sides at `left` and `left + 1`."""
    prepare(halves, left)
    prepare(halves, left + 1)
    odds = math.log(halves.counts[left + 1]) - math.log(halves.counts[left])
    for index in range(len(rows)):
        gain = weight_of(X, rows[index]) * odds + log_predictive(halves, left + 1, X, rows[index])
        sides[index] = gain > log_predictive(halves, left, X, rows[index])


@compiled
def allocate(clusters: Any, X: Any, rows: Any, sides: Any, key: Any, draw: Any, first: Any, begun: Any) -> Any:
    """Log probability of dividing rows, in the given order, between two sides that the first two rows start.

    Rows are allocated one by one up to `first`, then in blocks of doubling size: within a block, points choose
    independently given the sides so far. With `draw` the sides are drawn, otherwise they are given. The sides are the
    first two of `clusters`, which are not empty if `begun`.
    """
    count, log_prob, begin = len(rows), 0.0, 2
    densities = new_array(2, np.float64)
    if not begun:
        begin = 0
        for side in range(2):
            clear(clusters, side)
            clusters.counts[side] = 0.0
    while begin < count:
        single = begin < max(first, 2)
        end = begin + 1 if single else min(count, 2 * begin)
        odds = math.log(clusters.counts[1] + SIDE_STRENGTH) - math.log(clusters.counts[0] + SIDE_STRENGTH)
        for index in range(begin, end):
            if index < 2:
                sides[index] = index
                continue
            row = rows[index]
            for side in range(2):
                densities[side] = log_predictive(clusters, side, X, row)
            t = weight_of(X, row) * odds + densities[1] - densities[0]
            less = math.exp(-abs(t))
            if draw:
                share = (1.0 if t > 0.0 else less) / (1.0 + less)
                sides[index] = uniform53(key, index) < share
            against = (sides[index] == 1) != (t > 0.0)
            log_prob -= math.log1p(less) + (abs(t) if against else 0.0)
        for side in range(2):
            if single and sides[begin] != side:
                continue
            if single:
                add_point(clusters, side, X, rows[begin], 1.0)
            else:
                add_rows(clusters, side, X, rows[begin:end], sides[begin:end], side)
            for index in range(begin, end):
                if sides[index] == side:
                    clusters.counts[side] += weight_of(X, rows[index])
            prepare(clusters, side)
        begin = end
    return log_prob


@compiled
def draw_pairs(key: Any, count: Any, n_rows: Any, near: Any) -> Any:
    """Draw `count` pairs of different points: uniformly, or (half of the time, if there are near pairs) a point, by
    cumulative shares, and one of its neighbours."""
    pairs = new_array((count, 2), np.int64)
    for p in range(count):
        one = random_row(key, 4 * p, n_rows)
        other = random_row(key, 4 * p + 1, n_rows - 1)
        other += other >= one
        if uniform53(key, 4 * p + 2) < 0.5 and near.neighbours.shape[1] > 0:
            index = index_of(uniform53(key, 4 * p), near.cumulative)
            neighbour = near.neighbours[index, random_row(key, 4 * p + 1, near.neighbours.shape[1])]
            if neighbour != near.rows[index]:
                one, other = near.rows[index], neighbour
        pairs[p, 0], pairs[p, 1] = one, other
    return pairs


@compiled
def merge_gains(clusters: Any, scratch: Any, one: Any, other: Any) -> Any:
    """Log likelihood ratio of each merge; 0 if both points are in the same cluster.

    The union of the last pair is left in cluster UNION of `scratch`.
    """
    gains = new_zeros(len(one), np.float64)
    for p in range(len(one)):
        if one[p] != other[p]:
            copy_cluster(scratch, UNION, clusters, one[p])
            add_cluster(scratch, UNION, clusters, other[p], 1.0)
            gains[p] = log_marginal(scratch, UNION) - log_marginal(clusters, one[p])
            gains[p] -= log_marginal(clusters, other[p])
    return gains


@compiled
def collect_unions(labels: Any, sizes: Any, one: Any, other: Any, wanted: Any) -> Any:
    """For the wanted pairs, concatenate the rows of the pair's clusters, in order; return where each pair begins, and
    the rows. `sizes` are the numbers of rows of the clusters. O(N)."""
    slots, starts, at = (
        new_array(len(sizes), np.int64),
        new_zeros(len(one) + 1, np.int64),
        new_array(len(one), np.int64),
    )
    unions = 0
    for k in range(len(sizes)):
        slots[k] = -1
    for p in range(len(one)):
        if wanted[p]:
            slots[one[p]] = slots[other[p]] = unions
            size = sizes[one[p]] + (sizes[other[p]] if other[p] != one[p] else 0.0)
            at[unions] = starts[unions]
            unions += 1
            starts[unions] = starts[unions - 1] + np.int64(size)
    rows = new_array(starts[unions], np.int64)
    if unions > 0:
        for row in range(len(labels)):
            slot = slots[labels[row]]
            if slot >= 0:
                rows[at[slot]] = row
                at[slot] += 1
    return starts[: unions + 1], rows


@compiled
def shuffle(rows: Any, i: Any, j: Any, key: Any) -> None:
    """Shuffle rows into a random order that begins with i and j (Fisher and Yates)."""
    for index in range(len(rows)):
        if rows[index] == i:
            rows[index] = rows[0]
            rows[0] = i
    for index in range(1, len(rows)):
        if rows[index] == j:
            rows[index] = rows[1]
            rows[1] = j
    for index in range(len(rows) - 1, 2, -1):
        other = 2 + random_row(key, index, index - 1)
        rows[index], rows[other] = rows[other], rows[index]
