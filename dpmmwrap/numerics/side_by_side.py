"""Blocks of rows side by side: a thread for each core, and in each of them one thread of BLAS."""

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
    """Call it for each, side by side if there are several: products have threads already, what is beside them has
    not."""
    if len(begins) < 2:
        for begin in begins:
            work(begin)
        return
    with thread_pools().limit(limits=1), ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(work, begins))
