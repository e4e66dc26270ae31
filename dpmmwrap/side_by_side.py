"""Blocks of rows side by side: a thread for each core, and in each of them one thread of BLAS."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from dpmmwrap.bins import thread_pools
from dpmmwrap.compiling import usable_cores


class OneThreadEach:
    """BLAS has one thread as long as anybody is within: limits are the process's, and callers may be threads, too."""

    def __init__(self) -> None:
        self.lock, self.users = threading.Lock(), 0
        self.limiter: Any = None

    @contextlib.contextmanager
    def __call__(self) -> Iterator[None]:
        with self.lock:
            if not self.users:
                self.limiter = thread_pools().limit(limits=1)
            self.users += 1
        try:
            yield
        finally:
            with self.lock:
                self.users -= 1
                if not self.users:
                    self.limiter.restore_original_limits()


one_thread_each = OneThreadEach()


def for_each(work: Callable[[int], None], begins: Sequence[int]) -> None:
    """Call it for each, side by side if there are several: products have threads of their own, what is beside them has
    not."""
    if len(begins) < 2:
        for begin in begins:
            work(begin)
        return
    with one_thread_each(), ThreadPoolExecutor(usable_cores()) as pool:
        list(pool.map(work, begins))
