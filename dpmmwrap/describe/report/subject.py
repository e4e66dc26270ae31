"""The subject of a report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, InitVar, dataclass
from functools import cached_property
from typing import Any

import numpy as np

from dpmmwrap.describe.facts import facts
from dpmmwrap.describe.profiles import feature_names
from dpmmwrap.model.empty_rows import with_values
from dpmmwrap.model.rows import all_columns, names_for, telling
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.posterior.groups import Groups


@dataclass
class Subject:
    """A fitted `DPMM`, its data, and what is known about them."""

    model: Any
    X: InitVar[Any]
    _: KW_ONLY
    source: str = ""
    given_names: Sequence[str] | None = None
    ids: Any = None
    """The names of the rows; None for their numbers from 1."""
    numbered: bool | None = None
    """Whether ids are the rows' numbers; None to decide by whether there are ids."""
    command: str = ""
    notes: Sequence[str] | None = None
    """None for the model's notes."""
    groups: Groups | None = None
    seconds: float | None = None
    preparation: Any = None
    """The transformation of the features before the fit; profiles are in the original units."""
    truth: IntArray | None = None
    """Known labels from 0; -1 for a row without one."""
    classes: Sequence[str] = ()
    """The names of the labels, by number."""

    def __post_init__(self, X: Any) -> None:
        self.points: Any = all_columns(self.model, X)
        """The rows with all their columns: an array, a sparse matrix or the points of a mixed table."""
        self.labels: IntArray = np.asarray(self.model.labels_)
        self.n_clusters, self.n_rows = int(self.model.n_clusters_), len(self.labels)
        if self.points.shape[0] != self.n_rows:
            raise ValueError(
                f"a report is about the data of the fit, which had {self.n_rows:,} rows, "
                f"but X has {self.points.shape[0]:,}"
            )
        self.numbered = self.ids is None if self.numbered is None else self.numbered
        self.ids = None if self.ids is None else np.asarray(self.ids)
        if self.ids is not None and len(self.ids) != self.n_rows:
            raise ValueError(f"ids should be {self.n_rows:,}, one per row, not {len(self.ids):,}")
        self.notes = list(self.model.notes_ if self.notes is None else self.notes)

    @cached_property
    def facts(self) -> dict[str, Any]:
        return facts(self.model, self.groups, self.truth)

    @cached_property
    def sizes(self) -> IntArray:
        return np.array(self.facts["sizes"])

    @cached_property
    def absent(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Which rows have no value, and therefore no cluster."""
        return ~with_values(telling(self.model.mixture_, self.points).points)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The columns' names: as given, as the model knows them, or numbers."""
        columns = self.model.mixture_.columns
        if columns is not None:
            return tuple(columns.names)
        return names_for(feature_names(self.model, self.given_names), int(self.points.shape[1]))

    @property
    def component_groups(self) -> IntArray | None:
        """The group of each cluster, if there are fewer groups than clusters."""
        if self.groups is None or self.groups.suggested >= self.n_clusters:
            return None
        return self.groups.component_groups

    def id_of(self, row: int) -> str:
        """The name of a row, or its number from 1."""
        if self.ids is None:
            return str(int(row) + 1)
        name = self.ids[row]
        return str(name.item() if hasattr(name, "item") else name)
