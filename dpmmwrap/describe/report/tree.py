"""The tree from clusters to groups, and the number of groups at each cut, for the page."""

from __future__ import annotations

from typing import NamedTuple

from dpmmwrap.describe.plotting.groups import members_of, tree_of
from dpmmwrap.describe.plotting.theme import INK
from dpmmwrap.posterior.groups import Groups

WIDTH, LINE, LEFT, AROUND = 400, 16, 60, 8
"""The width of the drawing, the height of a leaf, the room for names, and the margin."""
STEPS = 12
"""The steps of the path around the suggested cut that are shown."""


class TreeChart(NamedTuple):
    """A bracket for each union, and a name for each leaf."""

    width: int
    height: int
    lines: list[tuple[str, str]]
    """Points as SVG's polyline takes them, and a colour."""
    leaves: list[tuple[float, str, str]]
    """Height, name and colour."""
    path: list[tuple[str, int, bool]]
    """A criterion, the number of groups there, and whether this is the suggested cut."""


def tree_chart(groups: Groups, palette: list[str]) -> TreeChart:
    """The tree; unions within a group have the colour of the group's first cluster."""
    tree, count = tree_of(groups), groups.n_components
    far = float(tree.heights.max(initial=0.0)) or 1.0
    firsts = [min(members) for members in members_of(groups)]
    within = 2 * count - groups.suggested
    lines = []
    for bracket, union in zip(tree.lines, tree.unions, strict=True):
        corners = [(LEFT + (WIDTH - LEFT - AROUND) * x / far, AROUND + LINE * (y + 0.5)) for x, y in bracket.tolist()]
        colour = palette[firsts[union]] if union < within else INK
        lines.append((" ".join(f"{x:.1f},{y:.1f}" for x, y in corners), colour))
    leaves = [
        (AROUND + LINE * (row + 0.8), f"{firsts[leaf]}{'' if leaf < count else ', …'}", palette[firsts[leaf]])
        for row, leaf in enumerate(tree.leaves)
    ]
    return TreeChart(WIDTH, 2 * AROUND + LINE * len(leaves), lines, leaves, path_of(groups))


def path_of(groups: Groups) -> list[tuple[str, int, bool]]:
    """Criteria from high to low, and the number of groups at each."""
    steps = [(value, number) for value, number in groups.path if abs(number - groups.suggested) <= STEPS // 2]
    return [(f"{value:.2g}" if value < 1e9 else "", number, number == groups.suggested) for value, number in steps]
