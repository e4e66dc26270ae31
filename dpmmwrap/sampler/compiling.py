"""Compile before the first fit, in parallel processes.

Loops are compiled when they are first called, one after the other, and cached on disk (`kernel_cache`). This module
shares the tasks of `sampler.tiny_runs` that a fit needs among this process and its children; the fit then reads the
results from the cache. If a child fails, only time is lost: the fit compiles what is missing.
"""

from __future__ import annotations

import contextlib
import gc
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path

from dpmmwrap.families import compiled_kinds
from dpmmwrap.numerics.side_by_side import usable_cores

SENTENCE = "dpmmwrap: compiling, once on this machine"
MORE = "dpmmwrap: compiling more code for this fit"
"""The message if something has been compiled before, for other kinds of data."""
EXACT_MOVES = ("points", "merges")
"""The tasks that compile exact moves."""
SERIAL = "DPMMWRAP_COMPILE_ALONE"
"""An environment variable that turns parallel compilation off. Set in child processes, and by users."""


def task_names(kinds: Iterable[str], draws: bool = False) -> list[str]:
    """The tasks for fits of these kinds, in an order in which tasks side by side hardly overlap: all searches, then the
    other loops, beginning with the kind whose search is the last."""
    # A user-defined family is compiled when it is used.
    known = [kind for kind in kinds if kind in compiled_kinds()]
    others = (*EXACT_MOVES, "draws") if draws else EXACT_MOVES
    return [f"{kind} search" for kind in known] + [f"{kind} {task}" for kind in reversed(known) for task in others]


def missing(names: Iterable[str]) -> list[str]:
    """The tasks that have not been done on this machine."""
    from dpmmwrap.numerics.kernel_cache import folder

    cache = folder()
    return [] if cache is None else [name for name in names if not mark(cache, name).exists()]


def any_done() -> bool:
    """Whether any task has been done on this machine."""
    from dpmmwrap.numerics.kernel_cache import COMPILED, folder

    cache = folder()
    return cache is not None and any(cache.glob(f"*{COMPILED}"))


def mark(folder: Path, name: str) -> Path:
    from dpmmwrap.numerics.kernel_cache import COMPILED

    return folder / (name.replace(" ", "-") + COMPILED)


def prepare(kinds: Iterable[str], draws: bool = False, *, quiet: bool = False) -> list[str]:
    """Compile what fits of these kinds need unless it is cached; return the tasks that were done.

    Prints a message to stderr before it begins.
    """
    if os.environ.get(SERIAL):
        return []
    wanted = task_names(kinds, draws)
    if not missing(wanted):
        return []
    from dpmmwrap.numerics.kernel_cache import alone, folder

    if not quiet:
        print(MORE if any_done() else SENTENCE, file=sys.stderr, flush=True)
    # A second process waits here for the first one and then finds everything compiled.
    with contextlib.suppress(OSError), alone("compiling"):
        todo, cache = missing(wanted), folder()
        share_out(todo)
        for name in todo:
            # Mark failed tasks, too: they would fail again.
            if cache is not None:
                mark(cache, name).touch()
        return todo
    return []


def share_out(names: list[str]) -> None:
    """Run tasks in as many processes as there are cores, including this one. Each process takes the next task that is
    left."""
    count = min(len(names), usable_cores())
    if count < 2 or not sys.executable:
        # Compiling on demand takes no longer.
        return
    environment = os.environ | {SERIAL: "1", "PYTHONPATH": python_path()}
    # The data are small, so threads of other libraries would only get in the way.
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
    with tempfile.TemporaryDirectory(prefix="dpmmwrap-") as taken:
        command = [sys.executable, "-m", "dpmmwrap.sampler.compiling", taken, *names]
        children: list[subprocess.Popen[bytes]] = []
        try:
            with contextlib.suppress(OSError):
                for _ in range(count - 1):
                    children.append(
                        subprocess.Popen(
                            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                            stderr=subprocess.DEVNULL,
                        )
                    )  # fmt: skip
            if children:
                work(Path(taken), names)
            for child in children:
                child.wait()
        finally:
            for child in children:
                if child.poll() is None:
                    child.kill()
                    child.wait()


def python_path() -> str:
    """A PYTHONPATH with which children find this package and its dependencies wherever this process found them."""
    cache = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(dict.fromkeys([cache, *(path for path in sys.path if path)]))


def work(taken: Path, names: list[str]) -> None:
    """Run the tasks that no other process has taken. The fit compiles whatever a failed task has not."""
    from dpmmwrap.sampler.tiny_runs import TASKS

    collecting = gc.isenabled()
    # The compiler leaves many objects that live on, and few to collect.
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            for name in names:
                # Also where another process has taken it.
                with contextlib.suppress(Exception):
                    (taken / name).touch(exist_ok=False)
                    kind, task = name.rsplit(" ", 1)
                    TASKS[task](kind)
    finally:
        if collecting:
            gc.enable()


if __name__ == "__main__":
    work(Path(sys.argv[1]), sys.argv[2:])
