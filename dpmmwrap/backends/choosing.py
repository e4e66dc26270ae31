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
    """Whether Julia knows it."""
    sparse: bool = False
    sampling: bool = False
    """Whether there are draws or several chains."""
    to_learn: str | None = None
    """What only the built-in sampler can choose for "auto" settings, as a clause; None for nothing."""
    remote: bool = False
    """Whether the points are on the workers of a Dask cluster."""
    partition_prior: str = "dirichlet"
    weights: bool = False
    """Whether rows have weights."""
    missing: bool = False
    """Whether values are missing."""
    known: bool = False
    """Whether clusters of some rows are known."""


class BackendChoice(NamedTuple):
    """A backend, and why it was taken."""

    backend: Auto
    reason: str


def choose_backend(asked: Auto, needs: Needs) -> BackendChoice:
    """The given backend, if it supports the fit. "auto" is Dask for data of Dask's, Julia if it is set up and supports
    the fit, else the built-in sampler."""
    from dpmmwrap.backends.julia import workers as julia_workers

    if asked.name == "dask" or needs.remote:
        given = isinstance(asked, Dask)
        return BackendChoice(
            asked if given else asked.as_kind(Dask), "it was asked for" if given else "the data are Dask's"
        )
    kept = julia_workers.are_kept()
    if asked.name == "native":
        if kept:
            raise ValueError("worker processes need the Julia backend: backend should be julia")
        return BackendChoice(asked, "it was asked for")
    refused = refused_by_julia(needs, asked.ratio)
    if asked.name == "julia" or kept:
        if refused is not None:
            raise ValueError(f"{refused}: backend should be native, without workers")
        if asked.name == "julia":
            return BackendChoice(asked, "it was asked for")
        return BackendChoice(asked.as_kind(Julia), "worker processes need it")
    refused = why_not_julia(needs, refused)
    if refused is not None:
        return BackendChoice(asked.as_kind(Native), refused)
    return BackendChoice(asked.as_kind(Julia), "Julia is set up and gives all that was asked")


def why_not_julia(needs: Needs, refused: str | None) -> str | None:
    """Why "auto" is not Julia; None if it is."""
    from dpmmwrap.backends.julia import setup as julia_setup

    missing = julia_setup.missing()
    if missing is not None:
        return f"Julia cannot run here: {missing}"
    if threading.current_thread() is not threading.main_thread():
        refused = "Julia works in the main thread only"
    if needs.to_learn is not None and refused is None:
        refused = f"{needs.to_learn}, which needs the built-in sampler"
    return None if refused is None else f"Julia is set up, but {refused}"


def refused_by_julia(needs: Needs, ratio: str) -> str | None:
    """What only the built-in sampler can do, in a sentence without its end; None if Julia can do it all."""
    if needs.sampling:
        return "draws and several chains need the built-in sampler"
    if needs.partition_prior != "dirichlet":
        return f"the partition prior {needs.partition_prior} needs the built-in sampler or Dask"
    if needs.missing:
        return "missing values need the built-in sampler"
    if needs.known:
        return "known clusters need the built-in sampler"
    if needs.weights:
        return "weights of rows need the built-in sampler"
    if ratio == "printed":
        return "the ratio printed needs the built-in sampler"
    if not needs.julia:
        return f"the family {needs.family} needs the built-in sampler"
    if needs.sparse:
        return "sparse counts need the built-in sampler, or X as a dense array"
    return None


def listener_of(progress: Any, verbose: int) -> Tell | None:
    """The listener for what a fit waits for before its first iteration."""
    listener: Tell | None = getattr(progress, "waits_for", None)
    if listener is None and progress is None and verbose:
        return lambda words: print(words, flush=True)
    return listener
