"""The Backend protocol: what a sampler is given and what it gives back, and the choice "auto"."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from dpmmwrap.arrays import Float32Array, IntArray, UInt8Array
from dpmmwrap.prior import NIW
from dpmmwrap.subclusters import Initializer
from dpmmwrap.trace import Iteration, Trace

Progress = Callable[[int, Iteration], None]
"""Called after each iteration with its number (from 1) and what happened in it."""

MergeRatio = Literal["reference", "printed"]


@dataclass(frozen=True)
class Settings:
    """Everything that decides a fit, apart from the data."""

    alpha: float
    prior: NIW
    initializer: Initializer
    max_iter: int
    burnout: int
    seed: int
    init_clusters: int | IntArray = 1
    """A number of clusters to begin with, or a label per point ("auto" has been resolved to labels)."""
    max_clusters: int | None = None
    outlier_weight: float = 0.0
    outlier_prior: NIW | None = None
    merge_ratio: MergeRatio = "reference"
    fresh_start_after: int | None = None
    """Iterations that subclusters may sit in a rejected split before they begin anew; None: for ever."""
    n_jobs: int = 1
    truth: IntArray | None = None
    progress: Progress | None = None
    checkpoint: Path | None = None
    checkpoint_every: int = 50
    workers: int = 0
    """Worker processes of the Julia backend."""
    machines: Path | None = None
    """One user@host*n per line, for the Julia backend."""


@dataclass
class Result:
    """What a backend gives back. Labels run from 0; outliers, if asked for, carry -1."""

    labels: IntArray
    sublabels: UInt8Array
    trace: Trace = field(default_factory=Trace)
    interrupted: bool = False


class Backend(Protocol):
    """A sampler: the data (N, D) as float32 and the settings in, labels and a trace out."""

    name: str

    def fit(self, X: Float32Array, settings: Settings) -> Result: ...


def make_backend(name: str) -> Backend:
    """The backend of that name; "auto" is Julia where it is set up, else the built-in sampler."""
    if name == "auto":
        from dpmmwrap.backends import julia

        name = "julia" if julia.is_set_up() else "native"
    if name == "native":
        from dpmmwrap.backends.native.chain import NativeBackend

        return NativeBackend()
    if name == "julia":
        from dpmmwrap.backends.julia import JuliaBackend

        return JuliaBackend()
    raise ValueError(f"backend should be auto, native or julia, not {name!r}")
