"""Points of Student-t clusters with the chain's scales, and the loops over them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import gammaln

from dpmmwrap.families.base import ClusterPosteriors, Model
from dpmmwrap.families.full import pairs
from dpmmwrap.families.full.blocks import padded
from dpmmwrap.families.full.kernels import (
    ClusterTables,
    Sums,
    Tables,
    collect_statistics,
    draw_labels,
    new_workspace,
)
from dpmmwrap.families.full.points import FullPoints
from dpmmwrap.families.full.sums import NO_SUBCLUSTERS, draw_sides, new_sums, pair_groups, sides_of, start_groups
from dpmmwrap.families.points import NO_WEIGHTS, FamilyPoints, Merges
from dpmmwrap.families.student import kernels, tails
from dpmmwrap.families.student.collapsed import ScaledRows, StudentClusters
from dpmmwrap.families.student.prior import HeavyTails
from dpmmwrap.families.student.statistics import Statistics
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, IntArray, UInt8Array
from dpmmwrap.numerics.chunks import Stretch
from dpmmwrap.numerics.labels import LabelOrder, sort_by_label
from dpmmwrap.numerics.ordered_sums import Nodes, total_of
from dpmmwrap.numerics.variates import derived_key
from dpmmwrap.partitions.gibbs_type import GibbsType
from dpmmwrap.partitions.hastings import MergeRule

TAILS_KEY, SCALE_KEY = 1 << 54, 1 << 55
"""Offsets of the key for degrees of freedom, and for the scale of a point that must not leave its cluster."""


@dataclass
class Drawn:
    """The draws of a sweep: weights and Gaussians at first; degrees of freedom and tables are added with the labels."""

    log_weights: Float64Array
    log_subweights: Float64Array
    gaussians: Any
    grid: Any
    """The grid of degrees of freedom (`statistics.Tails`)."""
    heaviness: Any = None
    tables: Any = None


class StudentPoints(FamilyPoints):
    """Points with scales, which belong to the state of the chain like imputed values."""

    def __init__(
        self, X: Float32Array, n_jobs: int, stretch: Stretch | None = None, weights: Float64Array | None = None
    ) -> None:
        self.plain = FullPoints(X, n_jobs, stretch, weights)
        if self.plain.imputes or weights is not None:
            raise ValueError("clusters with tails take neither missing values nor weights")
        self.X, self.chunks = self.plain.X, self.plain.chunks
        self.scales: Float64Array = np.ones(len(X))

    @property
    def plain_points(self) -> Float32Array:
        return self.plain.plain_points

    def digest(self) -> str:
        return self.plain.digest()

    def origins_of(self, members: Sequence[IntArray]) -> Float32Array:
        return self.plain.origins_of(members)

    @property
    def loop_points(self) -> ScaledRows:
        return ScaledRows(self.X, self.scales)

    def begin(self, labels: IntArray) -> None:
        """Start as if all clusters were Gaussian."""
        self.scales[:] = 1.0

    @property
    def imputes(self) -> bool:
        return True

    @property
    def imputed(self) -> Any:
        return self.scales.copy()

    @imputed.setter
    def imputed(self, values: Any) -> None:
        self.scales[:] = values

    def log_missing(self, posterior: Any, labels: IntArray) -> float:
        """Log density of the current scales given points and labels, approximated with the expected precisions of the
        clusters and their most probable degrees of freedom."""
        heaviness, dim = np.ascontiguousarray(posterior.heaviness), self.X.shape[1]
        count = int(labels.max(initial=-1)) + 1
        heavy = np.flatnonzero(heaviness[:count] > 0)
        if not len(heavy):
            return 0.0
        factors = np.zeros((count, *[padded.py_func(dim)] * 2), np.float32)
        factors[heavy, :dim, :dim] = posterior.precision_roots(heavy)
        constants = np.zeros(count)
        constants[heavy] = -gammaln(0.5 / heaviness[heavy] + 0.5 * dim)
        means, edges = posterior.mean[:count].astype(np.float32), self.chunks.bounds
        found = np.zeros(len(edges) - 1)

        def look_at(begin: int, end: int) -> None:
            kernels.log_density_of_scales(
                self.X, self.scales, labels, edges[begin : end + 1], means, factors, heaviness, constants,
                found[begin:end], new_workspace(0, dim, False),
            )  # fmt: skip

        self.chunks.run(look_at, len(found), len(found))
        return float(found.sum())

    def likely_merges(
        self, model: Model, known: ClusterPosteriors, candidates: IntArray, rule: MergeRule,
        neg_log_uniform: Float64Array,
    ) -> Merges:  # fmt: skip
        prior = prior_of(model)
        one, other, margins = kernels.merge_ratios(
            candidates, rule, neg_log_uniform, prior.fields, prior.tails, known.clusters, known.posterior.batch,
            known.log_marginal,
        )  # fmt: skip
        return Merges(one, other, margins, len(candidates) * (len(candidates) - 1) // 2)

    def draw_parameters(self, model: Model, weights: GibbsType, known: ClusterPosteriors, key: Any) -> Any:
        return (*self.plain.draw_parameters(model, weights, known, key), prior_of(model).tails)

    def draw_clusters(self, model: Model, weights: GibbsType, bundle: Any, count: int, key: Any) -> Any:
        log_weights, gaussians = self.plain.draw_clusters(model, weights, bundle, count, key)
        return log_weights, np.empty((0, 2)), gaussians, prior_of(model).tails

    def tables(self, drawn: Any) -> Any:
        return Drawn(*drawn)

    def cluster_tables(self, drawn: Any) -> Any:
        return Drawn(*drawn)

    def draw_tails(self, drawn: Drawn, by_label: LabelOrder, key: Any, greedy: bool) -> tuple[Any, Any, Float64Array]:
        """Draw the degrees of freedom of the clusters given their points, with scales integrated out. Return them in
        the kernels' layout, with the clusters' log weights plus the tails' contribution to the densities at the
        means."""
        stretch, bounds, dim = self.chunks.stretch, self.chunks.bounds, self.X.shape[1]
        count, grid = len(drawn.log_weights), drawn.grid
        means, factors = drawn.gaussians.means[:count], drawn.gaussians.precision_factors[:count]
        whole = np.zeros((count, *[padded.py_func(dim)] * 2), np.float32)
        whole[:, :dim, :dim] = factors
        origins = means.astype(np.float32)
        clusters = ClusterTables(whole, np.zeros(count, np.float32), pairs.NO_TAILS, pairs.NO_TAILS, pairs.NO_SHARES)

        def look_at(begin: int, end: int) -> tuple[Any, ...]:
            falls, groups = np.zeros((end - begin, count, len(grid.heaviness))), stretch.groups[begin : end + 1]
            work = new_workspace(0, dim, False)
            kernels.tail_falls(self.X, bounds, groups, by_label, clusters, origins, grid, falls, work)
            return (falls,)

        (falls,) = total_of(self.chunks.sum_groups(look_at, count * len(grid.heaviness)))
        counts = np.diff(by_label.starts, axis=1).sum(axis=0).astype(np.float64)
        uniforms = np.full(count, -1.0)
        if not greedy:
            uniforms = np.random.default_rng(int(derived_key(key, TAILS_KEY))).random(count)
        drawn.heaviness = tails.draw_heaviness(grid, counts, falls, dim, uniforms)
        heavy = drawn.heaviness > 0
        powers = 0.5 * (1 / np.where(heavy, drawn.heaviness, 1.0) + dim)
        peaks = drawn.log_weights + tails.log_peak_gains(drawn.heaviness, dim)
        return drawn.heaviness.astype(np.float32), powers.astype(np.float32), peaks

    def sweep_groups(
        self, labels: IntArray, sublabels: UInt8Array | None, by_label: LabelOrder, drawn: Drawn, key: Any, greedy: bool
    ) -> Nodes:
        """Draw labels, scales and sublabels and sum statistics. Scales given, the clusters are Gaussian."""
        *its_tails, peaks = self.draw_tails(drawn, by_label, key, greedy)
        if sublabels is None:
            tables = Tables(
                *pairs.neighbour_tables(peaks, drawn.gaussians, self.plain.cutoff, its_tails), NO_SUBCLUSTERS
            )
        else:
            tables = pairs.kernel_tables(peaks, drawn.log_subweights, drawn.gaussians, self.plain.cutoff, its_tails)
        clusters, neighbours, _ = drawn.tables = tables
        (count, dim), sides = neighbours.origins.shape, sides_of(sublabels)

        def sweep_part(begin: int, end: int) -> tuple[Any, ...]:
            shape = (end - begin, count, sides)
            masses, totals, squares = new_sums(*shape, dim)
            sums = kernels.Sums(np.zeros(shape), masses, totals, squares, np.zeros(shape), np.zeros(shape[:2]))
            work = new_workspace(count, dim, True)
            for group, chunk, some in self.chunks.in_groups(begin, end):
                X, scales, starts, rows = self.X[some], self.scales[some], by_label.starts[chunk], by_label.rows[some]
                its_key = derived_key(key, self.chunks.stretch.first_row + some.start)
                doubtful = np.empty_like(starts), np.empty(len(rows) + 1, rows.dtype)
                kernels.find_doubtful(X, starts, rows, clusters, neighbours, its_key, greedy, work, *doubtful)
                draw_labels(X, NO_WEIGHTS, labels[some], *doubtful, clusters, neighbours, its_key, greedy, work)
                sort_by_label(labels[some], starts, rows)
                kernels.draw_scales(X, scales, starts, rows, clusters, neighbours.origins, its_key, work)
                own = kernels.Sums(*(total[group] for total in sums))
                of_gaussians = Sums(own.masses, own.sums, own.squares, own.proposal_log_probs)
                drawn_sides = draw_sides(
                    X, scales, sublabels, some, starts, rows, tables, its_key, greedy, work, of_gaussians, True
                )
                kernels.count_scales(labels[some], drawn_sides, scales, clusters.heaviness, own.counts, own.logs)
            return sums

        return self.chunks.sum_groups(sweep_part, sides * count * (dim * dim + dim + 3))

    def finish_sweep(self, total: tuple[Any, ...], tables: Drawn) -> tuple[Statistics, Float64Array]:
        return scaled_statistics(total[:5], tables.tables.neighbours.origins, tables.heaviness), total[5]

    def label_groups(self, labels: IntArray, by_label: LabelOrder, tables: Drawn, key: Any) -> Nodes:
        return self.sweep_groups(labels, None, by_label, tables, key, False)

    def finish_labels(self, total: tuple[Any, ...], tables: Drawn) -> Statistics:
        return self.finish_sweep(total, tables)[0]

    def put_back(self, statistics: Statistics, row: int, stays: int, wanted: int, tables: Drawn, key: Any) -> None:
        """The scale of the row is drawn again, given the cluster where it stays."""
        self.add_to_statistics(statistics, wanted, row, -1)
        heaviness, scale = tables.heaviness[stays], 1.0
        if heaviness > 0:
            gap = self.X[row] - tables.gaussians.means[stays]
            square = float(((tables.gaussians.precision_factors[stays] @ gap) ** 2).sum())
            rng = np.random.default_rng(int(derived_key(key, SCALE_KEY + row)))
            half = 0.5 / heaviness
            scale = float(rng.standard_gamma(half + 0.5 * len(gap)) / (half + 0.5 * square))
        self.scales[row] = scale
        self.add_to_statistics(statistics, stays, row, 1)

    def pair_groups(
        self, by_label: LabelOrder, tables: Drawn, one: IntArray, other: IntArray, margins: Float64Array
    ) -> Nodes:
        """With Gaussian densities, given the scales."""
        whole, dim = tables.tables, self.X.shape[1]
        peaks = whole.clusters.log_peaks - tails.log_peak_gains(tables.heaviness, dim).astype(np.float32)
        own = Tables(
            whole.clusters._replace(
                log_peaks=peaks, heaviness=pairs.NO_TAILS, powers=pairs.NO_TAILS, least_shares=pairs.NO_SHARES
            ),
            whole.neighbours,
            whole.subclusters,
        )
        return pair_groups(self.X, self.scales, self.chunks, by_label, own, one, other, margins, True)

    def side_groups(
        self, sublabels: UInt8Array, members: Sequence[IntArray], sides: Sequence[UInt8Array], origins: Any
    ) -> Nodes:
        edges = self.chunks.group_rows()

        def start(cluster: int, begin: int, end: int) -> tuple[Any, ...]:
            masses, sums, squares = start_groups(
                self.X, self.scales, self.chunks, sublabels, members[cluster], sides[cluster], origins[cluster],
                begin, end,
            )  # fmt: skip
            rows = members[cluster].astype(self.chunks.row_type, copy=False)
            counts, logs, ones = np.zeros((3, end - begin, 2))
            bounds = np.searchsorted(rows, edges[begin : end + 1])
            kernels.sum_scales(self.scales, rows, sides[cluster], bounds, counts, logs, ones)
            return counts[:, None], masses, sums, squares, logs[:, None], ones[:, None]

        dim = self.X.shape[1]
        return self.chunks.sum_clusters(len(members), start, 2 * (dim * dim + dim + 4))

    def finish_sides(self, total: tuple[Any, ...], origins: Any) -> Statistics:
        found = scaled_statistics(total[:5], origins, np.zeros(len(origins)))
        return found._replace(ones=total[5].ravel())

    def empty_clusters(self, model: Model, capacity: int) -> Any:
        prior, plain = prior_of(model), self.plain.empty_clusters(model, capacity)
        logs, ones = np.zeros((2, capacity + 1))
        return StudentClusters(
            plain.counts, plain.means, plain.strengths, plain.freedoms, plain.factors, logs, ones, plain.constants,
            plain.inverses, np.zeros((capacity + 1, len(prior.tails.heaviness))), prior.tails, plain.work,
        )  # fmt: skip

    def collapsed(self, model: Model, clusters: Statistics, capacity: int) -> Any:
        bundle, count = self.empty_clusters(model, capacity), len(clusters.counts)
        found = model.prior.posterior(clusters).batch
        bundle.counts[:count], bundle.logs[:count], bundle.ones[:count] = clusters.counts, clusters.logs, clusters.ones
        bundle.means[:count], bundle.strengths[:count] = found.means, found.strengths
        bundle.freedoms[:count] = found.freedoms
        bundle.factors[:count] = np.moveaxis(found.factors, 2, 0)
        return bundle

    def statistics_of(self, model: Model, bundle: Any, count: int) -> Statistics:
        """Remove the prior's contribution from the posteriors."""
        prior = prior_of(model).fields
        masses = np.maximum(bundle.strengths[:count] - prior.strength, 0.0)
        gaps = bundle.means[:count] - prior.mean
        far = np.where(masses > 0, bundle.strengths[:count] / np.maximum(masses, 1e-300), 0.0)
        scatters = bundle.factors[:count] @ np.swapaxes(bundle.factors[:count], 1, 2) - prior.scale
        scatters -= (prior.strength * far)[:, None, None] * gaps[:, :, None] * gaps[:, None, :]
        return Statistics(
            bundle.counts[:count].copy(), masses, prior.mean + far[:, None] * gaps, scatters,
            bundle.logs[:count].copy(), bundle.ones[:count].copy(),
        )  # fmt: skip

    def add_to_statistics(self, statistics: Statistics, k: int, row: int, sign: int) -> None:
        counts, masses, means, scatters, logs, ones = statistics
        scale = self.scales[row]
        if counts[k] + sign <= 0:
            for own in statistics:
                own[k] = 0.0
            return
        mass = masses[k] + sign * scale
        gap = self.X[row].astype(np.float64) - means[k]
        scatters[k] += sign * scale * masses[k] / mass * np.outer(gap, gap)
        means[k] += sign * scale * gap / mass
        masses[k] = mass
        counts[k] += sign
        logs[k] += sign * np.log(scale)
        ones[k] += sign * (scale == 1.0)


def scaled_statistics(total: tuple[Any, ...], origins: Any, heaviness: Float64Array) -> Statistics:
    """Statistics of clusters, or of their two sides, from counts, masses, sums and squares about the clusters' origins,
    and sums of log scales."""
    counts, masses, sums, squares, logs = total
    found = collect_statistics(masses[None], sums[None], squares[None], origins)
    ones = counts * (heaviness == 0.0)[:, None]
    return Statistics(counts.ravel(), found.counts, found.means, found.scatters, logs.ravel(), ones.ravel())


def prior_of(model: Model) -> Any:
    assert isinstance(model.prior, HeavyTails)
    return model.prior
