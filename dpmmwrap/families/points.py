"""The points of a fit with a family's loops over them: the interface between a running chain and a family.

`full/points.py` has the loops of full covariances, `linear/points.py` those of all other families. The caller
(`sampler.data` on one machine, `backends.dask` on several) owns the labels and passes them in.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.families import collapsed
from dpmmwrap.families.base import ClusterPosteriors, Model, Points, Statistics, concatenate, take
from dpmmwrap.numerics.arrays import Float64Array, IntArray, UInt8Array
from dpmmwrap.numerics.chunks import Chunks
from dpmmwrap.numerics.digests import digest
from dpmmwrap.numerics.labels import LabelOrder
from dpmmwrap.numerics.ordered_sums import Nodes
from dpmmwrap.partitions.gibbs_type import GibbsType
from dpmmwrap.partitions.hastings import MergeRule

NO_WEIGHTS: Float64Array = np.empty(0)


class Merges(NamedTuple):
    """Pairs of clusters that may merge."""

    one: IntArray
    other: IntArray
    margins: Float64Array
    """Log Hastings ratio minus the log of a uniform number, without the probability of the reverse proposal."""
    tried: int
    """Number of pairs examined."""


class FamilyPoints(ABC):
    """Points in chunks, and a family's loops over them."""

    X: Points
    """In the family's own format."""
    chunks: Chunks
    exact: bool = True
    """Whether exact moves are possible, that is, whether `collapsed` has the family's loops."""
    weights: Float64Array = NO_WEIGHTS
    """Row weights; empty if all are 1."""

    @property
    @abstractmethod
    def plain_points(self) -> Any:
        """The points without weights, as compiled loops take them."""

    @property
    def loop_points(self) -> Any:
        """The points with their weights, if any, as compiled loops take them."""
        return collapsed.WeightedRows(self.plain_points, self.weights) if len(self.weights) else self.plain_points

    def weights_digest(self) -> list[str]:
        """Digest of the weights, empty without weights."""
        return [digest(self.weights)] if len(self.weights) else []

    def weight_of(self, row: int) -> float:
        """The weight of a row."""
        return float(self.weights[row]) if len(self.weights) else 1.0

    @abstractmethod
    def digest(self) -> str:
        """A digest that identifies the data."""

    def take(self, rows: IntArray) -> Points:
        """Some points in the family's own format."""
        return self.X[rows]

    def begin(self, labels: IntArray) -> None:  # noqa: B027
        """Called with the initial labels of a chain."""

    @property
    def imputes(self) -> bool:
        """Whether missing values are imputed and so belong to the state of the chain."""
        return False

    @property
    def imputed(self) -> Any:
        """The current imputed values."""
        raise NotImplementedError

    @imputed.setter
    def imputed(self, values: Any) -> None:
        raise NotImplementedError

    def log_missing(self, posterior: Any, labels: IntArray) -> float:
        """Log density of the imputed values given the observed ones, the labels and the clusters' posteriors."""
        return 0.0

    def put_back(self, statistics: Statistics, row: int, stays: int, wanted: int, tables: Any, key: Any) -> None:
        """Move a row that must not leave its cluster back from cluster `wanted` to cluster `stays`."""
        self.add_to_statistics(statistics, wanted, row, -1)
        self.add_to_statistics(statistics, stays, row, 1)

    def nothing(self, model: Model) -> Statistics:
        """Statistics of zero clusters."""
        return model.prior.statistics(self.X[:0], np.zeros(0, np.int32), 0)

    # From statistics to posteriors.

    def compute_posteriors(self, model: Model, subclusters: Statistics) -> ClusterPosteriors:
        """Posteriors and log marginal likelihoods, from the subclusters' statistics."""
        both = model.prior.compute_both(subclusters)
        if model.outlier_prior is None:
            return both
        rows = np.array([0, both.n_clusters, both.n_clusters + 1])
        outliers = concatenate([take(both.clusters, slice(0, 1)), take(both.subclusters, slice(0, 2))])
        special = model.outlier_prior.posterior(outliers)
        both.log_marginal[rows] = model.outlier_prior.log_marginal_likelihood(outliers, special)
        return both._replace(posterior=both.posterior.replaced(rows, special))

    @abstractmethod
    def likely_merges(
        self,
        model: Model,
        known: ClusterPosteriors,
        candidates: IntArray,
        rule: MergeRule,
        neg_log_uniform: Float64Array,
    ) -> Merges:
        """The pairs of candidates whose log Hastings ratio exceeds minus their `neg_log_uniform`."""

    # Draws of parameters.

    @abstractmethod
    def draw_parameters(self, model: Model, weights: GibbsType, known: ClusterPosteriors, key: Any) -> Any:
        """Draw weights (from the prior over partitions) and parameters of clusters and subclusters from their
        posteriors. Return a tuple whose first array has an entry per cluster."""

    @abstractmethod
    def draw_clusters(self, model: Model, weights: GibbsType, bundle: Any, count: int, key: Any) -> Any:
        """Draw weights and parameters of the first `count` clusters of a bundle, without subclusters."""

    def tables(self, drawn: Any) -> Any:
        """Convert the result of `draw_parameters` to what the loops take."""
        return drawn

    def tables_for_merges(self, tables: Any) -> Any:
        """The part of these tables that `pair_groups` needs."""
        return tables

    def cluster_tables(self, drawn: Any) -> Any:
        """Convert the result of `draw_clusters` to what the loops take."""
        return drawn

    # Loops over the points. They return partial sums, which the caller adds in a fixed order and then finishes.

    @abstractmethod
    def sweep_groups(
        self, labels: IntArray, sublabels: UInt8Array, by_label: LabelOrder, tables: Any, key: Any, greedy: bool
    ) -> Nodes:
        """Draw all labels and sublabels; return sums over the points. Keeps `by_label` up to date."""

    @abstractmethod
    def finish_sweep(self, total: tuple[Any, ...], tables: Any) -> tuple[Statistics, Float64Array]:
        """Convert the total of a sweep to the subclusters' statistics and the log probability with which each
        cluster's sublabels were drawn."""

    @abstractmethod
    def label_groups(self, labels: IntArray, by_label: LabelOrder, tables: Any, key: Any) -> Nodes:
        """Draw all labels; return sums over the points. Keeps `by_label` up to date."""

    @abstractmethod
    def finish_labels(self, total: tuple[Any, ...], tables: Any) -> Statistics:
        """Convert the total of `label_groups` to the clusters' statistics."""

    @abstractmethod
    def pair_groups(
        self, by_label: LabelOrder, tables: Any, one: IntArray, other: IntArray, margins: Float64Array
    ) -> Nodes:
        """Log probability of the last sweep's labels within pairs of its clusters. A sum that is certain to end up
        below -margin may be cut short and is then minus infinity."""

    @abstractmethod
    def side_groups(
        self, sublabels: UInt8Array, members: Sequence[IntArray], sides: Sequence[UInt8Array], origins: Any
    ) -> Nodes:
        """Write the sublabels of whole clusters; return sums of their subclusters about the clusters' origins."""

    @abstractmethod
    def finish_sides(self, total: tuple[Any, ...], origins: Any) -> Statistics:
        """Convert the total of `side_groups` to the subclusters' statistics."""

    def origins_of(self, members: Sequence[IntArray]) -> Any:
        """An arbitrary point of each cluster, about which sums are taken; None if no origin is needed."""
        return None

    def packed(self, nodes: Nodes) -> Nodes:
        """Pack sums for transfer between machines."""
        return nodes

    def unpacked(self, nodes: Nodes) -> Nodes:
        """The inverse of `packed`."""
        return nodes

    # Clusters with their parameters integrated out (`collapsed`), and single points.

    @abstractmethod
    def empty_clusters(self, model: Model, capacity: int) -> Any:
        """A bundle of `capacity` empty clusters."""

    @abstractmethod
    def collapsed(self, model: Model, clusters: Statistics, capacity: int) -> Any:
        """A bundle of clusters with these statistics, filled up to `capacity` with empty ones."""

    @abstractmethod
    def statistics_of(self, model: Model, bundle: Any, count: int) -> Statistics:
        """The statistics of the first `count` clusters of a bundle."""

    def log_marginals(self, model: Model, bundle: Any, count: int) -> Float64Array:
        """Log marginal likelihoods of the first `count` clusters."""
        found: Float64Array = collapsed.log_marginals(bundle, 0, count)
        if model.outlier_prior is not None:
            found[0] = self.outlier_log_marginal(model, bundle)
        return found

    def outlier_log_marginal(self, model: Model, bundle: Any) -> float:
        """Log marginal likelihood of the outlier component, which is the first cluster."""
        assert model.outlier_prior is not None
        return float(model.outlier_prior.log_marginal_likelihood(self.statistics_of(model, bundle, 1))[0])

    @abstractmethod
    def add_to_statistics(self, statistics: Statistics, k: int, row: int, sign: int) -> None:
        """Add a point to the statistics in row k (sign 1), or remove it (sign -1)."""
