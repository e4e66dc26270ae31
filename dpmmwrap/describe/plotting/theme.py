"""The style of all plots. matplotlib is imported only when one is drawn."""

from __future__ import annotations

import contextlib
import importlib.util
import math
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.files import write_atomically

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which colour-blind people can tell apart, without black (for ellipses) and yellow (faint on
# white), and with Paul Tol's wine red.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#882255")
# For more clusters: in CIELAB each is as far from all others as the two nearest of those above are from each other.
MORE_COLOURS = (
    *COLOURS, "#911EB4", "#E6194B", "#66A61E", "#8B5A2B", "#DDCC77", "#6F4C9B",
    "#661100", "#808000", "#FB9A99", "#DC050C", "#CAB2D6", "#90C987",
)  # fmt: skip
INK = "#222222"
FAINT = "#B5B5B5"
SHADES = ((0.0, 0), (0.45, 255), (0.35, 0), (0.25, 255), (0.55, 0))
"""The share of white (255) or black (0) that is mixed into a colour."""


def shade(colour: str, index: int) -> str:
    """The colour itself (0), and lighter and darker shades of it."""
    mix, towards = SHADES[index % len(SHADES)]
    parts = (int(colour[at : at + 2], 16) for at in (1, 3, 5))
    return "#" + "".join(f"{round((1 - mix) * part + mix * towards):02X}" for part in parts)


def available() -> bool:
    return importlib.util.find_spec("matplotlib") is not None


@contextlib.contextmanager
def style() -> Iterator[None]:
    """Our settings of matplotlib; the user's are not changed."""
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


@contextlib.contextmanager
def new_figure(width: float, height: float) -> Iterator[Figure]:
    """A figure in our style that draws into memory, without a window or pyplot's state."""
    with style():
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height))
        FigureCanvasAgg(figure)
        yield figure


def save_figure(path: str | Path, figure: Figure) -> None:
    write_atomically(path, lambda file: figure.savefig(file, format="png"))


def cluster_ticks(axes: Axes, fewest: float, most: float) -> None:
    """Ticks at whole numbers of clusters; a wide range is logarithmic, so that small numbers show, too."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    if most <= 4 * max(fewest, 1):
        # Otherwise a constant number of clusters would have ticks at fractions.
        axes.set_ylim(min(axes.get_ylim()[0], fewest - 0.5), max(axes.get_ylim()[1], most + 0.5))
        number_ticks(axes.yaxis, whole=True)
        return
    axes.set_yscale("log")
    # There is no half a cluster.
    axes.set_ylim(bottom=max(0.8, axes.get_ylim()[0]))
    # Over more than two decades 2 and 5 would overlap, over more than one 2 and 3.
    ratio = most / max(fewest, 1)
    axes.yaxis.set_major_locator(LogLocator(subs=[1, 2, 3, 5] if ratio <= 15 else [1, 2, 5] if ratio <= 200 else [1]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def number_ticks(axis: Any, *, whole: bool = False, most: int = 5) -> None:
    """A few round numbers, with as many digits as they need. Call this after drawing."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    locator = MaxNLocator(nbins=most, integer=whole, min_n_ticks=1, steps=[1, 2, 5, 10])
    axis.set_major_locator(locator)
    steps = np.diff(locator.tick_values(*axis.get_view_interval()))
    step = float(steps.min()) if len(steps) else 1.0
    digits = max(0, -math.floor(round(math.log10(step), 6))) if step > 0 else 0
    axis.set_major_formatter(StrMethodFormatter(f"{{x:,.{digits}f}}"))


def line_panel(axes: Axes, name: str) -> None:
    """The style of lines along iterations or draws."""
    axes.set_ylabel(name)
    axes.margins(x=0.01, y=0.08)
    axes.grid(axis="y", color=FAINT, linewidth=0.4)


def step_axis(axes: Axes, name: str) -> None:
    """The axis of iterations or draws, counted from 1. Call this after drawing."""
    begin, end = axes.dataLim.intervalx
    if end - begin < 2:
        axes.set_xlim(begin - 0.5, end + 0.5)
    number_ticks(axes.xaxis, whole=True, most=9)
    axes.set_xlabel(name)
