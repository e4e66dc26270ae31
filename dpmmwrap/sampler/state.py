"""Where the chain stands: the subclusters' statistics, and a record of what has happened to each cluster."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dpmmwrap.arrays import IntArray
from dpmmwrap.families.gaussian import Statistics, concatenate

RECORD = np.dtype(
    [
        ("formed", np.int64),
        ("begun", np.int64),
        ("risen", np.int64),
        ("best_ratio", np.float64),
        ("failures", np.int64),
        ("log_chance", np.float64),
    ]
)


@dataclass
class State:
    """Where the chain stands, apart from the labels in `Points`."""

    subclusters: Statistics
    """Of the left and right subcluster of each cluster in turn."""
    records: Any
    """One per cluster. formed: the iteration in which it was. begun: the one in which its subclusters were. risen: the
    one in which the log Hastings ratio of its split last rose above best_ratio. failures: starts in a row that led
    nowhere. log_chance: log probability with which its sublabels were drawn, 0 for a start's."""
    iteration: int = 0

    @property
    def n_clusters(self) -> int:
        return len(self.records)

    @property
    def new_record(self) -> tuple[int, int, int, float, int, float]:
        """Of a cluster that is formed in this iteration."""
        return self.iteration, self.iteration, self.iteration, -np.inf, 0, 0.0

    def new_records(self, count: int) -> Any:
        records = np.empty(count, RECORD)
        records[:] = self.new_record
        return records

    def begin_subclusters(self, clusters: IntArray) -> None:
        """Note that these clusters' subclusters begin anew, as the last ones led nowhere."""
        fresh = self.new_records(len(clusters))
        fresh["formed"] = self.records["formed"][clusters]
        fresh["failures"] = self.records["failures"][clusters] + 1
        self.records[clusters] = fresh

    def replace(self, clusters: IntArray, subclusters: Statistics) -> None:
        """Overwrite the statistics of both subclusters of these clusters."""
        places = np.repeat(2 * clusters, 2)
        places[1::2] += 1
        own = self.subclusters
        own.counts[places], own.means[places] = subclusters.counts, subclusters.means
        own.scatters[places] = subclusters.scatters

    def merge(self, clusters: IntArray, left: Statistics, right: Statistics) -> None:
        """Form these clusters anew, with these subclusters."""
        in_turn = np.arange(2 * len(clusters)).reshape(2, -1).T.ravel()
        self.replace(clusters, concatenate([left, right])[in_turn])
        self.records[clusters] = self.new_record

    def split(self, clusters: IntArray, subclusters: Statistics) -> None:
        """Form these clusters anew from their left halves, and as many more from the right ones.

        `subclusters` has the subclusters of the former, then of the latter.
        """
        count = len(clusters)
        self.replace(clusters, subclusters[: 2 * count])
        self.subclusters = concatenate([self.subclusters, subclusters[2 * count :]])
        records = self.new_records(self.n_clusters + count)
        records[: self.n_clusters] = self.records
        records[clusters] = self.new_record
        self.records = records

    def keep(self, which: Any) -> None:
        """Go on without the clusters that are not marked."""
        self.records = self.records[which]
        self.subclusters = self.subclusters[np.repeat(which, 2)]
