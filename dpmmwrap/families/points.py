"""The points of a fit with a family's loops over them: all that the sampler asks of a family while a chain runs.

`full/points.py` has the loops of full covariances, `linear/points.py` those of all other families. Whoever drives them
(`sampler.data` on one machine, `backends.dask` on several) keeps the labels, and passes them in.
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
    """By how much their log Hastings ratios are above the log of a uniform number, the probability of the reverse
    proposal left out."""
    tried: int
    """How many pairs were looked at."""


class FamilyPoints(ABC):
    """Points in chunks, and a family's loops over them."""

    X: Points
    """As the family stores them."""
    chunks: Chunks
    exact: bool = True
    """Whether exact moves can be made: whether `collapsed` knows the family."""
    weights: Float64Array = NO_WEIGHTS
    """Of the rows; none where all weigh 1."""

    @property
    @abstractmethod
    def plain_points(self) -> Any:
        """The points as compiled loops take them, without weights."""

    @property
    def loop_points(self) -> Any:
        """The points as compiled loops take them."""
        return collapsed.WeightedRows(self.plain_points, self.weights)

    def weights_digest(self) -> list[str]:
        """What tells data with other weights apart."""
        return [digest(self.weights)] if len(self.weights) else []

    def weight_of(self, row: int) -> float:
        """The weight of a row."""
        return float(self.weights[row]) if len(self.weights) else 1.0

    @abstractmethod
    def digest(self) -> str:
        """A word that no other data have."""

    def take(self, rows: IntArray) -> Points:
        """Some points as the family stores them."""
        return self.X[rows]

    def begin(self, labels: IntArray) -> None:  # noqa: B027
        """Hear of the labels that a chain begins with."""

    @property
    def imputes(self) -> bool:
        """Whether missing values are drawn, and belong to the chain."""
        return False

    @property
    def imputed(self) -> Any:
        """These values as they stand."""
        raise NotImplementedError

    @imputed.setter
    def imputed(self, values: Any) -> None:
        raise NotImplementedError

    def log_missing(self, posterior: Any, labels: IntArray) -> float:
        """log density of these given what is observed, the labels and the posteriors of the clusters."""
        return 0.0

    def put_back(self, statistics: Statistics, row: int, stays: int, wanted: int, tables: Any, key: Any) -> None:
        """Put a row that may not leave its cluster back from the one where it would have gone."""
        self.add_to_statistics(statistics, wanted, row, -1)
        self.add_to_statistics(statistics, stays, row, 1)

    def nothing(self, model: Model) -> Statistics:
        """The statistics of no cluster at all."""
        return model.prior.statistics(self.X[:0], np.zeros(0, np.int32), 0)

    # What the statistics of clusters say.

    def compute_posteriors(self, model: Model, subclusters: Statistics) -> ClusterPosteriors:
        """Posteriors and marginal likelihoods from the subclusters' statistics."""
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
        """The pairs of candidates whose log Hastings ratio is above minus their `neg_log_uniform`."""

    # Drawn parameters.

    @abstractmethod
    def draw_parameters(self, model: Model, weights: GibbsType, known: ClusterPosteriors, key: Any) -> Any:
        """Weights, by the prior over partitions, and parameters of clusters and subclusters, all drawn from their
        posteriors; a tuple whose first array has an entry for each cluster."""

    @abstractmethod
    def draw_clusters(self, model: Model, weights: GibbsType, bundle: Any, count: int, key: Any) -> Any:
        """The same of the first clusters of a bundle, without subclusters."""

    def tables(self, drawn: Any) -> Any:
        """What `draw_parameters` has drawn, as the loops take it."""
        return drawn

    def tables_for_merges(self, tables: Any) -> Any:
        """What `pair_groups` asks of these tables."""
        return tables

    def cluster_tables(self, drawn: Any) -> Any:
        """What `draw_clusters` has drawn, as the loops take it."""
        return drawn

    # Loops over the points. Sums that they find are put together in a fixed order, and then finished.

    @abstractmethod
    def sweep_groups(
        self, labels: IntArray, sublabels: UInt8Array, by_label: LabelOrder, tables: Any, key: Any, greedy: bool
    ) -> Nodes:
        """Draw all labels and sublabels; what is summed over the points. `by_label` follows the labels."""

    @abstractmethod
    def finish_sweep(self, total: tuple[Any, ...], tables: Any) -> tuple[Statistics, Float64Array]:
        """From all sums of a sweep: the subclusters' statistics, and the log probability with which each cluster's
        sublabels came up."""

    @abstractmethod
    def label_groups(self, labels: IntArray, by_label: LabelOrder, tables: Any, key: Any) -> Nodes:
        """Draw all labels; what is summed over the points. `by_label` follows the labels."""

    @abstractmethod
    def finish_labels(self, total: tuple[Any, ...], tables: Any) -> Statistics:
        """The clusters' statistics, from these sums."""

    @abstractmethod
    def pair_groups(
        self, by_label: LabelOrder, tables: Any, one: IntArray, other: IntArray, margins: Float64Array
    ) -> Nodes:
        """log probability of the last sweep's labels within pairs of its clusters; a sum that is surely below -margin
        may be cut short, and is minus infinity then."""

    @abstractmethod
    def side_groups(
        self, sublabels: UInt8Array, members: Sequence[IntArray], sides: Sequence[UInt8Array], origins: Any
    ) -> Nodes:
        """Write the sublabels of whole clusters; sums of their subclusters about the clusters' origins."""

    @abstractmethod
    def finish_sides(self, total: tuple[Any, ...], origins: Any) -> Statistics:
        """The subclusters' statistics, from these sums."""

    def origins_of(self, members: Sequence[IntArray]) -> Any:
        """A point of each cluster (any will do), about which sums are taken; None where none is needed."""
        return None

    def packed(self, nodes: Nodes) -> Nodes:
        """Sums as they travel between machines."""
        return nodes

    def unpacked(self, nodes: Nodes) -> Nodes:
        """The inverse."""
        return nodes

    # Clusters with their parameters integrated out (`collapsed`), and single points.

    @abstractmethod
    def empty_clusters(self, model: Model, capacity: int) -> Any:
        """Empty clusters, this many."""

    @abstractmethod
    def collapsed(self, model: Model, clusters: Statistics, capacity: int) -> Any:
        """Clusters from their statistics, and empty ones up to this capacity."""

    @abstractmethod
    def statistics_of(self, model: Model, bundle: Any, count: int) -> Statistics:
        """The statistics of the first clusters of a bundle."""

    def log_marginals(self, model: Model, bundle: Any, count: int) -> Float64Array:
        """log marginal likelihood of each of the first clusters."""
        found: Float64Array = collapsed.log_marginals(bundle, 0, count)
        if model.outlier_prior is not None:
            found[0] = self.outlier_log_marginal(model, bundle)
        return found

    def outlier_log_marginal(self, model: Model, bundle: Any) -> float:
        """The log marginal likelihood of the outlier component, which is the first cluster."""
        assert model.outlier_prior is not None
        return float(model.outlier_prior.log_marginal_likelihood(self.statistics_of(model, bundle, 1))[0])

    @abstractmethod
    def add_to_statistics(self, statistics: Statistics, k: int, row: int, sign: int) -> None:
        """Add a point to the statistics in row k, or take it out."""
