"""Blocks in threads: all are done, and BLAS has its threads back when the last caller has gone."""

from __future__ import annotations

import numpy as np
import pytest

from dpmmwrap.numerics.cells import thread_pools
from dpmmwrap.numerics.side_by_side import for_each


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


def test_blas_has_one_thread_within_and_its_own_again_afterwards() -> None:
    before, within = blas_threads(), []
    for_each(lambda begin: within.extend(blas_threads()), range(3))
    assert set(within) <= {1}
    assert blas_threads() == before
