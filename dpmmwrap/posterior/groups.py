"""Components that overlap, joined step by step: a tree from the components of a mixture to groups of them.

Hennig (2010), "Methods for merging Gaussian mixture components", joins the two that are confused most often ("demp"),
or that have a single mode; Baudry et al. (2010), "Combining mixture components for clustering", the two whose
union lowers the entropy most. They use only each point's probabilities of the components.

Pieces of a cluster that is not Gaussian are confused with one another, but so are two clusters that overlap. "dip"
combines the first two: along the log ratio of the two densities, which for equal covariances is the best line between
them, the points of two clusters have two modes. "separation" uses more evidence (`separation.py`).
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import entr

from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.posterior.merging import Confusion, Entropy, Merging, OneCluster, Step
from dpmmwrap.posterior.separation import GroupEvidence

METHODS = ("separation", "dip", "demp", "entropy")
CONFUSED = {"separation": 0.01, "dip": 0.01, "demp": 0.025}
"""Probability of confusion above which components are joined: for "demp" the default of R's fpc; lower for the methods
that have other means to separate two clusters."""


@dataclass(frozen=True)
class Groups:
    """A tree of components, and where to cut it. Groups are numbered in the order of their first components.

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
    """The steps (K - 1, 4) in the format of scipy's linkage: one, other, height, components in the union. Heights grow:
    one minus the probability of confusion, or the share of the entropy removed so far ("entropy")."""
    criterion: Float64Array
    """For each step, the probability of confusion, or the drop in entropy in nats per point; it need not decrease. With
    "separation" and "dip", components that are apart are joined last, with a criterion of at most the threshold."""
    method: str
    suggested: int
    """Groups at the suggested cut."""
    threshold: float | None = None
    """The criterion above which the suggested cut joins; None if it was chosen otherwise."""
    reason: str = ""
    """Why the tree is cut there."""
    second_opinion: int | None = None
    """The number of groups that another method, "demp", suggests."""

    def __repr__(self) -> str:
        why = f"; {self.reason}" if self.reason else ""
        return f"Groups({self.n_components} clusters in {self.suggested} groups by {self.method!r}{why})"

    @property
    def n_components(self) -> int:
        return len(self.merges) + 1

    @property
    def component_groups(self) -> IntArray:
        """The group of each component at the suggested cut."""
        return self.labels_at(self.suggested)

    @property
    def path(self) -> list[tuple[float, int]]:
        """Pairs of criterion and number of groups: a cut from the criterion of one entry down to that of the next gives
        this number."""
        lowest = np.minimum.accumulate(np.append(np.inf, self.criterion))
        return [(float(value), self.n_components - step) for step, value in enumerate(lowest)]

    def labels_at(self, n_groups: int) -> IntArray:
        """The group of each component at a given number of groups. O(K^2).

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
        _, first, inverse = np.unique(names, return_index=True, return_inverse=True)
        return np.argsort(np.argsort(first))[inverse].astype(np.int32)

    def cut(self, threshold: float) -> IntArray:
        """The group of each component after all steps above a threshold of the criterion.

        Parameters
        ----------
        threshold : float
            A probability of confusion, or a drop in entropy in nats per point ("entropy").

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
            The number of groups; None for the suggested cut.

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
        # The last entry is for -1.
        names = np.append(self.labels_at(self.suggested if n_groups is None else n_groups), np.int32(-1))
        return np.asarray(names[labels])


def group_components(
    tau: FloatArray, method: str = "separation", cut: float | None = None, seen: GroupEvidence | None = None
) -> Groups:
    """Join the components of a mixture into groups, down to one, as in `DPMM.groups`.

    `tau` are each point's probabilities of the components (N, K), without an outlier component; `seen` is further
    evidence for "separation". O(N) per step, plus O(K) for each point that changes its group ("demp") or lies in the
    union ("entropy").
    """
    if method not in METHODS:
        raise ValueError(f"method should be one of {', '.join(METHODS)}, not {method!r}")
    if cut is not None and not cut >= 0:
        raise ValueError(f"cut should be a number of at least 0, or None, not {cut!r}")
    columns = np.array(np.transpose(tau), dtype=np.float64, order="C")
    if columns.ndim != 2 or columns.size == 0:
        raise ValueError(f"tau should be an array of points by components, not of shape {columns.shape[::-1]}")
    # Not a number fails, too.
    if not (columns.min() >= 0.0 and columns.sum(axis=0).max() <= 1.0 + 1e-3):
        raise ValueError("tau should be probabilities: at least 0, and at most 1 in the sum of each row")
    n_points = columns.shape[1]
    uncertainty = float(entr(columns).sum(axis=0) @ np.ones(n_points) / n_points)
    merging: Merging
    if method == "entropy":
        merging = Entropy(columns)
    else:
        cut = CONFUSED[method] if cut is None else cut
        seen = (seen or GroupEvidence()) if method == "separation" else None
        merging = Confusion(columns) if method == "demp" else OneCluster(columns, cut, seen)
    steps = [merging.step() for _ in range(len(columns) - 1)]
    criterion = np.array([step.criterion for step in steps])
    removed = np.cumsum(criterion)
    if method != "entropy":
        heights = 1.0 - np.minimum.accumulate(criterion)
    else:
        # If nothing overlaps, no union is better than another.
        heights = removed / removed[-1] if removed.size and removed[-1] > 0 else np.ones(len(steps))
    if cut is None:
        entropies = uncertainty - np.append(0.0, removed)
        suggested = elbow(entropies, np.array([step.points for step in steps]))
        # Two lines have a break even if nothing overlaps, so a union should gain more than one uncertain point.
        suggested = max(suggested, len(columns) - steps_above(criterion, math.log(2.0) / n_points))
    else:
        suggested = len(columns) - steps_above(criterion, cut)
    return Groups(linkage(steps, heights), criterion, method, suggested, cut)


def steps_above(criterion: Float64Array, threshold: float) -> int:
    """The number of steps before the first whose criterion is at or below a threshold."""
    return int(np.append(criterion <= threshold, True).argmax())


def elbow(entropies: Float64Array, points: Float64Array) -> int:
    """The number of groups at which the entropy, against the number of points in unions so far, begins to rise faster:
    the break of the best fit by two line segments (Baudry et al.). If there are only two components, 2. O(K^2)."""
    if len(entropies) < 3:
        return len(entropies)
    # From one group to all components.
    heights, reached = entropies[::-1], np.append(0.0, np.cumsum(points[::-1]))
    breaks = range(1, len(heights) - 1)
    errors = [misfit(reached[: k + 1], heights[: k + 1]) + misfit(reached[k:], heights[k:]) for k in breaks]
    return int(np.argmin(errors)) + 2


def misfit(x: Float64Array, y: Float64Array) -> float:
    """The squared error of the best straight line."""
    x, y = x - x.mean(), y - y.mean()
    spread = float(x @ x)
    return float(y @ y - ((x @ y) ** 2 / spread if spread > 0 else 0.0))


def linkage(steps: Sequence[Step], heights: Float64Array) -> Float64Array:
    """The steps in the format of scipy's linkage: a union is numbered after all components and earlier unions."""
    number, size = np.arange(len(steps) + 1), np.ones(len(steps) + 1)
    rows = np.empty((len(steps), 4))
    for row, step, height in zip(rows, steps, heights, strict=True):
        pair = [step.kept, step.gone]
        row[:] = *np.sort(number[pair]), height, size[pair].sum()
        number[step.kept], size[step.kept] = number.max() + 1, row[3]
    return rows


def hellinger(tau: FloatArray) -> Float64Array:
    """Hellinger's distance between each two components (K, K), from each row's probabilities (N, K).

    The rows are a sample of the mixture: the overlap of two densities, the integral of sqrt(f g), is the mean over rows
    of sqrt(p q), divided by the square root of both weights. So memory is not that of pairs of points.
    """
    roots = np.sqrt(np.asarray(tau, np.float64))
    roots /= np.maximum(np.linalg.norm(roots, axis=0), np.finfo(float).tiny)
    distances = np.sqrt(np.maximum(1.0 - roots.T @ roots, 0.0))
    np.fill_diagonal(distances, 0.0)
    return np.asarray(distances)


def expected_distances(
    labels: IntArray, n_clusters: int, draws: Iterable[tuple[IntArray, Float64Array]]
) -> Float64Array:
    """The mean over draws, and over pairs of rows of two clusters, of the distance between the rows' components (K, K).
    A draw is each row's component and the distances between components. O(N + K C^2) a draw of C components."""
    sizes = np.bincount(labels, minlength=n_clusters)
    total, count = np.zeros((n_clusters, n_clusters)), 0
    for components, distances in draws:
        table = np.zeros((n_clusters, len(distances)))
        np.add.at(table, (labels, components), 1.0)
        table /= np.maximum(sizes, 1)[:, None]
        total += table @ distances @ table.T
        count += 1
    return total / max(count, 1)


def fold(distances: Float64Array, sizes: IntArray, cut: float | None = None) -> Groups:
    """Groups by a loss that knows how far apart components are: FOLD (Dombowsky and Dunson 2024, "Bayesian clustering
    via fusing of localized densities"). O(K^3).

    Putting two points together costs the distance between their components, from 0 to 1; separating them costs omega
    times one minus that distance. The best partition has the least expected cost over the posterior. Two groups should
    be joined if the average expected distance between their points is below omega / (1 + omega), so groups are found by
    average linkage, and this number is `cut`. By default it is the average distance of all pairs.
    """
    weights, away = np.asarray(sizes, np.float64).copy(), distances.copy()
    if cut is None:
        cut = float(weights @ away @ weights / weights.sum() ** 2)
    np.fill_diagonal(away, np.inf)
    steps: list[Step] = []
    while len(steps) < len(away) - 1:
        kept, gone = sorted(divmod(int(away.argmin()), len(away)))
        distance, both = float(away[kept, gone]), weights[[kept, gone]]
        steps.append(Step(kept, gone, 1.0 - distance, float(both.sum())))
        # Two empty clusters have the same weight.
        shares = both / both.sum() if both.sum() > 0 else np.array([0.5, 0.5])
        joined = shares[0] * away[kept] + shares[1] * away[gone]
        away[kept] = away[:, kept] = joined
        away[gone] = away[:, gone] = away[kept, kept] = np.inf
        weights[kept], weights[gone] = both.sum(), 0.0
    criterion = np.array([step.criterion for step in steps])
    heights = np.maximum.accumulate(1.0 - criterion)
    suggested = len(distances) - steps_above(criterion, 1.0 - cut)
    return Groups(linkage(steps, heights), criterion, "fold", suggested, 1.0 - cut)
