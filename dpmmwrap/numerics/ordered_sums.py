"""Sums over the points in an order that depends on the data's shape alone: not on threads, nor on machines.

Chunks of points are put into groups, whose number is a power of two. A group's chunks are summed one after the other,
and groups as the leaves of a binary tree: whoever has some of the groups sums what is below the nodes that these
fill, and only nodes travel.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.numerics.arrays import IntArray

MOST_GROUPS = 1024
"""Groups are what threads and machines share out among themselves: with more of these than groups, some would idle."""

Nodes = dict[tuple[int, int], tuple[Any, ...]]
"""Sums (several arrays) by level and number: node (l, i) is over the groups i 2^l up to (i + 1) 2^l."""


def group_edges(chunks: int) -> IntArray:
    """First chunk of each group, and the end of the last."""
    groups = power_of_two(min(chunks, MOST_GROUPS))
    return np.arange(groups + 1) * chunks // groups


def power_of_two(most: int) -> int:
    """The largest one that is not above this."""
    return int(1 << (max(int(most), 1).bit_length() - 1))


def block_edges(first: int, last: int, size: int) -> list[int]:
    """The groups first to last in blocks that a node each is the sum of, but for those at the ends."""
    inner = range(-(-first // size) * size, last + 1, size)
    return sorted({first, *(edge for edge in inner if first <= edge <= last), last})


def reduce_groups(first: int, sums: tuple[Any, ...]) -> Nodes:
    """The nodes that consecutive groups fill, from their sums: arrays with a leading axis of groups."""
    nodes: Nodes = {}
    level, index = 0, first
    if len(sums[0]) == 1:
        # Small data: the usual way through the loop below, which takes longer.
        return {(0, first): tuple(array[0] for array in sums)}
    while len(sums[0]):
        if len(sums[0]) == 1 or index % 2:
            nodes[level, index] = tuple(array[0] for array in sums)
            sums, index = tuple(array[1:] for array in sums), index + 1
        if len(sums[0]) % 2:
            nodes[level, index + len(sums[0]) - 1] = tuple(array[-1] for array in sums)
            sums = tuple(array[:-1] for array in sums)
        sums = tuple(array[0::2] + array[1::2] for array in sums)
        level, index = level + 1, index // 2
    return nodes


def merge_nodes(nodes: Nodes, overwrite: bool = False) -> Nodes:
    """The same sums in as few nodes as can be. Of wide data sums are large, and may be overwritten."""
    merged, level = dict(nodes), 0
    while any(its_level >= level for its_level, _ in merged):
        for its_level, index in sorted(merged):
            if its_level == level and index % 2 == 0 and (level, index + 1) in merged:
                left, right = merged.pop((level, index)), merged.pop((level, index + 1))
                merged[level + 1, index // 2] = tuple(
                    np.add(one, other, out=one if overwrite else None) for one, other in zip(left, right, strict=True)
                )
        level += 1
    return merged


def total_of(nodes: Nodes, overwrite: bool = False) -> tuple[Any, ...]:
    """The sums over all groups, whose nodes these are."""
    (total,) = merge_nodes(nodes, overwrite).values() if len(nodes) > 1 else nodes.values()
    return total
