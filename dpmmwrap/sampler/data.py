"""The points of a fit with the labels of a chain: what drives a family's loops (`families.points`).

The chain knows no more of points and labels than what is here. Where they are on several machines, each has a `Data`
over a part of the rows, and `backends.dask` puts together what they find.
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
    """Where they are in points and labels."""
    numbers: IntArray
    """Their numbers in the data."""


class Unions(NamedTuple):
    """The points of several unions of clusters, one union after the other."""

    starts: IntArray
    rows: IntArray
    """Where they are in points and labels."""
    points: Any
    labels: IntArray
    pairs: IntArray
    """Where the two points are that each union is of."""
    numbers: IntArray | None = None
    """The rows' numbers in the data, if they are not the rows themselves."""


class Data:
    """The points of a fit, and everything that loops over them."""

    def __init__(self, points: FamilyPoints) -> None:
        self.points = points
        self.chunks = points.chunks
        self.n_rows, self.n_jobs = self.chunks.n_rows, self.chunks.n_jobs

    # What the family knows.

    @property
    def exact(self) -> bool:
        """Whether exact moves can be made."""
        return self.points.exact

    def digest(self) -> str:
        """A word that no other data have."""
        return self.points.digest()

    def take(self, rows: IntArray) -> Points:
        """Some points as the family stores them."""
        return self.points.take(rows)

    def nothing(self, model: Model) -> Statistics:
        """The statistics of no cluster at all."""
        return self.points.nothing(model)

    def update_posteriors(self, state: State) -> None:
        """Posteriors and marginal likelihoods from the subclusters' statistics."""
        # The old ones go first: of wide data they are large.
        state.posteriors = None
        state.posteriors = self.points.compute_posteriors(state.model, state.subclusters)
        state.subclusters = state.posteriors.subclusters

    def evaluate_moves(self, rules: Rules, state: State, neg_log_uniform: Float64Array) -> MoveCandidates:
        """Which splits and merges the posteriors accept. `neg_log_uniform` has an entry for each cluster's
        split, then for each pair's merge."""
        known = state.known
        counts = known.clusters.counts
        ratios, splits, proposed, candidates, alive, empty = accept_splits(
            rules, state.records, neg_log_uniform, counts, known.sides, known.log_marginal
        )
        rule = MergeRule(rules.prior, alive, rules.reference)
        merges = self.points.likely_merges(state.model, known, candidates, rule, neg_log_uniform[len(counts) :])
        return MoveCandidates(ratios, splits, proposed, *merges, empty)

    def draw_parameters(self, state: State, key: Any) -> Any:
        """Weights and parameters of clusters and subclusters drawn from their posteriors, as the kernels take them."""
        weights = weights_prior(state, key)
        return self.points.tables(self.points.draw_parameters(state.model, weights, state.known, key))

    def tables_for_merges(self, tables: Any) -> Any:
        """What merges ask of the tables after a sweep."""
        return self.points.tables_for_merges(tables)

    def draw_clusters(self, state: State, key: Any) -> Any:
        """The same of the collapsed clusters, which have no subclusters."""
        model, weights = state.model, weights_prior(state, key)
        return self.points.cluster_tables(
            self.points.draw_clusters(model, weights, state.collapsed, state.n_clusters, key)
        )

    def empty_clusters(self, model: Model, capacity: int) -> Any:
        """Empty clusters with their parameters integrated out (`families.collapsed`), this many."""
        return self.points.empty_clusters(model, capacity)

    def collapsed(self, model: Model, clusters: Statistics, capacity: int) -> Any:
        """Clusters with their parameters integrated out, from their statistics, and empty ones up to this capacity."""
        return self.points.collapsed(model, clusters, capacity)

    def statistics_of(self, state: State) -> Statistics:
        """The statistics of the collapsed clusters."""
        return self.points.statistics_of(state.model, state.collapsed, state.n_clusters)

    def log_marginals(self, state: State) -> Float64Array:
        """log marginal likelihood of each collapsed cluster."""
        return self.points.log_marginals(state.model, state.collapsed, state.n_clusters)

    def add_to_statistics(self, statistics: Statistics, k: int, row: int, sign: int) -> None:
        """Add a point to the statistics in row k, or take it out."""
        self.points.add_to_statistics(statistics, k, row, sign)

    def put_back(self, statistics: Statistics, row: int, stays: int, wanted: int, tables: Any, key: Any) -> None:
        """Put a row that may not leave its cluster back from the one where it would have gone."""
        self.points.put_back(statistics, row, stays, wanted, tables, key)

    def log_missing(self, state: State) -> float:
        """log density of the chain's own missing values given all else; 0 where it has none."""
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

    # What is not about families.

    def close(self) -> None:
        self.chunks.close()

    def flush(self) -> None:
        """Have everything done that may wait: nothing here."""

    def end_iteration(self, iteration: int) -> None:
        """An iteration is over: nothing to do here."""

    def sweep(self, state: State, tables: Any, key: Any, greedy: bool) -> tuple[Statistics, Float64Array]:
        """Draw all labels and sublabels; the subclusters' new statistics, and the log probability with which each
        cluster's sublabels came up."""
        nodes = self.sweep_groups(state, tables, key, greedy)
        return self.points.finish_sweep(total_of(nodes, overwrite=True), tables)

    def sweep_groups(self, labels: Any, tables: Any, key: Any, greedy: bool) -> Nodes:
        """Draw all labels and sublabels; what is summed over the points."""
        by_label = self.sort(labels)
        return self.points.sweep_groups(labels.labels, labels.sublabels, by_label, tables, key, greedy)

    def sweep_labels(self, state: State, tables: Any, key: Any) -> Statistics:
        """Draw all labels; the clusters' new statistics."""
        return self.points.finish_labels(total_of(self.label_groups(state, tables, key), overwrite=True), tables)

    def label_groups(self, labels: Any, tables: Any, key: Any) -> Nodes:
        """Draw all labels; what is summed over the points."""
        return self.points.label_groups(labels.labels, self.sort(labels), tables, key)

    def add_reverse_proposal_log_prob(
        self, state: State, one: IntArray, other: IntArray, margins: Float64Array
    ) -> Float64Array:
        """`margins` plus the log probability of the last sweep's labels within pairs of its clusters; what is below
        zero is only known to be so."""
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
        """Divide clusters, whose members these are, by a rule each; the statistics of their subclusters."""
        sides = [sides_by(rule, self.rows_of(state, rows)) for rule, rows in zip(rules, members, strict=True)]
        return self.set_sublabels(state, list(members), sides)

    def begun_by_kept(self, state: State, clusters: IntArray) -> Any:
        """Which clusters need no start, because kept clusters (`sampler.kept`) are their subclusters: none here."""
        return np.zeros(len(clusters), bool)

    def rows_of(self, state: SublabelStore, rows: IntArray) -> Rows:
        """Some rows as rules look at them."""
        return Rows(self.points.X, rows, self.chunks.stretch.first_row, state.sublabels, state.before)

    def sort(self, state: LabelStore, count: int | None = None) -> LabelOrder:
        """Each chunk's rows in order of their labels, of which there are `count`; the last sweep may have left them."""
        if state.by_label is None:
            state.by_label = self.chunks.sort(state.labels, state.n_clusters if count is None else count)
        order: LabelOrder = state.by_label
        return order

    def begin_labels(self, state: LabelStore, first: Any, key: Any) -> IntArray:
        """First labels: a number of clusters to draw from, labels, or a rule that gives them; how often each occurs."""
        if isinstance(first, (int, np.integer)):
            label_loops.random_labels(key, self.chunks.stretch.first_row, int(first), state.labels)
        else:
            state.labels[:] = first(self.points.X) if callable(first) else first
        self.points.begin(state.labels)
        state.by_label = None
        return np.bincount(state.labels)

    def relabel(self, state: SublabelStore, to_label: IntArray, to_sublabel: UInt8Array) -> None:
        """Give each point the label and sublabel that its old pair maps to."""
        label_loops.relabel(state.labels, state.sublabels, to_label, to_sublabel)
        state.by_label = None

    def map_labels(self, state: LabelStore, to_label: IntArray) -> None:
        """Give each point the label that its old one maps to, unless all stay."""
        state.by_label = None
        if not np.array_equal(to_label, np.arange(len(to_label))):
            np.take(to_label.astype(np.int32), state.labels, out=state.labels)

    def members(self, state: LabelStore, clusters: IntArray, count: int | None = None) -> list[IntArray]:
        """The row numbers of each of these clusters, in order; `count` is the number of all clusters, if the state's is
        another."""
        return self.chunks.members(self.sort(state, count), clusters)

    def remember(self, state: LabelStore) -> None:
        """Keep the labels as they are, to be compared with what becomes of them."""
        state.before = state.labels.copy()

    def changes(self, state: LabelStore, were: int, are: int) -> IntArray:
        """How many points had each label when they were remembered, and have each now."""
        table = np.zeros((were, are), np.int64)
        label_loops.contingency(state.before, state.labels, table)
        return table

    def refuse_to_empty(self, state: State) -> Any:
        """Undo steps, since labels were remembered, that would take a cluster's last point away: rows, where each stays
        and where it would have gone."""
        before = state.before
        refused = refuse_to_empty(before, state.labels, state.n_clusters, state.model.outliers)
        if len(refused):
            state.by_label = None
        return [(int(row), int(before[row]), int(wanted)) for row, wanted in refused]  # type: ignore[index]

    def table_with(self, state: State, truth: IntArray) -> IntArray:
        """How many points have each pair of true label and label."""
        table = np.zeros((int(truth.max()) + 1, state.n_clusters), np.int64)
        label_loops.contingency(truth, state.labels, table)
        return table

    def best_of(self, state: State, log_posterior: float) -> Best:
        """A copy of the present clustering."""
        labels, sublabels = state.labels.copy(), state.sublabels.copy()
        return Best(log_posterior, labels, sublabels, state.partition_prior, state.model.prior)

    def saved_labels(self, state: State, path: Path) -> dict[str, Any]:
        """What a checkpoint with that path is to hold of labels."""
        arrays: dict[str, Any] = {"labels": state.labels, "sublabels": state.sublabels}
        if state.best is not None:
            arrays |= {"best_labels": state.best.labels, "best_sublabels": state.best.sublabels}
        if self.points.imputes:
            arrays["imputed"] = self.points.imputed
        return arrays

    def have_saved(self, path: Path) -> None:
        """The checkpoint is there."""

    def restored_labels(self, state: State, arrays: dict[str, Any]) -> tuple[Any, Any]:
        """Put labels back as a checkpoint has them; the best labels and sublabels, if it has any."""
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
        """Rows of each cluster, whatever they weigh."""
        if not len(self.points.weights):
            return state.counts
        return np.bincount(state.labels, minlength=state.n_clusters).astype(np.float64)

    def unions(self, state: State, pairs: IntArray, one: IntArray, other: IntArray, wanted: Any) -> Unions:
        """The points of the wanted unions of the clusters of two points each."""
        starts, rows = collect_unions(state.labels, self.sizes(state), one, other, wanted)
        return Unions(starts, rows, self.points.loop_points, state.labels, pairs[wanted])

    def put_labels(self, state: State, changed: SomeRows | Unions) -> None:
        """Take over labels that loops have written."""
        state.by_label = None
