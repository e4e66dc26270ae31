"""The Backend protocol, and the choice "auto"."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol

from dpmmwrap.families.base import Points
from dpmmwrap.sampler.settings import Progress, Result, Settings

JULIA_FAMILIES = ("gaussian", "multinomial")


class Backend(Protocol):
    """A sampler: the data as their family stores them and the settings in, labels and a trace out."""

    name: str

    def fit(self, X: Points, settings: Settings) -> Result: ...


class Wanted(NamedTuple):
    """What is asked of a backend, as far as it decides which one can do it."""

    checkpoint: Path | None = None
    acceptance_ratio: str = "auto"
    workers: bool = False
    """Whether worker processes are asked for."""
    family: str = "gaussian"
    """The family, or the kind of covariance that is asked for where that is not full."""
    sparse: bool = False
    sampling: bool = False
    """Whether draws or several chains are asked for."""
    found_out: str | None = None
    """What "auto" settings leave to the built-in sampler alone, such as "the covariance type is to be chosen"."""
    remote: bool = False
    """Whether the points are on the workers of a Dask cluster."""


class Chosen(NamedTuple):
    """A backend by its name, and why it was taken."""

    name: Literal["native", "julia", "dask"]
    reason: str


def choose_backend(name: str, wanted: Wanted) -> Chosen:
    """Which backend "auto" is: Dask where the points are there; Julia where it is set up and gives all that was asked;
    else the built-in sampler."""
    if name not in ("auto", "native", "julia", "dask"):
        raise ValueError(f"backend should be auto, native, julia or dask, not {name!r}")
    if name == "dask" or wanted.remote:
        return Chosen("dask", "it was asked for" if name == "dask" else "the data are Dask's")
    if name == "native":
        if wanted.workers:
            raise ValueError("worker processes need the Julia backend: backend should be julia")
        return Chosen("native", "it was asked for")
    refused = refused_by_julia(wanted)
    if name == "julia" or wanted.workers:
        if refused is not None:
            raise ValueError(f"{refused}: backend should be native, without workers")
        return Chosen("julia", "it was asked for" if name == "julia" else "worker processes need it")
    return _chosen_by_auto(wanted, refused)


def _chosen_by_auto(wanted: Wanted, refused: str | None) -> Chosen:
    from dpmmwrap.backends.julia import setup as julia_setup

    missing = julia_setup.missing()
    if missing is not None:
        return Chosen("native", f"Julia cannot run here: {missing}")
    if threading.current_thread() is not threading.main_thread():
        refused = "Julia works in the main thread only"
    if wanted.found_out is not None and refused is None:
        refused = f"{wanted.found_out}, which needs the built-in sampler"
    if refused is not None:
        return Chosen("native", f"Julia is set up, but {refused}")
    return Chosen("julia", "Julia is set up and gives all that was asked")


def make_backend(name: str, tell: Callable[[str], None] | None = None, **wanted: Any) -> Backend:
    """The backend of that name, by `choose_backend`; `tell` hears what is waited for.

    To be called before anything imports torch: a Julia that is started after torch may not find its own libraries.
    """
    return started(choose_backend(name, Wanted(**wanted)), tell)


def started(chosen: Chosen, tell: Callable[[str], None] | None = None) -> Backend:
    """A backend that has been chosen, ready to fit."""
    if chosen.name == "julia":
        from dpmmwrap.backends.julia import JuliaBackend

        return JuliaBackend(tell)
    if chosen.name == "dask":
        from dpmmwrap.backends.dask import DaskBackend

        return DaskBackend()
    from dpmmwrap.backends.native import NativeBackend

    return NativeBackend()


def told_of(progress: Progress | None, verbose: int) -> Callable[[str], None] | None:
    """Who hears what is waited for before the first iteration."""
    heard: Callable[[str], None] | None = getattr(progress, "waits_for", None)
    if heard is None and progress is None and verbose:
        return lambda words: print(words, flush=True)
    return heard


def refused_by_julia(wanted: Wanted) -> str | None:
    """What only the built-in sampler can do, in a sentence without its end; None if Julia can do it all."""
    if wanted.sampling:
        return "draws and several chains need the built-in sampler"
    if wanted.checkpoint is not None:
        return "a checkpoint needs the built-in sampler"
    if wanted.acceptance_ratio == "printed":
        return "acceptance_ratio printed needs the built-in sampler"
    if wanted.family not in JULIA_FAMILIES:
        return f"the family {wanted.family} needs the built-in sampler"
    if wanted.sparse:
        return "sparse counts need the built-in sampler, or X as a dense array"
    return None
