"""The draws of all chains from the posterior, after the search."""

from __future__ import annotations

import tempfile
import weakref
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.files import InputError, check_writable, read_arrays, write_npz
from dpmmwrap.files.problems import DAMAGE
from dpmmwrap.numerics.arrays import Float64Array, IntArray

FORMAT = "dpmmwrap draws 1"
IN_MEMORY = 1 << 30
"""Labels of up to this many bytes stay in memory; more go to a temporary file."""


@dataclass(frozen=True, repr=False)
class Draws:
    """Draws from the posterior. The first two axes of every array are chains and draws.

    Examples
    --------
    >>> import numpy as np
    >>> from dpmmwrap import DPMM
    >>> X = np.concatenate([np.random.default_rng(0).normal(size=(50, 2)) + 9 * k for k in range(2)])
    >>> settings = {"init": "kmeans", "covariance_type": "full", "random_state": 0}
    >>> draws = DPMM(n_draws=10, n_chains=2, **settings).fit(X).draws_
    >>> draws.n_clusters.shape, draws.labels.shape
    ((2, 10), (2, 10, 100))
    """

    n_clusters: IntArray
    """Number of clusters of each draw (chains, draws)."""
    alpha: Float64Array
    """The concentration, or gamma of a finite mixture (chains, draws)."""
    log_posterior: Float64Array
    """log p(labels, concentration, prior, X), up to a constant (chains, draws)."""
    weights: Float64Array
    """Each cluster's share of the points (chains, draws, most clusters): entry k is the share of label k, zero if there
    is no such label. Cluster numbers are arbitrary in each draw."""
    splits: IntArray
    splits_proposed: IntArray
    merges: IntArray
    merges_proposed: IntArray
    """Moves since the previous draw (chains, draws)."""
    labels: IntArray | None = None
    """A label per point (chains, draws, points), int32, -1 for outliers; None if labels were not kept."""
    prior_kappa: Float64Array | None = None
    prior_width: Float64Array | None = None
    prior_strength: Float64Array | None = None
    """Hyperparameters of a learned prior (chains, draws): its kappa, the width of clusters as a share of the data's
    variance, and its strength. None if the prior was not learned."""
    discount: Float64Array | None = None
    """The discount of a Pitman-Yor process (chains, draws)."""

    def __repr__(self) -> str:
        fewest, most = int(self.n_clusters.min()), int(self.n_clusters.max())
        clusters = f"{fewest} to {most} clusters" if most > fewest else f"{most} cluster{'' if most == 1 else 's'}"
        kept = "without labels" if self.labels is None else f"with the labels of {self.labels.shape[2]:,} points"
        return f"Draws({self.n_chains} x {self.n_draws}: {clusters}, {kept})"

    @property
    def n_chains(self) -> int:
        return int(self.n_clusters.shape[0])

    @property
    def n_draws(self) -> int:
        """Number of draws per chain."""
        return int(self.n_clusters.shape[1])

    @property
    def kept_labels(self) -> IntArray:
        """The labels of the draws of all chains, concatenated (chains x draws, points)."""
        if self.labels is None:
            raise ValueError("this needs the labels of the draws, which were not kept: loss should be vi or binder")
        return self.labels.reshape(-1, self.labels.shape[2])

    def save(self, path: str | Path) -> None:
        """Write the draws to a file of plain arrays. Loading it cannot execute code.

        Parameters
        ----------
        path : str or Path
            A .npz file, written atomically.
        """
        write_npz(path, {"format": np.array(FORMAT)} | self.arrays())

    def arrays(self) -> dict[str, Any]:
        """The contents of a file, by name."""
        every = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in every.items() if value is not None}

    @classmethod
    def load(cls, path: str | Path) -> Draws:
        """Read a file written by `save`. A damaged file raises an InputError.

        Parameters
        ----------
        path : str or Path
            A .npz file.

        Returns
        -------
        Draws
            The saved draws.
        """
        if str(read_arrays(path, required=("format",))["format"]) != FORMAT:
            raise InputError(f"{path} should be a {FORMAT!r} file")
        draws = cls.read(path)
        assert draws is not None
        return draws

    @classmethod
    def read(cls, path: str | Path, prefix: str = "") -> Draws | None:
        """Read draws from arrays whose names start with a prefix; None if there are none."""
        required = tuple(f"{prefix}{field.name}" for field in fields(cls) if field.default is MISSING)
        optional = tuple(f"{prefix}{field.name}" for field in fields(cls) if field.default is not MISSING)
        if prefix and not read_arrays(path, required=(), optional=(f"{prefix}n_clusters",)):
            return None
        arrays = read_arrays(path, required=required, optional=optional)
        arrays = {name.removeprefix(prefix): array for name, array in arrays.items()}
        shape = arrays["n_clusters"].shape
        if len(shape) != 2 or any(array.shape[:2] != shape for array in arrays.values()):
            raise InputError(f"{path} has damaged draws: their arrays do not belong together")
        return cls(**arrays)


def labels_array(shape: tuple[int, int, int], checkpoint: Path | None = None) -> IntArray:
    """Allocate an array for the labels of draws: in memory, or in a file if it is large or the run has a checkpoint.

    A file beside a checkpoint is kept and reused; a temporary file is deleted with the array.
    """
    size = 4 * int(np.prod(shape))
    if checkpoint is not None:
        path = labels_file(checkpoint)
        stored = stored_labels(path)
        if stored is not None and stored.shape == shape and stored.dtype == np.int32:
            return stored
        check_writable(path, needed=size)
        return np.lib.format.open_memmap(path, "w+", np.int32, shape)
    if size <= IN_MEMORY:
        return np.empty(shape, np.int32)
    with tempfile.NamedTemporaryFile(prefix="dpmmwrap-draws-", suffix=".npy", delete=False) as file:
        path = Path(file.name)
    try:
        check_writable(path, needed=size)
        array = np.lib.format.open_memmap(path, "w+", np.int32, shape)
    except BaseException:
        path.unlink(missing_ok=True)
        raise
    weakref.finalize(array, path.unlink, missing_ok=True)
    return array


def stored_labels(path: Path) -> IntArray | None:
    """The memory-mapped array in a file; None if the file is missing or damaged."""
    try:
        return np.load(path, mmap_mode="r+", allow_pickle=False) if path.exists() else None
    except (OSError, *DAMAGE):
        return None


def labels_file(checkpoint: Path) -> Path:
    """The file with the labels of draws beside a checkpoint."""
    return checkpoint.with_name(f"{checkpoint.name}.labels.npy")
