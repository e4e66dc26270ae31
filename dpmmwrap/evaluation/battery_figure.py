"""The picture of a battery: a dot for each set and method, and the methods' mean ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from dpmmwrap.describe.plotting import FAINT, INK, new_figure, style
from dpmmwrap.evaluation.baselines import GIVEN_K
from dpmmwrap.evaluation.battery_tables import methods_in
from dpmmwrap.evaluation.figures import PAGE_WIDTH, colour_of
from dpmmwrap.evaluation.samplers import DEFAULTS
from dpmmwrap.evaluation.scores import Ranks, Score

LINE = 0.2
"""Inches of a set."""
SPREAD = 0.3
"""Methods lie a little above one another within the line of a set, or equal ones would hide each other."""
RANK_LINE = 0.24
"""Inches of a method among the ranks."""
OUR_MARKERS = "osD^vP*X<>h"
"""Our variants have one colour, and each a shape of its own."""


def battery_figure(scores: Sequence[Score], ranks: Ranks) -> Any:
    """Above, the mean rank of each method; below, ARI by set, the batteries one below the other."""
    methods = methods_in(scores)
    sets = list(dict.fromkeys((entry.battery, entry.data) for entry in sorted(scores, key=battery_order(scores))))
    heights = [RANK_LINE * max(len(ranks.by_method), 1) + 0.5, LINE * len(sets) + 0.5]
    with style():
        figure = new_figure(PAGE_WIDTH, sum(heights) + 0.6)
        above, below = figure.subplots(2, 1, height_ratios=heights)
        draw_ranks(above, ranks)
        draw_sets(below, scores, sets, methods)
        marks = [below.plot([], [], label=told(name), **look(name))[0] for name in methods]
        figure.legend(handles=marks, loc="outside upper center", ncols=min(4, len(marks)), fontsize=8)
    return figure


def battery_order(scores: Sequence[Score]) -> Any:
    """Sets of one battery together, batteries in the order of their first set."""
    order = {name: place for place, name in enumerate(dict.fromkeys(entry.battery for entry in scores))}
    return lambda entry: order[entry.battery]


def told(name: str) -> str:
    return f"{name}, given K" if name in GIVEN_K else name


def look(name: str) -> dict[str, Any]:
    """The dot of a method: ours are blue, those that are told the number of clusters are hollow."""
    ours = name in DEFAULTS
    colour = colour_of("DPMM") if ours else colour_of(name)
    marker = OUR_MARKERS[list(DEFAULTS).index(name) % len(OUR_MARKERS)] if ours else "o"
    return {
        "color": colour,
        "marker": marker,
        "markersize": 5.5 if name == "DPMM" else 4,
        "markerfacecolor": "none" if name in GIVEN_K else colour,
        "linestyle": "none",
        "zorder": 4 if ours else 3,
        "alpha": 0.9,
    }


def draw_ranks(axes: Any, ranks: Ranks) -> None:
    """The best method on top."""
    ordered = sorted(ranks.by_method.items(), key=lambda item: item[1])
    for place, (name, rank) in enumerate(ordered):
        axes.plot([1, rank], [place, place], color=FAINT, linewidth=1, zorder=1)
        axes.plot(rank, place, **look(name))
        axes.annotate(f"{rank:.2f}", (rank, place), (7, 0), textcoords="offset points", va="center", fontsize=8)
    axes.set_yticks(range(len(ordered)), [told(name) for name, _ in ordered], fontsize=8)
    axes.set_ylim(len(ordered) - 0.4, -0.6)
    axes.set_xlim(1, max(len(ordered), 2) + 0.3)
    if ordered:
        axes.set_title(f"Mean rank by ARI over {ranks.sets} sets; 1 is best", fontsize=9)
    else:
        axes.set_visible(False)


def draw_sets(axes: Any, scores: Sequence[Score], sets: Sequence[tuple[str, str]], methods: Sequence[str]) -> None:
    places = {data: place for place, (_, data) in enumerate(sets)}
    for name, offset in zip(methods, np.linspace(-SPREAD, SPREAD, len(methods)), strict=True):
        own = [entry for entry in scores if entry.method == name and not math.isnan(entry.ari)]
        axes.plot([entry.ari for entry in own], [places[entry.data] + offset for entry in own], **look(name))
    for place in range(1, len(sets)):
        same = sets[place][0] == sets[place - 1][0]
        axes.axhline(place - 0.5, color=FAINT if same else INK, linewidth=0.3 if same else 0.6, zorder=1)
    lowest = min((entry.ari for entry in scores if not math.isnan(entry.ari)), default=0.0)
    axes.set_xlim(min(-0.03, lowest - 0.03), 1.03)
    axes.set_yticks(range(len(sets)), [data for _, data in sets], fontsize=7)
    axes.set_ylim(len(sets) - 0.4, -0.6)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel("ARI")
    axes.set_title("Each dot is the median of a method's runs on a set", fontsize=9)
