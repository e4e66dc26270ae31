"""The draws of one chain as they are recorded."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dpmmwrap.families.base import Prior
from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.partitions import PartitionPrior


class Moves(NamedTuple):
    """Counts of an iteration's moves."""

    splits: int
    splits_proposed: int
    merges: int
    merges_proposed: int


class Sample(NamedTuple):
    """One draw without its labels."""

    n_clusters: int
    partition_prior: PartitionPrior
    log_posterior: float
    weights: Float64Array
    """Each cluster's share of the points."""
    prior: Prior


class Record:
    """The draws of one chain so far."""

    def __init__(self, labels: IntArray | None = None) -> None:
        self.labels = labels
        """Destination of the labels of each draw (draws, N); None if they are not kept."""
        self.samples: list[Sample] = []
        self.moves: list[Moves] = []
        self.moved = np.zeros(4, np.int64)
        """Moves since the last draw."""

    def append(self, sample: Sample, labels: IntArray, outliers: int) -> None:
        """Record a draw. The chain's labels start with the outlier component, if any."""
        if self.labels is not None:
            np.subtract(labels, np.int32(outliers), out=self.labels[len(self.samples)])
        self.samples.append(sample)
        self.moves.append(Moves(*self.moved.tolist()))
        self.moved[:] = 0

    def __len__(self) -> int:
        return len(self.samples)
