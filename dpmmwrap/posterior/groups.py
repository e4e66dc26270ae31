"""Components that overlap, joined step by step: a tree from the components of a mixture to groups of them.

Hennig (2010), "Methods for merging Gaussian mixture components", joins the two that are confused most often ("demp"),
or that have one mode between them; Baudry et al. (2010), "Combining mixture components for clustering", the two whose
union lowers the entropy most. Here all look at nothing but each point's probabilities of the components.

The default takes two of these together. Pieces of a cluster that is not Gaussian are confused with one another, but so
are two clusters that overlap. What tells them apart are the points themselves: along the log ratio of the two
densities, which for equal covariances is the best line between them, those of two clusters lie in two heaps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.special import entr

from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.posterior.modes import has_two_modes

METHODS = ("dip", "demp", "entropy")
CONFUSED = {"dip": 0.01, "demp": 0.025}
"""Probability of confusion above which components are joined: for "demp" the default of R's fpc; for "dip", where it
need not tell two clusters apart, less."""
SMALLEST = 1e-300
"""Probabilities below this count as this where their logarithms are taken."""
NEGLIGIBLE = 1e-7
"""Probabilities below this are left out of the entropy: a drop is wrong by 2e-6 nats a point at most."""


@dataclass(frozen=True)
class Groups:
    """A tree of components, and where it should be cut. Groups are numbered by their first component.

    Examples
    --------
    Two components that are confused, without a gap between their points, and one that is not:

    >>> import numpy as np
    >>> share = np.linspace(0.1, 0.9, 40)
    >>> both = np.column_stack([share, 1 - share, 0 * share])
    >>> groups = group_components(np.concatenate([both, np.tile([0.0, 0.0, 1.0], (20, 1))]))
    >>> groups.suggested
    2
    >>> groups.of_points([0, 1, 2, -1]).tolist()
    [0, 0, 1, -1]
    """

    merges: Float64Array
    """The steps (K - 1, 4) as scipy's linkage has them: one, other, height, components in the union. Heights grow: one
    less the probability of confusion ("dip", "demp"), or the share of the entropy that is gone ("entropy")."""
    criterion: Float64Array
    """By step, the probability of confusion, or the drop in entropy in nats a point; not always falling. With "dip",
    that of components with two modes is at most the threshold of the suggested cut: they are joined after all
    others."""
    method: str
    suggested: int
    """Groups at the suggested cut."""
    threshold: float | None = None
    """The criterion above which the suggested cut joins; None where it was found otherwise."""
    reason: str = ""
    """Why it is cut there, if more was asked than the tree."""

    @property
    def n_components(self) -> int:
        return len(self.merges) + 1

    @property
    def component_groups(self) -> IntArray:
        """The group of each component at the suggested cut."""
        return self.labels_at(self.suggested)

    def labels_at(self, n_groups: int) -> IntArray:
        """The group of each component when this many groups are left. O(K^2).

        Parameters
        ----------
        n_groups : int
            From 1 to the number of components.

        Returns
        -------
        ndarray of int32, shape (K,)
            From 0.
        """
        if not 1 <= n_groups <= self.n_components:
            raise ValueError(f"n_groups should be from 1 to {self.n_components}, the components, not {n_groups}")
        names = np.arange(self.n_components)
        for step, (one, other) in enumerate(self.merges[: self.n_components - n_groups, :2].astype(int)):
            names[(names == one) | (names == other)] = self.n_components + step
        _, first, places = np.unique(names, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[places].astype(np.int32)

    def cut(self, threshold: float) -> IntArray:
        """The group of each component when they are joined until the criterion is at or below a threshold.

        Parameters
        ----------
        threshold : float
            A probability of confusion ("dip", "demp"), or a drop in entropy in nats a point ("entropy").

        Returns
        -------
        ndarray of int32, shape (K,)
            From 0.
        """
        return self.labels_at(self.n_components - steps_above(self.criterion, threshold))

    def of_points(self, labels: IntArray, n_groups: int | None = None) -> IntArray:
        """The group of each point from its component; outliers stay -1.

        Parameters
        ----------
        labels : array of int, shape (N,)
            The component of each point, such as `labels_`.
        n_groups : int, default=None
            How many groups; None for the suggested cut.

        Returns
        -------
        ndarray of int32, shape (N,)
            From 0; -1 for outliers.
        """
        labels = np.asarray(labels)
        if labels.size and not -1 <= labels.min() <= labels.max() < self.n_components:
            raise ValueError(
                f"labels should be from -1 to {self.n_components - 1}, not from {labels.min()} to {labels.max()}"
            )
        # What -1 looks up is the last.
        names = np.append(self.labels_at(self.suggested if n_groups is None else n_groups), np.int32(-1))
        return np.asarray(names[labels])


def group_components(
    tau: FloatArray, method: str = "dip", cut: float | None = None, weights: FloatArray | None = None
) -> Groups:
    """Join the components of a mixture into groups, down to one.

    Parameters
    ----------
    tau : array (N, K)
        Each point's probability of each component. An outlier component, which belongs to no group, should be left out.
    method : {"dip", "demp", "entropy"}, default="dip"
        Join the two that are confused most often and whose points have one mode; the two that are confused most often;
        or the two whose union lowers the entropy most.
    cut : float, default=None
        Join as long as the criterion is above this: the probability of confusion, or the drop in entropy in nats a
        point. None is 0.01 for "dip" and 0.025 for "demp"; for "entropy" it is where a broken stick, fitted to the
        entropy against the number of points in the unions, breaks.
    weights : array (N,), default=None
        How often each point counts; None is once.

    O(N) a step, and O(K) more for each point that changes its group by it ("demp") or lies in the union ("entropy").
    """
    if method not in METHODS:
        raise ValueError(f"method should be one of {', '.join(METHODS)}, not {method!r}")
    if cut is not None and not cut >= 0:
        raise ValueError(f"cut should be a number of at least 0, or None, not {cut!r}")
    columns, counts = checked(tau, weights)
    uncertainty = float(entr(columns).sum(axis=0) @ counts / counts.sum())
    if method != "entropy":
        cut = CONFUSED[method] if cut is None else cut
    table = table_of(method, columns, counts, cut)
    steps = [table.step() for _ in range(len(columns) - 1)]
    criterion = np.array([step.criterion for step in steps])
    if method != "entropy":
        heights = 1.0 - np.minimum.accumulate(criterion)
    else:
        removed = np.cumsum(criterion)
        # Where nothing overlaps, no union is better than another.
        heights = removed / removed[-1] if removed.size and removed[-1] > 0 else np.ones(len(steps))
    if cut is None:
        entropies = uncertainty - np.append(0.0, np.cumsum(criterion))
        suggested = elbow(entropies, np.array([step.points for step in steps]))
        # Two lines break somewhere even if nothing overlaps: a union should gain more than a single point in doubt.
        suggested = max(suggested, len(columns) - steps_above(criterion, math.log(2.0) / counts.sum()))
    else:
        suggested = len(columns) - steps_above(criterion, cut)
    return Groups(linkage(steps, heights), criterion, method, suggested, cut)


def checked(tau: Any, weights: Any) -> tuple[Float64Array, Float64Array]:
    """The probabilities with a component in each row (K, N), and how often each point counts."""
    columns = np.array(np.transpose(tau), dtype=np.float64, order="C")
    if columns.ndim != 2 or columns.size == 0:
        raise ValueError(f"tau should be an array of points by components, not of shape {columns.shape[::-1]}")
    # Not a number fails, too.
    if not (columns.min() >= 0.0 and columns.sum(axis=0).max() <= 1.0 + 1e-3):
        raise ValueError("tau should be probabilities: at least 0, and at most 1 in the sum of each row")
    if weights is None:
        return columns, np.ones(columns.shape[1])
    counts = np.asarray(weights, dtype=np.float64)
    if counts.shape != columns.shape[1:]:
        raise ValueError(f"weights should be {columns.shape[1]} numbers, one per point, not of shape {counts.shape}")
    if not (counts.min() >= 0.0 and 0.0 < counts.sum() < np.inf):
        raise ValueError("weights should be finite numbers of at least 0, not all 0")
    return columns, counts


class Step(NamedTuple):
    """Two components, by the first of each, become one."""

    kept: int
    gone: int
    criterion: float
    points: float
    """In the union: those that are most probably in one of the two."""


class Moved(NamedTuple):
    """Points of third components that are more probably in a union."""

    points: IntArray
    left: IntArray
    """The components that they were taken for."""


class Table:
    """What components are at a step of the way: their probabilities, and the most probable one of each point.

    A union goes by the number of its first component; the other numbers are no longer alive.
    """

    def __init__(self, columns: Float64Array, counts: Float64Array) -> None:
        self.columns, self.counts = columns, counts
        self.alive = np.ones(len(columns), dtype=bool)
        self.best = columns.argmax(axis=0)
        self.highest = columns.max(axis=0)

    def step(self) -> Step:
        """Join the two with the largest criterion. O(K^2) beyond the bookkeeping."""
        scores = self.scores()
        scores[~self.alive] = scores[:, ~self.alive] = -1.0
        np.fill_diagonal(scores, -1.0)
        # The first of equals, so that kept < gone.
        kept, gone = divmod(int(scores.argmax()), len(scores))
        points = float(self.counts[(self.best == kept) | (self.best == gone)].sum())
        self.join(kept, gone)
        return Step(kept, gone, float(scores[kept, gone]), points)

    def scores(self) -> Float64Array:
        """The criterion of each pair (K, K), symmetric; what it says of those no longer alive does not count."""
        raise NotImplementedError

    def join(self, kept: int, gone: int) -> None:
        raise NotImplementedError

    def join_columns(self, kept: int, gone: int) -> Moved:
        """Add the probabilities of the two up, and let points change to the union. O(N)."""
        self.columns[kept] += self.columns[gone]
        self.alive[gone] = False
        joined = self.columns[kept]
        self.best[self.best == gone] = kept
        inside = self.best == kept
        # The first of equals, as argmax has it.
        more = (joined > self.highest) | ((joined == self.highest) & (kept < self.best))
        points = np.flatnonzero(more & ~inside)
        moved = Moved(points, np.unique(self.best[points]))
        self.best[points] = kept
        self.highest[inside] = joined[inside]
        self.highest[points] = joined[points]
        return moved


class Confusion(Table):
    """How often a point of one component is taken for one of another, by the largest probability of all.

    fpc compares the probabilities of the two alone, so that points of a third one count as well.
    """

    def __init__(self, columns: Float64Array, counts: Float64Array) -> None:
        super().__init__(columns, counts)
        self.totals = columns @ counts
        # Row i: the probability of each component, summed over the points that are taken for i's.
        self.sums = np.array([self.summed(np.flatnonzero(self.best == k)) for k in range(len(columns))])

    def summed(self, points: IntArray) -> Float64Array:
        """Each component's probability, summed over some points. O(K) a point."""
        found = np.zeros(len(self.columns))
        found[self.alive] = self.columns[np.ix_(self.alive, points)] @ self.counts[points]
        return found

    def scores(self) -> Float64Array:
        """max(p_ij, p_ji), with p_ij the probability that a point of component j is taken for one of i."""
        found = self.sums / np.where(self.totals > 0, self.totals, 1.0)
        # Rounding may make a probability more than 1.
        return np.asarray(np.minimum(np.maximum(found, found.T), 1.0))

    def join(self, kept: int, gone: int) -> None:
        moved = self.join_columns(kept, gone)
        self.totals[kept] += self.totals[gone]
        self.sums[kept] += self.sums[gone]
        self.sums[:, kept] += self.sums[:, gone]
        if len(moved.points):
            self.sums[kept] += self.summed(moved.points)
        for k in moved.left:
            # Anew, as a difference would drown what is small in rounding.
            self.sums[k] = self.summed(np.flatnonzero(self.best == k))


class OneMode(Confusion):
    """Confusion of components whose points have one mode; the others are joined after all of these."""

    def __init__(self, columns: Float64Array, counts: Float64Array, cut: float) -> None:
        super().__init__(columns, counts)
        self.cut = cut
        # Pairs that were looked at, and have two modes.
        self.apart = np.zeros((len(columns), len(columns)), dtype=bool)
        self.only_apart = False

    def step(self) -> Step:
        step = super().step()
        return step._replace(criterion=min(step.criterion, self.cut)) if self.only_apart else step

    def scores(self) -> Float64Array:
        found = super().scores()
        found[~self.alive] = found[:, ~self.alive] = -1.0
        np.fill_diagonal(found, -1.0)
        while not self.only_apart:
            open_pairs = np.where(self.apart, -1.0, found)
            one, other = divmod(int(open_pairs.argmax()), len(open_pairs))
            if open_pairs[one, other] <= self.cut:
                self.only_apart = True
            elif self.has_two_modes(one, other):
                self.apart[one, other] = self.apart[other, one] = True
            else:
                return open_pairs
        return found

    def has_two_modes(self, one: int, other: int) -> bool:
        """Of the points that are taken for either, along the log ratio of their densities."""
        points = np.flatnonzero((self.best == one) | (self.best == other))
        first, second = (np.log(np.maximum(self.columns[k, points], SMALLEST)) for k in (one, other))
        return has_two_modes(first - second, self.counts[points])

    def join(self, kept: int, gone: int) -> None:
        super().join(kept, gone)
        self.apart[kept] = self.apart[:, kept] = False


class Entropy(Table):
    """How much less uncertain the points' components are when two of them need not be told apart."""

    def __init__(self, columns: Float64Array, counts: Float64Array) -> None:
        super().__init__(columns, counts)
        # The probabilities that matter: most points could be in a few components only.
        component, point = np.nonzero(columns > NEGLIGIBLE)
        self.component, self.point = component.astype(np.int32), point.astype(np.int32)
        self.probability = columns[component, point]
        self.entropy = entr(self.probability)
        self.drops = np.array([self.drops_with(k) for k in range(len(columns))])

    def drops_with(self, k: int) -> Float64Array:
        """What a union of k with each other component takes from the entropy, in nats a point."""
        shared = np.flatnonzero((self.columns[k] > NEGLIGIBLE)[self.point])
        points = self.point[shared]
        union = self.columns[k, points] + self.probability[shared]
        drop = union * np.log(union) + entr(self.columns[k])[points] + self.entropy[shared]
        drop *= self.counts[points]
        drops = np.bincount(self.component[shared], drop, len(self.columns)) / self.counts.sum()
        # Less than nothing would be rounding.
        return np.asarray(np.maximum(drops, 0.0))

    def scores(self) -> Float64Array:
        return np.array(self.drops)

    def join(self, kept: int, gone: int) -> None:
        self.join_columns(kept, gone)
        others = (self.component != kept) & (self.component != gone)
        union = np.flatnonzero(self.columns[kept] > NEGLIGIBLE).astype(np.int32)
        self.component = np.concatenate([self.component[others], np.full(len(union), kept, np.int32)])
        self.point = np.concatenate([self.point[others], union])
        self.probability = np.concatenate([self.probability[others], self.columns[kept, union]])
        self.entropy = np.concatenate([self.entropy[others], entr(self.columns[kept, union])])
        self.drops[kept] = self.drops[:, kept] = self.drops_with(kept)


def table_of(method: str, columns: Float64Array, counts: Float64Array, cut: float | None) -> Table:
    if method == "dip":
        assert cut is not None
        return OneMode(columns, counts, cut)
    return (Confusion if method == "demp" else Entropy)(columns, counts)


def steps_above(criterion: Float64Array, threshold: float) -> int:
    """The steps before the first whose criterion is at or below a threshold."""
    return int(np.append(criterion <= threshold, True).argmax())


def elbow(entropies: Float64Array, points: Float64Array) -> int:
    """The number of groups at which the entropy, against the number of points in unions so far, begins to rise faster:
    where two straight lines that share a point fit it best (Baudry et al.). Of two components nothing is said, and they
    stay. O(K^2)."""
    if len(entropies) < 3:
        return len(entropies)
    # From one group to all components.
    heights, places = entropies[::-1], np.append(0.0, np.cumsum(points[::-1]))
    breaks = range(1, len(heights) - 1)
    errors = [misfit(places[: k + 1], heights[: k + 1]) + misfit(places[k:], heights[k:]) for k in breaks]
    return int(np.argmin(errors)) + 2


def misfit(x: Float64Array, y: Float64Array) -> float:
    """The squared error of the best straight line."""
    x, y = x - x.mean(), y - y.mean()
    spread = float(x @ x)
    return float(y @ y - ((x @ y) ** 2 / spread if spread > 0 else 0.0))


def linkage(steps: Sequence[Step], heights: Float64Array) -> Float64Array:
    """The steps as scipy's linkage has them: a union is numbered after all components and earlier unions."""
    number, size = np.arange(len(steps) + 1), np.ones(len(steps) + 1)
    rows = np.empty((len(steps), 4))
    for row, step, height in zip(rows, steps, heights, strict=True):
        pair = [step.kept, step.gone]
        row[:] = *np.sort(number[pair]), height, size[pair].sum()
        number[step.kept], size[step.kept] = number.max() + 1, row[3]
    return rows
