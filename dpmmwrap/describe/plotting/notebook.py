"""Pictures of a fitted model in a notebook: axes in, axes out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.describe.plotting.clusters import draw_fit
from dpmmwrap.describe.plotting.posterior import draw_n_clusters
from dpmmwrap.describe.plotting.profiles import draw_profiles
from dpmmwrap.describe.plotting.theme import COLOURS, FAINT, available, cluster_ticks, counted, number_ticks, style
from dpmmwrap.describe.profiles import Profiles
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.posterior.draws import Draws
from dpmmwrap.sampler.trace import COLUMNS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

NAMES = {"n_clusters": "clusters", "log_posterior": "log posterior", "alpha": "concentration", "nmi": "NMI"}
"""Columns of a trace by other names than their own."""


@contextlib.contextmanager
def on(ax: Axes | None, width: float, height: float) -> Iterator[Axes]:
    """The axes to draw into: the caller's, in the caller's style, or those of a new figure that a notebook shows."""
    if ax is not None:
        yield ax
        return
    if not available():
        raise ImportError("pictures need matplotlib: pip install 'dpmmwrap[plot]'")
    from matplotlib import pyplot

    # The first figure of a session sets up the notebook's backend: within the style, its settings would not last.
    figure = pyplot.figure(figsize=(width, height), dpi=100, layout="constrained")
    with style():
        yield figure.add_subplot()


def plot_fit(
    model: Any,
    points: Any,
    labels: IntArray,
    names: Sequence[str] | None,
    columns: Sequence[str | int] | None,
    ax: Axes | None,
) -> Axes:
    with on(ax, 7.0, 5.6) as axes:
        draw_fit(axes, model, points, labels, names=names, columns=columns, own_figure=ax is None)
        return axes


def plot_trace(model: Any, what: str, ax: Axes | None) -> Axes:
    if what not in COLUMNS:
        raise ValueError(f"what should be one of {', '.join(COLUMNS)}, not {what!r}")
    with on(ax, 7.0, 3.4) as axes:
        several = len(model.traces_) > 1
        for chain, trace in enumerate(model.traces_):
            steps = np.arange(1, len(trace) + 1)
            colour = COLOURS[chain % len(COLOURS)]
            # The one that the result is of lies on top.
            order = 3 if trace is model.trace_ else 2
            name = f"chain {chain + 1}" + (", the best" if trace is model.trace_ else "")
            marker = "o" if len(trace) == 1 else None
            axes.plot(steps, trace[what], color=colour, marker=marker, label=name if several else None, zorder=order)
        axes.set_ylabel(NAMES.get(what, what.replace("_", " ")))
        axes.set_xlabel("iteration")
        axes.margins(x=0.01, y=0.08)
        axes.grid(axis="y", color=FAINT, linewidth=0.4)
        if what == "n_clusters":
            cluster_ticks(axes, *axes.dataLim.intervaly)
        elif np.isfinite(axes.dataLim.intervaly).all():
            number_ticks(axes.yaxis)
        if len(model.trace_) < 3:
            axes.set_xlim(0.5, len(model.trace_) + 0.5)
        number_ticks(axes.xaxis, whole=True, most=9)
        axes.set_title(counted(len(model.trace_), "iteration") + (f", {len(model.traces_)} chains" if several else ""))
        if 1 < len(model.traces_) <= len(COLOURS):
            axes.legend(fontsize=8)
        return axes


def plot_profile(profiles: Profiles, n_features: int, ax: Axes | None) -> Axes:
    if n_features < 1:
        raise ValueError(f"n_features should be at least 1, not {n_features}")
    lines = min(n_features, len(profiles.features))
    with on(ax, 3.6 + 0.55 * min(profiles.n_clusters, 15), 1.6 + 0.32 * max(lines, 3)) as axes:
        draw_profiles(axes, profiles, n_features)
        return axes


def plot_posterior(draws: Draws, ax: Axes | None) -> Axes:
    with on(ax, 7.0, 3.8) as axes:
        draw_n_clusters(axes, draws, own_figure=ax is None)
        return axes
