"""Blocks of rows in parallel: one thread per core, with BLAS limited to one thread in each."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from dpmmwrap.numerics.cells import thread_pools


def usable_cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def for_each(work: Callable[[int], None], begins: Sequence[int]) -> None:
    """Call `work` for each block, in parallel if there are several: BLAS products have threads of their own, but the
    code around them has not."""
    if len(begins) < 2:
        for begin in begins:
            work(begin)
        return
    with thread_pools().limit(limits=1), ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(work, begins))
