"""Rows that stand for all rows."""

import pytest

from dpmmwrap.numerics.arrays import evenly_spaced


@pytest.mark.parametrize(("count", "most"), [(0, 5), (5, 5), (6, 5), (50_000, 2_000), (3, 0)])
def test_rows_are_evenly_spaced(count: int, most: int) -> None:
    rows = evenly_spaced(count, most).tolist()
    assert len(rows) == len(set(rows)) == min(count, max(2, most))
    assert rows == sorted(rows) and rows[:1] + rows[-1:] == ([0, count - 1] if count else [])
