"""A sweep over all points among the clusters that there are, none of which may become empty: an exact move.

Given drawn weights and parameters, points choose independently. A step that would take a cluster's last point away is
refused: then clusters are born and die in other moves alone, which know what that costs.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dpmmwrap.numerics.variates import derived_key
from dpmmwrap.sampler.context import Context
from dpmmwrap.sampler.partition import Partition
from dpmmwrap.sampler.sweep import LABELS_KEY


class RestrictedSweepInfo(NamedTuple):
    refused: int
    """Points that stayed because they were the last of their cluster."""


def step(key: Any, partition: Partition, context: Context, room: int = 0) -> tuple[Partition, RestrictedSweepInfo]:
    """Draw weights and parameters from their posteriors, then all labels. Leaves room for so many births."""
    data, model = context.data, context.model
    tables = data.draw_clusters(model, partition, key)
    data.remember(partition)
    clusters = data.sweep_labels(partition, tables, derived_key(key, LABELS_KEY))
    refused = data.refuse_to_empty(partition, model.outliers)
    for row, stays, wanted in refused:
        data.add_to_statistics(clusters, wanted, row, -1)
        data.add_to_statistics(clusters, stays, row, 1)
    partition.clusters = data.collapsed(model, clusters, partition.n_clusters + room)
    return partition, RestrictedSweepInfo(len(refused))
