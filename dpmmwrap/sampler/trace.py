"""What happened in each iteration, for all backends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, IntArray

if TYPE_CHECKING:
    import pandas


class Iteration(NamedTuple):
    """One iteration of a chain: counts of moves, and the state at its end."""

    n_clusters: int
    log_posterior: float
    seconds: float
    splits: int
    splits_proposed: int
    merges: int
    merges_proposed: int
    nmi: float = float("nan")
    """Normalised mutual information with the true labels; NaN if there are none."""
    alpha: float = float("nan")
    """The concentration; NaN if the backend does not report it."""


COLUMNS = Iteration._fields


class Trace:
    """The iterations of a fit. Each column is an attribute: an array with one entry per iteration."""

    n_clusters: IntArray
    log_posterior: Float64Array
    seconds: Float64Array
    splits: IntArray
    splits_proposed: IntArray
    merges: IntArray
    merges_proposed: IntArray
    nmi: Float64Array
    alpha: Float64Array
    converted_from: str | None = None
    """The original type of the data if they had to be converted to float32; None if they were used in place."""

    def __init__(self, iterations: list[Iteration] | None = None) -> None:
        self.iterations: list[Iteration] = list(iterations or [])

    def append(self, iteration: Iteration) -> None:
        self.iterations.append(iteration)

    def __len__(self) -> int:
        return len(self.iterations)

    def __getitem__(self, column: str) -> Any:
        if column not in COLUMNS:
            raise KeyError(f"a trace has the columns {', '.join(COLUMNS)}, not {column!r}")
        values = [getattr(iteration, column) for iteration in self.iterations]
        kind = np.float64 if column in ("log_posterior", "seconds", "nmi", "alpha") else np.int64
        return np.array(values, dtype=kind)

    def __getattr__(self, column: str) -> Any:
        if column in COLUMNS:
            return self[column]
        raise AttributeError(f"a trace has no {column!r}; its columns are {', '.join(COLUMNS)}")

    def to_dict(self) -> dict[str, Any]:
        return {column: self[column] for column in COLUMNS}

    def to_pandas(self) -> pandas.DataFrame:
        """The trace as a data frame, indexed by iteration (from 1). Needs pandas."""
        import pandas

        index = pandas.RangeIndex(1, len(self) + 1, name="iteration")
        return pandas.DataFrame(self.iterations, columns=COLUMNS, index=index)

    def __repr__(self) -> str:
        converted = f", data converted from {self.converted_from} to float32" if self.converted_from else ""
        return f"Trace({len(self)} iterations{converted})"
