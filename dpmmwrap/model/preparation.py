"""What is done to features before a fit, and to new rows before a prediction: logarithms, unit length, standardised,
principal components."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.files import InputError, read_arrays
from dpmmwrap.numerics.arrays import Float64Array, IntArray

CHUNK = 1 << 16
PREFIX = "prepared_"


@dataclass(frozen=True)
class Preparation:
    """Rows, of some columns the logarithm, of length 1 if `unit`, less `shift`, times `factor`, projected on
    `components` if there are any."""

    shift: Float64Array
    factor: Float64Array
    components: Float64Array | None = None
    """(features, components)"""
    names: tuple[str, ...] | None = None
    """The names of the features that come in."""
    logs: IntArray | None = None
    """The places of the columns whose logarithm is taken."""
    unit: bool = False
    """Whether rows are divided by their lengths."""

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
        """Logarithms of some columns, then rows of length 1 and columns of mean 0 and variance 1 if that is asked for
        (values may be missing), and then this many principal components; 0 for none."""
        nothing = cls(np.zeros(X.shape[1]), np.ones(X.shape[1]), None, names, logs, unit)
        if not (scale or components):
            return nothing
        from sklearn.preprocessing import StandardScaler

        values = nothing.rows(X)
        empty = np.isnan(values).all(axis=0)
        known = StandardScaler(with_std=scale).fit(values[:, ~empty])
        shift, factor = np.zeros(X.shape[1]), np.ones(X.shape[1])
        shift[~empty], factor[~empty] = known.mean_, 1 / known.scale_ if scale else 1.0
        # What never has a value is a zero like any other.
        factor[empty] = 0.0
        first = cls(shift, factor, None, names, logs, unit)
        if not components:
            return first
        if len(X) < components:
            raise InputError(f"{components} principal components need at least as many points, not {len(X)}")
        from sklearn.decomposition import PCA

        prepared = first(X).astype(np.float64)
        prepared[:, empty] = 0.0
        # The exact solver: the same components whatever the seed.
        found = PCA(components, svd_solver="full").fit(prepared[~np.isnan(prepared).any(axis=1)])
        return cls(shift, factor, found.components_.T, names, logs, unit)

    def logarithms(self, X: Any) -> Float64Array:
        """In double precision, with the logarithms of some columns in their place."""
        rows = np.array(X, dtype=np.float64)
        for place in () if self.logs is None else self.logs.tolist():
            if (rows[:, place] <= 0).any():
                name = str(place + 1) if self.names is None else self.names[place]
                least = float(np.nanmin(rows[:, place]))
                raise InputError(f"the column {name!r} should be above 0 for its logarithm, but it holds {least:g}")
            rows[:, place] = np.log(rows[:, place])
        return rows

    def rows(self, X: Any) -> Float64Array:
        """With logarithms, and of length 1 if that was asked for: of values that are missing, as if they were zero."""
        rows = self.logarithms(X)
        if not self.unit:
            return rows
        lengths = np.sqrt(np.nansum(rows**2, axis=1, keepdims=True))
        return rows / np.where(lengths > 0, lengths, 1.0)

    def __call__(self, X: Any) -> Any:
        """In single precision, which the sampler works in."""
        prepared = np.empty((len(X), self.width), dtype=np.float32)
        for begin in range(0, len(X), CHUNK):
            rows = (self.rows(X[begin : begin + CHUNK]) - self.shift) * self.factor
            if self.components is not None:
                rows[:, self.factor == 0] = 0.0
            prepared[begin : begin + CHUNK] = rows if self.components is None else rows @ self.components
        return prepared

    @property
    def width(self) -> int:
        """Features that come out."""
        return len(self.shift) if self.components is None else int(self.components.shape[1])

    @property
    def scales(self) -> bool:
        return bool((self.factor != 1).any())

    @property
    def names_out(self) -> tuple[str, ...] | None:
        """The features' own names, with log before them where that was taken, or the components'."""
        if self.components is not None:
            return tuple(f"PC{number}" for number in range(1, self.width + 1))
        if self.names is None or self.logs is None:
            return self.names
        return tuple(f"log {name}" if place in self.logs else name for place, name in enumerate(self.names))

    @property
    def logged(self) -> list[str]:
        """The columns whose logarithm is taken."""
        return [] if self.logs is None else [str(p + 1) if self.names is None else self.names[p] for p in self.logs]

    def undone(self, place: int, values: Any) -> Any:
        """Prepared values of a column in its own units; not of components."""
        own = values / (self.factor[place] or 1.0) + self.shift[place]
        return np.exp(own) if self.logs is not None and place in self.logs else own

    def arrays(self) -> dict[str, Any]:
        """As plain arrays, for a file."""
        found: dict[str, Any] = {"shift": self.shift, "factor": self.factor}
        found |= {} if self.components is None else {"components": self.components}
        found |= {} if self.names is None else {"names": np.array(self.names, dtype=str)}
        found |= {} if self.logs is None else {"logs": self.logs}
        found |= {"unit": np.array(True)} if self.unit else {}
        return {PREFIX + name: array for name, array in found.items()}

    @classmethod
    def read(cls, path: str | Path) -> Preparation | None:
        """From a file that holds `arrays`, or None from one that does not."""
        names = ("shift", "factor", "components", "names", "logs", "unit")
        found = read_arrays(path, required=(), optional=tuple(PREFIX + name for name in names))
        if not found:
            return None
        shift, factor, components, own, logs, unit = (found.get(PREFIX + name) for name in names)
        if shift is None or factor is None or shift.shape != factor.shape or shift.ndim != 1:
            raise ValueError("what was done to the features is not whole")
        if components is not None and (components.ndim != 2 or len(components) != len(shift)):
            raise ValueError("its principal components are of other features")
        if own is not None and own.shape != shift.shape:
            raise ValueError("it names another number of features")
        if logs is not None and not np.isin(logs, np.arange(len(shift))).all():
            raise ValueError("it takes logarithms of features that it does not have")
        called = None if own is None else tuple(str(name) for name in own)
        return cls(shift, factor, components, called, logs, unit is not None and bool(unit))
