"""The preparation of features before a fit, and of new rows before a prediction: logarithms, unit length,
standardisation, principal components."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.files import InputError, read_arrays
from dpmmwrap.numerics.arrays import Float64Array, IntArray

CHUNK = 1 << 16
STORED = tuple(f"prepared_{name}" for name in ("shift", "factor", "components", "names", "logs", "unit"))


@dataclass(frozen=True)
class Preparation:
    """Logarithms of some columns; then rows of length 1 if `unit`; then (rows - shift) * factor, projected onto
    `components` if there are any."""

    shift: Float64Array
    factor: Float64Array
    components: Float64Array | None = None
    """(features, components)"""
    names: tuple[str, ...] | None = None
    """The names of the features before the preparation."""
    logs: IntArray | None = None
    """The numbers of the columns whose logarithm is taken."""
    unit: bool = False

    @classmethod
    def learn(
        cls,
        X: Any,
        scale: bool,
        components: int,
        names: tuple[str, ...] | None = None,
        logs: IntArray | None = None,
        unit: bool = False,
    ) -> Preparation:
        """The preparation with columns of mean 0 and variance 1 if `scale`, and with some principal components (0 for
        none). Values may be missing."""
        nothing = cls(np.zeros(X.shape[1]), np.ones(X.shape[1]), None, names, logs, unit)
        if not (scale or components):
            return nothing
        from sklearn.preprocessing import StandardScaler

        values = nothing.rows(X)
        empty = np.isnan(values).all(axis=0)
        scaler = StandardScaler(with_std=scale).fit(values[:, ~empty])
        # The factor of a column without values is 0.
        shift, factor = np.zeros(X.shape[1]), np.zeros(X.shape[1])
        shift[~empty], factor[~empty] = scaler.mean_, 1 / scaler.scale_ if scale else 1.0
        first = cls(shift, factor, None, names, logs, unit)
        if not components:
            return first
        if len(X) < components:
            raise InputError(f"{components} principal components need at least as many points, not {len(X)}")
        from sklearn.decomposition import PCA

        prepared = first(X).astype(np.float64)
        prepared[:, empty] = 0.0
        # The exact solver does not depend on a seed.
        pca = PCA(components, svd_solver="full").fit(prepared[~np.isnan(prepared).any(axis=1)])
        return cls(shift, factor, pca.components_.T, names, logs, unit)

    def rows(self, X: Any) -> Float64Array:
        """Rows in double precision with logarithms, and of length 1 if `unit`, where missing values count as zero."""
        rows = np.array(X, dtype=np.float64)
        for column in () if self.logs is None else self.logs.tolist():
            if (rows[:, column] <= 0).any():
                name = str(column + 1) if self.names is None else self.names[column]
                least = float(np.nanmin(rows[:, column]))
                raise InputError(f"the column {name!r} should be above 0 for its logarithm, but it holds {least:g}")
            rows[:, column] = np.log(rows[:, column])
        if not self.unit:
            return rows
        lengths = np.sqrt(np.nansum(rows**2, axis=1, keepdims=True))
        return rows / np.where(lengths > 0, lengths, 1.0)

    def __call__(self, X: Any) -> Any:
        """Prepared rows in single precision."""
        prepared = np.empty((len(X), self.width), dtype=np.float32)
        for begin in range(0, len(X), CHUNK):
            rows = (self.rows(X[begin : begin + CHUNK]) - self.shift) * self.factor
            if self.components is not None:
                rows[:, self.factor == 0] = 0.0
            prepared[begin : begin + CHUNK] = rows if self.components is None else rows @ self.components
        return prepared

    @property
    def width(self) -> int:
        """The number of features after the preparation."""
        return len(self.shift) if self.components is None else int(self.components.shape[1])

    @property
    def scales(self) -> bool:
        return bool((self.factor != 1).any())

    @property
    def names_out(self) -> tuple[str, ...] | None:
        """The names of the features, such as "log income", or of the components."""
        if self.components is not None:
            return tuple(f"PC{number}" for number in range(1, self.width + 1))
        if self.names is None or self.logs is None:
            return self.names
        return tuple(f"log {name}" if column in self.logs else name for column, name in enumerate(self.names))

    @property
    def logged(self) -> list[str]:
        """The names of the columns whose logarithm is taken."""
        return [] if self.logs is None else [str(p + 1) if self.names is None else self.names[p] for p in self.logs]

    def undone(self, column: int, values: Any) -> Any:
        """Prepared values of a column in its original units; not for components."""
        restored = values / (self.factor[column] or 1.0) + self.shift[column]
        return np.exp(restored) if self.logs is not None and column in self.logs else restored

    def arrays(self) -> dict[str, Any]:
        """The contents of a file."""
        names = None if self.names is None else np.array(self.names, dtype=str)
        arrays = (self.shift, self.factor, self.components, names, self.logs, np.array(True) if self.unit else None)
        return {name: array for name, array in zip(STORED, arrays, strict=True) if array is not None}

    @classmethod
    def read(cls, path: str | Path) -> Preparation | None:
        """Read from a file; None if it has no preparation."""
        arrays = read_arrays(path, required=(), optional=STORED)
        if not arrays:
            return None
        shift, factor, components, names, logs, unit = (arrays.get(name) for name in STORED)
        if shift is None or factor is None or shift.shape != factor.shape or shift.ndim != 1:
            raise ValueError("its preparation of the features is incomplete")
        if components is not None and (components.ndim != 2 or len(components) != len(shift)):
            raise ValueError("its principal components are of other features")
        if names is not None and names.shape != shift.shape:
            raise ValueError("it names another number of features")
        if logs is not None and not np.isin(logs, np.arange(len(shift))).all():
            raise ValueError("it takes logarithms of features that it does not have")
        named = None if names is None else tuple(str(name) for name in names)
        return cls(shift, factor, components, named, logs, unit is not None and bool(unit))
