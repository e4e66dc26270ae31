"""Loops in few instructions against numba's own."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from innerloops import called
from numba import njit
from numba.core.runtime import _nrt_python, rtsys

from dpmmwrap.numerics.special import ENTRY, INNER, inner, new_array, new_zeros

lean: Any = njit(**ENTRY)
within: Any = njit(**INNER)


class Bundle(NamedTuple):
    table: Any
    flags: Any
    nested: Any
    number: Any


def elements(bundle: Any, rows: Any, unsigned: Any) -> Any:
    """Elements by signed, unsigned and constant numbers, from the end, of views, of whatever layout."""
    table, (deep, word) = bundle.table, bundle.nested
    total = bundle.number + table[-1, 0] + deep[0, -1, unsigned] + word[-2]
    for i in range(len(rows)):
        row = table[rows[i]]
        page = deep[i % deep.shape[0]]
        row[unsigned] += page[-1, i % 2] * 0.5
        table[i, -1] -= row[0]
        bundle.flags[i] = row[0] > row[1] or bundle.flags[i - 1]
        total += row[-1] if bundle.flags[i] else page[0][0]
    return total, table[0], bundle.nested[0][1]


def bundle_of(layout: str) -> Bundle:
    rng = np.random.default_rng(0)
    deep = np.asfortranarray(rng.normal(size=(2, 3, 4))) if layout == "A" else rng.normal(size=(2, 3, 4))
    table = rng.normal(size=(5, 6)).astype(np.float32)[:, :: 2 if layout == "A" else 1]
    return Bundle(table, np.zeros(5, np.bool_), (deep[:, :, :2], np.arange(4, dtype=np.uint8)), 1.5)


@pytest.mark.parametrize("layout", ["A", "C"])
def test_elements_are_those_of_numba(layout: str) -> None:
    ours, theirs = bundle_of(layout), bundle_of(layout)
    rows = np.array([1, -2, 0, 3, -1], np.int32)
    got, expected = lean(elements)(ours, rows, np.uint64(1)), njit(elements)(theirs, rows, np.uint64(1))
    for one, other in zip(got, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(ours.table, theirs.table)
    np.testing.assert_array_equal(ours.flags, theirs.flags)


def numbers(x: Any, n: Any) -> Any:
    """Numbers of several types, constants, comparisons; what numba does not leave to us."""
    if 0 <= n < 3 or x == np.float32(2):
        return x**2 + n // 2 - (n << 1) / 3, n % 4 != 1
    y = np.float32(x) * np.float32(0.1) + (n & 6)
    y += n > 7
    return y - (True + n), not y > 1


@pytest.mark.parametrize(("x", "n"), [(0.3, 1), (2.0, 9), (7.25, 12), (-3.5, 5)])
def test_arithmetic_is_that_of_numba(x: float, n: int) -> None:
    assert lean(numbers)(x, n) == njit(numbers)(x, n)


@within
def halved(values: Any) -> Any:
    found = new_array(len(values))
    for i in range(len(values)):
        found[i] = values[i] / 2
    return found


@within
def both(one: Any, other: Any) -> Any:
    return halved(one), other


@lean
def kept_and_let_go(values: Any, count: int) -> Any:
    first, second = values, new_zeros((2, 3), np.int32)
    last = second[0]
    for i in range(count):
        first, second = both(values, second) if i % 2 else (halved(values), new_zeros((1, 3), np.int32))
        last = second[0]
    return first, Bundle(second, last, (values[1:], last), count)


def test_arrays_live_as_long_as_they_are_needed() -> None:
    """As many are freed as are made."""
    values = np.arange(4.0)
    kept_and_let_go(values, 0)
    _nrt_python.memsys_enable_stats()
    before = rtsys.get_allocation_stats()
    for count in (1, 3, 7):
        first, bundle = kept_and_let_go(values, count)
        np.testing.assert_array_equal(first, values / 2)
        np.testing.assert_array_equal(bundle.table, [[0, 0, 0]])
        np.testing.assert_array_equal(bundle.nested[0], [1, 2, 3])
        assert bundle.table.dtype == np.int32 and bundle.number == count
        del first, bundle
    after = rtsys.get_allocation_stats()
    _nrt_python.memsys_disable_stats()
    assert after.alloc - before.alloc == after.free - before.free > 6


def test_inner_functions_are_for_compiled_code() -> None:
    @inner
    def twice(x: Any) -> Any:
        return 2 * x

    assert called(twice)(4) == 8
    if not INNER:
        pytest.skip("a version of numba that is left to itself")
    with pytest.raises((TypeError, KeyError)):
        twice(4)


def test_what_is_called_through_others_is_linked() -> None:
    """Two ways to the same function, the shorter one first."""

    @inner
    def last(x: Any) -> Any:
        return x + 1

    @inner
    def middle(x: Any) -> Any:
        return last(x) * 10

    @lean
    def outer(x: Any) -> Any:
        return last(x) + middle(x)

    assert outer(3) == 44
