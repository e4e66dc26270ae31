"""Rows whose clusters are known: they stay where they are, and the others join them or found clusters of their own."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from dpmmwrap.backends.native import NativeBackend
from dpmmwrap.families.base import Points
from dpmmwrap.model.memory import Memory
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.posterior.fitted import set_mixture
from dpmmwrap.sampler.kept import kept_beside
from dpmmwrap.sampler.settings import Result, Settings
from dpmmwrap.streams.update import begin_rows

UNKNOWN = -1


def known_labels(y: Any, rows: int) -> IntArray | None:
    """Labels as whole numbers, -1 where they are unknown (or NaN, as in pandas); None where none is, so that there is
    nothing to find, or where y holds anything else."""
    array = np.asarray(y) if y is not None else np.empty(0)
    if array.dtype.kind == "f":
        array = np.where(np.isnan(array), UNKNOWN, array)
        whole = np.isfinite(array).all() and (array == np.round(array)).all()
        array = array.astype(np.int64) if whole else array
    if array.dtype.kind not in "iu" or array.shape != (rows,) or not (array == UNKNOWN).any():
        return None
    if (array < UNKNOWN).any():
        raise ValueError(f"y should be -1 (unknown) or a label from 0, but it holds {int(array.min())}")
    return None if (array == UNKNOWN).all() else array.astype(np.int64)


def classes_note(known: IntArray) -> tuple[str, ...]:
    """A note about labels that may be two classes, as some classifiers have them."""
    if set(np.unique(known).tolist()) != {UNKNOWN, 1}:
        return ()
    count = int((known == 1).sum())
    return (
        f"y holds 1 and -1 only: its {count:,} rows of 1 stay together as a known cluster, and -1 means unknown; leave "
        "out y if these are two classes",
    )


@dataclass(frozen=True)
class KnownBackend:
    """The built-in sampler with rows of known clusters."""

    known: IntArray
    """A label for each point, -1 where it is unknown."""

    def fit(self, X: Points, settings: Settings) -> Result:
        """Cluster the others beside the known clusters, which never merge; labels of all points."""
        names, numbers = np.unique(self.known[self.known != UNKNOWN], return_inverse=True)
        there, unknown = np.flatnonzero(self.known != UNKNOWN), np.flatnonzero(self.known == UNKNOWN)
        own = None if settings.weights is None else settings.weights[there]
        labels = np.full(X.shape[0], -1, np.int32)
        labels[there] = numbers
        statistics = settings.prior.statistics(X[there], labels[there], len(names), own)
        memory = Memory.begin(statistics, settings.prior, settings.partition_prior)
        free = X[unknown]
        begun = begin_rows(memory, statistics, free).labels
        kept = kept_beside(free, settings.prior, statistics, np.arange(len(names)), apart=True)
        settings = replace(
            settings, kept=kept, init_clusters=begun, other_starts=(), n_chains=1, truth=None, checkpoint=None,
            weights=None if settings.weights is None else settings.weights[unknown],
        )  # fmt: skip
        result = NativeBackend().fit(free, settings)
        assert result.kept_labels is not None
        labels[unknown], labels[there] = result.labels, result.kept_labels[numbers]
        sublabels = np.zeros(X.shape[0], np.uint8)
        sublabels[unknown] = result.sublabels
        return replace(result, labels=labels, sublabels=sublabels, candidates=[])


def name_known(model: Any, known: IntArray, present: Any) -> None:
    """Call the clusters of a fit as they are known, and the others by numbers after these."""
    memory, labels = model.mixture_.memory, model.labels_ if present is None else model.labels_[present.rows]
    there = known != UNKNOWN
    if memory is None:
        return
    found = np.full(model.n_clusters_, -1, np.int64)
    found[labels[there]] = known[there]
    new = np.flatnonzero(found < 0)
    found[new] = int(known.max()) + 1 + np.arange(len(new))
    set_mixture(model, replace(model.mixture_, memory=memory.called(found)))
