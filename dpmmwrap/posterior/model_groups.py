"""Groups of a fitted model's clusters, and how sure they are.

Clusters that would be joined are compared with the clusters of half of the rows, by short chains under the prior of the
fit: true clusters reappear, pieces of one do not.

For the groups of a draw, its components are joined like those of the answer (`separation.py`), but with half samples
that are drawn again, with replacement: so groups vary with the posterior of the components, and with the half samples.
Without draws, the components are always those of the answer, and each row's component is drawn from its probabilities.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpmmwrap.mixture import Mixture
from dpmmwrap.model.short_chains import short_chain, short_settings
from dpmmwrap.numerics.arrays import Float64Array, IntArray, evenly_spaced
from dpmmwrap.numerics.categorical_draws import draw_columns
from dpmmwrap.numerics.cells import kmeans_cells
from dpmmwrap.posterior.answers import CredibleBall, credible_ball
from dpmmwrap.posterior.averaging import draws_averaged
from dpmmwrap.posterior.fitted import kept_rows
from dpmmwrap.posterior.groups import Groups, expected_distances, fold, group_components, hellinger
from dpmmwrap.posterior.matching import confidence, count_clusters
from dpmmwrap.posterior.representative import coclustering
from dpmmwrap.posterior.separation import GroupEvidence, Half, Shape

if TYPE_CHECKING:
    from dpmmwrap.posterior.mixin import PosteriorMixin

PAIRS = 4
"""How often the rows are divided into two halves."""
MOST_ROWS, ITERATIONS = 4000, 200
"""Limits of the rows, evenly spaced, and of the iterations of a chain, which ends when its log posterior is flat."""
MANY = 40
"""With more cells, a chain from one cluster is not worth its time: it often ends with too few."""
WITHOUT_DRAWS = 30
"""Choices of half samples without draws."""
MOST_NUMBERS = 10_000_000
"""Probabilities (rows times components of all draws) to hold in memory. If there would be more, fewer rows are used,
evenly spaced."""


class GroupDraws(NamedTuple):
    """The groups of the rows in several draws."""

    labels: IntArray
    """(S, N), -1 for outliers."""
    groups: IntArray
    """The suggested groups of the rows (N,)."""

    @property
    def n_groups(self) -> dict[int, float]:
        """The probability of each number of groups."""
        counts = Counter(count_clusters(labels) for labels in self.labels)
        return {count: counts[count] / len(self.labels) for count in sorted(counts)}

    @property
    def confidence(self) -> Float64Array:
        """For each row, the share of draws in which it is in its suggested group (N,)."""
        return confidence(self.labels, self.groups)

    def coclustering(self, rows: Any = None) -> Float64Array:
        """The probability that two rows share a group, for some rows or for all."""
        return coclustering(self.labels, rows)

    def credible_ball(self, level: float = 0.95) -> CredibleBall:
        """How far the groups of draws are from the suggested ones."""
        return credible_ball(self.labels, self.groups, level)


def kept_mixture(model: PosteriorMixin) -> Mixture:
    """The mixture in the coordinates of the rows that the model keeps."""
    return replace(model.mixture_.shifted(model._offset), restored=None, subspace=None)


def kept_numbers(model: PosteriorMixin) -> IntArray:
    """The numbers of the rows that the model keeps."""
    rows = np.arange(len(model.labels_)) if model._present is None else model._present.rows
    return np.asarray(rows[kept_rows(len(rows), model._some_points.shape[1])])


def kept_components(model: PosteriorMixin) -> IntArray:
    """The components of these rows: their clusters, before some were joined."""
    if model._components is not None:
        return np.asarray(model._components)
    return np.asarray(model.labels_[kept_numbers(model)])


def default_groups(model: PosteriorMixin, cut: float | None = None) -> tuple[Groups, GroupEvidence]:
    """The groups of the rows that the model keeps, and the evidence from half samples. They take seconds, so those of
    the default cut are computed once."""
    if cut is None and model._groups_known is not None:
        return model._groups_known
    mixture, seen = kept_mixture(model), GroupEvidence()
    groups = mixture.groups(model._some_points, cut=cut)
    if groups.suggested < groups.n_components:
        of_clusters = groups.component_groups
        clusters = np.flatnonzero(np.bincount(of_clusters)[of_clusters] > 1)
        seen = GroupEvidence(halves=half_samples(model, clusters), fits=model._can_check() and model.fit_check().fits)
        groups = mixture.groups(model._some_points, cut=cut, seen=seen)
    reason = "all clusters that overlap have a gap between them, or a boundary that half samples reproduce"
    if groups.suggested < groups.n_components:
        reason = "no gap separates the clusters of a group, and half samples do not reproduce their boundaries"
    groups = replace(groups, reason=reason)
    if cut is None:
        model._groups_known = groups, seen
    return groups, seen


def half_samples(model: PosteriorMixin, clusters: IntArray) -> list[Half]:
    """The clusters of halves of the kept rows that are in some clusters: the more probable labels of a chain from twice
    as many k-means cells and, if these are few, of one that begins with a single cluster. None for a single row."""
    points = model._some_points
    rows = np.flatnonzero(np.isin(np.asarray(model.labels_[kept_numbers(model)]), clusters))
    settings = short_settings(
        model.partition_prior_, model._prior, ITERATIONS, stop_when_flat=True, min_cluster_age=5,
        outlier_weight=float(model.outlier_weight), outlier_prior=model._outliers,
    )  # fmt: skip
    used, halves, cells = rows[evenly_spaced(len(rows), MOST_ROWS)], list[Half](), 2 * len(clusters)
    for pair in range(PAIRS if len(used) > 1 else 0):
        order = np.random.default_rng(pair).permutation(len(used))
        for half in np.array_split(order, 2):
            chosen = used[np.sort(half)]
            some, one = points[chosen], replace(settings, seed=len(halves))
            many = kmeans_cells(some, min(cells, len(chosen)), 0, settings.prior.embedder(some))
            starts = [replace(one, init_clusters=many), *([one] if cells <= MANY else [])]
            best = max((short_chain(some, start) for start in starts), key=lambda result: result.log_posterior)
            halves.append(Half(chosen, best.labels))
    return halves


def fold_groups(mixture: Mixture, rows: Any, cut: float | None) -> Groups:
    """Groups by the expected distances between the components of rows, over draws if there are any."""
    tau = mixture.predict_proba(rows)[:, : mixture.n_clusters]
    labels = tau.argmax(axis=1)
    taus = [tau] if mixture.averaged is None else [part for part, _ in components_of_draws(mixture, rows)]
    pairs = ((tau.argmax(axis=1), hellinger(tau)) for tau in taus)
    distances = expected_distances(labels, mixture.n_clusters, pairs)
    return fold(distances, np.bincount(labels, minlength=mixture.n_clusters), cut)


def components_of_draws(mixture: Mixture, points: Any) -> Iterator[tuple[Float64Array, Shape | None]]:
    """The components of each draw that predictions are averaged over, without outliers: the probabilities of rows, and
    where both lie if they are Gaussian."""
    averaged = mixture.averaged
    assert averaged is not None
    shares, _ = averaged._shares(points)
    gaussian = mixture.is_gaussian and bool(np.isfinite(points).all())
    covariances = np.asarray(averaged.posterior.mean_covariance()) if gaussian else None
    ends = np.append(averaged.starts[1:], len(averaged.clusters)) - int(mixture.outlier_weight > 0)
    for begin, end in zip(averaged.starts, ends, strict=True):
        shape = None
        if covariances is not None:
            means = np.asarray(averaged.posterior.mean)[begin:end]
            shape = Shape(np.asarray(points, np.float64), means, covariances[begin:end])
        yield shares[:, begin:end], shape


def group_draws(model: PosteriorMixin) -> GroupDraws:
    """Join the components of each draw, by the rows that the model keeps."""
    groups, seen = default_groups(model)
    mixture, points, labels = kept_mixture(model), model._some_points, np.asarray(model.labels_)
    n_components = mixture.n_clusters if mixture.averaged is None else len(mixture.averaged.clusters)
    used, rng = evenly_spaced(points.shape[0], MOST_NUMBERS // n_components), np.random.default_rng(0)
    halves = [restricted(half, used) for half in seen.halves]

    def components() -> Iterator[tuple[IntArray, Float64Array, Shape | None]]:
        """Each row's component, and the components of each draw."""
        if model.draws_ is not None and model.draws_.labels is not None:
            draws, parts = model.draws_.kept_labels, components_of_draws(mixture, points[used])
            for draw, (tau, shape) in zip(draws_averaged(len(draws)), parts, strict=True):
                yield np.asarray(draws[draw]), tau, shape
            return
        tau, shape = mixture.predict_proba(points)[:, : mixture.n_clusters], mixture._shape(points[used])
        rows = kept_numbers(model)
        inside = labels[rows] >= 0
        for _ in range(WITHOUT_DRAWS):
            clusters = labels.copy()
            clusters[rows[inside]] = draw_columns(tau, rng)[inside]
            yield clusters, tau[used], shape

    drawn = []
    for clusters, tau, shape in components():
        chosen = tuple(halves[half] for half in rng.integers(max(len(halves), 1), size=len(halves)))
        evidence = seen._replace(shape=shape, halves=chosen)
        drawn.append(group_components(tau, "separation", seen=evidence).of_points(clusters))
    return GroupDraws(np.array(drawn), groups.of_points(labels))


def restricted(half: Half, used: IntArray) -> Half:
    """The part of a half sample that is among the used rows, by their positions there."""
    inside = np.isin(half.rows, used)
    return Half(np.searchsorted(used, half.rows[inside]), half.labels[inside])
