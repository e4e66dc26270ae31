"""Pictures of what happened along the iterations of a fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.describe.plotting.theme import (
    COLOURS,
    FAINT,
    INK,
    cluster_ticks,
    counted,
    new_figure,
    number_ticks,
    style,
)
from dpmmwrap.sampler.trace import Trace

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        rows[0].set_title(title or counted(len(trace), "iteration"))
        rows[-1].set_xlabel("iteration")
    return figure


def _tidy_ticks(rows: Any, true_clusters: int | None) -> None:
    fewest, most = rows[0].dataLim.intervaly
    if true_clusters is not None:
        rows[0].axhline(true_clusters, color=INK, linestyle="--", linewidth=1)
        # Beside the panel, where no line crosses it.
        beside = rows[0].get_yaxis_transform()
        rows[0].text(1.01, true_clusters, f"truth: {true_clusters:,}", transform=beside, va="center", fontsize=9)
    cluster_ticks(rows[0], fewest, most)
    for axes in rows[1:]:
        number_ticks(axes.yaxis)
    begin, end = rows[-1].dataLim.intervalx
    if end - begin < 2:
        rows[-1].set_xlim(begin - 0.5, end + 0.5)
    number_ticks(rows[-1].xaxis, whole=True, most=9)
    rows[0].figure.align_ylabels(list(rows))
