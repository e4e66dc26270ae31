"""What is done to features before a fit, and to new rows before a prediction: standardised, principal components."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.arrays import Float64Array
from dpmmwrap.files import InputError, read_arrays

CHUNK = 1 << 16
PREFIX = "prepared_"


@dataclass(frozen=True)
class Preparation:
    """Rows less `shift`, times `factor`, projected on `components` if there are any."""

    shift: Float64Array
    factor: Float64Array
    components: Float64Array | None = None
    """(features, components)"""
    names: tuple[str, ...] | None = None
    """Of the features that come in."""

    @classmethod
    def learn(cls, X: Any, scale: bool, components: int, names: tuple[str, ...] | None = None) -> Preparation:
        """To mean 0 and variance 1 if that is asked for (values may be missing), and then to so many principal
        components; 0 for none."""
        from sklearn.preprocessing import StandardScaler

        known = StandardScaler(with_std=scale).fit(np.asarray(X, dtype=np.float64))
        factor = 1 / known.scale_ if scale else np.ones(X.shape[1])
        first = cls(known.mean_, factor, None, names)
        if not components:
            return first
        if len(X) < components:
            raise InputError(f"{components} principal components need at least as many points, not {len(X)}")
        from sklearn.decomposition import PCA

        # The exact solver: the same components whatever the seed.
        found = PCA(components, svd_solver="full").fit(first(X).astype(np.float64))
        return cls(known.mean_, factor, found.components_.T, names)

    def __call__(self, X: Any) -> Any:
        """In single precision, which the sampler works in."""
        prepared = np.empty((len(X), self.width), dtype=np.float32)
        for begin in range(0, len(X), CHUNK):
            rows = (np.asarray(X[begin : begin + CHUNK], dtype=np.float64) - self.shift) * self.factor
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
        """The features' own names, or the components'."""
        return self.names if self.components is None else tuple(f"PC{number}" for number in range(1, self.width + 1))

    def arrays(self) -> dict[str, Any]:
        """As plain arrays, for a file."""
        found: dict[str, Any] = {"shift": self.shift, "factor": self.factor}
        found |= {} if self.components is None else {"components": self.components}
        found |= {} if self.names is None else {"names": np.array(self.names, dtype=str)}
        return {PREFIX + name: array for name, array in found.items()}

    @classmethod
    def read(cls, path: str | Path) -> Preparation | None:
        """From a file that holds `arrays`, or None from one that does not."""
        names = ("shift", "factor", "components", "names")
        found = read_arrays(path, required=(), optional=tuple(PREFIX + name for name in names))
        if not found:
            return None
        shift, factor, components, own = (found.get(PREFIX + name) for name in names)
        if shift is None or factor is None or shift.shape != factor.shape or shift.ndim != 1:
            raise ValueError("what was done to the features is not whole")
        if components is not None and (components.ndim != 2 or len(components) != len(shift)):
            raise ValueError("its principal components are of other features")
        if own is not None and own.shape != shift.shape:
            raise ValueError("it names another number of features")
        return cls(shift, factor, components, None if own is None else tuple(str(name) for name in own))
