"""Where compiled loops are kept on disk: a folder for the sources as they are, so that nothing in it is out of date.

numba's cache looks at the file that a function stands in, not at the files that it calls into. Here the folder's
name has a digest of all sources with compiled loops, of numba's and Python's versions and of the processor. It is in
NUMBA_CACHE_DIR if that is set, else in the package's `__pycache__`, in the user's cache, or in a temporary folder:
the first that can be written to, or that somebody whom we trust has filled (`dpmmwrap warm-up`).
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
"""How the names of the marks end that say what has been compiled (`compiling`)."""
KEPT = 5
"""Folders of other sources that are kept, the newest ones."""


@cache
def digest() -> str:
    """A word for everything that compiled code depends on."""
    sources = hashlib.sha256(f"{numba.__version__} {sys.version} {get_host_cpu_name()}".encode())
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_bytes()
        if HAS_LOOPS.search(text):
            sources.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + text)
    return sources.hexdigest()[:16]


@cache
def folder() -> Path | None:
    """Where compiled loops are kept; None if no folder can be written to."""
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
    """Whether a folder is ours, root's or of those who have installed the package: what is in it is executed."""
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
    """Tells numba where a function's code is kept. The folder's name is the stamp of the sources."""

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
    """numba's cache of a function, in our folder, for several processes at once."""

    _impl_class = KernelCacheImpl

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(signature, target_context)
        except Exception:
            # It cannot be read: cut off, or it names a class that has moved. It is compiled again.
            with contextlib.suppress(OSError):
                self.flush()
            return None

    def save_overload(self, signature: Any, data: Any) -> None:
        # Two processes that write an index at once would mix up whose code is whose.
        with contextlib.suppress(OSError), alone("saving"):
            super().save_overload(signature, data)


@contextlib.contextmanager
def undisturbed() -> Iterator[None]:
    """Without Ctrl-C: code that is half loaded would be called all the same, and end the process. And without the
    garbage collector: it takes a seventh of the time, and the compiler leaves little in cycles."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        with postponed():
            yield
    finally:
        if collecting:
            gc.enable()


def kept(jit: Any) -> Callable[[Function], Function]:
    """A decorator of numba's, whose functions are kept in our folder."""

    def decorate(function: Function) -> Function:
        dispatcher: Any = jit(function)
        # With NUMBA_DISABLE_JIT there is nothing to keep.
        if hasattr(dispatcher, "enable_caching"):
            dispatcher.compile = undisturbed()(dispatcher.compile)
            if folder() is not None:
                dispatcher._cache = KernelCache(function)
        return cast(Function, dispatcher)

    return decorate


@contextlib.contextmanager
def alone(name: str) -> Iterator[None]:
    """One at a time of all processes that use the folder; where files cannot be locked, all at once."""
    ours = folder()
    if ours is None:
        yield
        return
    with (ours / f"{name}.lock").open("a") as file:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            fcntl.flock(file, fcntl.LOCK_EX)
        yield
