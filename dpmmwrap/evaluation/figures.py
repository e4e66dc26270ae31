"""Pictures of a fit. The only importer of matplotlib, and only when a picture is drawn."""

from __future__ import annotations

import contextlib
import importlib.util
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.files import write_atomically
from dpmmwrap.trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind people tell apart, without their black (the ellipses have
# it) and their yellow (faint on white), and with Paul Tol's wine red.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#882255")
INK = "#222222"
FAINT = "#B5B5B5"
SHOWN = 20_000
"""Points drawn at most; more only make a larger and darker picture."""
NUMBERED = 60
"""Clusters up to which the ellipses bear their numbers."""
STANDARD_DEVIATIONS = 2.0


def available() -> bool:
    """Whether matplotlib is installed."""
    return importlib.util.find_spec("matplotlib") is not None


@contextlib.contextmanager
def style() -> Iterator[None]:
    """One look for all pictures, without touching the user's settings."""
    import matplotlib

    settings = {
        "figure.dpi": 150,
        "savefig.dpi": 150,
        "figure.constrained_layout.use": True,
        "font.size": 10,
        "axes.titlesize": 11,
        "axes.titlelocation": "left",
        "axes.spines.top": False,
        "axes.spines.right": False,
        "axes.edgecolor": INK,
        "axes.labelcolor": INK,
        "axes.prop_cycle": matplotlib.cycler(color=COLOURS),
        "text.color": INK,
        "xtick.color": INK,
        "ytick.color": INK,
        "lines.linewidth": 1.5,
        "legend.frameon": False,
    }
    with matplotlib.rc_context(settings):
        yield


def new_figure(width: float, height: float) -> Figure:
    """A figure that draws into memory: no window, no screen, no pyplot state to clean up."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height))
    FigureCanvasAgg(figure)
    return figure


def save_figure(path: str | Path, figure: Figure) -> None:
    write_atomically(path, lambda file: figure.savefig(file, format="png"))


def save_both(folder: Path, name: str, figure: Figure) -> str:
    """As name.png and name.svg; returns the former."""
    import matplotlib

    save_figure(folder / f"{name}.png", figure)
    # Fixed ids and no date: the same figure is the same file.
    with matplotlib.rc_context({"svg.hashsalt": name}):
        write_atomically(
            folder / f"{name}.svg", lambda file: figure.savefig(file, format="svg", metadata={"Date": None})
        )
    return f"{name}.png"


def colour_legend(figure: Figure, colours: dict[str, str], hatched: Collection[str] = ()) -> None:
    """What each colour stands for, above all panels."""
    from matplotlib.patches import Patch

    marks = [
        Patch(facecolor=colour, alpha=0.7, label=name, hatch="////" if name in hatched else None)
        for name, colour in colours.items()
    ]
    figure.legend(handles=marks, loc="outside upper center", ncols=min(4, len(marks)))


def clusters_figure(
    X: FloatArray,
    labels: IntArray,
    means: FloatArray,
    covariances: FloatArray,
    *,
    title: str | None = None,
    seed: int = 0,
) -> Figure:
    """The points in the colours of their clusters, with an ellipse at two standard deviations for each.

    Beyond two dimensions, the first two principal components; in one, a histogram.
    Outliers (label -1) are grey crosses.
    """
    rng = np.random.default_rng(seed)
    rows = np.arange(len(X)) if len(X) <= SHOWN else np.sort(rng.choice(len(X), SHOWN, replace=False))
    points, marks = np.asarray(X[rows], dtype=np.float64), np.asarray(labels)[rows]
    centres, covariances = np.asarray(means, dtype=np.float64), np.asarray(covariances, dtype=np.float64)
    with style():
        figure = new_figure(7.0, 5.6)
        axes = figure.add_subplot()
        if points.shape[1] == 1:
            _draw_histogram(axes, points[:, 0], marks, centres[:, 0])
        else:
            origin, directions, names = projection(points)
            flat = (centres - origin) @ directions
            shapes = directions.T @ covariances @ directions
            _draw_points(axes, (points - origin) @ directions, marks, spread_colours(flat), rng)
            _draw_ellipses(axes, flat, shapes)
            axes.set_xlabel(names[0])
            axes.set_ylabel(names[1])
        shown = "" if len(rows) == len(X) else f" ({len(rows):,} shown)"
        axes.set_title(title or f"{len(centres)} clusters in {len(X):,} points{shown}")
    return figure


def projection(points: Float64Array) -> tuple[Float64Array, Float64Array, tuple[str, str]]:
    """An origin, two directions as columns, and the names of the axes."""
    if points.shape[1] == 2:
        return np.zeros(2), np.eye(2), ("feature 1", "feature 2")
    origin = points.mean(axis=0)
    variances, directions = np.linalg.eigh(np.cov(points, rowvar=False))
    shares = variances[::-1] / max(variances.sum(), np.finfo(float).tiny)
    names = [f"principal component {i + 1} ({shares[i]:.0%} of the variance)" for i in range(2)]
    return origin, directions[:, :-3:-1], (names[0], names[1])


def spread_colours(centres: Float64Array) -> list[str]:
    """A colour per cluster such that neighbours differ: each takes the one that is farthest away so far."""
    taken: list[int] = []
    for centre in centres:
        away = np.full(len(COLOURS), np.inf)
        for place, colour in zip(centres, taken, strict=False):
            away[colour] = min(away[colour], float(np.linalg.norm(centre - place)))
        taken.append(int(np.argmax(away)))
    return [COLOURS[colour] for colour in taken]


def _draw_points(
    axes: Axes, points: Float64Array, labels: IntArray, colours: list[str], rng: np.random.Generator
) -> None:
    size = float(np.clip(40_000 / len(points), 2.0, 16.0))
    # In random order, or the last cluster would cover those it overlaps.
    inside = rng.permutation(np.flatnonzero(labels >= 0))
    palette = np.array(colours or [FAINT])
    axes.scatter(
        points[inside, 0],
        points[inside, 1],
        c=palette[labels[inside]],
        s=size,
        linewidths=0,
        alpha=0.6,
        rasterized=True,
    )
    outside = labels < 0
    if outside.any():
        axes.scatter(
            points[outside, 0],
            points[outside, 1],
            c=FAINT,
            s=4 * size,
            marker="x",
            linewidths=0.8,
            label="outliers",
            zorder=0,
        )
        axes.legend(loc="best")


def _draw_ellipses(axes: Axes, means: Float64Array, covariances: Float64Array) -> None:
    from matplotlib.patches import Ellipse

    variances, directions = np.linalg.eigh(covariances)
    radii = STANDARD_DEVIATIONS * np.sqrt(np.maximum(variances, 0.0))
    for mean, (minor, major), axis in zip(means, radii, directions[:, :, 1], strict=True):
        angle = np.degrees(np.arctan2(axis[1], axis[0]))
        outline = Ellipse(mean, 2 * major, 2 * minor, angle=angle, fill=False, edgecolor=INK, linewidth=0.9, zorder=3)
        axes.add_patch(outline)
    # Patches alone do not widen the axes.
    reach = STANDARD_DEVIATIONS * np.sqrt(np.maximum(np.diagonal(covariances, axis1=1, axis2=2), 0.0))
    axes.update_datalim(np.vstack([means - reach, means + reach]))
    axes.autoscale_view()
    if len(means) <= NUMBERED:
        _draw_numbers(axes, means, radii[:, 1, None] * directions[:, :, 1])


def _draw_numbers(axes: Axes, means: Float64Array, major: Float64Array) -> None:
    """Number the clusters at their means, or farther along the ellipse where another number is in the way."""
    from matplotlib.patheffects import withStroke

    room = np.array([0.026 * np.ptp(axes.get_xlim()), 0.03 * np.ptp(axes.get_ylim())])
    placed = np.empty((0, 2))
    for number, (mean, axis) in enumerate(zip(means, major, strict=True)):
        places = [mean + shift * axis for shift in (0.0, 0.45, -0.45, 0.8, -0.8)]
        free = [place for place in places if (np.abs(placed - place) > room).any(axis=1).all()]
        if not free:
            continue
        placed = np.vstack([placed, free[0]])
        halo = withStroke(linewidth=2.5, foreground="white")
        axes.text(*free[0], str(number), ha="center", va="center", fontsize=8, zorder=4, path_effects=[halo])


def _draw_histogram(axes: Axes, values: Float64Array, labels: IntArray, means: Float64Array) -> None:
    """One dimension: how many points lie where, stacked by cluster."""
    numbers = [k for k in range(len(means)) if (labels == k).any()]
    colours = spread_colours(means[:, None])
    edges = np.histogram_bin_edges(values, bins=min(120, max(10, int(np.sqrt(len(values))))))
    stacks: list[Any] = [values[labels == k] for k in numbers]
    fills = [colours[k] for k in numbers]
    if (labels < 0).any():
        stacks.append(values[labels < 0])
        fills.append(FAINT)
    axes.hist(stacks, bins=edges, stacked=True, color=fills)
    axes.set_xlabel("feature 1")
    axes.set_ylabel("points")


def trace_figure(trace: Trace, *, true_clusters: int | None = None, title: str | None = None) -> Figure:
    """Clusters, log posterior and, where a truth is known, NMI along the iterations, one above the other."""
    iterations = np.arange(1, len(trace) + 1)
    panels = [("clusters", trace.n_clusters), ("log posterior", trace.log_posterior)]
    if np.isfinite(trace.nmi).any():
        panels.append(("NMI with the truth", trace.nmi))
    with style():
        figure = new_figure(7.0, 0.9 + 1.7 * len(panels))
        rows = np.atleast_1d(figure.subplots(len(panels), 1, sharex=True))
        for axes, (name, values), colour in zip(rows, panels, COLOURS, strict=False):
            axes.plot(iterations, values, color=colour, marker="o" if len(trace) == 1 else None)
            axes.set_ylabel(name)
            axes.margins(x=0.01, y=0.08)
            axes.grid(axis="y", color=FAINT, linewidth=0.4)
        _tidy_ticks(rows, true_clusters)
        rows[0].set_title(title or f"{len(trace)} iterations")
        rows[-1].set_xlabel("iteration")
    return figure


def _tidy_ticks(rows: Any, true_clusters: int | None) -> None:
    from matplotlib.ticker import LogLocator, MaxNLocator, NullLocator, StrMethodFormatter

    lowest, highest = rows[0].dataLim.intervaly
    if highest > 4 * max(lowest, 1):
        # From many clusters to few: what happens among the few should be seen, too.
        rows[0].set_yscale("log")
        rows[0].yaxis.set_major_locator(LogLocator(subs=[1, 2, 5]))
        rows[0].yaxis.set_minor_locator(NullLocator())
        rows[0].yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    else:
        rows[0].yaxis.set_major_locator(MaxNLocator(integer=True, nbins=5, steps=[1, 2, 5, 10]))
    rows[1].yaxis.set_major_locator(MaxNLocator(nbins=5, steps=[1, 2, 5, 10]))
    rows[1].yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    rows[-1].xaxis.set_major_locator(MaxNLocator(integer=True, steps=[1, 2, 5, 10]))
    figure = rows[0].figure
    figure.align_ylabels(list(rows))
    if true_clusters is not None:
        rows[0].axhline(true_clusters, color=INK, linestyle="--", linewidth=1, label=f"truth: {true_clusters}")
        rows[0].legend(loc="upper right")
