"""Figures that compare methods, in the style of `dpmmwrap.describe.plotting`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.describe.plotting.clusters import matched, middles_of, some_rows, spread_colours
from dpmmwrap.describe.plotting.projections import projection
from dpmmwrap.describe.plotting.theme import COLOURS, FAINT, INK, new_figure, number_ticks, save_figure
from dpmmwrap.describe.wording import counted
from dpmmwrap.evaluation.experiments import Row
from dpmmwrap.evaluation.methods import JULIA, METHODS, OUR_PRIOR, given_k
from dpmmwrap.evaluation.summary import distinct, select, values
from dpmmwrap.files import write_atomically
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.posterior.matching import without_gaps

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

PAGE_WIDTH = 7.2
"""Inches: the text width of a page."""
MARKERS = "osD^vP"
SHOWN = 5_000
"""Points in each of several scatter plots."""


def save_both(folder: Path, name: str, figure: Figure) -> Path:
    """Save name.png and name.svg; returns the path of the former."""
    import matplotlib

    save_figure(folder / f"{name}.png", figure)
    # With fixed ids and no date, the same figure is the same file.
    with matplotlib.rc_context({"svg.hashsalt": name}):
        write_atomically(
            folder / f"{name}.svg", lambda file: figure.savefig(file, format="svg", metadata={"Date": None})
        )
    return folder / f"{name}.png"


def method_legend(figure: Figure, methods: Sequence[str]) -> None:
    """A legend above all panels; samplers on Julia are hatched."""
    from matplotlib.patches import Patch

    marks = [
        Patch(facecolor=colour_of(name), alpha=0.7, label=name, hatch="////" if name.endswith(JULIA) else None)
        for name in methods
    ]
    figure.legend(handles=marks, loc="outside upper center", ncols=min(4, len(marks)))


PANELS = {"n_clusters": "clusters found", "nmi": "NMI", "ari": "ARI"}
"""The headings of box plots, by column."""
COUNTS = ("n_clusters", "k_error")
MORE_PANELS = {
    **PANELS,
    "k_error": "distance from\nthe true K",
    "below_best": "log posterior\nbelow the best",
    "seconds": "seconds",
}


def boxes_figure(rows: Sequence[Row], panels: Mapping[str, str] = PANELS) -> Figure:
    """Measures by method and number of true clusters, a panel each; the first one shows the clusters found."""
    methods = distinct(rows, "method")
    with new_figure(PAGE_WIDTH, 1.0 + 2.4 * len(panels)) as figure:
        axes = figure.subplots(len(panels), 1, sharex=True)
        for panel, (column, heading) in zip(axes, panels.items(), strict=True):
            draw_groups(panel, rows, column, without_given=column in COUNTS)
            panel.set_ylabel(heading)
            if column in ("nmi", "ari"):
                panel.set_ylim(top=1.02)
        for index, count in enumerate(sorted(distinct(rows, "clusters"))):
            axes[0].plot([index - 0.45, index + 0.45], [count, count], color=INK, linestyle="--", linewidth=1, zorder=1)
        given = " EM-GMM and K-means are given it." if any(map(given_k, methods)) else ""
        axes[0].set_title(f"Dashes: the truth.{given}", fontsize=9)
        for panel, column in zip(axes, panels, strict=True):
            if column in COUNTS:
                widen(panel)
            if column == "seconds":
                log_scale(panel)
            else:
                number_ticks(panel.yaxis, whole=column in COUNTS)
        axes[-1].set_xlabel("true clusters")
        method_legend(figure, methods)
    return figure


def widen(axes: Axes) -> None:
    """Let an axis span at least 1, so that it has ticks at whole numbers."""
    low, high = axes.get_ylim()
    if high - low < 1:
        axes.set_ylim((low + high) / 2 - 0.6, (low + high) / 2 + 0.6)


def times_figure(rows: Sequence[Row]) -> Figure:
    """Processor time by method and number of true clusters."""
    with new_figure(PAGE_WIDTH, 3.6) as figure:
        axes = figure.subplots()
        draw_groups(axes, rows, "cpu_seconds")
        log_scale(axes)
        axes.set_ylabel("processor seconds, one thread")
        axes.set_xlabel("true clusters")
        method_legend(figure, distinct(rows, "method"))
    return figure


def log_scale(axes: Axes) -> None:
    """A logarithmic scale with labels at 1, 2, 5, 10, 20, ..."""
    from matplotlib.ticker import LogLocator, NullFormatter

    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
    axes.yaxis.set_major_formatter("{x:g}")
    axes.yaxis.set_minor_formatter(NullFormatter())


def draw_groups(axes: Axes, rows: Sequence[Row], column: str, *, without_given: bool = False) -> None:
    """A box per method within each group of data sets, with the runs as dots."""
    groups, methods = sorted(distinct(rows, "clusters")), distinct(rows, "method")
    step = 0.9 / len(methods)
    for index, group in enumerate(groups):
        for number, method in enumerate(methods):
            numbers = values(select(rows, clusters=group, method=method), column)
            if numbers and not (without_given and given_k(method)):
                centre = index + (number - (len(methods) - 1) / 2) * step
                draw_box(axes, numbers, centre, 0.8 * step, method)
    axes.set_xticks(range(len(groups)), [str(group) for group in groups])
    for edge in range(1, len(groups)):
        axes.axvline(edge - 0.5, color=FAINT, linewidth=0.6)
    axes.set_xlim(-0.5, len(groups) - 0.5)
    axes.grid(axis="y", color=FAINT, linewidth=0.4)
    axes.set_axisbelow(True)


def draw_box(axes: Axes, numbers: Sequence[float], centre: float, width: float, method: str) -> None:
    colour = colour_of(method)
    box = axes.boxplot(
        [numbers],
        positions=[centre],
        widths=width,
        patch_artist=True,
        showfliers=False,
        manage_ticks=False,
        medianprops={"color": INK, "linewidth": 1.4},
        boxprops={"facecolor": colour, "edgecolor": colour, "alpha": 0.45},
        whiskerprops={"color": colour},
        capprops={"color": colour},
    )
    if method.endswith(JULIA):
        box["boxes"][0].set_hatch("////")
    # Side by side, as equal runs would look like one.
    spread = np.linspace(-0.25, 0.25, len(numbers)) * width
    axes.scatter(centre + spread, numbers, s=7, color=colour, linewidths=0, zorder=3)


def colour_of(method: str) -> str:
    """The colour of a method. A name with something else in brackets is DPGMM with an upper bound."""
    return METHODS[method if method in METHODS else OUR_PRIOR].colour


Traces = Mapping[str, Sequence[Mapping[str, FloatArray]]]
"""By method, the iterations of each run."""


def iterations_figure(traces: Traces, true_clusters: int) -> Figure:
    """K, log posterior, NMI and ARI by iteration: the median of the runs, and their range as a band."""
    panels = [("clusters", "n_clusters"), ("log posterior", "log_posterior"), ("NMI", "nmi"), ("ARI", "ari")]
    with new_figure(PAGE_WIDTH, 5.4) as figure:
        grid = figure.subplots(2, 2, sharex=True)
        for axes, (heading, column) in zip(grid.ravel(), panels, strict=True):
            for method, runs in traces.items():
                known = np.array([run[column] for run in runs if column in run])
                if not len(known):
                    continue
                steps, colour = np.arange(1, known.shape[1] + 1), colour_of(method)
                axes.fill_between(steps, known.min(axis=0), known.max(axis=0), color=colour, alpha=0.2, linewidth=0)
                # Starts often reach the same values: dashes on top leave the line below visible.
                line, order = ("--", 3) if method.startswith("SubC-K-means") else ("-", 2)
                axes.plot(steps, np.median(known, axis=0), color=colour, linestyle=line, zorder=order)
            axes.set_ylabel(heading)
            axes.grid(axis="y", color=FAINT, linewidth=0.4)
        grid[0, 0].axhline(true_clusters, color=INK, linestyle="--", linewidth=1, zorder=1)
        widen(grid[0, 0])
        for axes in grid.ravel():
            number_ticks(axes.yaxis, whole=axes is grid[0, 0])
        for axes in grid[1]:
            axes.set_xlabel("iteration")
        most = max(len(runs) for runs in traces.values())
        grid[0, 0].set_title(f"Median and range of {counted(most, 'run')}. Dashes: the truth.", fontsize=9)
        method_legend(figure, list(traces))
    return figure


def scatter_figure(X: FloatArray, labellings: Mapping[str, IntArray]) -> Figure:
    """The same points in the colours of each labelling, the truth first.

    A cluster has the colour of the true cluster with which it shares most points.
    """
    rows = some_rows(len(X), SHOWN, np.random.default_rng(0))
    points = np.asarray(X[rows], dtype=np.float64)
    seen = projection(points, standardised=True)
    flat = seen.flat(points)
    shown = {title: without_gaps(np.asarray(labels))[rows] for title, labels in labellings.items()}
    reference = next(iter(shown.values()))
    palette = spread_colours(means_of(flat, reference))
    lines = -(-len(labellings) // 2)
    with new_figure(PAGE_WIDTH, 0.3 + 2.9 * lines) as figure:
        grid = figure.subplots(lines, 2, sharex=True, sharey=True, squeeze=False)
        for axes in grid.ravel()[len(labellings) :]:
            axes.set_visible(False)
        for axes, (title, numbers) in zip(grid.ravel(), shown.items(), strict=False):
            same = {one: palette[other] for one, other in matched(numbers, reference).items()}
            # The last colour is for -1.
            colours = np.array([*spread_colours(means_of(flat, numbers), same), FAINT])[numbers]
            axes.scatter(flat[:, 0], flat[:, 1], c=colours, s=3, linewidths=0, alpha=0.7, rasterized=True)
            axes.set_title(title, fontsize=9)
        # The names of components are too long for each panel: once for all, in two lines.
        figure.supxlabel(seen.names[0].replace(" (", "\n(", 1), fontsize=9)
        figure.supylabel(seen.names[1].replace(" (", "\n(", 1), fontsize=9)
    return figure


def means_of(flat: Float64Array, labels: IntArray) -> Float64Array:
    """The mean of each cluster; the origin for one that is not shown."""
    return np.nan_to_num(middles_of(flat, labels, int(np.max(labels, initial=-1)) + 1)[0])


def failure_figure(rows: Sequence[Row]) -> Figure:
    """K, NMI and ARI by number of true clusters: a row of panels per start, a line per dimension.

    Lines are means over data sets, bars standard deviations.
    """
    methods = distinct(rows, "method")
    dims = sorted(distinct(rows, "dim"))
    panels = (("clusters found", "n_clusters"), ("NMI", "nmi"), ("ARI", "ari"))
    with new_figure(PAGE_WIDTH, 0.6 + 2.2 * len(methods)) as figure:
        grid = figure.subplots(len(methods), 3, sharex=True, sharey="col", squeeze=False)
        for line, method in zip(grid, methods, strict=True):
            for axes, (heading, column) in zip(line, panels, strict=True):
                for number, dim in enumerate(dims):
                    here = select(rows, method=method, dim=dim)
                    counts = sorted(distinct(here, "clusters"))
                    samples = [values(select(here, clusters=count), column) for count in counts]
                    colour, marker = COLOURS[number % len(COLOURS)], MARKERS[number % len(MARKERS)]
                    look: Any = {"color": colour, "marker": marker, "markersize": 4, "capsize": 2, "linewidth": 1.2}
                    means, deviations = map(np.mean, samples), map(np.std, samples)
                    axes.errorbar(counts, [*means], yerr=[*deviations], label=f"D = {dim}", **look)
                axes.set_ylabel(heading)
                axes.grid(axis="y", color=FAINT, linewidth=0.4)
            most = max(int(row["clusters"]) for row in rows)
            line[0].plot([0, most], [0, most], color=INK, linestyle="--", linewidth=1, zorder=1)
            line[0].set_title(method)
            number_ticks(line[0].yaxis, whole=True)
        for axes in grid[-1]:
            axes.set_xlabel("true clusters")
            number_ticks(axes.xaxis, whole=True)
        handles, names = grid[0, 0].get_legend_handles_labels()
        figure.legend(handles, names, loc="outside upper center", ncols=len(dims))
    return figure


@dataclass(frozen=True)
class SplitExample:
    """A cluster of two components, and how each method splits it."""

    level: str
    X: FloatArray
    labellings: Mapping[str, IntArray]
    """By the title of the panel."""


def splits_figure(examples: Sequence[SplitExample]) -> Figure:
    """A row of panels per example: the truth, and the split of each start."""
    columns = len(examples[0].labellings)
    with new_figure(PAGE_WIDTH, 1.9 * len(examples)) as figure:
        grid = figure.subplots(len(examples), columns, squeeze=False, sharex="row", sharey="row")
        for line, example in zip(grid, examples, strict=True):
            points = np.asarray(example.X, dtype=np.float64)
            flat = projection(points, standardised=True).flat(points)
            # A few distant points would shrink the others to a dot.
            low, high = np.percentile(flat, [0.5, 99.5], axis=0)
            margin = 0.15 * (high - low)
            truth = next(iter(example.labellings.values()))
            for axes, (title, labels) in zip(line, example.labellings.items(), strict=True):
                # Halves are named as in the truth.
                same = 2 * int((truth == labels).sum()) >= len(labels)
                # In random order, so that neither half covers the other.
                order = np.random.default_rng(0).permutation(len(flat))
                colours = np.array(COLOURS[:2])[labels if same else 1 - labels][order]
                axes.scatter(*flat[order].T, c=colours, s=4, linewidths=0, alpha=0.7, rasterized=True)
                axes.set_xlim(low[0] - margin[0], high[0] + margin[0])
                axes.set_ylim(low[1] - margin[1], high[1] + margin[1])
                axes.set_title(title, fontsize=9)
                axes.set_xticks([])
                axes.set_yticks([])
            line[0].set_ylabel(example.level)
    return figure
