"""Sums in a fixed order, whoever has which groups."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpmmwrap.numerics.chunks import Stretch
from dpmmwrap.numerics.ordered_sums import block_edges, group_edges, merge_nodes, reduce_groups, total_of


@given(st.integers(0, 6), st.data())
def test_any_division_of_the_groups_gives_the_same_bits(level: int, data: st.DataObject) -> None:
    groups = 2**level
    numbers = np.random.default_rng(groups).normal(size=(groups, 3)) * 10.0 ** np.arange(groups)[:, None]
    counts = np.arange(groups)
    whole = total_of(reduce_groups(0, (numbers, counts)))
    cuts = data.draw(st.lists(st.integers(0, groups), max_size=6))
    edges = sorted({0, *cuts, groups})
    nodes = {}
    for begin, end in itertools.pairwise(edges):
        own = merge_nodes(reduce_groups(begin, (numbers[begin:end], counts[begin:end])))
        assert len(own) <= 2 * max(level, 1)
        nodes |= own
    found = total_of(nodes)
    np.testing.assert_array_equal(found[0], whole[0])
    assert found[1] == counts.sum()
    np.testing.assert_allclose(whole[0], numbers.sum(axis=0), rtol=1e-12)


@pytest.mark.parametrize("chunks", [1, 2, 3, 7, 64, 1000, 5000])
def test_groups_are_a_power_of_two_and_have_all_chunks(chunks: int) -> None:
    edges = group_edges(chunks)
    count = len(edges) - 1
    assert count & (count - 1) == 0 and count <= min(chunks, 1024) < 4 * count + 4096
    assert edges[0] == 0 and edges[-1] == chunks and (np.diff(edges) > 0).all()


def test_blocks_are_nodes() -> None:
    assert block_edges(0, 8, 4) == [0, 4, 8]
    assert block_edges(3, 9, 4) == [3, 4, 8, 9]
    assert block_edges(5, 6, 4) == [5, 6]


def test_parts_of_a_stretch_have_its_rows() -> None:
    whole = Stretch.whole(500_000, 40)
    groups = len(whole.groups) - 1
    first, second = whole.part(0, 5), whole.part(5, groups)
    assert first.first_row == 0 and second.first_row == first.n_rows and first.n_rows + second.n_rows == 500_000
    assert second.first_group == 5 and second.bounds[0] == second.groups[0] == 0
    np.testing.assert_array_equal(second.bounds + second.first_row, whole.bounds[whole.groups[5] :])
