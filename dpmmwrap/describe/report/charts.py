"""Charts of the page as SVG: lines by iteration, and the tree from clusters to groups."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dpmmwrap.describe.plotting.groups import members_of, tree_of
from dpmmwrap.describe.plotting.theme import COLOURS, INK
from dpmmwrap.numerics.arrays import FloatArray, evenly_spaced
from dpmmwrap.posterior.groups import Groups

WIDTH, HEIGHT = 400, 150
RIGHT, TOP, BOTTOM = 8, 10, 24
LETTER = 7.6
"""The width of a letter, in the units of the chart."""
MOST_STEPS = 300
"""The largest number of steps of a line; longer lines are thinned evenly and keep their last step."""
MOST_LINES = 12


class Polyline(NamedTuple):
    points: str
    """In the form of SVG's polyline."""
    colour: str
    last: tuple[float, float]


class Tick(NamedTuple):
    position: float
    text: str


class Chart(NamedTuple):
    """A quantity by iteration, with a line for each chain."""

    name: str
    description: str
    """The chart in words."""
    lines: list[Polyline]
    up: list[Tick]
    along: list[Tick]
    left: float
    width: int = WIDTH
    height: int = HEIGHT
    right: int = WIDTH - RIGHT
    bottom: int = HEIGHT - BOTTOM


def chart_of(name: str, series: Sequence[FloatArray], *, whole: bool = False) -> Chart | None:
    """A chart of several lines; None if there is nothing to draw."""
    chains = [np.asarray(values, dtype=np.float64) for values in series][:MOST_LINES]
    known = np.concatenate([values[np.isfinite(values)] for values in chains]) if chains else np.empty(0)
    if not len(known):
        return None
    low, high = bounds(float(known.min()), float(known.max()), whole)
    longest = max(len(values) for values in chains)
    marks = [(value, number(value, low, high, whole)) for value in ticks(low, high, whole)]
    left = round(10 + LETTER * max((len(text) for _, text in marks), default=0), 1)

    def across(step: float) -> float:
        return round(left + (WIDTH - left - RIGHT) * (step - 1) / max(longest - 1, 1), 1)

    def height(value: float) -> float:
        return round(HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * (value - low) / (high - low), 1)

    lines = []
    for chain, values in enumerate(chains):
        steps = [step for step in evenly_spaced(len(values), MOST_STEPS).tolist() if math.isfinite(values[step])]
        corners = [(across(step + 1), height(values[step])) for step in steps]
        if corners:
            points = " ".join(f"{x:g},{y:g}" for x, y in corners)
            lines.append(Polyline(points, COLOURS[chain % len(COLOURS)], corners[-1]))
    up = [Tick(height(value), text) for value, text in marks]
    along = [Tick(across(step), f"{step:,}") for step in sorted({1, (1 + longest) // 2, longest})]
    last = chains[0][np.isfinite(chains[0])]
    words = (
        f"{name} along {longest:,} iterations: between {number(float(known.min()), low, high, whole)} and "
        f"{number(float(known.max()), low, high, whole)}"
        + (f", at the end {number(float(last[-1]), low, high, whole)}" if len(last) and len(chains) == 1 else "")
    )
    return Chart(name, words, lines, up, along, left)


def bounds(low: float, high: float, whole: bool) -> tuple[float, float]:
    """A range that is not empty."""
    if whole:
        return low - 0.5, high + 0.5
    room = 0.05 * (high - low) or max(abs(high), 1.0) * 1e-3
    return low - room, high + room


def ticks(low: float, high: float, whole: bool) -> list[float]:
    """A few round numbers within a range."""
    step = 10.0 ** math.floor(math.log10((high - low) / 2))
    if whole:
        step = max(step, 1.0)
    for factor in (1, 2, 5, 10):
        if (high - low) / (factor * step) <= 5:
            step *= factor
            break
    first = math.ceil(low / step)
    return [index * step for index in range(first, math.floor(high / step) + 1)]


def number(value: float, low: float, high: float, whole: bool) -> str:
    """A number with as many digits as distinguish ticks."""
    digits = 0 if whole else max(0, -math.floor(math.log10((high - low) / 4)))
    return f"{value:,.{digits}f}".replace("-", "−")


LINE, LEFT, AROUND = 16, 60, 8
"""The height of a leaf, the room for names, and the margin."""
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
    # Criteria from high to low, and the number of groups at each.
    steps = [(value, number) for value, number in groups.path if abs(number - groups.suggested) <= STEPS // 2]
    path = [(f"{value:.2g}" if value < 1e9 else "", number, number == groups.suggested) for value, number in steps]
    return TreeChart(WIDTH, 2 * AROUND + LINE * len(leaves), lines, leaves, path)
