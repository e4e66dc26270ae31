"""Backends: objects with settings, for `DPMM(backend=...)`. The code that runs a fit is imported when it starts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

from sklearn.utils._param_validation import StrOptions

from dpmmwrap.model.parameters import Constraints, Options, at_least
from dpmmwrap.sampler.settings import ACCEPTANCE_RATIOS

if TYPE_CHECKING:
    from dpmmwrap.families.base import Points
    from dpmmwrap.sampler.settings import Result, Settings

__all__ = ["Auto", "Dask", "Julia", "Native", "Runner", "as_backend"]

Tell = Callable[[str], None]
"""Called with a few words about what a fit waits for before its first iteration."""


class Runner(Protocol):
    """Runs a fit: from data, as their family stores them, and settings to labels and a trace."""

    def fit(self, X: Points, settings: Settings) -> Result: ...


@dataclass(frozen=True, kw_only=True, repr=False)
class Auto(Options):
    """The default backend: Dask for data on Dask, Julia if it is set up and supports all settings, else the built-in
    sampler.

    Parameters
    ----------
    ratio : {"auto", "jain-neal", "reference", "printed"}, default="auto"
        The ratio by which splits and merges are accepted: the whole Hastings ratio ("auto", "jain-neal"), that of the
        reference package, or the one printed in the paper.
    min_cluster_age : int, default=3
        Iterations before a new cluster may split or merge.
    restart_after : int or None, default=10
        Iterations with rejected splits after which subclusters begin anew; None for never. With the whole Hastings
        ratio, the built-in sampler checks every twentieth iteration.
    """

    ratio: str = "auto"
    min_cluster_age: int = 3
    restart_after: int | None = 10

    name: ClassVar[str] = "auto"
    _parameter_constraints: ClassVar[Constraints] = {
        "ratio": [StrOptions(set(ACCEPTANCE_RATIOS))],
        "min_cluster_age": [at_least(1)],
        "restart_after": [at_least(1), None],
    }

    def settings(self) -> dict[str, Any]:
        """The part of the sampler's settings that the backend determines."""
        return {
            "acceptance_ratio": self.ratio,
            "min_cluster_age": int(self.min_cluster_age),
            "restart_after": self.restart_after,
        }

    def as_kind(self, kind: type[Auto]) -> Auto:
        """A backend of another kind, with the same common settings."""
        return kind(ratio=self.ratio, min_cluster_age=self.min_cluster_age, restart_after=self.restart_after)

    def start(self, tell: Tell | None = None) -> Runner:
        """Prepare a fit. Call it before anything imports torch: a Julia that starts after torch may not find its
        libraries."""
        raise NotImplementedError


@dataclass(frozen=True, kw_only=True, repr=False)
class Native(Auto):
    """The built-in sampler, for `DPMM(backend=...)`.

    Parameters
    ----------
    n_jobs : int, default=None
        Threads, as in scikit-learn; several chains share them. The result does not depend on it.
    checkpoint : str or Path, default=None
        A file from which the fit continues if it exists. Further chains and the labels of draws have files beside it.
    checkpoint_every : int, default=50
        Iterations or draws between two checkpoints.
    ratio, min_cluster_age, restart_after
        As in `Auto`.

    Examples
    --------
    >>> from dpmmwrap import DPMM, Native
    >>> DPMM(backend=Native(n_jobs=-1, checkpoint="large.ckpt")).backend
    Native(n_jobs=-1, checkpoint='large.ckpt')
    """

    n_jobs: int | None = None
    checkpoint: str | Path | None = None
    checkpoint_every: int = 50

    name: ClassVar[str] = "native"
    _parameter_constraints: ClassVar[Constraints] = Auto._parameter_constraints | {
        "n_jobs": [int, None],
        "checkpoint": [str, Path, None],
        "checkpoint_every": [at_least(1)],
    }

    def settings(self) -> dict[str, Any]:
        from joblib import effective_n_jobs

        return super().settings() | {
            "n_jobs": effective_n_jobs(self.n_jobs),
            "checkpoint": None if self.checkpoint is None else Path(self.checkpoint),
            "checkpoint_every": int(self.checkpoint_every),
        }

    def start(self, tell: Tell | None = None) -> Runner:
        from dpmmwrap.backends.native import NativeBackend

        return NativeBackend()


@dataclass(frozen=True, kw_only=True, repr=False)
class Dask(Native):
    """The built-in sampler on the workers of a Dask cluster, for `DPMM(backend=...)`.

    Parameters
    ----------
    client : distributed.Client, default=None
        The client of the cluster; None for the current one. It is not pickled with the estimator.
    checkpoint : str or Path, default=None
        A folder that all workers see, from which the fit continues if it has a checkpoint.
    n_jobs, checkpoint_every, ratio, min_cluster_age, restart_after
        As in `Native`; the threads are those of this process.
    """

    client: Any = None

    name: ClassVar[str] = "dask"

    def start(self, tell: Tell | None = None) -> Runner:
        from dpmmwrap.backends.dask import DaskBackend

        return DaskBackend()

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | {"client": None}


@dataclass(frozen=True, kw_only=True, repr=False)
class Julia(Auto):
    """The reference sampler, DPMMSubClusters.jl, for `DPMM(backend=...)`: one chain with full covariances or counts,
    without draws and checkpoints.

    Parameters
    ----------
    workers : int, default=0
        Worker processes on this machine. `dpmmwrap.julia_workers` keeps them for several fits.
    machines : str or Path, default=None
        A file of further machines, one user@host*n per line; see the page about Julia for what may follow.
    ratio, min_cluster_age, restart_after
        As in `Auto`; there is no "printed" ratio.

    Examples
    --------
    >>> from dpmmwrap import DPMM, Julia
    >>> DPMM(backend=Julia(workers=4)).backend
    Julia(workers=4)
    """

    workers: int = 0
    machines: str | Path | None = None

    name: ClassVar[str] = "julia"
    _parameter_constraints: ClassVar[Constraints] = Auto._parameter_constraints | {
        "workers": [at_least(0)],
        "machines": [str, Path, None],
    }

    def start(self, tell: Tell | None = None) -> Runner:
        from dpmmwrap.backends.julia import JuliaBackend

        return JuliaBackend(tell, int(self.workers), None if self.machines is None else Path(self.machines))


BY_NAME: dict[str, type[Auto]] = {kind.name: kind for kind in (Auto, Native, Julia, Dask)}


def as_backend(asked: Any) -> Auto:
    """A backend, given as an object or by name."""
    if isinstance(asked, Auto):
        return asked
    if not isinstance(asked, str) or asked not in BY_NAME:
        raise ValueError(f"backend should be {', '.join(BY_NAME)}, or one such as Julia(workers=4), not {asked!r}")
    return BY_NAME[asked]()
