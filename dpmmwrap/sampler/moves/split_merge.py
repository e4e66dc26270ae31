"""Split and merge by a division whose probability is known (Jain and Neal 2004; Dahl 2003): an exact move.

Two points are chosen without looking at labels, half of the time near each other. If they share a cluster, a proposal
divides its points between them, and says how probable just this division was. If they do not, the division is the
present one. Whatever a proposal looks at depends on the set of points alone, never on how it is divided now: so it
cancels. Several pairs are divided at once, as long as they have no cluster in common (`kernels.exact.disjoint_pairs`).
They are accepted one after the other: what a cluster more or less costs may depend on how many there are by then.
"""

from __future__ import annotations

from queue import SimpleQueue
from typing import Any, NamedTuple, Protocol

import numpy as np

from dpmmwrap.families.collapsed import clear, copy_cluster, log_marginals
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.numerics.cells import Embedder, thread_pools
from dpmmwrap.numerics.variates import derived_key, standard_exponentials
from dpmmwrap.partitions.gibbs_type import GibbsType
from dpmmwrap.partitions.hastings import log_merge_ratio, log_split_ratio
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.data import Data, Unions
from dpmmwrap.sampler.kernels import exact
from dpmmwrap.sampler.moves.single_points import Founders
from dpmmwrap.sampler.partition import Partition, close_ranks, prior_for_moves, with_room

ANCHORS, NEIGHBOURS = 2000, 20
"""Points among which near pairs are chosen, and how many neighbours each has."""
FOUNDERS, SEARCHED = 1000, 20_000
"""Likely founders that are added to them for draws, and points among which their neighbours are looked for."""
LARGEST_UNION = 50_000
"""Larger unions are left alone: a proposal goes over all of its points."""
ORDER_KEY, DIVISION_KEY, UNIFORM_KEY = 1 << 48, 1 << 49, 1 << 50
"""Added to a step's key for the order of the points, for their sides and for the acceptance."""


class Proposal(Protocol):
    """A way to divide points between two of them, with a probability that is known."""

    def divide(self, points: Any, scratch: Any, rows: IntArray, sides: IntArray, key: Any, draw: bool) -> float:
        """log probability of `sides` for `rows`, the first two of which found the two sides; with `draw` they are drawn
        first. The sides' statistics are left in the first two places of `scratch`.

        It may look at the points, the rows and the key, never at labels.
        """


class SequentialAllocation:
    """One point after the other by the predictive of the sides so far, then in blocks that double."""

    def divide(self, points: Any, scratch: Any, rows: IntArray, sides: IntArray, key: Any, draw: bool) -> float:
        return float(exact.allocate(scratch, points, rows, sides, key, draw, exact.ONE_BY_ONE))


class Near(NamedTuple):
    """Points and their neighbours, among which near pairs are chosen: fixed before a chain is, or before its draws."""

    rows: IntArray
    cumulative: Float64Array
    """By which the first of a pair is chosen."""
    neighbours: IntArray
    """Row numbers of each row's neighbours (A, NEIGHBOURS)."""

    @classmethod
    def of(cls, data: Data, embed: Embedder) -> Near:
        """Some points of the data, all of them alike."""
        rows = some_rows(data.n_rows, ANCHORS)
        return cls(rows, np.arange(1, len(rows) + 1) / len(rows), neighbours_of(rows, rows, data, embed))

    def joined(self, rows: IntArray, shares: Float64Array, data: Data, embed: Embedder) -> Near:
        """With some rows more, by their shares: half of the pairs begin with one of these."""
        found = neighbours_of(rows, some_rows(data.n_rows, SEARCHED), data, embed)
        width = min(found.shape[1], self.neighbours.shape[1])
        cumulative = np.concatenate([0.5 * self.cumulative, 0.5 + 0.5 * np.cumsum(shares) / shares.sum()])
        neighbours = np.concatenate([self.neighbours[:, :width], found[:, :width]])
        return Near(np.concatenate([self.rows, rows]), cumulative, neighbours)


def some_rows(n_rows: int, most: int) -> IntArray:
    """At most so many row numbers, in order: always the same."""
    if n_rows <= most:
        return np.arange(n_rows)
    return np.sort(np.random.default_rng(0).choice(n_rows, most, replace=False))


def neighbours_of(rows: IntArray, among: IntArray, data: Data, embed: Embedder) -> IntArray:
    """The nearest of some rows to each of others (A, NEIGHBOURS)."""
    from sklearn.neighbors import NearestNeighbors

    # One thread: more of them than idle cores wait for each other.
    with thread_pools().limit(limits=1):
        near = NearestNeighbors(n_neighbors=min(NEIGHBOURS + 1, len(among))).fit(embed(data.take(among)))
        found = near.kneighbors(embed(data.take(rows)), return_distance=False)
    # A point is its own nearest neighbour, or one of its doubles is.
    return np.asarray(among[found[:, 1:]])


class Tools(NamedTuple):
    """What the move needs beside the context: made once per chain."""

    near: Near
    proposal: Proposal
    scratches: SimpleQueue[Any]
    """Bundles of three empty clusters, one for each thread."""

    @classmethod
    def of(cls, context: Context, embed: Embedder, proposal: Proposal | None = None) -> Tools:
        return cls(Near.of(context.data, embed), proposal or SequentialAllocation(), scratches_for(context))

    def with_context(self, context: Context) -> Tools:
        """For another prior."""
        return self._replace(scratches=scratches_for(context))

    def with_founders(self, founders: Founders, context: Context, embed: Embedder) -> Tools:
        """For draws: near pairs also about the likely founders, where small clusters come and go."""
        shares = np.diff(founders.cumulative, prepend=0.0)
        first = np.argsort(-shares, kind="stable")[:FOUNDERS]
        first = first[shares[first] > 0]
        return self._replace(near=self.near.joined(founders.rows[first], shares[first], context.data, embed))


def scratches_for(context: Context) -> SimpleQueue[Any]:
    scratches: SimpleQueue[Any] = SimpleQueue()
    for _ in range(context.data.n_jobs):
        scratches.put(context.data.empty_clusters(context.model, 3))
    return scratches


class SplitMergeInfo(NamedTuple):
    splits_proposed: int = 0
    splits: int = 0
    merges_proposed: int = 0
    merges: int = 0


class Round(NamedTuple):
    """Pairs whose points are looked at, and the points of their clusters."""

    one: IntArray
    other: IntArray
    log_uniforms: Any
    gains: Any
    """Log likelihood ratios of merges."""
    unions: Unions


class Division(NamedTuple):
    """The points of a pair's clusters, divided between the two of the pair."""

    rows: IntArray
    sides: IntArray
    log_q: float
    """log probability of this division."""
    gain: float
    """log likelihood ratio of the move."""
    sizes: tuple[float, float]


def step(
    key: Any, partition: Partition, context: Context, tools: Tools, proposals: int
) -> tuple[Partition, SplitMergeInfo]:
    """Up to so many proposals, divided at once and accepted in turn."""
    if context.data.n_rows < 2:
        return partition, SplitMergeInfo()
    with_room(partition, context, 2 * proposals)
    prior = prior_for_moves(partition, context, proposals)
    these, info = plan(key, partition, context, prior, tools, proposals)
    count = len(these.one)
    divisions: list[Any] = [None] * count

    def look_at(begin: int, end: int) -> None:
        scratch = tools.scratches.get()
        for number in range(begin, end):
            divisions[number] = divide(key, number, these, partition, tools.proposal, scratch)
        tools.scratches.put(scratch)

    context.data.chunks.run(look_at, count, count)
    accepted = accept(divisions, these, partition, context, prior, tools)
    if accepted.any():
        context.data.put_labels(partition, these.unions)
        close_ranks(partition, context, partition.n_clusters + count)
        split = these.one == these.other
        info = info._replace(splits=int((accepted & split).sum()), merges=int((accepted & ~split).sum()))
    return partition, info


def plan(
    key: Any, partition: Partition, context: Context, prior: GibbsType, tools: Tools, proposals: int
) -> tuple[Round, SplitMergeInfo]:
    """The pairs of a round that need a look at their points; how many were proposed."""
    clusters, data = partition.clusters, context.data
    pairs = exact.draw_pairs(key, proposals, data.n_rows, tools.near)
    labels = data.labels_at(partition, pairs.ravel())
    places = np.arange(pairs.size).reshape(pairs.shape)
    chosen = exact.disjoint_pairs(places, labels, partition.counts, context.model.outliers, LARGEST_UNION)
    pairs, places = pairs[chosen], places[chosen]
    log_uniforms = -standard_exponentials(derived_key(key, UNIFORM_KEY), proposals)[chosen]
    one, other = labels[places[:, 0]].astype(np.int64), labels[places[:, 1]].astype(np.int64)
    scratch = tools.scratches.get()
    gains = exact.merge_gains(clusters, scratch, one, other)
    tools.scratches.put(scratch)
    split = one == other
    info = SplitMergeInfo(splits_proposed=int(split.sum()), merges_proposed=int((~split).sum()))
    # Most merges are refused without looking at a point, whatever becomes of the pairs before them.
    alive = number_of_clusters(partition, context)
    fewest, most = max(alive - info.merges_proposed, 1), alive + info.splits_proposed
    hopeful = split | (exact.merge_bounds(prior, fewest, most, clusters.counts, one, other, gains) >= log_uniforms)
    unions = data.unions(partition, pairs, one, other, hopeful)
    return Round(one[hopeful], other[hopeful], log_uniforms[hopeful], gains[hopeful], unions), info


def number_of_clusters(partition: Partition, context: Context) -> int:
    """Clusters with points, without that of outliers."""
    return int(np.count_nonzero(partition.counts[context.model.outliers :]))


def spare_places(partition: Partition, these: Round, number: int) -> tuple[int, int]:
    """Where the two halves of a proposed split are kept; the second stays there if it is accepted."""
    return partition.n_clusters + len(these.one) + number, partition.n_clusters + number


def divide(key: Any, number: int, these: Round, partition: Partition, proposal: Proposal, scratch: Any) -> Division:
    """Propose to divide the cluster of two points, or see how probable the present division of their clusters is."""
    clusters, unions = partition.clusters, these.unions
    one, other = int(these.one[number]), int(these.other[number])
    rows, labels = unions.rows[unions.starts[number] : unions.starts[number + 1]], unions.labels
    sides = np.empty(len(rows), np.int64)
    exact.shuffle(rows, *unions.pairs[number], derived_key(key, ORDER_KEY + (number << 32)))
    if one != other:
        exact.present_sides(rows, labels, other, sides)
    its_key = derived_key(key, DIVISION_KEY + (number << 32))
    log_q = proposal.divide(unions.points, scratch, rows, sides, its_key, one == other)
    sizes = (float(scratch.counts[0]), float(scratch.counts[1]))
    if one != other:
        return Division(rows, sides, log_q, float(these.gains[number]), sizes)
    for side, place in enumerate(spare_places(partition, these, number)):
        copy_cluster(clusters, place, scratch, side)
    return Division(rows, sides, log_q, split_gain(clusters, scratch, one), sizes)


def accept(
    divisions: list[Division], these: Round, partition: Partition, context: Context, prior: GibbsType, tools: Tools
) -> Any:
    """Which proposals are accepted, one after the other; they are carried out."""
    clusters, labels, limit = partition.clusters, these.unions.labels, context.settings.cluster_limit
    alive, accepted = number_of_clusters(partition, context), np.zeros(len(divisions), bool)
    for number, (rows, sides, log_q, gain, sizes) in enumerate(divisions):
        one, other = int(these.one[number]), int(these.other[number])
        split = one == other
        if split and alive >= limit:
            continue
        ratio = (log_split_ratio if split else log_merge_ratio)(prior, alive, *sizes, gain, log_q)
        if ratio < these.log_uniforms[number]:
            continue
        accepted[number] = True
        alive += 1 if split else -1
        if split:
            first, second = spare_places(partition, these, number)
            copy_cluster(clusters, one, clusters, first)
            clusters.counts[one], clusters.counts[second] = sizes
            labels[rows[sides == 1]] = second
        else:
            scratch = tools.scratches.get()
            merge(clusters, scratch, one, other)
            tools.scratches.put(scratch)
            labels[rows] = one
    return accepted


def split_gain(clusters: Any, scratch: Any, one: int) -> float:
    """log likelihood ratio of splitting a cluster into scratch's two sides."""
    left, right = log_marginals(scratch, 0, 2)
    whole = log_marginals(clusters, one, one + 1)[0]
    return float(left + right - whole)


def merge(clusters: Any, scratch: Any, one: int, other: int) -> None:
    """Put the points of a cluster into another."""
    # Makes the union.
    exact.merge_gains(clusters, scratch, np.array([one]), np.array([other]))
    copy_cluster(clusters, one, scratch, exact.UNION)
    clusters.counts[one] += clusters.counts[other]
    clear(clusters, other)
    clusters.counts[other] = 0.0
