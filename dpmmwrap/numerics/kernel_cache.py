"""The cache of compiled loops on disk: one folder per state of the sources, so that its contents are never out of date.

numba's cache checks the file in which a function is defined, but not the files that the function calls into. Here the
folder's name contains a digest of all sources with compiled loops, of the versions of numba and Python, and of the
processor. The folder is in NUMBA_CACHE_DIR if that is set, otherwise in the package's `__pycache__`, the user's cache,
or a temporary folder: the first that is writable, or that a trusted user has filled (`dpmmwrap warm-up`).
"""

from __future__ import annotations

import contextlib
import gc
import getpass
import hashlib
import os
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from llvmlite.binding import get_host_cpu_name
from numba.core.caching import CompileResultCacheImpl, FunctionCache, _CacheLocator
from numba.misc.appdirs import AppDirs

from dpmmwrap.numerics.interrupt import postponed

Function = TypeVar("Function", bound=Callable[..., Any])
PACKAGE = Path(__file__).parents[1]
HAS_LOOPS = re.compile(rb"^(from|import) (numba|dpmmwrap\.numerics\.special)\b", re.MULTILINE)
COMPILED = ".compiled"
"""Suffix of the marker files that record what has been compiled (`compiling`)."""
KEPT = 5
"""Number of folders of other sources to keep, the newest ones."""


@cache
def digest() -> str:
    """A digest of everything that compiled code depends on."""
    sources = hashlib.sha256(f"{numba.__version__} {sys.version} {get_host_cpu_name()}".encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_bytes()
        if HAS_LOOPS.search(text):
            sources.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + text)
    return sources.hexdigest()[:16]


@cache
def folder() -> Path | None:
    """The folder of the cache; None if no folder is writable."""
    for parent in possible_folders():
        path = parent / f"dpmmwrap-{digest()}"
        with contextlib.suppress(OSError):
            new = not path.exists()
            path.mkdir(mode=0o755, parents=True, exist_ok=True)
            if is_trusted(path) and (is_writable(path) or any(path.glob(f"*{COMPILED}"))):
                if new:
                    remove_old(parent, path)
                return path
    return None


def possible_folders() -> Iterator[Path]:
    given: Any = getattr(numba.config, "CACHE_DIR", "")
    if given:
        yield Path(given)
        return
    yield PACKAGE / "__pycache__"
    with contextlib.suppress(RuntimeError, KeyError, OSError):
        yield Path(AppDirs(appname="numba", appauthor=False).user_cache_dir)
    with contextlib.suppress(ImportError, KeyError, OSError):
        yield Path(tempfile.gettempdir()) / f"numba-{getpass.getuser()}"


def is_trusted(path: Path) -> bool:
    """Whether a folder belongs to us, to root, or to the owner of the package: its contents are executed."""
    if not hasattr(os, "getuid"):
        return True
    status = path.stat()
    return status.st_uid in (os.getuid(), 0, PACKAGE.stat().st_uid) and not status.st_mode & 0o022


def is_writable(path: Path) -> bool:
    with contextlib.suppress(OSError):
        tempfile.TemporaryFile(dir=path).close()
        return True
    return False


def remove_old(parent: Path, ours: Path) -> None:
    others = [path for path in parent.glob("dpmmwrap-*") if path != ours and path.is_dir()]
    for path in sorted(others, key=lambda path: path.stat().st_mtime, reverse=True)[KEPT:]:
        shutil.rmtree(path, ignore_errors=True)


class Locator(_CacheLocator):
    """Tells numba where to cache a function. The digest in the folder's name serves as the source stamp."""

    def __init__(self, function: Any) -> None:
        self.function = function

    @classmethod
    def from_function(cls, function: Any, path: str) -> Locator:
        return cls(function)

    def get_cache_path(self) -> str:
        return str(folder())

    def get_source_stamp(self) -> str:
        return digest()

    def get_disambiguator(self) -> str:
        return f"{self.function.__module__}-{self.function.__code__.co_firstlineno}"


class KernelCacheImpl(CompileResultCacheImpl):
    _locator_classes: Any = (Locator,)


class KernelCache(FunctionCache):
    """numba's cache of a function, in our folder and safe for several processes."""

    _impl_class = KernelCacheImpl

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(signature, target_context)
        except Exception:
            # The entry is unreadable, truncated or refers to a class that has moved: compile again.
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        # If two processes wrote an index at once, it would mix up their entries.
        with contextlib.suppress(OSError), alone("saving"):
            super().save_overload(signature, data)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Postpone Ctrl-C, since half-loaded code would be called all the same and end the process. Disable the garbage
    collector, which takes a seventh of the time while the compiler leaves few cycles."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        with postponed():
            yield
    finally:
        if collecting:
            gc.enable()


def kept(jit: Any) -> Callable[[Function], Function]:
    """A numba decorator whose functions are cached in our folder."""

    def decorate(function: Function) -> Function:
        dispatcher: Any = jit(function)
        # With NUMBA_DISABLE_JIT there is nothing to cache.
        if hasattr(dispatcher, "enable_caching"):
            dispatcher.compile = undisturbed()(dispatcher.compile)
            if folder() is not None:
                dispatcher._cache = KernelCache(function)
        return cast(Function, dispatcher)

    return decorate


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """A lock shared by all processes that use the folder. Without file locks it does nothing."""
    ours = folder()
    if ours is None:
        yield
        return
    with (ours / f"{name}.lock").open("a") as file:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
