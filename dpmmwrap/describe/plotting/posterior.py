"""Plots of a search and of the posterior: iterations, numbers of clusters, chains, pairs of points."""

from __future__ import annotations

import math
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.describe.plotting.theme import (
    COLOURS,
    FAINT,
    INK,
    cluster_ticks,
    line_panel,
    new_figure,
    number_ticks,
    step_axis,
)
from dpmmwrap.describe.wording import counted
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.sampler.draws import Draws
from dpmmwrap.sampler.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure


def trace_figure(trace: Trace, *, true_clusters: int | None = None, title: str | None = None) -> Figure:
    """Clusters, log posterior and, with known labels, NMI by iteration, one above the other."""
    iterations = np.arange(1, len(trace) + 1)
    panels = [("clusters", trace.n_clusters), ("log posterior", trace.log_posterior)]
    if np.isfinite(trace.nmi).any():
        panels.append(("NMI with the truth", trace.nmi))
    with new_figure(7.0, 0.9 + 1.7 * len(panels)) as figure:
        rows = np.atleast_1d(figure.subplots(len(panels), 1, sharex=True))
        for axes, (name, values), colour in zip(rows, panels, COLOURS, strict=False):
            axes.plot(iterations, values, color=colour, marker="o" if len(trace) == 1 else None)
            line_panel(axes, name)
        fewest, most = rows[0].dataLim.intervaly
        if true_clusters is not None:
            rows[0].axhline(true_clusters, color=INK, linestyle="--", linewidth=1)
            # Beside the panel, where no line crosses it.
            beside = rows[0].get_yaxis_transform()
            rows[0].text(1.01, true_clusters, f"truth: {true_clusters:,}", transform=beside, va="center", fontsize=9)
        _panel_ticks(rows, "iteration", (fewest, most))
        rows[0].set_title(title or counted(len(trace), "iteration"))
    return figure


def _panel_ticks(rows: Any, name: str, clusters: tuple[float, float], most: int = 5) -> None:
    """The ticks of panels one above the other, the first of which shows numbers of clusters."""
    cluster_ticks(rows[0], *clusters)
    for axes in rows[1:]:
        number_ticks(axes.yaxis, most=most)
    step_axis(rows[-1], name)
    rows[0].figure.align_ylabels(list(rows))


BARS = 60
"""The largest number of bars of numbers of clusters; beyond it, neighbours share a bar."""
FEW_BARS = 25
"""The largest number of bars with a dot for each chain."""
LINES = ("-", "--", ":", "-.")
"""Line styles for chains beyond the number of colours."""
LEGEND = 2 * len(COLOURS)
"""The largest number of chains in a legend."""


def n_clusters_figure(draws: Draws) -> Figure:
    """The posterior of the number of clusters: bars for all chains, and dots for each, which show where they differ."""
    with new_figure(7.0, 3.8) as figure:
        draw_n_clusters(figure.add_subplot(), draws)
    return figure


def draw_n_clusters(axes: Axes, draws: Draws, *, own_figure: bool = True) -> None:
    values = np.asarray(draws.n_clusters)
    low, high = int(values.min()), int(values.max())
    width = math.ceil((high - low + 1) / BARS)
    edges = np.arange(low, high + width + 1, width) - 0.5
    shares = np.array([np.histogram(chain, edges)[0] / chain.size for chain in values])
    centres, together = edges[:-1] + width / 2, shares.mean(axis=0)
    axes.bar(centres, together, 0.86 * width, color=COLOURS[0] if len(values) == 1 else "#D9D9D9", label="all chains")
    if len(values) > 1:
        _draw_each_chain(axes, centres, shares, width)
        if own_figure:
            _legend_right(axes)
        else:
            axes.legend(fontsize=8)
    # There is no bar at 0.
    axes.set_xlim(max(low - 0.5 - 0.2 * width, 0.2), edges[-1] + 0.2 * width)
    axes.set_ylim(bottom=0)
    axes.set_xlabel("clusters" if width == 1 else f"clusters, {width} numbers to a bar")
    axes.set_ylabel("probability")
    number_ticks(axes.xaxis, whole=True, most=12)
    number_ticks(axes.yaxis)
    numbers, counts = np.unique(values, return_counts=True)
    best, chains = int(counts.argmax()), f"{counted(len(values), 'chain')} of {counted(values.shape[1], 'draw')}"
    likeliest = f"{counted(int(numbers[best]), 'cluster')} most probable ({counts[best] / values.size:.0%})"
    axes.set_title(f"{likeliest}; {chains}")


def _draw_each_chain(axes: Axes, centres: FloatArray, shares: Float64Array, width: int) -> None:
    """Dots side by side within each bar, in the order of the chains; with many bars, lines."""
    chains = len(shares)
    many = chains > len(COLOURS)
    for number, heights in enumerate(shares):
        look = {
            "color": INK if many else COLOURS[number],
            "label": ("each chain" if number == 0 else None) if many else f"chain {number + 1}",
            "zorder": 3,
        }
        if len(heights) > FEW_BARS:
            axes.plot(centres, heights, linewidth=0.6 if many else 1.2, **look)
        else:
            offset = (number - (chains - 1) / 2) * 0.66 * width / chains
            size = float(np.clip(1500 / shares.size, 4, 26))
            axes.scatter(centres + offset, heights, s=size, linewidths=0, clip_on=False, **look)


def chains_figure(draws: Draws) -> Figure:
    """All chains along their draws, one colour each: clusters, log posterior, concentration (if learned), and the share
    of the largest cluster."""
    panels: list[tuple[str, Any]] = [("clusters", draws.n_clusters), ("log posterior", draws.log_posterior)]
    alpha = np.asarray(draws.alpha)
    if np.isfinite(alpha).any() and np.ptp(alpha[np.isfinite(alpha)]) > 0:
        panels.append(("concentration", alpha))
    panels.append(("share of the\nlargest cluster", np.asarray(draws.weights).max(axis=2)))
    with new_figure(7.0, 0.9 + 1.5 * len(panels)) as figure:
        rows = np.atleast_1d(figure.subplots(len(panels), 1, sharex=True))
        for axes, (name, values) in zip(rows, panels, strict=True):
            lines = np.asarray(values, dtype=np.float64)
            # Equal whole numbers of clusters would cover each other.
            apart = min(0.08, 0.5 / len(lines)) if name == "clusters" else 0.0
            for number, line in enumerate(lines):
                axes.plot(
                    np.arange(1, len(line) + 1),
                    line + apart * (number - (len(lines) - 1) / 2),
                    color=COLOURS[number % len(COLOURS)],
                    linestyle=LINES[number // len(COLOURS) % len(LINES)],
                    linewidth=1.0 if len(line) <= 500 else 0.6,
                    marker="o" if len(line) == 1 else None,
                    alpha=0.85,
                    label=f"chain {number + 1}",
                )
            line_panel(axes, name)
        _panel_ticks(rows, "draw", (int(draws.n_clusters.min()), int(draws.n_clusters.max())), most=4)
        rows[0].set_title(f"{counted(draws.n_chains, 'chain')} of {counted(draws.n_draws, 'draw')}")
        if 1 < draws.n_chains <= LEGEND:
            _legend_right(rows[0])
    return figure


def _legend_right(axes: Axes) -> None:
    """A legend beside the panels, with the bars before the dots on them."""
    entries = sorted(zip(*axes.get_legend_handles_labels(), strict=True), key=lambda entry: entry[1] != "all chains")
    legend = axes.figure.legend(*zip(*entries, strict=True), loc="outside right upper", fontsize=9)
    for line in legend.get_lines():
        line.set_linewidth(1.8)


def coclustering_figure(probabilities: FloatArray, labels: IntArray, title: str | None = None) -> Figure:
    """The probabilities (R, R) that two points share a cluster, in the order of a partition of the points (R,).

    Clusters are in the order of their sizes, outliers (-1) last. Within a cluster, points that are most often together
    are side by side.
    """
    from matplotlib.patches import Rectangle

    probabilities, labels = np.asarray(probabilities), np.asarray(labels)
    count = len(labels)
    if probabilities.shape != (count, count):
        raise ValueError(f"probabilities should be {count} by {count}, like the labels, not {probabilities.shape}")
    # The points of each cluster, the largest first, outliers last.
    numbers, counts = np.unique(labels, return_counts=True)
    numbers = numbers[np.lexsort((numbers, -counts, numbers < 0))]
    blocks = [np.flatnonzero(labels == number) for number in numbers]
    order = np.concatenate([_side_by_side(probabilities, members) for members in blocks])
    edges = np.append(0, np.cumsum([len(members) for members in blocks]))
    shown, extent = probabilities[np.ix_(order, order)], (0, count, count, 0)
    with new_figure(6.8, 5.6) as figure:
        # The usual layout would cut off the names beside a square.
        figure.set_layout_engine("compressed")
        axes = figure.add_subplot()
        picture = axes.imshow(shown, cmap="Blues", vmin=0, vmax=1, interpolation="nearest", extent=extent)
        for begin, end in pairwise(edges.tolist()):
            axes.add_patch(
                Rectangle((begin, begin), end - begin, end - begin, fill=False, edgecolor=INK, linewidth=0.5)
            )
            if end - begin >= 0.015 * count and end < count:
                axes.axhline(end, color=FAINT, linewidth=0.3)
                axes.axvline(end, color=FAINT, linewidth=0.3)
        names, middles = ["outliers" if number < 0 else str(number) for number in numbers], (edges[:-1] + edges[1:]) / 2
        # Names stand beside their rows where there is room.
        shown = np.flatnonzero(np.diff(edges) >= 0.028 * count)
        axes.set_yticks(middles[shown], [names[index] for index in shown], fontsize=8)
        axes.set_xticks([])
        axes.tick_params(length=0)
        axes.spines[:].set_visible(False)
        axes.set_ylabel("points by cluster")
        bar = figure.colorbar(picture, ax=axes, shrink=0.85, aspect=30)
        bar.set_label("probability of sharing a cluster")
        bar.outline.set_visible(False)
        clusters = counted(sum(name != "outliers" for name in names), "cluster")
        axes.set_title(title or f"{clusters}, {counted(len(labels), 'point')}")
    return figure


def _side_by_side(probabilities: FloatArray, members: IntArray) -> IntArray:
    """The points of a cluster in the order of a dendrogram. O(n^2)."""
    if len(members) < 3:
        return members
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    apart = 1.0 - np.asarray(probabilities[np.ix_(members, members)], dtype=np.float64)
    apart = np.maximum((apart + apart.T) / 2, 0.0)
    np.fill_diagonal(apart, 0.0)
    return np.asarray(members[leaves_list(linkage(squareform(apart, checks=False), "average"))])
