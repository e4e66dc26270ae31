"""Points under full covariances. A density is a distance in the cluster's metric: O(D^2) per point and cluster."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmmwrap.families.base import ClusterPosteriors, Model, take, with_outlier_weight
from dpmmwrap.families.full import kernels, pairs, wishart
from dpmmwrap.families.full.collapsed import WhitenedClusters
from dpmmwrap.families.full.expected import start
from dpmmwrap.families.full.gaps import (
    Gaps,
    draw_missing,
    expected_precisions,
    fill_given_labels,
    find_gaps,
    precisions_of,
)
from dpmmwrap.families.full.kernels import (
    ClusterTables,
    Neighbours,
    Sums,
    Tables,
    new_workspace,
)
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.full.sums import (
    NO_SUBCLUSTERS,
    draw_sides,
    new_sums,
    pair_groups,
    sides_of,
    start_groups,
    statistics_from,
)
from dpmmwrap.families.full.wishart import Statistics
from dpmmwrap.families.points import NO_WEIGHTS, FamilyPoints, Merges
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, IntArray, UInt8Array
from dpmmwrap.numerics.cells import has_missing
from dpmmwrap.numerics.chunks import Chunks, Stretch
from dpmmwrap.numerics.digests import rows_digest
from dpmmwrap.numerics.labels import CUTOFF, LabelOrder, sort_by_label
from dpmmwrap.numerics.ordered_sums import Nodes
from dpmmwrap.numerics.variates import derived_key
from dpmmwrap.partitions.gibbs_type import GibbsType
from dpmmwrap.partitions.hastings import MergeRule

GAPS_KEY = 1 << 56
"""Offset of the key for missing values from the sweep's key."""
WEIGHTED_GAPS = "weights and missing values together need covariance_type='diag' or 'spherical'"


class FullPoints(FamilyPoints):
    """Points of full-covariance Gaussians."""

    def __init__(
        self, X: Float32Array, n_jobs: int, stretch: Stretch | None = None, weights: Float64Array | None = None
    ) -> None:
        self.chunks = Chunks(stretch or Stretch.whole(len(X), 4 * X.shape[1]), n_jobs)
        self.given = X
        self.gaps: Gaps | None = None
        if has_missing(X):
            # The chain overwrites missing values, so it works on a copy.
            self.gaps, X = find_gaps(X), np.array(X)
            if weights is not None:
                raise ValueError(WEIGHTED_GAPS)
        self.filled = X
        # Always read-only, so that the kernels are compiled once for arrays and memory maps.
        self.X = X.view(np.ndarray)
        self.X.setflags(write=False)
        self.weights = NO_WEIGHTS if weights is None else weights
        self.cutoff = CUTOFF / min(float(self.weights.min(initial=1.0)), 1.0)
        """A cluster whose log probability is this far below the best is left out. Points of weight below 1 need a
        larger distance, as their clusters are less certain."""

    @property
    def plain_points(self) -> Float32Array:
        points: Float32Array = self.X
        return points

    def digest(self) -> str:
        return " ".join([rows_digest(self.given), *self.weights_digest()])

    def take(self, rows: IntArray) -> Float32Array:
        """Some points as given, with their gaps."""
        points: Float32Array = self.given[rows]
        return points

    def begin(self, labels: IntArray) -> None:
        """Fill missing values with the means of their clusters."""
        if self.gaps is not None:
            missing = np.isnan(self.given)
            means, _ = start(self.given, labels, int(labels.max(initial=0)) + 1)
            self.filled[missing] = means[labels[np.nonzero(missing)[0]], np.nonzero(missing)[1]]

    @property
    def imputes(self) -> bool:
        return self.gaps is not None

    @property
    def imputed(self) -> Float32Array:
        values: Float32Array = self.filled[np.isnan(self.given)]
        return values

    @imputed.setter
    def imputed(self, values: Float32Array) -> None:
        self.filled[np.isnan(self.given)] = values

    def draw_missing(self, clusters: ClusterTables, neighbours: Neighbours, key: Any) -> None:
        """Draw missing values given the observed ones and the drawn parameters of the clusters, with labels integrated
        out.

        A label drawn afterwards given the whole row then has its probability given the observed values only.
        """
        if self.gaps is None:
            return
        gaps, gaussians = self.gaps, precisions_of(neighbours.origins, clusters.factors, clusters.log_peaks)
        its_key = derived_key(key, GAPS_KEY + self.chunks.stretch.first_row)

        def draw(begin: int, end: int) -> None:
            draw_missing(self.filled, gaps, begin, end, gaussians, its_key)

        self.chunks.run(draw, len(gaps.missing), len(gaps.missing))

    def put_back(
        self,
        statistics: Statistics,
        row: int,
        stays: int,
        wanted: int,
        tables: Tables,
        key: Any,
    ) -> None:
        """Missing values of the row are drawn again, given the cluster where it stays."""
        self.add_to_statistics(statistics, wanted, row, -1)
        if self.gaps is not None and row in self.gaps.rows:
            only, labels = find_gaps(self.given[row : row + 1]), np.array([stays], np.int32)
            gaussians = precisions_of(tables.neighbours.origins, tables.clusters.factors, tables.clusters.log_peaks)
            own = self.filled[row : row + 1]
            fill_given_labels(own, only, labels, gaussians, 1, derived_key(key, GAPS_KEY + row), no_matrices(self.X))
        self.add_to_statistics(statistics, stays, row, 1)

    def log_missing(self, posterior: NIW, labels: IntArray) -> float:
        """Log density of the current missing values given the observed ones and the labels, approximated with the
        expected precisions of the clusters."""
        if self.gaps is None:
            return 0.0
        gaussians = expected_precisions(posterior)
        found = fill_given_labels(self.filled, self.gaps, labels, gaussians, -1, np.uint64(0), no_matrices(self.X))
        return float(found)

    def likely_merges(
        self,
        model: Model,
        known: ClusterPosteriors,
        candidates: IntArray,
        rule: MergeRule,
        neg_log_uniform: Float64Array,
    ) -> Merges:
        one, other, margins = pairs.merge_ratios(
            candidates, rule, neg_log_uniform, prior_fields(model), known.clusters, known.posterior.batch,
            known.log_marginal,
        )  # fmt: skip
        return Merges(one, other, margins, len(candidates) * (len(candidates) - 1) // 2)

    def draw_parameters(self, model: Model, weights: GibbsType, known: ClusterPosteriors, key: Any) -> tuple[Any, ...]:
        """Draw weights and subweights from their Dirichlet distributions and Gaussians from their
        normal-inverse-Wishart posteriors: O(K D^2) numbers."""
        log_weights, log_subweights, gaussians = wishart.draw_parameters(
            key, weights, known.clusters.counts[model.outliers :], known.sides, known.posterior.batch
        )
        return with_outlier_weight(model, log_weights), log_subweights, gaussians

    def tables(self, drawn: tuple[Any, ...]) -> Tables:
        log_weights, log_subweights, gaussians = drawn
        return pairs.kernel_tables(log_weights, log_subweights, gaussians, self.cutoff)

    def draw_clusters(self, model: Model, weights: GibbsType, bundle: Any, count: int, key: Any) -> tuple[Any, ...]:
        dim = self.X.shape[1]
        factors = np.ascontiguousarray(bundle.factors[:count].transpose(1, 2, 0))
        posterior = wishart.Posteriors(
            bundle.means[:count], bundle.strengths[:count], np.empty((0, dim, dim)), bundle.freedoms[:count],
            factors, np.empty(0), np.empty(0),
        )  # fmt: skip
        log_weights, _, drawn = wishart.draw_parameters(
            key, weights, bundle.counts[model.outliers : count], np.empty((0, 2)), posterior
        )
        return with_outlier_weight(model, log_weights), drawn

    def cluster_tables(self, drawn: tuple[Any, ...]) -> Tables:
        log_weights, gaussians = drawn
        return Tables(*pairs.neighbour_tables(log_weights, gaussians, self.cutoff), NO_SUBCLUSTERS)

    def sweep_groups(
        self, labels: IntArray, sublabels: UInt8Array | None, by_label: LabelOrder, tables: Tables, key: Any,
        greedy: bool,
    ) -> Nodes:  # fmt: skip
        (count, dim), sides = tables.neighbours.origins.shape, sides_of(sublabels)
        self.draw_missing(tables.clusters, tables.neighbours, key)

        def sweep_part(begin: int, end: int) -> tuple[Any, ...]:
            sums = Sums(*new_sums(end - begin, count, sides, dim), np.zeros((end - begin, count)))
            work = new_workspace(count, dim, len(self.weights) > 0)
            for group, chunk, some in self.chunks.in_groups(begin, end):
                X, weights, starts, rows = self.X[some], self.weights[some], by_label.starts[chunk], by_label.rows[some]
                its_key = derived_key(key, self.chunks.stretch.first_row + some.start)
                kernels.draw_labels(
                    X, weights, labels[some], starts, rows, tables.clusters, tables.neighbours, its_key, greedy, work
                )
                sort_by_label(labels[some], starts, rows)
                own = Sums(*(total[group] for total in sums))
                draw_sides(X, weights, sublabels, some, starts, rows, tables, its_key, greedy, work, own, False)
            return sums

        return self.chunks.sum_groups(sweep_part, sides * count * (dim * dim + dim + 1))

    def finish_sweep(self, total: tuple[Any, ...], tables: Tables) -> tuple[Statistics, Float64Array]:
        return statistics_from(total[:3], tables.neighbours.origins), total[3]

    def label_groups(self, labels: IntArray, by_label: LabelOrder, tables: Tables, key: Any) -> Nodes:
        return self.sweep_groups(labels, None, by_label, tables, key, False)

    def finish_labels(self, total: tuple[Any, ...], tables: Tables) -> Statistics:
        return self.finish_sweep(total, tables)[0]

    def pair_groups(
        self, by_label: LabelOrder, tables: Tables, one: IntArray, other: IntArray, margins: Float64Array
    ) -> Nodes:
        return pair_groups(self.X, self.weights, self.chunks, by_label, tables, one, other, margins, False)

    def origins_of(self, members: Sequence[IntArray]) -> Float32Array:
        # Without members any origin will do.
        first = self.X[0] if len(self.X) else np.zeros(self.X.shape[1], np.float32)
        return np.array([self.X[rows[0]] if len(rows) else first for rows in members])

    def side_groups(
        self, sublabels: UInt8Array, members: Sequence[IntArray], sides: Sequence[UInt8Array], origins: Float32Array
    ) -> Nodes:
        dim = self.X.shape[1]

        def start(cluster: int, begin: int, end: int) -> tuple[Any, ...]:
            return start_groups(
                self.X, self.weights, self.chunks, sublabels, members[cluster], sides[cluster], origins[cluster],
                begin, end,
            )  # fmt: skip

        return self.chunks.sum_clusters(len(members), start, 2 * (dim * dim + dim + 1))

    def finish_sides(self, total: tuple[Any, ...], origins: Float32Array) -> Statistics:
        return statistics_from(total, origins)

    def packed(self, nodes: Nodes) -> Nodes:
        """Send only the lower triangle of the squares (..., D, D), which is all that is summed."""
        half = np.tril_indices(self.X.shape[1])
        return {node: (*sums[:2], sums[2][..., *half], *sums[3:]) for node, sums in nodes.items()}

    def unpacked(self, nodes: Nodes) -> Nodes:
        dim = self.X.shape[1]

        def whole(halves: Any) -> Any:
            squares = np.zeros((*halves.shape[:-1], dim, dim))
            squares[..., *np.tril_indices(dim)] = halves
            return squares

        return {node: (*sums[:2], whole(sums[2]), *sums[3:]) for node, sums in nodes.items()}

    def empty_clusters(self, model: Model, capacity: int) -> WhitenedClusters:
        return empty_clusters(prior_fields(model), capacity)

    def collapsed(self, model: Model, clusters: Statistics, capacity: int) -> WhitenedClusters:
        bundle, count = empty_clusters(prior_fields(model), capacity), len(clusters.counts)
        found, _ = wishart.posteriors(prior_fields(model), clusters)
        if model.outlier_prior is not None:
            special = model.outlier_prior.posterior(take(clusters, slice(0, 1)))
            found = NIW._unchecked(found).replaced(np.array([0]), special).batch
        bundle.counts[:count] = clusters.counts
        bundle.means[:count], bundle.strengths[:count] = found.means, found.strengths
        bundle.freedoms[:count] = found.freedoms
        bundle.factors[:count] = found.factors.transpose(2, 0, 1)
        return bundle

    def statistics_of(self, model: Model, bundle: Any, count: int) -> Statistics:
        """Remove the prior's contribution from the posteriors."""
        priors = [prior_fields(model)] * count
        if isinstance(model.outlier_prior, NIW):
            priors[0] = model.outlier_prior.fields
        found = Statistics(
            bundle.counts[:count].copy(), np.empty_like(bundle.means[:count]), np.empty_like(bundle.factors[:count])
        )
        for k, prior in enumerate(priors):
            n, strength, factor = found.counts[k], bundle.strengths[k], bundle.factors[k]
            gap = bundle.means[k] - prior.mean
            found.means[k] = prior.mean + (gap * strength / n if n > 0 else 0.0)
            # The posterior mean is n / strength of the way from the prior mean to the mean of the points.
            pull = prior.strength * strength / n if n > 0 else 0.0
            found.scatters[k] = factor @ factor.T - prior.scale - pull * np.outer(gap, gap)
        return found

    def outlier_log_marginal(self, model: Model, bundle: Any) -> float:
        """From the factor, as statistics would lose digits."""
        prior, dim = model.outlier_prior, self.X.shape[1]
        assert isinstance(prior, NIW)
        own = np.atleast_1d(bundle.freedoms[0]), np.atleast_1d(bundle.strengths[0])
        half = np.log(np.diagonal(bundle.factors[0])).sum()
        found = wishart.log_normalisers(*own, np.atleast_1d(half), dim)[0]
        constant = 0.5 * dim * np.log(np.pi)
        return float(found - (prior.log_normaliser[0] + constant * bundle.counts[0]))

    def add_to_statistics(self, statistics: Statistics, k: int, row: int, sign: int) -> None:
        counts, means, scatters = statistics
        x = self.X[row].astype(np.float64)
        weight = sign * self.weight_of(row)
        n = counts[k] + weight
        if n <= 0:
            counts[k], means[k], scatters[k] = 0.0, 0.0, 0.0
            return
        gap = x - means[k]
        scatters[k] += weight * counts[k] / n * np.outer(gap, gap)
        means[k] += weight * gap / n
        counts[k] = n


def no_matrices(X: Float32Array) -> Float64Array:
    return np.zeros((0, X.shape[1], X.shape[1]))


def empty_clusters(prior: wishart.PriorFields, count: int) -> WhitenedClusters:
    """`count` empty clusters with integrated parameters, followed by the prior."""
    dim = len(prior.mean)
    means, factors = np.empty((count + 1, dim)), np.empty((count + 1, dim, dim))
    means[:], factors[:] = prior.mean, wishart.factorise(prior.scale[None])[0][:, :, 0]
    return WhitenedClusters(
        np.zeros(count + 1), means, np.full(count + 1, prior.strength), np.full(count + 1, prior.freedom), factors,
        np.empty(count + 1), np.zeros((count + 1, dim, dim)), np.empty(dim),
    )  # fmt: skip


def prior_fields(model: Model) -> wishart.PriorFields:
    assert isinstance(model.prior, NIW)
    return model.prior.fields
