"""How a fitted mixture reads new rows: by name, prepared like those of the fit, without the columns left out."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import issparse

from dpmmwrap.families.tables import Columns, TablePoints, table_of
from dpmmwrap.files.selection import listed, numbered
from dpmmwrap.model.frames import by_name, is_table
from dpmmwrap.model.preparation import Preparation
from dpmmwrap.model.redundant import ColumnMap
from dpmmwrap.model.subspace import Subspace


class MixtureRows:
    """The columns of a mixture's data, and rows with these columns."""

    posterior: Any
    columns: Columns | None
    feature_names: tuple[str, ...] | None
    preparation: Preparation | None
    restored: ColumnMap | None
    subspace: Subspace | None

    @property
    def dim(self) -> int:
        """Features of the clusters."""
        return int(self.posterior.dim)

    @property
    def n_features(self) -> int:
        """Columns of the prepared data."""
        left_out = 0 if self.restored is None else len(self.restored.offset) - len(self.restored.kept)
        return left_out + (self.dim if self.subspace is None else self.subspace.n_features)

    @property
    def input_names(self) -> tuple[str, ...] | None:
        """The names of the columns of rows to predict; None if they are not known."""
        if self.columns is not None:
            return self.columns.names if self.columns.named else None
        return self.feature_names if self.preparation is None else self.preparation.names

    @property
    def n_inputs(self) -> int:
        """Columns of rows to predict."""
        if self.columns is not None:
            return len(self.columns.names)
        return self.n_features if self.preparation is None else len(self.preparation.shift)

    @property
    def _feature_names(self) -> tuple[str, ...]:
        """The names of the features, or their numbers from 1."""
        return numbered(self.n_features) if self.feature_names is None else self.feature_names

    def _all_columns(self, rows: Any) -> Any:
        """Rows with the columns that were left out."""
        return rows if self.restored is None else self.restored.points(rows)

    def _points(self, X: Any) -> Any:
        """Rows in the coordinates of the clusters."""
        rows = self._prepared(self._read(X))
        return rows if self.subspace is None else self.subspace.points(rows)

    def _read(self, X: Any) -> Any:
        """Rows as the family stores them, before their preparation."""
        return self._rows(X) if self.columns is None else self.columns.points(by_name(X))

    def _prepared(self, points: Any) -> Any:
        if self.columns is None:
            return self._useful(points)
        return TablePoints(self._useful(points.numeric), points.codes)

    def _useful(self, rows: Any) -> Any:
        """Prepared rows, without the columns that were left out."""
        rows = rows if self.preparation is None else self.preparation(rows)
        return rows if self.restored is None else rows[:, self.restored.kept]

    def _rows(self, X: Any) -> Any:
        """An array or a sparse matrix as it is; the columns of a table by their names."""
        if is_table(X) and not issparse(X):
            table, _ = table_of(by_name(X))
            names = self.input_names if self.input_names is not None else tuple(table)
            lacking = [name for name in names if name not in table]
            if lacking:
                raise ValueError(f"X should have a column {lacking[0]!r}, but it has {listed(tuple(table))}")
            X = np.column_stack([np.asarray(table[name], dtype=np.float64) for name in names])
        rows = X if hasattr(X, "shape") else np.asarray(X)
        if len(rows.shape) != 2:
            raise ValueError(f"X should have two dimensions (rows, columns), but it has {len(rows.shape)}")
        if rows.shape[1] != self.n_inputs:
            known = "" if self.input_names is None else f" ({listed(self.input_names)})"
            raise ValueError(f"X should have {self.n_inputs} columns like the model{known}, but it has {rows.shape[1]}")
        return rows
