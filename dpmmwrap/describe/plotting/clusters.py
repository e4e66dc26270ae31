"""Plots of clusters: coloured points, with ellipses if clusters are Gaussian."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from dpmmwrap.describe.plotting.projections import WIDE, is_sparse, projection
from dpmmwrap.describe.plotting.theme import COLOURS, FAINT, INK, MORE_COLOURS, new_figure, number_ticks
from dpmmwrap.describe.profiles import feature_names, mean_of
from dpmmwrap.describe.wording import counted
from dpmmwrap.families.tables import place_of
from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.posterior.density import marginal
from dpmmwrap.posterior.matching import contingency_table

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

SHOWN = 20_000
"""The largest number of points in a plot."""
COORDINATES_SHOWN = 20_000_000
"""The largest number of coordinates of a map; of wide rows, fewer are drawn."""
NUMBERED = 60
"""The largest number of clusters with numbers beside them."""
STANDARD_DEVIATIONS = 2.0
ELLIPSE = "a cluster's mean and two standard deviations (86% of its points)"
"""A Gaussian in the plane has 1 - exp(-2) of its points within two standard deviations."""


def fit_figure(model: Any, X: Any, *, names: Sequence[str] | None = None) -> Figure:
    """The clusters of a fitted `DPMM` of any family, and the rows that it was fitted to.

    Gaussian clusters have ellipses. Counts and mixed tables are shown in the coordinates in which their family compares
    rows. A column's mean replaces its missing values.
    """
    from dpmmwrap.model.rows import all_columns

    points = all_columns(model, X)
    with new_figure(7.0, 5.6) as figure:
        draw_fit(figure.add_subplot(), model, points, model.labels_, names=names)
    return figure


def draw_fit(
    axes: Axes,
    model: Any,
    points: Any,
    labels: IntArray,
    *,
    names: Sequence[str] | None = None,
    columns: Sequence[str | int] | None = None,
    own_figure: bool = True,
) -> None:
    """Draw any rows with all their columns, or one or two columns of them."""
    from dpmmwrap.model.empty_rows import with_values
    from dpmmwrap.model.rows import telling

    mixture = model.mixture_
    if columns is not None and not mixture.is_gaussian:
        raise ValueError(f"columns are for Gaussian clusters, not for the family {mixture.family}")
    every, names = points, feature_names(model, names)
    points, called = telling(mixture, points, names)
    present = with_values(points)
    if not present.all():
        every, points, labels = every[present], points[present], np.asarray(labels)[present]
    if columns is not None:
        names = names or mixture._feature_names
        indices = column_indices(columns, names)
        called = tuple(names[index] for index in indices)
        means, covariances = mixture.means[:, indices], marginal(mixture.covariances, indices)
        if np.isnan(means).any():
            raise ValueError(f"a column of {', '.join(called)} had no value in the fit")
        draw_clusters(axes, every[:, indices], labels, means, covariances, names=called)
    elif mixture.is_gaussian:
        # In the columns that are drawn.
        inside = replace(mixture, restored=None, subspace=None)
        draw_clusters(axes, points, labels, inside.means, inside.covariances, names=called)
    else:
        kind = ", standardised columns" if mixture.columns is not None else ""
        draw_map(axes, points, labels, mixture.posterior.embedder(points), kind=kind)
    _draw_legend(axes, own_figure)


def column_indices(columns: Sequence[str | int], names: Sequence[str]) -> list[int]:
    if len(columns) not in (1, 2):
        raise ValueError(f"columns should be one or two columns, not {len(columns)}")
    return [place_of(name, names, "columns") for name in columns]


def draw_clusters(
    axes: Axes,
    X: FloatArray,
    labels: IntArray,
    means: FloatArray,
    covariances: FloatArray,
    *,
    names: Sequence[str] | None = None,
) -> None:
    """The points in the colours of their clusters, with an ellipse at two standard deviations for each.

    One dimension is a histogram; beyond two, the first two principal components of the standardised features are shown.
    Covariances are (K, D, D), or variances (K, D). Outliers (-1) are grey crosses.
    """
    rng = np.random.default_rng(0)
    rows = some_rows(len(X), SHOWN, rng)
    points, marks = np.asarray(X[rows], dtype=np.float64), np.asarray(labels)[rows]
    centres = np.asarray(means, dtype=np.float64)
    names = names or [f"feature {number + 1}" for number in range(points.shape[1])]
    if points.shape[1] == 1:
        known = ~np.isnan(points[:, 0])
        _draw_histogram(axes, points[known, 0], marks[known], centres[:, 0], names[0])
    else:
        points = filled(points)
        seen = projection(points, names, standardised=True)
        flat = seen.flat(centres)
        _draw_points(axes, seen.flat(points), marks, spread_colours(flat), rng)
        _draw_ellipses(axes, flat, seen.shapes(np.asarray(covariances, dtype=np.float64)))
        seen.name(axes)
    axes.set_title(heading_of(len(centres), len(X), len(rows)))


def draw_map(axes: Axes, points: Any, labels: IntArray, embed: Callable[[Any], Any], *, kind: str = "") -> None:
    """A map of rows that are not points in space: the first two principal components of their coordinates.

    `embed` makes dense or sparse coordinates from rows; `kind` describes them. Clusters have numbers, but no ellipses.
    """
    rng = np.random.default_rng(0)
    width = max(1, embed(points[:1]).shape[1])
    rows = some_rows(points.shape[0], min(SHOWN, max(2, COORDINATES_SHOWN // width)), rng)
    marks = np.asarray(labels)[rows]
    clusters = int(np.max(labels, initial=-1)) + 1
    coordinates = embed(points[rows])
    if not is_sparse(coordinates):
        coordinates = filled(np.asarray(coordinates, dtype=np.float64))
    elif coordinates.shape[1] <= WIDE:
        coordinates = coordinates.toarray().astype(np.float64)
    if coordinates.shape[1] == 1:
        middles, _ = middles_of(coordinates, marks, clusters)
        _draw_histogram(axes, coordinates[:, 0], marks, np.nan_to_num(middles[:, 0]), "the only coordinate")
    else:
        seen = projection(coordinates, ("coordinate 1", "coordinate 2"), kind=kind)
        flat = seen.flat(coordinates)
        middles, reaches = middles_of(flat, marks, clusters)
        _draw_points(axes, flat, marks, spread_colours(np.nan_to_num(middles)), rng)
        if clusters <= NUMBERED:
            _draw_numbers(axes, middles, reaches)
        seen.name(axes)
    axes.set_title(heading_of(clusters, len(labels), len(rows)))


def heading_of(clusters: int, points: int, shown: int) -> str:
    few = "" if shown == points else f" ({shown:,} shown)"
    return f"{counted(clusters, 'cluster')} in {counted(points, 'point')}{few}"


def some_rows(count: int, most: int, rng: np.random.Generator) -> IntArray:
    """The rows that are drawn, in order: all, or a sample."""
    return np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False))


def filled(points: Float64Array) -> Float64Array:
    """The points, with a column's mean in place of missing values."""
    gaps = np.isnan(points)
    return np.where(gaps, mean_of(points), points) if gaps.any() else points


def middles_of(points: Float64Array, labels: IntArray, clusters: int) -> tuple[Float64Array, Float64Array]:
    """The mean of each cluster's points (NaN without points), and their spread along the first axis."""
    middles, reaches = np.full((clusters, points.shape[1]), np.nan), np.zeros((clusters, points.shape[1]))
    for k in range(clusters):
        members = points[labels == k]
        if len(members):
            middles[k] = members.mean(axis=0)
            reaches[k, 0] = members[:, 0].std()
    return middles, reaches


def spread_colours(centres: Float64Array, given: Mapping[int, str] | None = None) -> list[str]:
    """A colour per cluster such that neighbours differ: each takes the colour whose clusters are farthest away.

    Some clusters may have one already, given by their numbers. Beyond seven clusters, more colours are used, which are
    harder to tell apart.
    """
    given = given or {}
    few = len(centres) <= len(COLOURS) and set(given.values()) <= set(COLOURS)
    palette = COLOURS if few else MORE_COLOURS
    taken = {other: palette.index(colour) for other, colour in given.items()}
    for number, centre in enumerate(centres):
        if number in taken:
            continue
        away = np.full(len(palette), np.inf)
        for other, colour in taken.items():
            away[colour] = min(away[colour], float(np.linalg.norm(centre - centres[other])))
        taken[number] = int(np.argmax(away))
    return [palette[taken[number]] for number in range(len(centres))]


def matched(labels: IntArray, reference: IntArray) -> dict[int, int]:
    """Pairs of clusters of two labellings, by number, that share as many points as possible; outliers are left out."""
    from scipy.optimize import linear_sum_assignment

    common = contingency_table(labels, reference)[:-1, :-1]
    pairs = zip(*linear_sum_assignment(common, maximize=True), strict=True)
    return {int(one): int(other) for one, other in pairs if common[one, other] > 0}


def _draw_points(
    axes: Axes, points: Float64Array, labels: IntArray, colours: list[str], rng: np.random.Generator
) -> None:
    size = float(np.clip(40_000 / len(points), 2.0, 16.0))
    # In random order, or the last cluster would cover the others.
    inside = rng.permutation(np.flatnonzero(labels >= 0))
    fills = np.array(colours or [FAINT])[labels[inside]]
    # With a smaller alpha, blue would look like another cluster's sky blue.
    axes.scatter(*points[inside].T, c=fills, s=size, linewidths=0, alpha=0.9, rasterized=True)
    outside = points[labels < 0]
    if len(outside):
        axes.scatter(*outside.T, c=FAINT, s=4 * size, marker="x", linewidths=0.8, label="outliers", zorder=0)


def _draw_legend(axes: Axes, own_figure: bool = True) -> None:
    """Explain ellipses and crosses: below the plot in a figure of ours, else where the fewest points are."""
    marks, _ = axes.get_legend_handles_labels()
    if marks and own_figure:
        axes.figure.legend(handles=marks, loc="outside lower right", ncols=len(marks), fontsize=8)
    elif marks:
        axes.legend(handles=marks, loc="best", fontsize=8)


def _draw_ellipses(axes: Axes, means: Float64Array, covariances: Float64Array) -> None:
    from matplotlib.patches import Ellipse

    variances, directions = np.linalg.eigh(covariances)
    radii = STANDARD_DEVIATIONS * np.sqrt(np.maximum(variances, 0.0))
    for mean, (minor, major), axis in zip(means, radii, directions[:, :, 1], strict=True):
        angle = np.degrees(np.arctan2(axis[1], axis[0]))
        outline = Ellipse(mean, 2 * major, 2 * minor, angle=angle, fill=False, edgecolor=INK, linewidth=0.9, zorder=3)
        axes.add_patch(outline)
    # A legend would show an ellipse as a box.
    axes.plot([], [], "o", fillstyle="none", color=INK, markeredgewidth=0.9, label=ELLIPSE)
    # Patches alone do not widen the axes.
    reach = STANDARD_DEVIATIONS * np.sqrt(np.maximum(np.diagonal(covariances, axis1=1, axis2=2), 0.0))
    axes.update_datalim(np.vstack([means - reach, means + reach]))
    axes.autoscale_view()
    if len(means) <= NUMBERED:
        _draw_numbers(axes, means, radii[:, 1, None] * directions[:, :, 1])


def _draw_numbers(axes: Axes, means: Float64Array, major: Float64Array) -> None:
    """Write each cluster's number at its mean, or along its ellipse if another number is in the way."""
    from matplotlib.patheffects import withStroke

    room = np.array([0.026 * np.ptp(axes.get_xlim()), 0.03 * np.ptp(axes.get_ylim())])
    placed = np.empty((0, 2))
    for number, (mean, axis) in enumerate(zip(means, major, strict=True)):
        if np.isnan(mean).any():
            continue
        positions = [mean + shift * axis for shift in (0.0, 0.45, -0.45, 0.8, -0.8)]
        free = [position for position in positions if (np.abs(placed - position) > room).any(axis=1).all()]
        if not free:
            continue
        placed = np.vstack([placed, free[0]])
        halo = withStroke(linewidth=2.5, foreground="white")
        axes.text(*free[0], str(number), ha="center", va="center", fontsize=8, zorder=4, path_effects=[halo])


def _number_above(axes: Axes, means: Float64Array, numbers: Sequence[int]) -> None:
    """Write the clusters' numbers above their means and all bars, on a second line if two would overlap."""
    axes.margins(y=0.12)
    lowest, highest = axes.get_xlim()
    last = [-np.inf, -np.inf]
    for k in sorted(numbers, key=lambda number: means[number]):
        line = next((line for line in (0, 1) if means[k] - last[line] > 0.03 * (highest - lowest)), None)
        if line is None:
            continue
        last[line] = means[k]
        across = axes.get_xaxis_transform()
        axes.text(means[k], 0.97 - 0.05 * line, str(k), transform=across, ha="center", va="center", fontsize=8)


def _draw_histogram(axes: Axes, values: Float64Array, labels: IntArray, means: Float64Array, name: str) -> None:
    """A histogram of one dimension, stacked by cluster."""
    numbers = [k for k in range(len(means)) if (labels == k).any()]
    colours = spread_colours(means[:, None])
    edges = np.histogram_bin_edges(values, bins=min(120, max(10, int(np.sqrt(len(values))))))
    stacks: list[Any] = [values[labels == k] for k in numbers]
    fills = [colours[k] for k in numbers]
    if (labels < 0).any():
        stacks.append(values[labels < 0])
        fills.append(FAINT)
        axes.plot([], [], "s", color=FAINT, label="outliers")
    axes.hist(stacks, bins=edges, stacked=True, color=fills)
    if len(numbers) <= NUMBERED:
        _number_above(axes, means, numbers)
    axes.set_xlabel(name)
    axes.set_ylabel("points")
    number_ticks(axes.yaxis, whole=True)
