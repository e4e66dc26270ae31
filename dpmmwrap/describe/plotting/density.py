"""The density of one column with its band, or of two columns as a map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.describe.plotting.clusters import SHOWN, places_of, some_rows
from dpmmwrap.describe.plotting.notebook import on
from dpmmwrap.describe.plotting.theme import COLOURS, FAINT, INK, number_ticks
from dpmmwrap.numerics.arrays import Float64Array

if TYPE_CHECKING:
    from matplotlib.axes import Axes

LINE, MAP = 300, 80
"""Points along a line, and along each side of a map."""
REACH = 4.0
"""Standard deviations of the outermost clusters up to which it is drawn."""


def plot_density(model: Any, columns: Sequence[str | int], rows: Any, level: float, ax: Axes | None) -> Axes:
    if not 0 < level < 1:
        raise ValueError(f"level should be between 0 and 1, not {level}")
    names = model.mixture_._feature_names
    places = places_of(columns, names)
    values = None if rows is None else np.asarray(rows, dtype=np.float64)[:, places]
    with on(ax, 7.0, 5.6 if len(places) == 2 else 3.8) as axes:
        draw = draw_line if len(places) == 1 else draw_map
        draw(axes, model, places, values, level)
        axes.set_xlabel(called(names[places[0]]))
        return axes


def called(name: str) -> str:
    return f"column {name}" if name.isdecimal() else name


def reach_of(mixture: Any, place: int) -> tuple[float, float]:
    """From where to where a column's density is worth looking at."""
    covariances = mixture.covariances
    variances = covariances if covariances.ndim == 2 else np.diagonal(covariances, axis1=1, axis2=2)
    middles, widths = mixture.means[:, place], REACH * np.sqrt(variances[:, place])
    return float((middles - widths).min()), float((middles + widths).max())


def draw_line(axes: Axes, model: Any, places: list[int], values: Float64Array | None, level: float) -> None:
    """The mean, the band, and a histogram of rows."""
    along = np.linspace(*reach_of(model.mixture_, places[0]), LINE)
    found = model.density(along[:, None], ((1 - level) / 2, (1 + level) / 2), columns=places)
    if values is not None:
        shown = values[np.isfinite(values[:, 0]), 0]
        axes.hist(shown, bins="auto", density=True, color=FAINT, alpha=0.6, label="rows")
    axes.fill_between(along, *found.quantiles, color=COLOURS[0], alpha=0.3, linewidth=0, label=f"{level:.0%} of draws")
    axes.plot(along, found.mean, color=COLOURS[0], label="density")
    axes.set_ylim(bottom=0)
    axes.margins(x=0)
    axes.set_ylabel("density")
    axes.legend(fontsize=8)
    number_ticks(axes.yaxis)


def draw_map(axes: Axes, model: Any, places: list[int], values: Float64Array | None, level: float) -> None:
    """Where the density is high, in steps of its root, so that thin clusters are seen beside dense ones."""
    mixture = model.mixture_
    across, up = (np.linspace(*reach_of(mixture, place), MAP) for place in places)
    grid = np.stack(np.meshgrid(across, up), axis=-1).reshape(-1, 2)
    mean = model.density(grid, (), columns=places).mean.reshape(MAP, MAP)
    levels = mean.max() * np.linspace(0.1, 1.0, 8) ** 2
    axes.contourf(across, up, mean, levels=levels, cmap="Blues", extend="max")
    axes.contour(across, up, mean, levels=levels[:-1], colors=INK, linewidths=0.4)
    if values is not None:
        shown = values[some_rows(len(values), SHOWN, np.random.default_rng(0))]
        axes.scatter(shown[:, 0], shown[:, 1], s=3, color=INK, alpha=0.3, linewidths=0)
    axes.set_ylabel(called(mixture._feature_names[places[1]]))
