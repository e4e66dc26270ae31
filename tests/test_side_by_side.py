"""Blocks in threads: all are done, and BLAS has its threads back when the last caller has gone."""

from __future__ import annotations

import threading

import numpy as np
import pytest

from dpmmwrap.bins import thread_pools
from dpmmwrap.side_by_side import for_each, one_thread_each


def blas_threads() -> list[int]:
    return [pool["num_threads"] for pool in thread_pools().info() if pool["user_api"] == "blas"]


def test_every_block_is_done_once() -> None:
    for count in (0, 1, 50):
        done = np.zeros(count, int)

        def work(begin: int, done: np.ndarray = done) -> None:
            done[begin] += 1

        for_each(work, range(count))
        assert (done == 1).all()


def test_an_error_is_the_callers() -> None:
    def fail(begin: int) -> None:
        raise ValueError(f"block {begin}")

    with pytest.raises(ValueError, match="block 0"):
        for_each(fail, range(5))


def test_limits_are_taken_back_by_the_last_of_several_callers() -> None:
    before, first_in, second_in = blas_threads(), threading.Event(), threading.Event()

    def first() -> None:
        with one_thread_each():
            first_in.set()
            second_in.wait()

    thread = threading.Thread(target=first)
    thread.start()
    first_in.wait()
    with one_thread_each():
        second_in.set()
        thread.join()
        assert set(blas_threads()) <= {1}
    assert blas_threads() == before
