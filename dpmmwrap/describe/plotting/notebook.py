"""Plots of a fitted model in a notebook: axes in, axes out."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.describe.plotting.clusters import SHOWN, column_indices, some_rows
from dpmmwrap.describe.plotting.theme import (
    COLOURS,
    FAINT,
    INK,
    available,
    cluster_ticks,
    line_panel,
    number_ticks,
    step_axis,
    style,
)
from dpmmwrap.describe.profiles import COUNT, LEVEL, Profiles
from dpmmwrap.describe.wording import counted, number, share
from dpmmwrap.numerics.arrays import Float64Array
from dpmmwrap.sampler.trace import COLUMNS

if TYPE_CHECKING:
    from matplotlib.axes import Axes


NAMES = {"n_clusters": "clusters", "log_posterior": "log posterior", "alpha": "concentration", "nmi": "NMI"}
"""Names of a trace's columns in plots."""


@contextlib.contextmanager
def on(ax: Axes | None, width: float, height: float) -> Iterator[Axes]:
    """The axes to draw into: the caller's, in the caller's style, or those of a new figure that a notebook shows."""
    if ax is not None:
        yield ax
        return
    if not available():
        raise ImportError("plots need matplotlib: pip install 'dpmmwrap[plot]'")
    from matplotlib import pyplot

    # The first figure of a session sets up the notebook's backend, whose settings would not outlast the style.
    figure = pyplot.figure(figsize=(width, height), dpi=100, layout="constrained")
    with style():
        yield figure.add_subplot()


def plot_trace(model: Any, what: str, ax: Axes | None) -> Axes:
    if what not in COLUMNS:
        raise ValueError(f"what should be one of {', '.join(COLUMNS)}, not {what!r}")
    with on(ax, 7.0, 3.4) as axes:
        several = len(model.traces_) > 1
        for chain, trace in enumerate(model.traces_):
            steps = np.arange(1, len(trace) + 1)
            colour = COLOURS[chain % len(COLOURS)]
            # The chain of the result is on top.
            order = 3 if trace is model.trace_ else 2
            name = f"chain {chain + 1}" + (", the best" if trace is model.trace_ else "")
            marker = "o" if len(trace) == 1 else None
            axes.plot(steps, trace[what], color=colour, marker=marker, label=name if several else None, zorder=order)
        line_panel(axes, NAMES.get(what, what.replace("_", " ")))
        if what == "n_clusters":
            cluster_ticks(axes, *axes.dataLim.intervaly)
        elif np.isfinite(axes.dataLim.intervaly).all():
            number_ticks(axes.yaxis)
        step_axis(axes, "iteration")
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


WRITTEN = 240
"""The largest number of cells that show their numbers."""
CLUSTERS = 60
"""The largest number of columns, which show the first clusters."""
REACH = 3.0
"""Larger differences have the same colour."""
LONG = 34
"""The largest length of a name."""


def draw_profiles(axes: Axes, profiles: Profiles, n_features: int) -> None:
    """A line for each of the features that differ most, and a column for each cluster."""
    indices = profiles.most_telling(n_features)
    shown = min(profiles.n_clusters, CLUSTERS)
    apart = np.nan_to_num(profiles.apart[:shown][:, indices].T)
    reach = float(np.clip(np.abs(apart).max(initial=0.0), 1.0, REACH))
    picture = axes.imshow(apart, cmap="RdBu_r", vmin=-reach, vmax=reach, aspect="auto", interpolation="nearest")
    names = [str(profiles.features[index]) for index in indices]
    names = [name if len(name) <= LONG else f"{name[: LONG - 1]}…" for name in names]
    axes.set_yticks(range(len(indices)), names)
    step = -(-shown // 20)
    axes.set_xticks(range(0, shown, step), [str(k) for k in range(0, shown, step)])
    some = "" if shown == profiles.n_clusters else f", the first {shown} of {profiles.n_clusters}"
    axes.set_xlabel(f"cluster{some}")
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    counts = profiles.features[indices[0]].kind == COUNT
    bar = axes.figure.colorbar(picture, ax=axes, extend="both" if np.abs(apart).max(initial=0.0) > reach else "neither")
    bar.set_label("log2 of frequency / elsewhere" if counts else "SDs from the other rows")
    bar.outline.set_visible(False)
    if apart.size <= WRITTEN and shown <= 15:
        for line, index in enumerate(indices):
            is_share = profiles.features[index].kind in (COUNT, LEVEL)
            for k, value in enumerate(profiles.here[:shown, index].tolist()):
                text = "" if np.isnan(value) else share(value) if is_share else number(value, 3)
                colour = "white" if abs(apart[line, k]) > 0.65 * reach else INK
                axes.text(k, line, text, ha="center", va="center", color=colour, fontsize=8)
    axes.set_title(f"What sets {counted(profiles.n_clusters, 'cluster')} apart: means and shares")


LINE, MAP = 300, 80
"""Points along a line, and along each side of a map."""
FAR = 4.0
"""The standard deviations beyond the outermost clusters' means up to which the density is drawn."""


def plot_density(model: Any, columns: Sequence[str | int], rows: Any, level: float, ax: Axes | None) -> Axes:
    if not 0 < level < 1:
        raise ValueError(f"level should be between 0 and 1, not {level}")
    names = model.mixture_._feature_names
    indices = column_indices(columns, names)
    values = None if rows is None else np.asarray(rows, dtype=np.float64)[:, indices]
    with on(ax, 7.0, 5.6 if len(indices) == 2 else 3.8) as axes:
        draw = draw_line if len(indices) == 1 else draw_map
        draw(axes, model, indices, values, level)
        axes.set_xlabel(called(names[indices[0]]))
        return axes


def called(name: str) -> str:
    return f"column {name}" if name.isdecimal() else name


def reach_of(mixture: Any, index: int) -> tuple[float, float]:
    """The range of a column in which its density is drawn."""
    covariances = mixture.covariances
    variances = covariances if covariances.ndim == 2 else np.diagonal(covariances, axis1=1, axis2=2)
    middles, widths = mixture.means[:, index], FAR * np.sqrt(variances[:, index])
    return float((middles - widths).min()), float((middles + widths).max())


def draw_line(axes: Axes, model: Any, indices: list[int], values: Float64Array | None, level: float) -> None:
    """The mean density, its band, and a histogram of rows."""
    along = np.linspace(*reach_of(model.mixture_, indices[0]), LINE)
    density = model.density(along[:, None], ((1 - level) / 2, (1 + level) / 2), columns=indices)
    if values is not None:
        shown = values[np.isfinite(values[:, 0]), 0]
        axes.hist(shown, bins="auto", density=True, color=FAINT, alpha=0.6, label="rows")
    axes.fill_between(
        along, *density.quantiles, color=COLOURS[0], alpha=0.3, linewidth=0, label=f"{level:.0%} of draws"
    )
    axes.plot(along, density.mean, color=COLOURS[0], label="density")
    axes.set_ylim(bottom=0)
    axes.margins(x=0)
    axes.set_ylabel("density")
    axes.legend(fontsize=8)
    number_ticks(axes.yaxis)


def draw_map(axes: Axes, model: Any, indices: list[int], values: Float64Array | None, level: float) -> None:
    """The density in steps of its square root, so that thin clusters show beside dense ones."""
    mixture = model.mixture_
    across, up = (np.linspace(*reach_of(mixture, index), MAP) for index in indices)
    grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    mean = model.density(grid, (), columns=indices).mean.reshape(MAP, MAP)
    levels = mean.max() * np.linspace(0.1, 1.0, 8) ** 2
    axes.contourf(across, up, mean, levels=levels, cmap="Blues", extend="max")
    axes.contour(across, up, mean, levels=levels[:-1], colors=INK, linewidths=0.4)
    if values is not None:
        shown = values[some_rows(len(values), SHOWN, np.random.default_rng(0))]
        axes.scatter(shown[:, 0], shown[:, 1], s=3, color=INK, alpha=0.3, linewidths=0)
    axes.set_ylabel(called(mixture._feature_names[indices[1]]))
