"""The tree from components to groups of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from dpmmwrap.describe.plotting.theme import COLOURS, INK, new_figure, number_ticks
from dpmmwrap.describe.wording import counted
from dpmmwrap.numerics.arrays import Float64Array, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

    from dpmmwrap.posterior.groups import Groups

LEAVES = 100
"""The largest number of leaves of a tree. Beyond it, the first unions are drawn as one leaf each."""
RAREST = 1e-6
"""The smallest probability of confusion that is drawn."""


def groups_figure(groups: Groups, sizes: IntArray | Sequence[int]) -> Figure:
    """The tree of components, from leaves on the left to one group on the right.

    The dashed line is the suggested cut. Unions on its left are groups, each with a colour.
    """
    from matplotlib.collections import LineCollection

    sizes = np.asarray(sizes)
    if sizes.shape != (groups.n_components,):
        raise ValueError(
            f"sizes should be {groups.n_components} numbers, one per component, but have the shape {sizes.shape}"
        )
    tree = tree_of(groups)
    with new_figure(7.0, 1.3 + 0.13 * max(len(tree.leaves), 6)) as figure:
        axes = figure.add_subplot()
        colours = [tree.colours.get(union, INK) for union in tree.unions]
        axes.add_collection(LineCollection(tree.lines, colors=colours, linewidths=1.3, capstyle="projecting"))
        axes.set_xlim(0.0, 1.04 * (float(tree.heights.max(initial=0.0)) or 1.0))
        axes.set_ylim(len(tree.leaves) - 0.4, -0.6)
        axes.spines["left"].set_visible(False)
        axes.set_yticks(
            range(len(tree.leaves)), [_leaf_name(groups, leaf, sizes) for leaf in tree.leaves], fontsize=7.5
        )
        axes.tick_params(axis="y", length=0)
        axes.set_ylabel("cluster (points)")
        if groups.n_components > 1:
            _name_heights(axes, groups)
            _draw_cut(axes, groups, tree)
        else:
            axes.xaxis.set_visible(False)
            axes.spines["bottom"].set_visible(False)
        title = f"{counted(groups.n_components, 'cluster')} in {counted(groups.suggested, 'group')}"
        axes.set_title(title, pad=18)
    return figure


class Tree(NamedTuple):
    """The lines of a tree."""

    heights: Float64Array
    """The height of each union, as it is drawn."""
    lines: list[Float64Array]
    """A bracket for each union: four points (height, position among the leaves)."""
    unions: list[int]
    """The union of each bracket, numbered after the components."""
    leaves: list[int]
    """From the top: components, or unions that are drawn as a leaf."""
    colours: dict[int, str]
    """The colours of unions within a group."""


def tree_of(groups: Groups) -> Tree:
    count = groups.n_components
    # Probabilities are drawn on a logarithmic scale, shares of the entropy as they are.
    by_entropy = groups.method == "entropy"
    heights = groups.merges[:, 2] if by_entropy else np.asarray(_far(np.minimum.accumulate(groups.criterion)))
    if count == 1:
        return Tree(heights, [], [], [0], {})
    from scipy.cluster.hierarchy import dendrogram

    merges = np.column_stack([groups.merges[:, :2], heights, groups.merges[:, 3]])
    few = {"truncate_mode": "lastp", "p": LEAVES} if count > LEAVES else {}
    drawn = dendrogram(merges, no_plot=True, count_sort="descending", link_color_func=str, **few)
    # scipy draws leaves at 5, 15, 25, ...
    lines = [
        np.column_stack([height, (np.array(index) - 5) / 10])
        for height, index in zip(drawn["dcoord"], drawn["icoord"], strict=True)
    ]
    leaves = [int(leaf) for leaf in drawn["leaves"]]
    within, names = [members[0] for members in members_of(groups)], groups.component_groups
    joined = range(count, 2 * count - groups.suggested)
    several = {int(names[within[union]]) for union in joined}
    # In the order of the leaves, so that neighbours differ.
    in_order = [name for name in dict.fromkeys(int(names[within[leaf]]) for leaf in leaves) if name in several]
    palette = {name: COLOURS[index % len(COLOURS)] for index, name in enumerate(in_order)}
    # Unions within a leaf are not drawn.
    colours = {union: palette.get(int(names[within[union]]), INK) for union in joined}
    return Tree(heights, lines, [int(name) for name in drawn["color_list"]], leaves, colours)


def _far(probabilities: Any) -> Any:
    return -np.log10(np.clip(probabilities, RAREST, 1.0))


def members_of(groups: Groups) -> list[list[int]]:
    """The components within each component and each union."""
    members = [[k] for k in range(groups.n_components)]
    for one, other in groups.merges[:, :2].astype(int):
        members.append(members[one] + members[other])
    return members


def _leaf_name(groups: Groups, leaf: int, sizes: IntArray) -> str:
    """The number of a cluster, and its points in brackets. A leaf of a large tree holds several clusters, or groups."""
    inside = members_of(groups)[leaf]
    of_groups = len(set(groups.component_groups[inside].tolist()))
    name = f"{min(inside)} and {len(inside) - 1} more" if len(inside) > 1 else str(inside[0])
    name = f"{len(inside)} clusters, {of_groups} groups" if of_groups > 1 else name
    return f"{name} ({sizes[inside].sum():,})"


def _name_heights(axes: Axes, groups: Groups) -> None:
    if groups.method == "entropy":
        axes.set_xlabel("share of the entropy that is removed")
        number_ticks(axes.xaxis)
        return
    axes.set_xlabel("probability of confusion at which they join")
    end = axes.get_xlim()[1]
    parts = (1.0, 0.5, 0.2) if end <= 2.5 else (1.0,)
    shown = [10.0**-power * part for power in range(7) for part in parts]
    shown = [value for value in shown if value >= RAREST and _far(value) <= end]
    names = [f"{value:g}" if value >= 1e-4 else f"$10^{{{round(math.log10(value))}}}$" for value in shown]
    if shown and shown[-1] == RAREST:
        names[-1] = f"≤ {names[-1]}"
    axes.set_xticks(_far(shown), names)


def _draw_cut(axes: Axes, groups: Groups, tree: Tree) -> None:
    """A dashed line at the threshold, or halfway between the last union within groups and the next one."""
    if groups.threshold is not None and groups.method != "entropy":
        index, name = float(_far(groups.threshold)), f"suggested cut: {groups.threshold:g}"
    else:
        made = groups.n_components - groups.suggested
        around = np.concatenate([[0.0], tree.heights, [axes.get_xlim()[1]]])
        index, name = float(around[made : made + 2].mean()), "suggested cut"
    axes.set_xlim(right=max(axes.get_xlim()[1], 1.04 * index))
    axes.axvline(index, color=INK, linestyle="--", linewidth=0.9)
    axes.text(index, 1.005, name, transform=axes.get_xaxis_transform(), ha="center", va="bottom", fontsize=8)
