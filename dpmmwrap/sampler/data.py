"""The points of a fit together with the labels of a chain: the driver of a family's loops (`families.points`).

This is all that a chain sees of points and labels. If the points are on several machines, each machine has a `Data`
over its rows and `backends.dask` combines the results.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families.base import Model, Points, Statistics, take
from dpmmwrap.families.points import FamilyPoints
from dpmmwrap.numerics import labels as label_loops
from dpmmwrap.numerics.arrays import Float64Array, IntArray, UInt8Array
from dpmmwrap.numerics.labels import LabelOrder, refuse_to_empty
from dpmmwrap.numerics.ordered_sums import Nodes, total_of
from dpmmwrap.numerics.rules import Rows, Rule, sides_by
from dpmmwrap.partitions.hastings import MergeRule
from dpmmwrap.sampler.kernels.exact import collect_unions
from dpmmwrap.sampler.kernels.splits import MoveCandidates, Rules, accept_splits
from dpmmwrap.sampler.partition import weights_prior
from dpmmwrap.sampler.state import Best, LabelStore, State, SublabelStore


class SomeRows(NamedTuple):
    """Points and labels of some rows, as compiled loops take them."""

    points: Any
    labels: IntArray
    rows: IntArray
    """Indices into points and labels."""
    numbers: IntArray
    """Row numbers in the data."""


class Unions(NamedTuple):
    """The points of several unions of clusters, concatenated."""

    starts: IntArray
    rows: IntArray
    """Indices into points and labels."""
    points: Any
    labels: IntArray
    pairs: IntArray
    """Indices of the two points that define each union."""
    numbers: IntArray | None = None
    """Row numbers in the data, if they differ from `rows`."""


class Data:
    """The points of a fit and all loops over them."""

    def __init__(self, points: FamilyPoints) -> None:
        self.points = points
        self.chunks = points.chunks
        self.n_rows, self.n_jobs = self.chunks.n_rows, self.chunks.n_jobs

    # Calls passed on to the family.

    @property
    def exact(self) -> bool:
        """Whether exact moves are possible."""
        return self.points.exact

    def digest(self) -> str:
        """A digest that identifies the data."""
        return self.points.digest()

    def take(self, rows: IntArray) -> Points:
        """Some points in the family's own format."""
        return self.points.take(rows)

    def nothing(self, model: Model) -> Statistics:
        """Statistics of zero clusters."""
        return self.points.nothing(model)

    def update_posteriors(self, state: State) -> None:
        """Compute posteriors and marginal likelihoods from the subclusters' statistics."""
        # Free the old ones first: they are large for wide data.
        state.posteriors = None
        state.posteriors = self.points.compute_posteriors(state.model, state.subclusters)
        state.subclusters = state.posteriors.subclusters

    def evaluate_moves(self, rules: Rules, state: State, neg_log_uniform: Float64Array) -> MoveCandidates:
        """Splits and merges accepted by the posteriors. `neg_log_uniform` has an entry for each cluster's split, then
        one for each pair's merge."""
        known = state.known
        counts = known.clusters.counts
        ratios, splits, proposed, candidates, alive, empty = accept_splits(
            rules, state.records, neg_log_uniform, counts, known.sides, known.log_marginal
        )
        rule = MergeRule(rules.prior, alive, rules.reference)
        merges = self.points.likely_merges(state.model, known, candidates, rule, neg_log_uniform[len(counts) :])
        return MoveCandidates(ratios, splits, proposed, *merges, empty)

    def draw_parameters(self, state: State, key: Any) -> Any:
        """Draw weights and parameters of clusters and subclusters from their posteriors, in the kernels' layout."""
        weights = weights_prior(state, key)
        return self.points.tables(self.points.draw_parameters(state.model, weights, state.known, key))

    def tables_for_merges(self, tables: Any) -> Any:
        """The part of the tables that merges need after a sweep."""
        return self.points.tables_for_merges(tables)

    def draw_clusters(self, state: State, key: Any) -> Any:
        """Draw weights and parameters of the collapsed clusters, which have no subclusters."""
        model, weights = state.model, weights_prior(state, key)
        return self.points.cluster_tables(
            self.points.draw_clusters(model, weights, state.collapsed, state.n_clusters, key)
        )

    def empty_clusters(self, model: Model, capacity: int) -> Any:
        """A bundle of `capacity` empty clusters with integrated parameters (`families.collapsed`)."""
        return self.points.empty_clusters(model, capacity)

    def collapsed(self, model: Model, clusters: Statistics, capacity: int) -> Any:
        """A bundle of clusters with integrated parameters, from their statistics, filled up with empty ones."""
        return self.points.collapsed(model, clusters, capacity)

    def statistics_of(self, state: State) -> Statistics:
        """The statistics of the collapsed clusters."""
        return self.points.statistics_of(state.model, state.collapsed, state.n_clusters)

    def log_marginals(self, state: State) -> Float64Array:
        """Log marginal likelihoods of the collapsed clusters."""
        return self.points.log_marginals(state.model, state.collapsed, state.n_clusters)

    def add_to_statistics(self, statistics: Statistics, k: int, row: int, sign: int) -> None:
        """Add a point to the statistics in row k (sign 1), or remove it (sign -1)."""
        self.points.add_to_statistics(statistics, k, row, sign)

    def put_back(self, statistics: Statistics, row: int, stays: int, wanted: int, tables: Any, key: Any) -> None:
        """Move a row that must not leave its cluster back from cluster `wanted` to cluster `stays`."""
        self.points.put_back(statistics, row, stays, wanted, tables, key)

    def log_missing(self, state: State) -> float:
        """Log density of the imputed values given everything else; 0 if there are none."""
        if not self.points.imputes:
            return 0.0
        if state.collapsed is None:
            return self.points.log_missing(state.known.posterior, state.labels)
        model, clusters = state.model, self.statistics_of(state)
        posterior = model.prior.posterior(clusters)
        if model.outlier_prior is not None:
            special = model.outlier_prior.posterior(take(clusters, slice(0, 1)))
            posterior = posterior.replaced(np.array([0]), special)
        return self.points.log_missing(posterior, state.labels)

    # Independent of the family.

    def close(self) -> None:
        self.chunks.close()

    def flush(self) -> None:
        """Finish pending work; there is none here."""

    def end_iteration(self, iteration: int) -> None:
        """Called at the end of each iteration; does nothing here."""

    def sweep(self, state: State, tables: Any, key: Any, greedy: bool) -> tuple[Statistics, Float64Array]:
        """Draw all labels and sublabels; return the subclusters' new statistics and the log probability with which each
        cluster's sublabels were drawn."""
        nodes = self.sweep_groups(state, tables, key, greedy)
        return self.points.finish_sweep(total_of(nodes, overwrite=True), tables)

    def sweep_groups(self, labels: Any, tables: Any, key: Any, greedy: bool) -> Nodes:
        """Draw all labels and sublabels; return sums over the points."""
        by_label = self.sort(labels)
        return self.points.sweep_groups(labels.labels, labels.sublabels, by_label, tables, key, greedy)

    def sweep_labels(self, state: State, tables: Any, key: Any) -> Statistics:
        """Draw all labels; return the clusters' new statistics."""
        return self.points.finish_labels(total_of(self.label_groups(state, tables, key), overwrite=True), tables)

    def label_groups(self, labels: Any, tables: Any, key: Any) -> Nodes:
        """Draw all labels; return sums over the points."""
        return self.points.label_groups(labels.labels, self.sort(labels), tables, key)

    def add_reverse_proposal_log_prob(
        self, state: State, one: IntArray, other: IntArray, margins: Float64Array
    ) -> Float64Array:
        """`margins` plus the log probability of the last sweep's labels within pairs of its clusters. Negative results
        are only bounds."""
        (log_probs,) = total_of(self.points.pair_groups(self.sort(state), state.tables, one, other, margins))
        return np.asarray(margins + log_probs)

    def set_sublabels(self, state: State, members: list[IntArray], sides: list[UInt8Array]) -> Statistics:
        """Write the sublabels of whole clusters and return the statistics of their subclusters."""
        origins = self.points.origins_of(members)
        return self.points.finish_sides(
            total_of(self.points.side_groups(state.sublabels, members, sides, origins)), origins
        )

    def divide(
        self, state: State, clusters: IntArray, members: Sequence[IntArray], rules: Sequence[Rule]
    ) -> Statistics:
        """Divide each of these clusters, given its members, by a rule; return the statistics of their subclusters."""
        sides = [sides_by(rule, self.rows_of(state, rows)) for rule, rows in zip(rules, members, strict=True)]
        return self.set_sublabels(state, list(members), sides)

    def begun_by_kept(self, state: State, clusters: IntArray) -> Any:
        """Which clusters need no start because kept clusters (`sampler.kept`) are their subclusters: none here."""
        return np.zeros(len(clusters), bool)

    def rows_of(self, state: SublabelStore, rows: IntArray) -> Rows:
        """Some rows in the form that rules take."""
        return Rows(self.points.X, rows, self.chunks.stretch.first_row, state.sublabels, state.before)

    def sort(self, state: LabelStore, count: int | None = None) -> LabelOrder:
        """Each chunk's rows ordered by label; `count` is the number of labels. Reuses the order of the last sweep if
        possible."""
        if state.by_label is None:
            state.by_label = self.chunks.sort(state.labels, state.n_clusters if count is None else count)
        order: LabelOrder = state.by_label
        return order

    def begin_labels(self, state: LabelStore, first: Any, key: Any) -> IntArray:
        """Set the initial labels, from a number of clusters to draw from, an array, or a rule; return how often each
        label occurs."""
        if isinstance(first, (int, np.integer)):
            label_loops.random_labels(key, self.chunks.stretch.first_row, int(first), state.labels)
        else:
            state.labels[:] = first(self.points.X) if callable(first) else first
        self.points.begin(state.labels)
        state.by_label = None
        return np.bincount(state.labels)

    def relabel(self, state: SublabelStore, to_label: IntArray, to_sublabel: UInt8Array) -> None:
        """Map each pair of label and sublabel to a new one."""
        label_loops.relabel(state.labels, state.sublabels, to_label, to_sublabel)
        state.by_label = None

    def map_labels(self, state: LabelStore, to_label: IntArray) -> None:
        """Map each label to a new one."""
        state.by_label = None
        if not np.array_equal(to_label, np.arange(len(to_label))):
            np.take(to_label.astype(np.int32), state.labels, out=state.labels)

    def members(self, state: LabelStore, clusters: IntArray, count: int | None = None) -> list[IntArray]:
        """The row numbers of each of these clusters, in order. `count` is the number of all clusters if it differs from
        the state's."""
        return self.chunks.members(self.sort(state, count), clusters)

    def remember(self, state: LabelStore) -> None:
        """Store a copy of the labels for `changes`."""
        state.before = state.labels.copy()

    def changes(self, state: LabelStore, were: int, are: int) -> IntArray:
        """Contingency table of the remembered labels and the current ones."""
        table = np.zeros((were, are), np.int64)
        label_loops.contingency(state.before, state.labels, table)
        return table

    def refuse_to_empty(self, state: State) -> Any:
        """Undo the label changes since `remember` that would empty a cluster; return for each the row, the cluster
        where it stays and the one where it would have gone."""
        before = state.before
        refused = refuse_to_empty(before, state.labels, state.n_clusters, state.model.outliers)
        if len(refused):
            state.by_label = None
        return [(int(row), int(before[row]), int(wanted)) for row, wanted in refused]  # type: ignore[index]

    def table_with(self, state: State, truth: IntArray) -> IntArray:
        """Contingency table of the true labels and the current ones."""
        table = np.zeros((int(truth.max()) + 1, state.n_clusters), np.int64)
        label_loops.contingency(truth, state.labels, table)
        return table

    def best_of(self, state: State, log_posterior: float) -> Best:
        """A copy of the current clustering."""
        labels, sublabels = state.labels.copy(), state.sublabels.copy()
        return Best(log_posterior, labels, sublabels, state.partition_prior, state.model.prior)

    def saved_labels(self, state: State, path: Path) -> dict[str, Any]:
        """The labels that a checkpoint at this path should contain."""
        arrays: dict[str, Any] = {"labels": state.labels, "sublabels": state.sublabels}
        if state.best is not None:
            arrays |= {"best_labels": state.best.labels, "best_sublabels": state.best.sublabels}
        if self.points.imputes:
            arrays["imputed"] = self.points.imputed
        return arrays

    def have_saved(self, path: Path) -> None:
        """Called after the checkpoint has been written."""

    def restored_labels(self, state: State, arrays: dict[str, Any]) -> tuple[Any, Any]:
        """Restore labels from a checkpoint; return the best labels and sublabels, if it has any."""
        state.labels[:] = arrays["labels"]
        state.sublabels[:] = arrays["sublabels"]
        if "imputed" in arrays:
            self.points.imputed = arrays["imputed"]
        return arrays.get("best_labels"), arrays.get("best_sublabels")

    def some_rows(self, state: State, rows: IntArray) -> SomeRows:
        """Points and labels of some rows."""
        return SomeRows(self.points.loop_points, state.labels, rows, rows)

    def labels_at(self, state: State, rows: IntArray) -> IntArray:
        """The labels of some rows."""
        labels: IntArray = state.labels[rows]
        return labels

    def sizes(self, state: State) -> Float64Array:
        """Number of rows of each cluster, regardless of weights."""
        if not len(self.points.weights):
            return state.counts
        return np.bincount(state.labels, minlength=state.n_clusters).astype(np.float64)

    def unions(self, state: State, pairs: IntArray, one: IntArray, other: IntArray, wanted: Any) -> Unions:
        """For the wanted pairs of points, the points of the unions of their clusters."""
        starts, rows = collect_unions(state.labels, self.sizes(state), one, other, wanted)
        return Unions(starts, rows, self.points.loop_points, state.labels, pairs[wanted])

    def put_labels(self, state: State, changed: SomeRows | Unions) -> None:
        """Take over labels written by compiled loops."""
        state.by_label = None
