"""How components are joined, one pair at a time: by confusion, perhaps only if they are one cluster, or by entropy."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr

from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.posterior.separation import (
    CLEAR,
    REPRODUCED,
    TINY,
    WEAK,
    GroupEvidence,
    along_line,
    boundary_in,
    count_rows,
    has_gap,
)

NEGLIGIBLE = 1e-7
"""Smaller probabilities are left out of the entropy: the error of a drop is at most 2e-6 nats per point."""


class Step(NamedTuple):
    """Two components, by the first of each, become one."""

    kept: int
    gone: int
    criterion: float
    points: float
    """In the union: points whose most probable component is one of the two."""


class Merging:
    """The components at some step: their probabilities, and the most probable one of each point.

    A union has the number of its first component; the other number is no longer alive.
    """

    def __init__(self, columns: Float64Array) -> None:
        self.columns = columns
        self.alive = np.ones(len(columns), dtype=bool)
        self.best = columns.argmax(axis=0)
        self.highest = columns.max(axis=0)

    def step(self) -> Step:
        """Join the two with the largest criterion. O(K^2) beyond the bookkeeping."""
        scores = self.open_scores()
        # The first of equals, so that kept < gone.
        kept, gone = divmod(int(scores.argmax()), len(scores))
        points = float(((self.best == kept) | (self.best == gone)).sum())
        self.join(kept, gone)
        return Step(kept, gone, float(scores[kept, gone]), points)

    def open_scores(self) -> Float64Array:
        """The criterion of each pair, -1 for pairs that cannot be joined."""
        scores = self.scores()
        scores[~self.alive] = scores[:, ~self.alive] = -1.0
        np.fill_diagonal(scores, -1.0)
        return scores

    def scores(self) -> Float64Array:
        """The criterion of each pair (K, K), symmetric; entries of components that are not alive are ignored."""
        raise NotImplementedError

    def join(self, kept: int, gone: int) -> Any:
        """Add up the probabilities of the two. Returns the points of other components that are now most probably in the
        union, and these components. O(N)."""
        self.columns[kept] += self.columns[gone]
        self.alive[gone] = False
        joined = self.columns[kept]
        self.best[self.best == gone] = kept
        inside = self.best == kept
        # The first of equals, as argmax has it.
        more = (joined > self.highest) | ((joined == self.highest) & (kept < self.best))
        points = np.flatnonzero(more & ~inside)
        before = np.unique(self.best[points])
        self.best[points] = kept
        self.highest[inside] = joined[inside]
        self.highest[points] = joined[points]
        return points, before


class Confusion(Merging):
    """How often a point of one component is assigned to another, by its most probable component.

    fpc compares the probabilities of the two alone, so that it also counts points of third components.
    """

    def __init__(self, columns: Float64Array) -> None:
        super().__init__(columns)
        self.totals = columns @ np.ones(columns.shape[1])
        # Row i: the probability of each component, summed over the points that are assigned to i.
        self.sums = np.array([self.summed(np.flatnonzero(self.best == k)) for k in range(len(columns))])

    def summed(self, points: IntArray) -> Float64Array:
        """Each component's probability, summed over some points. O(K) a point."""
        sums = np.zeros(len(self.columns))
        sums[self.alive] = self.columns[np.ix_(self.alive, points)] @ np.ones(len(points))
        return sums

    def scores(self) -> Float64Array:
        """max(p_ij, p_ji), with p_ij the probability that a point of component j is assigned to i."""
        confused = self.sums / np.where(self.totals > 0, self.totals, 1.0)
        # Rounding may make a probability more than 1.
        return np.asarray(np.minimum(np.maximum(confused, confused.T), 1.0))

    def join(self, kept: int, gone: int) -> None:
        points, before = super().join(kept, gone)
        self.totals[kept] += self.totals[gone]
        self.sums[kept] += self.sums[gone]
        self.sums[:, kept] += self.sums[:, gone]
        if len(points):
            self.sums[kept] += self.summed(points)
        for k in before:
            # Not by subtraction: rounding errors would dominate a small sum.
            self.sums[k] = self.summed(np.flatnonzero(self.best == k))


class OneCluster(Confusion):
    """Confusion of components that are one cluster; pairs that are two clusters are joined last.

    Without further evidence ("dip"), two clusters are those whose points have two modes along the log ratio of the
    densities; with it ("separation"), those that a gap or half samples separate (`separation.py`).
    """

    def __init__(self, columns: Float64Array, cut: float, seen: GroupEvidence | None) -> None:
        super().__init__(columns)
        self.cut, self.seen, self.only_apart = cut, seen, False
        # Pairs that are known to be two clusters.
        self.apart = np.zeros((len(columns), len(columns)), dtype=bool)
        self.first_best, self.first_scores = self.best.copy(), self.scores()
        self.members = [[k] for k in range(len(columns))]
        self.tables = [count_rows(half, self.best, len(columns)) for half in (seen.halves if seen else ())]

    def step(self) -> Step:
        step = super().step()
        return step._replace(criterion=min(step.criterion, self.cut)) if self.only_apart else step

    def open_scores(self) -> Float64Array:
        scores = super().open_scores()
        while not self.only_apart:
            open_pairs = np.where(self.apart, -1.0, scores)
            one, other = divmod(int(open_pairs.argmax()), len(open_pairs))
            if open_pairs[one, other] <= self.cut:
                self.only_apart = True
            elif self.are_two(one, other):
                self.apart[one, other] = self.apart[other, one] = True
            else:
                return open_pairs
        return scores

    def are_two(self, one: int, other: int) -> bool:
        """Whether two unions are two clusters."""
        points: IntArray = np.flatnonzero((self.best == one) | (self.best == other))
        first, second = (np.log(np.maximum(self.columns[k, points], TINY)) for k in (one, other))
        if self.seen is None:
            return has_gap(first - second)
        # The unions meet where two of their components are confused most often.
        near = self.first_scores[np.ix_(self.members[one], self.members[other])]
        i, j = np.unravel_index(int(near.argmax()), near.shape)
        pair = self.members[one][i], self.members[other][j]
        reproduced = boundary_in(self.tables, *pair) >= REPRODUCED
        if reproduced and self.seen.fits:
            return True
        level = WEAK if reproduced else CLEAR / (len(self.columns) - 1)
        if not has_gap(first - second, level):
            return False
        inside = np.isin(self.first_best[points], pair)
        if self.seen.shape is None or not inside.any():
            return True
        return has_gap(along_line(self.seen.shape, points, inside, *pair), level)

    def join(self, kept: int, gone: int) -> None:
        super().join(kept, gone)
        self.apart[kept] = self.apart[:, kept] = False
        self.members[kept] = self.members[kept] + self.members[gone]


class Entropy(Merging):
    """How much the entropy of the points' components drops if two of them are joined."""

    def __init__(self, columns: Float64Array) -> None:
        super().__init__(columns)
        # Sparse: most points can only be in a few components.
        component, point = np.nonzero(columns > NEGLIGIBLE)
        self.component, self.point = component.astype(np.int32), point.astype(np.int32)
        self.probability = columns[component, point]
        self.entropy = entr(self.probability)
        self.drops = np.array([self.drops_with(k) for k in range(len(columns))])

    def drops_with(self, k: int) -> Float64Array:
        """The drop in entropy from joining k with each other component, in nats per point."""
        shared = np.flatnonzero((self.columns[k] > NEGLIGIBLE)[self.point])
        points = self.point[shared]
        union = self.columns[k, points] + self.probability[shared]
        drop = union * np.log(union) + entr(self.columns[k])[points] + self.entropy[shared]
        drops = np.bincount(self.component[shared], drop, len(self.columns)) / self.columns.shape[1]
        # Negative drops are rounding errors.
        return np.asarray(np.maximum(drops, 0.0))

    def scores(self) -> Float64Array:
        return np.array(self.drops)

    def join(self, kept: int, gone: int) -> None:
        super().join(kept, gone)
        others = (self.component != kept) & (self.component != gone)
        union = np.flatnonzero(self.columns[kept] > NEGLIGIBLE).astype(np.int32)
        self.component = np.concatenate([self.component[others], np.full(len(union), kept, np.int32)])
        self.point = np.concatenate([self.point[others], union])
        self.probability = np.concatenate([self.probability[others], self.columns[kept, union]])
        self.entropy = np.concatenate([self.entropy[others], entr(self.columns[kept, union])])
        self.drops[kept] = self.drops[:, kept] = self.drops_with(kept)
