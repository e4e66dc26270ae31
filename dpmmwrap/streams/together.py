"""Rows that share a cluster, whichever it is: each group of them moves as a whole."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmmwrap.backends.native import NativeBackend
from dpmmwrap.families.base import Points
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.sampler.kept import kept_beside
from dpmmwrap.sampler.settings import Result, Settings

ALONE = -1
NOTHING = ("", "NA", "NaN", "nan", "None", "<NA>", "NaT")
"""Words that stand for no value."""


def groups_of(together: Any, rows: int) -> IntArray | None:
    """Groups as numbers from 0, -1 for rows that no other has to follow; None where there is no group."""
    values = np.asarray(together)
    if values.shape != (rows,):
        raise ValueError(f"together should have a value for each of the {rows:,} rows, but its shape is {values.shape}")
    words = values.astype(str)
    alone = np.isin(words, NOTHING)
    _, numbers, sizes = np.unique(words, return_inverse=True, return_counts=True)
    alone |= sizes[numbers] < 2
    groups = np.full(rows, ALONE, np.int64)
    groups[~alone] = np.unique(numbers[~alone], return_inverse=True)[1]
    return None if alone.all() else groups


@dataclass(frozen=True)
class TogetherBackend:
    """The built-in sampler with groups of rows that stay together."""

    groups: IntArray
    """A group for each point, -1 for none."""

    def fit(self, X: Points, settings: Settings) -> Result:
        """Begin where a fit without groups ends, each group in the cluster of most of its rows; then groups and the
        other rows move among the clusters."""
        begun = NativeBackend().fit(X, settings)
        there, alone = np.flatnonzero(self.groups != ALONE), np.flatnonzero(self.groups == ALONE)
        groups, weights = self.groups[there], settings.weights
        own = None if weights is None else weights[there]
        shares = np.zeros((int(groups.max()) + 1, int(begun.labels.max()) + 1))
        np.add.at(shares, (groups, begun.labels[there]), 1.0 if own is None else own)
        homes, labels = shares.argmax(axis=1).astype(np.int32), begun.labels.copy()
        labels[there] = homes[groups]
        if begun.interrupted:
            return replace(begun, labels=labels, candidates=[])
        prior = begun.prior or settings.prior
        free, statistics = X[alone], prior.statistics(X[there], groups.astype(np.int32), len(homes), own)
        kept = kept_beside(free, prior, statistics, homes, apart=False)._replace(visits=len(homes))
        result = NativeBackend().fit(
            free,
            replace(
                settings, prior=prior, partition_prior=begun.partition_prior or settings.partition_prior, kept=kept,
                init_clusters=labels[alone], other_starts=(), n_chains=1, truth=None, checkpoint=None,
                weights=None if weights is None else weights[alone],
            ),
        )  # fmt: skip
        assert result.kept_labels is not None
        sublabels = np.zeros(len(labels), np.uint8)
        labels[alone], labels[there], sublabels[alone] = result.labels, result.kept_labels[groups], result.sublabels
        return replace(result, labels=labels, sublabels=sublabels, candidates=[])
