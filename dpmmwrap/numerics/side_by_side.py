"""Blocks of rows side by side: a thread for each core, and in each of them one thread of BLAS."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from dpmmwrap.numerics.cells import thread_pools
from dpmmwrap.numerics.compiling import usable_cores


def for_each(work: Callable[[int], None], begins: Sequence[int]) -> None:
    """Call it for each, side by side if there are several: products have threads already, what is beside them has
    not."""
    if len(begins) < 2:
        for begin in begins:
            work(begin)
        return
    with thread_pools().limit(limits=1), ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(work, begins))
