"""A clustering with all parameters integrated out: what the exact moves change."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.families.base import Statistics
from dpmmwrap.families.collapsed import copy_cluster, copy_clusters
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.numerics.labels import LabelOrder
from dpmmwrap.partitions import PartitionPrior
from dpmmwrap.partitions.gibbs_type import GibbsType

if TYPE_CHECKING:
    from dpmmwrap.families.base import Model
    from dpmmwrap.sampler.context import Context
    from dpmmwrap.sampler.state import State


@dataclass
class Partition:
    """Where a chain of exact moves stands."""

    partition_prior: PartitionPrior
    """With its parameters as they stand."""
    labels: IntArray
    clusters: Any
    """What the predictives of the clusters need, with room for more of them (`kernels.collapsed`)."""
    n_clusters: int
    """Clusters, none of them empty but that of outliers, which comes first if there is one."""
    by_label: LabelOrder | None = None
    """The rows in order of the labels: made when it is asked for, forgotten when labels change."""
    before: IntArray | None = None
    """Labels that changes are looked for against (`Data.remember`)."""

    @property
    def alpha(self) -> float:
        """The prior's first parameter."""
        return self.partition_prior.alpha

    @property
    def counts(self) -> Any:
        """Points of each cluster."""
        return self.clusters.counts[: self.n_clusters]


def partition_of(
    context: Context, prior: PartitionPrior, labels: IntArray, clusters: Statistics, births: int = 0
) -> Partition:
    """The partition of these labels, from the clusters' statistics, with room for so many more clusters."""
    count = len(clusters.counts)
    return Partition(prior, labels, context.data.collapsed(context.model, clusters, count + births), count)


def weights_prior(state: State | Partition, model: Model, key: Any) -> GibbsType:
    """The prior in plain numbers, by which the weights of the clusters are drawn."""
    return state.partition_prior.for_weights(key, state.counts[model.outliers :])


def prior_for_moves(partition: Partition, context: Context, births: int = 0) -> GibbsType:
    """The prior in plain numbers, for moves with up to so many births."""
    return partition.partition_prior.for_moves(partition.counts[context.model.outliers :], births)


def with_room(partition: Partition, context: Context, births: int) -> None:
    """Make room for so many more clusters, unless there is."""
    # The last place is the prior's, or empty.
    places = len(partition.clusters.counts) - 1
    needed = partition.n_clusters + births
    if needed > places:
        clusters = context.data.empty_clusters(context.model, needed + births)
        copy_clusters(partition.clusters, partition.n_clusters, clusters)
        partition.clusters = clusters


def close_ranks(partition: Partition, context: Context, used: int) -> None:
    """Move clusters into the empty ones among the first `used` places, and their points' labels with them."""
    to_label = np.arange(used, dtype=np.int32)
    partition.n_clusters = fill_places(partition.clusters, used, context.model.outliers, to_label)
    context.data.map_labels(partition, to_label)


def fill_places(clusters: Any, used: int, fixed: int, to_label: IntArray) -> int:
    """Move the last clusters into empty places after the `fixed` ones, so that none is left; how many there are.

    Where each goes is written to `to_label`.
    """
    counts = clusters.counts
    taken = fixed + np.flatnonzero(counts[fixed:used])
    end = fixed + len(taken)
    empty = fixed + np.flatnonzero(counts[fixed:end] == 0.0)
    for k, last in zip(empty.tolist(), taken[::-1].tolist(), strict=False):
        copy_cluster(clusters, k, clusters, last)
        counts[k], counts[last] = counts[last], 0.0
        to_label[last] = k
    return end
