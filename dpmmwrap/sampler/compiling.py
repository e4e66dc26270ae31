"""Compiling before the first fit, side by side in processes: what is said of it, and what is already there.

Loops are compiled when they are first called, one after the other, and kept on disk (`kernel_cache`). Here the tasks of
`sampler.tiny_runs` that a fit needs are shared out among this process and its children, and the fit then reads what
these have left. If a child cannot be started or fails, nothing is lost but time: the fit compiles what it misses.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterable
from pathlib import Path

from dpmmwrap.numerics.side_by_side import usable_cores

SENTENCE = "dpmmwrap: compiling, once on this machine"
MORE = "dpmmwrap: compiling what else this fit needs"
"""Where something has been compiled before, for other kinds of data."""
SERIAL = "DPMMWRAP_COMPILE_ALONE"
"""Set in child processes, and by who wants none."""


def task_names(kinds: Iterable[str], draws: bool = False) -> list[str]:
    """What fits of these kinds need, in the order in which it is to be done."""
    from dpmmwrap.sampler.tiny_runs import KINDS

    more = ("draws",) if draws else ()
    # A family that a user has added is compiled when it is used.
    return [f"{kind} {task}" for kind in kinds if kind in KINDS for task in (*KINDS[kind], *more)]


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
    """Compile what fits of these kinds need, unless it is there; the tasks that were done.

    Says so on stderr before it begins.
    """
    if os.environ.get(SERIAL):
        return []
    wanted = task_names(kinds, draws)
    if not missing(wanted):
        return []
    from dpmmwrap.numerics.kernel_cache import alone, folder

    if not quiet:
        print(MORE if any_done() else SENTENCE, file=sys.stderr, flush=True)
    # A second process waits here for the first, and then finds everything done.
    with contextlib.suppress(OSError), alone("compiling"):
        todo, cache = missing(wanted), folder()
        share_out(todo)
        for name in todo:
            # Also where a child has failed: it would fail again.
            if cache is not None:
                mark(cache, name).touch()
        return todo
    return []


def share_out(names: list[str]) -> None:
    """Do these tasks in as many processes as there are cores, this one included; each takes the next one that is
    left."""
    count = min(len(names), usable_cores())
    if count < 2 or not sys.executable:
        # Whoever comes next is as quick.
        return
    environment = os.environ | {SERIAL: "1", "PYTHONPATH": python_path()}
    # Small data: threads of other libraries would only be in the way.
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
                work_here(Path(taken), names)
            for child in children:
                child.wait()
        finally:
            for child in children:
                if child.poll() is None:
                    child.kill()
                    child.wait()


def python_path() -> str:
    """Where children find this package and what it needs, wherever this process has it from."""
    cache = str(Path(__file__).resolve().parents[2])
    return os.pathsep.join(dict.fromkeys([cache, *(path for path in sys.path if path)]))


def work_here(taken: Path, names: list[str]) -> None:
    """The same in this process, which keeps what it has compiled. What fails is compiled when it is needed."""
    with warnings.catch_warnings(), contextlib.suppress(Exception):
        warnings.simplefilter("ignore")
        work(taken, names)


def work(taken: Path, names: list[str]) -> None:
    """Do the tasks that no other process has taken, one after the other."""
    from dpmmwrap.sampler.tiny_runs import tasks

    known = dict(tasks())
    for name in names:
        with contextlib.suppress(FileExistsError):
            (taken / name).touch(exist_ok=False)
            known[name]()


if __name__ == "__main__":
    work(Path(sys.argv[1]), sys.argv[2:])
