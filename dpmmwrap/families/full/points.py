"""Full covariances: a point's density by its distance in a cluster's own metric, O(D^2) a point and cluster."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmmwrap.families.base import concatenate, take
from dpmmwrap.families.collapsed import WhitenedClusters
from dpmmwrap.families.full import kernels, pairs, wishart
from dpmmwrap.families.full.kernels import ClusterTables, Neighbours, Sums, Tables
from dpmmwrap.families.full.pairs import MoveCandidates, Rules
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.full.wishart import Computed, Statistics
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, IntArray, UInt8Array
from dpmmwrap.numerics.digests import rows_digest
from dpmmwrap.numerics.ordered_sums import Nodes, reduce_groups
from dpmmwrap.numerics.variates import derived_key
from dpmmwrap.sampler.data import Data, Stretch
from dpmmwrap.sampler.kernels import exact
from dpmmwrap.sampler.partition import Partition
from dpmmwrap.sampler.state import ClusterPosteriors, LabelStore, Model, State, SublabelStore


class WhitenedData(Data):
    """Points of full-covariance Gaussians."""

    def __init__(self, X: Float32Array, n_jobs: int, stretch: Stretch | None = None) -> None:
        super().__init__(stretch or Stretch.whole(len(X), 4 * X.shape[1]), n_jobs)
        # Always read-only: the kernels are then compiled once, for arrays and memory maps alike.
        self.X = X.view(np.ndarray)
        self.X.setflags(write=False)

    @property
    def loop_points(self) -> Float32Array:
        points: Float32Array = self.X
        return points

    def take(self, rows: IntArray) -> Float32Array:
        points: Float32Array = self.X[rows]
        return points

    def empty_clusters(self, model: Model, places: int) -> WhitenedClusters:
        return empty_clusters(prior_fields(model), places)

    def collapsed(self, model: Model, clusters: Statistics, places: int) -> WhitenedClusters:
        bundle, count = empty_clusters(prior_fields(model), places), len(clusters.counts)
        found, _ = wishart.posteriors(prior_fields(model), clusters)
        if model.outlier_prior is not None:
            special = model.outlier_prior.posterior(take(clusters, slice(0, 1)))
            found = NIW._unchecked(found).replaced(np.array([0]), special).batch
        bundle.counts[:count] = clusters.counts
        bundle.means[:count], bundle.strengths[:count] = found.means, found.strengths
        bundle.freedoms[:count] = found.freedoms
        bundle.factors[:count] = np.moveaxis(found.factors, 2, 0)
        return bundle

    def statistics_of(self, model: Model, partition: Partition) -> Statistics:
        """From the posteriors, less what the prior has put into them."""
        bundle, count, priors = partition.clusters, partition.n_clusters, [prior_fields(model)] * partition.n_clusters
        if model.outlier_prior is not None:
            priors[0] = model.outlier_prior.fields  # type: ignore[attr-defined]
        found = Statistics(
            bundle.counts[:count].copy(), np.empty_like(bundle.means[:count]), np.empty_like(bundle.factors[:count])
        )
        for k, prior in enumerate(priors):
            n, strength, factor = found.counts[k], bundle.strengths[k], bundle.factors[k]
            gap = bundle.means[k] - prior.mean
            found.means[k] = prior.mean + (gap * strength / n if n > 0 else 0.0)
            # The posterior mean is n / strength of the way from the prior's to the points' own.
            pull = prior.strength * strength / n if n > 0 else 0.0
            found.scatters[k] = factor @ factor.T - prior.scale - pull * np.outer(gap, gap)
        return found

    def log_marginals(self, model: Model, partition: Partition) -> Float64Array:
        found: Float64Array = exact.log_marginals(partition.clusters, 0, partition.n_clusters)
        if model.outlier_prior is not None:
            # The loop takes the clusters' prior for what is the outliers' own.
            prior: Any = model.outlier_prior
            clusters, constant = partition.clusters, 0.5 * self.X.shape[1] * np.log(np.pi)
            own = np.atleast_1d(clusters.freedoms[0]), np.atleast_1d(clusters.strengths[0])
            half = np.log(np.diagonal(clusters.factors[0])).sum()
            found[0] = wishart.log_normalisers(*own, np.atleast_1d(half), self.X.shape[1])[0]
            found[0] -= prior.log_normaliser[0] + constant * clusters.counts[0]
        return found

    def draw_clusters(self, model: Model, partition: Partition, key: Any) -> tuple[ClusterTables, Neighbours]:
        return cluster_tables(*self.drawn_clusters(model, partition, key))

    def drawn_clusters(self, model: Model, partition: Partition, key: Any) -> tuple[Any, ...]:
        """The same as they are drawn, from which the kernels' tables are made."""
        clusters, count, dim = partition.clusters, partition.n_clusters, self.X.shape[1]
        factors = np.ascontiguousarray(np.moveaxis(clusters.factors[:count], 0, 2))
        posterior = wishart.Posteriors(
            clusters.means[:count], clusters.strengths[:count], np.empty((0, dim, dim)), clusters.freedoms[:count],
            factors, np.empty(0), np.empty(0),
        )  # fmt: skip
        log_weights, _, drawn = wishart.draw_parameters(
            key, partition.alpha, clusters.counts[model.outliers : count], np.empty((0, 2)), posterior
        )
        return (
            with_outlier_weight(model, log_weights), drawn.means, drawn.precision_factors, drawn.log_peak_densities
        )  # fmt: skip

    def label_groups(self, partition: LabelStore, tables: tuple[ClusterTables, Neighbours], key: Any) -> Nodes:
        count, dim = tables[1].origins.shape
        by_label, groups, its_key = self.sort(partition), self.stretch.groups, derived_key(key, self.stretch.first_row)

        def sweep_part(begin: int, end: int) -> tuple[Any, ...]:
            sums = new_sums(end - begin, count, 1, dim)
            kernels.sweep_labels(
                self.X, partition.labels, self.bounds, groups[begin : end + 1], by_label, *tables, its_key, *sums
            )
            return sums

        return self.sum_groups(sweep_part, count * (dim * dim + dim + 1))

    def finish_labels(self, total: tuple[Any, ...], tables: tuple[ClusterTables, Neighbours]) -> Statistics:
        return statistics_from(total, tables[1].origins)

    def add_to_statistics(self, statistics: Statistics, k: int, row: int, sign: int) -> None:
        counts, means, scatters = statistics
        x = self.X[row].astype(np.float64)
        n = counts[k] + sign
        if n <= 0:
            counts[k], means[k], scatters[k] = 0.0, 0.0, 0.0
            return
        gap = x - means[k]
        scatters[k] += sign * counts[k] / n * np.outer(gap, gap)
        means[k] += sign * gap / n
        counts[k] = n

    def digest(self) -> str:
        return rows_digest(self.X)

    def compute_posteriors(self, model: Model, subclusters: Statistics) -> ClusterPosteriors:
        return with_outliers(model, subclusters, wishart.compute_posteriors(prior_fields(model), subclusters))

    def evaluate_moves(
        self, model: Model, rules: Rules, state: State, neg_log_uniform: Float64Array
    ) -> tuple[ClusterPosteriors, MoveCandidates]:
        found, candidates = pairs.evaluate_moves(
            rules, prior_fields(model), state.records, neg_log_uniform, state.subclusters
        )
        return with_outliers(model, state.subclusters, found), candidates

    def draw_parameters(self, model: Model, state: State, key: Any) -> Tables:
        """Weights ~ Dir(N_1, ..., N_K, alpha), subweights ~ Dir(N_l + alpha/2, N_r + alpha/2), Gaussians from their
        normal-inverse-Wishart posteriors."""
        return pairs.kernel_tables(*self.drawn_parameters(model, state, key))

    def drawn_parameters(self, model: Model, state: State, key: Any) -> tuple[Any, ...]:
        """The same as they are drawn, O(K D^2) numbers, from which the kernels' tables are made."""
        known = state.known
        log_weights, log_subweights, gaussians = wishart.draw_parameters(
            key, state.alpha, known.clusters.counts[model.outliers :], known.sides, known.posterior.batch
        )
        return with_outlier_weight(model, log_weights), log_subweights, gaussians

    def sweep_groups(self, state: SublabelStore, tables: Tables, key: Any, greedy: bool) -> Nodes:
        count, dim = tables.neighbours.origins.shape
        by_label, groups, its_key = self.sort(state), self.stretch.groups, derived_key(key, self.stretch.first_row)

        def sweep_part(begin: int, end: int) -> tuple[Any, ...]:
            counts, totals, squares = new_sums(end - begin, count, 2, dim)
            sums = Sums(counts, totals, squares, np.zeros((end - begin, count)))
            kernels.sweep(
                self.X, state.labels, state.sublabels, self.bounds, groups[begin : end + 1], by_label, tables, its_key,
                greedy, sums,
            )  # fmt: skip
            return sums

        return self.sum_groups(sweep_part, 2 * count * (dim * dim + dim + 1))

    def finish_sweep(self, total: tuple[Any, ...], tables: Tables) -> tuple[Statistics, Float64Array]:
        return statistics_from(total[:3], tables.neighbours.origins), total[3]

    def pair_groups(
        self, state: LabelStore, tables: Tables, one: IntArray, other: IntArray, margins: Float64Array
    ) -> Nodes:
        by_label = self.sort(state)
        found = np.zeros((len(one), len(self.stretch.groups) - 1))

        def look_at(begin: int, end: int) -> None:
            pairs.reverse_proposal_log_prob(
                self.X, self.bounds, self.stretch.groups, by_label, tables, one[begin:end], other[begin:end],
                margins[begin:end], found[begin:end],
            )  # fmt: skip

        self.run(look_at, len(one), len(one))
        return reduce_groups(self.stretch.first_group, (found.T,))

    def origins_of(self, members: Sequence[IntArray]) -> Float32Array:
        return np.array([self.X[rows[0]] if len(rows) else self.X[0] for rows in members])

    def side_groups(
        self, state: SublabelStore, members: list[IntArray], sides: list[UInt8Array], origins: Float32Array
    ) -> Nodes:
        dim, edges = self.X.shape[1], self.group_rows()
        blocks = list(itertools.pairwise(self.blocks(2 * (dim * dim + dim + 1))))
        # Clusters differ in size: many parts, so that no thread waits long for another.
        tasks = [(cluster, *block) for cluster in range(len(members)) for block in blocks]
        found: list[list[Nodes]] = [[] for _ in members]

        def start(first: int, last: int) -> None:
            for cluster, begin, end in tasks[first:last]:
                rows, sums = members[cluster].astype(self.row_type, copy=False), new_sums(end - begin, 1, 2, dim)
                bounds = np.searchsorted(rows, edges[begin : end + 1])
                kernels.start_subclusters(
                    self.X, state.sublabels, rows, sides[cluster], bounds,
                    np.repeat(origins[cluster : cluster + 1], end - begin, axis=0),
                    *(total.reshape(end - begin, *total.shape[2:]) for total in sums),
                )  # fmt: skip
                found[cluster].append(self._reduced(begin, sums))

        self.run(start, len(tasks), len(tasks))
        return side_by_side(found)

    def finish_sides(self, total: tuple[Any, ...], origins: Float32Array) -> Statistics:
        return statistics_from(total, origins)


def cluster_tables(
    log_weights: Float64Array, means: Any, precision_factors: Any, log_peak_densities: Any
) -> tuple[ClusterTables, Neighbours]:
    """Drawn parameters of clusters as the kernels take them."""
    own, origins, offsets, radii = pairs.neighbour_tables(log_weights, means, precision_factors, log_peak_densities)
    return own, Neighbours(origins, offsets, np.argsort(radii, axis=1), radii)


def new_sums(groups: int, clusters: int, sides: int, dim: int) -> tuple[Any, ...]:
    """Zeros for counts, sums and squares."""
    shape = (groups, clusters, sides)
    return np.zeros(shape, np.int64), np.zeros((*shape, dim)), np.zeros((*shape, dim, dim))


def statistics_from(total: tuple[Any, ...], origins: Float32Array) -> Statistics:
    """From counts, sums and squares about the clusters' origins."""
    statistics: Statistics = kernels.collect_statistics(*(array[None] for array in total), origins)
    return statistics


def side_by_side(found: list[list[Nodes]]) -> Nodes:
    """The sums of several clusters, each in pieces, as sums of all of them."""
    every = [{node: sums for piece in pieces for node, sums in piece.items()} for pieces in found]
    return {node: tuple(map(np.concatenate, zip(*(own[node] for own in every), strict=True))) for node in every[0]}


def empty_clusters(prior: wishart.PriorFields, count: int) -> WhitenedClusters:
    """So many empty clusters with their parameters integrated out, and the prior after them."""
    dim = len(prior.mean)
    factors, _ = wishart.factorise(prior.scale[None])
    return WhitenedClusters(
        np.zeros(count + 1), np.tile(prior.mean, (count + 1, 1)), np.full(count + 1, prior.strength),
        np.full(count + 1, prior.freedom), np.tile(factors[:, :, 0], (count + 1, 1, 1)),
        np.empty(count + 1), np.zeros((count + 1, dim, dim)), np.empty(dim),
    )  # fmt: skip


def prior_fields(model: Model) -> wishart.PriorFields:
    assert isinstance(model.prior, NIW)
    return model.prior.fields


def with_outliers(model: Model, subclusters: Statistics, found: Computed) -> ClusterPosteriors:
    """What `wishart.compute_posteriors` found, with the outlier component by its own prior."""
    clusters, posterior, log_marginal = found.clusters, NIW._unchecked(found.posterior), found.log_marginal
    if model.outlier_prior is not None:
        rows = np.array([0, len(clusters.counts), len(clusters.counts) + 1])
        outliers = concatenate([take(clusters, slice(0, 1)), take(subclusters, slice(0, 2))])
        special = model.outlier_prior.posterior(outliers)
        log_marginal[rows] = model.outlier_prior.log_marginal_likelihood(outliers, special)
        posterior = posterior.replaced(rows, special)
    return ClusterPosteriors(clusters, subclusters, posterior, log_marginal)


def with_outlier_weight(model: Model, log_weights: Float64Array) -> Float64Array:
    """The clusters' log weights after that of the outlier component, which is fixed."""
    if not model.outliers:
        return log_weights
    return np.append(np.log(model.outlier_weight), log_weights + np.log1p(-model.outlier_weight))
