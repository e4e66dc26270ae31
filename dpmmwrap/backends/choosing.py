"""The choice of the backend: the given one if it supports the fit, or what "auto" means."""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from dpmmwrap.backends import Auto, Dask, Julia, Native, Tell
from dpmmwrap.families import FAMILIES


class Needs(NamedTuple):
    """What a fit needs of a backend."""

    family: str = FAMILIES[0]
    """The family, or the covariance type if it is not full."""
    julia: bool = True
    """Whether Julia supports the family."""
    sparse: bool = False
    sampling: bool = False
    """Whether there are draws or several chains."""
    to_learn: str | None = None
    """What only the built-in sampler can choose for "auto" settings, as a clause; None for nothing."""
    remote: bool = False
    """Whether the points are on Dask's workers."""
    partition_prior: str = "dirichlet"
    weights: bool = False
    missing: bool = False
    known: bool = False
    """Whether the clusters of some rows are known."""


class BackendChoice(NamedTuple):
    """A backend, and why it was taken."""

    backend: Auto
    reason: str


def choose_backend(asked: Auto, needs: Needs) -> BackendChoice:
    """The given backend, if it supports the fit. "auto" is Dask for data on Dask, Julia if it is set up and supports
    the fit, else the built-in sampler."""
    from dpmmwrap.backends.julia import setup as julia_setup
    from dpmmwrap.backends.julia import workers as julia_workers

    if isinstance(asked, Dask):
        return BackendChoice(asked, "it was asked for")
    if needs.remote:
        return BackendChoice(asked.as_kind(Dask), "the data are on Dask")
    kept = julia_workers.are_kept()
    if asked.name == "native" and kept:
        raise ValueError("worker processes need the Julia backend: backend should be julia")
    refused = refused_by_julia(needs, asked.ratio)
    if (asked.name == "julia" or kept) and refused is not None:
        raise ValueError(f"{refused}: backend should be native, without workers")
    if asked.name != "auto":
        return BackendChoice(asked, "it was asked for")
    if kept:
        return BackendChoice(asked.as_kind(Julia), "worker processes need it")
    missing = julia_setup.missing()
    if missing is not None:
        return BackendChoice(asked.as_kind(Native), f"Julia cannot run here: {missing}")
    if threading.current_thread() is not threading.main_thread():
        refused = "Julia works only in the main thread"
    elif refused is None and needs.to_learn is not None:
        refused = f"{needs.to_learn}, which needs the built-in sampler"
    if refused is not None:
        return BackendChoice(asked.as_kind(Native), f"Julia is set up, but {refused}")
    return BackendChoice(asked.as_kind(Julia), "Julia is set up and supports all settings")


def refused_by_julia(needs: Needs, ratio: str) -> str | None:
    """What Julia cannot do, as a clause; None if it supports the fit."""
    reasons = {
        "draws and several chains need the built-in sampler": needs.sampling,
        f"the partition prior {needs.partition_prior} needs the built-in sampler or Dask": (
            needs.partition_prior != "dirichlet"
        ),
        "missing values need the built-in sampler": needs.missing,
        "known clusters need the built-in sampler": needs.known,
        "weights of rows need the built-in sampler": needs.weights,
        "the ratio printed needs the built-in sampler": ratio == "printed",
        f"the family {needs.family} needs the built-in sampler": not needs.julia,
        "sparse counts need the built-in sampler, or X as a dense array": needs.sparse,
    }
    return next((reason for reason, applies in reasons.items() if applies), None)


def listener_of(progress: Any, verbose: int) -> Tell | None:
    """The listener to a fit before its first iteration: `progress` if it can listen, or `print`."""
    listener: Tell | None = getattr(progress, "waits_for", None)
    if listener is None and progress is None and verbose:
        return lambda words: print(words, flush=True)
    return listener
