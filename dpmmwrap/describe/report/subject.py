"""What a report is about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from dpmmwrap.describe.profiles import feature_names, names_for
from dpmmwrap.model.empty_rows import with_values
from dpmmwrap.model.rows import all_columns, telling
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.posterior.groups import Groups


class Subject:
    """A fitted `DPMM`, the data that it was fitted to, and what else is known of them."""

    def __init__(
        self,
        model: Any,
        X: Any,
        *,
        source: str = "",
        names: Sequence[str] | None = None,
        ids: Any = None,
        id_name: str = "row",
        numbered: bool | None = None,
        command: str = "",
        notes: Sequence[str] | None = None,
        groups: Groups | None = None,
        seconds: float | None = None,
        scores: Mapping[str, float] | None = None,
        preparation: Any = None,
        truth: IntArray | None = None,
        classes: Sequence[str] = (),
    ) -> None:
        self.model = model
        self.points: Any = all_columns(model, X)
        """The rows with all their columns: an array, a sparse matrix or the points of a mixed table."""
        if self.points.shape[0] != len(model.labels_):
            raise ValueError(
                f"a report is about the data of the fit, which had {len(model.labels_):,} rows, "
                f"but X has {self.points.shape[0]:,}"
            )
        self.source = source
        self.given_names = names
        self.ids = None if ids is None else np.asarray(ids)
        if self.ids is not None and len(self.ids) != len(model.labels_):
            raise ValueError(f"ids should be {len(model.labels_):,}, one per row, not {len(self.ids):,}")
        self.id_name = id_name
        self.numbered = ids is None if numbered is None else numbered
        """Whether ids are the rows' numbers, which count from 1."""
        self.command = command
        self.notes = list(model.notes_ if notes is None else notes)
        self.groups = groups
        self.seconds = seconds
        self.scores = dict(scores or {})
        self.preparation = preparation
        """What was done to the features before the fit: profiles are in the units that they had before."""
        self.truth = truth
        """Labels that were known before, from 0; -1 where there is none."""
        self.classes = tuple(classes)
        """What they are called, by their numbers."""

    @property
    def labels(self) -> IntArray:
        return np.asarray(self.model.labels_)

    @property
    def n_rows(self) -> int:
        return int(self.points.shape[0])

    @property
    def n_clusters(self) -> int:
        return int(self.model.n_clusters_)

    @cached_property
    def absent(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which rows have no value, and no cluster for that reason."""
        return ~with_values(telling(self.model.mixture_, self.points).points)

    @property
    def outliers(self) -> int:
        return int((self.labels[~self.absent] < 0).sum())

    @cached_property
    def sizes(self) -> IntArray:
        return np.bincount(self.labels[self.labels >= 0], minlength=self.n_clusters)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """Of the columns: as given, as the model knows them, or by number."""
        columns = self.model.mixture_.columns
        if columns is not None:
            return tuple(columns.names)
        return names_for(feature_names(self.model, self.given_names), int(self.points.shape[1]))

    @property
    def component_groups(self) -> IntArray | None:
        """The group of each cluster, where there are fewer groups than clusters."""
        if self.groups is None or self.groups.suggested >= self.n_clusters:
            return None
        return self.groups.component_groups

    def id_of(self, row: int) -> str:
        """A row's own name, or its number from 1."""
        if self.ids is None:
            return str(int(row) + 1)
        own = self.ids[row]
        return str(own.item() if hasattr(own, "item") else own)
