"""Sums over points in an order that depends only on the shape of the data, not on threads or machines.

Chunks of points form groups, whose number is a power of two. The chunks of a group are summed one after the other, and
the groups are the leaves of a binary tree. Each thread or machine sums its groups up to the largest nodes that they
fill completely, and sends only these nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.numerics.arrays import IntArray

MOST_GROUPS = 1024
"""Most groups. Threads and machines share the work by groups, so more of them than this would be idle."""

Nodes = dict[tuple[int, int], tuple[Any, ...]]
"""Sums (tuples of arrays) by level and index: node (l, i) covers the groups i 2^l to (i + 1) 2^l - 1."""


def group_edges(chunks: int) -> IntArray:
    """First chunk of each group, and the end of the last one."""
    groups = power_of_two(min(chunks, MOST_GROUPS))
    return np.arange(groups + 1) * chunks // groups


def power_of_two(most: int) -> int:
    """The largest power of two that is at most `most`."""
    return int(1 << (max(int(most), 1).bit_length() - 1))


def block_edges(first: int, last: int, size: int) -> list[int]:
    """Edges of blocks of the groups `first` to `last - 1` such that each block, except at the ends, is one node."""
    inner = range(-(-first // size) * size, last + 1, size)
    return sorted({first, *(edge for edge in inner if first <= edge <= last), last})


def reduce_groups(first: int, sums: tuple[Any, ...]) -> Nodes:
    """Sum consecutive groups to the nodes that they fill; `sums` are arrays with a leading axis of groups."""
    nodes: Nodes = {}
    level, index = 0, first
    if len(sums[0]) == 1:
        # A shortcut for small data.
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
    """Merge nodes until there are as few as possible. `overwrite` saves memory, since sums are large for wide data."""
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
    """The sums over all groups, given nodes that cover them."""
    (total,) = merge_nodes(nodes, overwrite).values() if len(nodes) > 1 else nodes.values()
    return total
