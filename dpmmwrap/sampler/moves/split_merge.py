"""Split-merge moves with a proposal of known probability (Jain and Neal 2004; Dahl 2003): exact moves.

Two points are chosen without regard to labels, half of the time near each other. If they share a cluster, the proposal
divides its points between them and returns the probability of that division. Otherwise the division is the current one.
Everything a proposal uses depends only on the set of points and not on how it is divided now, so it cancels in the
ratio. Several pairs without common clusters are divided in parallel (`disjoint_pairs`). They are accepted
one after the other, because the prior ratio may depend on the current number of clusters.
"""

from __future__ import annotations

from dataclasses import dataclass
from queue import SimpleQueue
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.collapsed import clear, copy_cluster, log_marginals
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.numerics.variates import derived_key, standard_exponentials
from dpmmwrap.partitions.gibbs_type import GibbsType
from dpmmwrap.partitions.hastings import MergeRule, log_merge_ratio, log_split_ratio, merge_ratios
from dpmmwrap.sampler.data import Unions
from dpmmwrap.sampler.kept import KeptData, KeptInUnion
from dpmmwrap.sampler.kernels import exact
from dpmmwrap.sampler.partition import prior_for_moves, renumber, with_room
from dpmmwrap.sampler.problem import Problem
from dpmmwrap.sampler.state import State

LARGEST_UNION = 50_000
"""Larger unions are skipped: a proposal visits all of their points."""
ORDER_KEY, DIVISION_KEY, UNIFORM_KEY = 1 << 48, 1 << 49, 1 << 50
"""Offsets of the keys for the order of the points, for their sides and for the acceptance."""


class SplitMergeInfo(NamedTuple):
    splits_proposed: int = 0
    splits: int = 0
    merges_proposed: int = 0
    merges: int = 0


class Round(NamedTuple):
    """Pairs whose points have to be visited, and the points of their clusters."""

    one: IntArray
    other: IntArray
    log_uniforms: Any
    gains: Any
    """Log likelihood ratios of merges."""
    unions: Unions


class Division(NamedTuple):
    """The points of a pair's clusters, divided between the two points of the pair."""

    rows: IntArray
    sides: IntArray
    log_q: float
    """Log probability of this division."""
    gain: float
    """Log likelihood ratio of the move."""
    sizes: tuple[float, float]
    kept: KeptInUnion | None = None
    """The division of kept clusters, if any."""


@dataclass(frozen=True)
class SplitMerge:
    """At most `proposals` pairs, divided in parallel and accepted in turn."""

    proposals: int

    def step(self, key: Any, state: State, problem: Problem) -> tuple[State, SplitMergeInfo]:
        if problem.data.n_rows < 2:
            return state, SplitMergeInfo()
        with_room(state, problem, 2 * self.proposals)
        prior, scratches = prior_for_moves(state, self.proposals), scratches_of(state, problem)
        these, info = plan(key, self.proposals, state, problem, prior)
        count = len(these.one)
        divisions: list[Any] = [None] * count

        def look_at(begin: int, end: int) -> None:
            scratch = scratches.get()
            for number in range(begin, end):
                divisions[number] = divide(key, number, these, state, problem, scratch)
            scratches.put(scratch)

        problem.data.chunks.run(look_at, count, count)
        accepted = accept(divisions, these, state, problem, prior)
        if accepted.any():
            problem.data.put_labels(state, these.unions)
            renumber(state, problem, state.n_clusters + count)
            split = these.one == these.other
            info = info._replace(splits=int((accepted & split).sum()), merges=int((accepted & ~split).sum()))
        return state, info


def scratches_of(state: State, problem: Problem) -> SimpleQueue[Any]:
    """Bundles of three empty clusters, one per thread, created once for each prior."""
    if state.scratches is None:
        state.scratches = SimpleQueue()
        for _ in range(problem.data.n_jobs):
            state.scratches.put(problem.data.empty_clusters(state.model, 3))
    return state.scratches


def plan(key: Any, proposals: int, state: State, problem: Problem, prior: GibbsType) -> tuple[Round, SplitMergeInfo]:
    """The pairs of a round whose points have to be visited, and the number of proposals."""
    clusters, data = state.collapsed, problem.data
    pairs = exact.draw_pairs(key, proposals, data.n_rows, problem.near if state.near is None else state.near)
    labels = data.labels_at(state, pairs.ravel())
    numbers = np.arange(pairs.size).reshape(pairs.shape)
    chosen = disjoint_pairs(numbers, labels, data.sizes(state), problem.outliers, LARGEST_UNION)
    pairs, numbers = pairs[chosen], numbers[chosen]
    log_uniforms = -standard_exponentials(derived_key(key, UNIFORM_KEY), proposals)[chosen]
    one, other = labels[numbers[:, 0]].astype(np.int64), labels[numbers[:, 1]].astype(np.int64)
    gains = merge_gains(state, problem, one, other)
    split = one == other
    info = SplitMergeInfo(splits_proposed=int(split.sum()), merges_proposed=int((~split).sum()))
    # Most merges can be rejected without visiting any point, whatever happens to the pairs before them.
    alive = number_of_clusters(state)
    fewest, most = max(alive - info.merges_proposed, 1), alive + info.splits_proposed
    hopeful = split | (merge_bounds(prior, fewest, most, clusters.counts, one, other, gains) >= log_uniforms)
    unions = data.unions(state, pairs, one, other, hopeful)
    return Round(one[hopeful], other[hopeful], log_uniforms[hopeful], gains[hopeful], unions), info


def disjoint_pairs(pairs: IntArray, labels: IntArray, counts: Float64Array, fixed: int, largest: float) -> IntArray:
    """The indices of the pairs whose clusters do not occur in an earlier pair.

    Splits and merges change how a union of clusters is divided but not the union itself, so the reverse move selects
    the same pairs. Skipping the other pairs is therefore valid, and the selected ones can be processed in parallel. A
    pair with an outlier is ignored; a pair with more than `largest` points reserves its clusters but is not selected.
    """
    taken: set[int] = set()
    chosen, sizes = [], counts.tolist()
    for number, (one, other) in enumerate(labels[pairs].tolist()):
        if one < fixed or other < fixed or one in taken or other in taken:
            continue
        taken |= {one, other}
        if sizes[one] + (sizes[other] if other != one else 0.0) <= largest:
            chosen.append(number)
    return np.array(chosen, np.int64)


def merge_bounds(
    prior: GibbsType, fewest: int, most: int, counts: Float64Array, one: IntArray, other: IntArray, gains: Float64Array
) -> Float64Array:
    """An upper bound on the log ratio of each merge when its turn comes, with `fewest` to `most` clusters. The
    probability of the reverse proposal is at most 1."""
    cheapest = fewest + int(np.argmin(prior.log_new[fewest - 1 : max(fewest, most)]))
    bounds: Float64Array = merge_ratios(MergeRule(prior, cheapest, False), counts, one, other, gains)
    return bounds


def merge_gains(state: State, problem: Problem, one: IntArray, other: IntArray) -> Float64Array:
    """Log likelihood ratios of merging pairs of clusters."""
    scratches = scratches_of(state, problem)
    scratch = scratches.get()
    gains: Float64Array = exact.merge_gains(state.collapsed, scratch, one, other)
    scratches.put(scratch)
    return gains


def number_of_clusters(state: State) -> int:
    """Number of clusters with points, without the outliers."""
    return int(np.count_nonzero(state.counts[state.model.outliers :]))


def spare_clusters(state: State, these: Round, number: int) -> tuple[int, int]:
    """Indices of the two halves of a proposed split. The second half stays there if the split is accepted."""
    return state.n_clusters + len(these.one) + number, state.n_clusters + number


def divide(key: Any, number: int, these: Round, state: State, problem: Problem, scratch: Any) -> Division:
    """Propose a division of the cluster of two points, or compute the probability of the current one."""
    clusters, unions = state.collapsed, these.unions
    one, other = int(these.one[number]), int(these.other[number])
    rows, labels = unions.rows[unions.starts[number] : unions.starts[number + 1]], unions.labels
    sides = np.empty(len(rows), np.int64)
    exact.shuffle(rows, *unions.pairs[number], derived_key(key, ORDER_KEY + (number << 32)))
    if one != other:
        sides[:] = labels[rows] == other
    its_key = derived_key(key, DIVISION_KEY + (number << 32))
    kept, log_begun = divide_kept(its_key, one, other, unions.points, rows, sides, state, problem, scratch)
    log_q = problem.proposal.divide(unions.points, scratch, rows, sides, its_key, one == other, log_begun)
    sizes = (float(scratch.counts[0]), float(scratch.counts[1]))
    if one != other:
        return Division(rows, sides, log_q, float(these.gains[number]), sizes, kept)
    for side, k in enumerate(spare_clusters(state, these, number)):
        copy_cluster(clusters, k, scratch, side)
    return Division(rows, sides, log_q, split_gain(clusters, scratch, one), sizes, kept)


def divide_kept(
    key: Any, one: int, other: int, points: Any, rows: IntArray, sides: IntArray, state: State, problem: Problem,
    scratch: Any,
) -> tuple[KeptInUnion | None, float | None]:  # fmt: skip
    """Start the sides with the kept clusters of a union; return these and the log probability, or None if there are
    none."""
    data = problem.data
    if not isinstance(data, KeptData):
        return None, None
    kept = data.in_union(state, one, other)
    if not len(kept.numbers):
        return None, None
    bundle = data.bundle(state.model)
    return kept, float(exact.allocate_kept(scratch, points, rows, sides, bundle, *kept, key, one == other))


def accept(divisions: list[Division], these: Round, state: State, problem: Problem, prior: GibbsType) -> Any:
    """Accept or reject the proposals one after the other, and carry out the accepted ones."""
    clusters, labels, limit = state.collapsed, these.unions.labels, problem.settings.cluster_limit
    alive, accepted = number_of_clusters(state), np.zeros(len(divisions), bool)
    for number, (rows, sides, log_q, gain, sizes, kept) in enumerate(divisions):
        one, other = int(these.one[number]), int(these.other[number])
        split = one == other
        if (split and alive >= limit) or (not split and are_apart(kept, problem)):
            continue
        ratio = (log_split_ratio if split else log_merge_ratio)(prior, alive, *sizes, gain, log_q)
        if ratio < these.log_uniforms[number]:
            continue
        accepted[number] = True
        alive += 1 if split else -1
        if split:
            first, second = spare_clusters(state, these, number)
            copy_cluster(clusters, one, clusters, first)
            clusters.counts[one], clusters.counts[second] = sizes
            labels[rows[sides == 1]] = second
            if kept is not None:
                state.kept_labels[kept.numbers[kept.sides == 1]] = second
        else:
            merge(state, problem, one, other)
            labels[rows] = one
            if kept is not None:
                state.kept_labels[kept.numbers] = one
    return accepted


def are_apart(kept: KeptInUnion | None, problem: Problem) -> bool:
    """Whether there are kept clusters on both sides that must not share a cluster."""
    data = problem.data
    return kept is not None and isinstance(data, KeptData) and data.kept.apart and len(np.unique(kept.sides)) > 1


def split_gain(clusters: Any, scratch: Any, one: int) -> float:
    """Log likelihood ratio of splitting a cluster into the two sides in `scratch`."""
    left, right = log_marginals(scratch, 0, 2)
    whole = log_marginals(clusters, one, one + 1)[0]
    return float(left + right - whole)


def merge(state: State, problem: Problem, one: int, other: int) -> None:
    """Move the points of a cluster into another one."""
    clusters, scratches = state.collapsed, scratches_of(state, problem)
    scratch = scratches.get()
    # This call leaves the union in `scratch`.
    exact.merge_gains(clusters, scratch, np.array([one]), np.array([other]))
    copy_cluster(clusters, one, scratch, exact.UNION)
    scratches.put(scratch)
    clusters.counts[one] += clusters.counts[other]
    clear(clusters, other)
    clusters.counts[other] = 0.0
