"""What sets clusters apart: a table of means and shares, coloured by how far they lie from those of other rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from dpmmwrap.describe.plotting.theme import INK, counted
from dpmmwrap.describe.profiles import COUNT, LEVEL, Profiles
from dpmmwrap.numerics.arrays import Float64Array, IntArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

WRITTEN = 240
"""Cells up to which each has its number."""
CLUSTERS = 60
"""Columns at most: the first clusters."""
REACH = 3.0
"""Differences beyond this have the same colour."""
LONG = 34
"""Letters of a name at most."""


def draw_profiles(axes: Axes, profiles: Profiles, n_features: int) -> None:
    """A line for each of the most telling features, a column for each cluster."""
    places = profiles.most_telling(n_features)
    shown = min(profiles.n_clusters, CLUSTERS)
    apart = np.nan_to_num(profiles.apart[:shown][:, places].T)
    reach = float(np.clip(np.abs(apart).max(initial=0.0), 1.0, REACH))
    picture = axes.imshow(apart, cmap="RdBu_r", vmin=-reach, vmax=reach, aspect="auto", interpolation="nearest")
    axes.set_yticks(range(len(places)), [shortened(str(profiles.features[place])) for place in places])
    step = -(-shown // 20)
    axes.set_xticks(range(0, shown, step), [str(k) for k in range(0, shown, step)])
    axes.set_xlabel(
        "cluster" if shown == profiles.n_clusters else f"cluster, the first {shown} of {profiles.n_clusters}"
    )
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    counts = profiles.features[places[0]].kind == COUNT
    bar = axes.figure.colorbar(picture, ax=axes, extend="both" if np.abs(apart).max(initial=0.0) > reach else "neither")
    bar.set_label("log2 of frequency / elsewhere" if counts else "SDs from the other rows")
    bar.outline.set_visible(False)
    if apart.size <= WRITTEN and shown <= 15:
        write_values(axes, profiles, places, apart / reach)
    axes.set_title(f"What sets {counted(profiles.n_clusters, 'cluster')} apart: means and shares")


def write_values(axes: Axes, profiles: Profiles, places: IntArray, depth: Float64Array) -> None:
    depths = np.abs(depth)
    for line, place in enumerate(places):
        share = profiles.features[place].kind in (COUNT, LEVEL)
        for k in range(depths.shape[1]):
            value = float(profiles.here[k, place])
            text = "" if np.isnan(value) else percent(value) if share else number(value)
            colour = "white" if depths[line, k] > 0.65 else INK
            axes.text(k, line, text, ha="center", va="center", color=colour, fontsize=8)


def percent(value: float) -> str:
    return f"{value:.0%}" if value >= 0.1 or value == 0 else f"{value:.1%}"


def number(value: float) -> str:
    return (f"{value:,.0f}" if 1e3 <= abs(value) < 1e7 else f"{value:.3g}").replace("-", "−")


def shortened(name: str) -> str:
    return name if len(name) <= LONG else f"{name[: LONG - 1]}…"
