"""Pictures of a fit. matplotlib is imported here and in `evaluation.figures`, and only when a picture is drawn."""

from __future__ import annotations

import contextlib
import importlib.util
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
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
COORDINATES_SHOWN = 20_000_000
"""Numbers in the coordinates of a map at most: of wide rows fewer are drawn."""
NUMBERED = 60
"""Clusters up to which the ellipses bear their numbers."""
STANDARD_DEVIATIONS = 2.0
WIDE = 256
"""Features up to which all principal components are computed; beyond, only the two that are drawn."""
GAUSSIAN = ("full", "diag", "spherical")


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


def counted(number: int, what: str) -> str:
    """1 cluster, 2 clusters."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def fit_figure(model: Any, X: Any, *, names: Sequence[str] | None = None, title: str | None = None) -> Figure:
    """The clusters of a fitted `DPMM` of any family, among the rows that it was fitted to.

    Gaussian clusters have ellipses; counts and mixed tables are a map of the coordinates in which their family
    compares rows. Where a value is missing, its column's mean stands for it.
    """
    mixture = model.mixture_
    if mixture.family in GAUSSIAN:
        rows = X if hasattr(X, "shape") and not hasattr(X, "columns") else np.asarray(X)
        return clusters_figure(rows, model.labels_, mixture.means, mixture.covariances, names=names, title=title)
    points = X if mixture.columns is None else mixture.columns.points(X)
    return map_figure(points, model.labels_, mixture.posterior.embedder(points), title=title)


def clusters_figure(
    X: FloatArray,
    labels: IntArray,
    means: FloatArray,
    covariances: FloatArray,
    *,
    names: Sequence[str] | None = None,
    title: str | None = None,
    seed: int = 0,
) -> Figure:
    """The points in the colours of their clusters, with an ellipse at two standard deviations for each.

    Beyond two dimensions, the first two principal components; in one, a histogram. Covariances (K, D, D), or variances
    (K, D). Outliers (label -1) are grey crosses.
    """
    rng = np.random.default_rng(seed)
    rows = some_rows(len(X), SHOWN, rng)
    points, marks = np.asarray(X[rows], dtype=np.float64), np.asarray(labels)[rows]
    centres = np.asarray(means, dtype=np.float64)
    heading = title or heading_of(len(centres), len(X), len(rows))
    names = names or [f"feature {number + 1}" for number in range(points.shape[1])]
    with style():
        figure = new_figure(7.0, 5.6)
        axes = figure.add_subplot()
        if points.shape[1] == 1:
            there = ~np.isnan(points[:, 0])
            _draw_histogram(axes, points[there, 0], marks[there], centres[:, 0], names[0])
        else:
            points = filled(points)
            seen = projection(points, names)
            flat = seen.flat(centres)
            _draw_points(axes, seen.flat(points), marks, spread_colours(flat), rng)
            _draw_ellipses(axes, flat, seen.shapes(np.asarray(covariances, dtype=np.float64)))
            seen.name(axes)
        axes.set_title(heading)
    return figure


def map_figure(
    points: Any, labels: IntArray, embed: Callable[[Any], Any], *, title: str | None = None, seed: int = 0
) -> Figure:
    """A map of rows that are not points in space: the first two principal components of their coordinates.

    `embed` makes coordinates, dense or sparse, of rows. No ellipses, but the clusters' numbers where they lie.
    """
    rng = np.random.default_rng(seed)
    width = max(1, embed(points[:1]).shape[1])
    rows = some_rows(points.shape[0], min(SHOWN, max(2, COORDINATES_SHOWN // width)), rng)
    marks = np.asarray(labels)[rows]
    clusters = int(np.max(labels, initial=-1)) + 1
    coordinates = embed(points[rows])
    if not is_sparse(coordinates):
        coordinates = filled(np.asarray(coordinates, dtype=np.float64))
    elif coordinates.shape[1] <= WIDE:
        coordinates = coordinates.toarray().astype(np.float64)
    with style():
        figure = new_figure(7.0, 5.6)
        axes = figure.add_subplot()
        if coordinates.shape[1] == 1:
            middles, _ = middles_of(coordinates, marks, clusters)
            _draw_histogram(axes, coordinates[:, 0], marks, np.nan_to_num(middles[:, 0]), "the only coordinate")
        else:
            seen = projection(coordinates, ("coordinate 1", "coordinate 2"))
            flat = seen.flat(coordinates)
            middles, reaches = middles_of(flat, marks, clusters)
            _draw_points(axes, flat, marks, spread_colours(np.nan_to_num(middles)), rng)
            if clusters <= NUMBERED:
                _draw_numbers(axes, middles, reaches)
            seen.name(axes)
        axes.set_title(title or heading_of(clusters, len(labels), len(rows)))
    return figure


def heading_of(clusters: int, points: int, shown: int) -> str:
    few = "" if shown == points else f" ({shown:,} shown)"
    return f"{counted(clusters, 'cluster')} in {counted(points, 'point')}{few}"


def some_rows(count: int, most: int, rng: np.random.Generator) -> IntArray:
    """The rows that are drawn, in order: all, or a sample."""
    return np.arange(count) if count <= most else np.sort(rng.choice(count, most, replace=False))


def filled(points: Float64Array) -> Float64Array:
    """The points with their column's mean where a value is missing."""
    gaps = np.isnan(points)
    if not gaps.any():
        return points
    means = np.where(gaps, 0.0, points).sum(axis=0) / np.maximum((~gaps).sum(axis=0), 1)
    return np.where(gaps, means, points)


def middles_of(points: Float64Array, labels: IntArray, clusters: int) -> tuple[Float64Array, Float64Array]:
    """Where the points of each cluster lie, and how far they reach along the first axis; NaN where none is shown."""
    middles, reaches = np.full((clusters, points.shape[1]), np.nan), np.zeros((clusters, points.shape[1]))
    for k in range(clusters):
        members = points[labels == k]
        if len(members):
            middles[k] = members.mean(axis=0)
            reaches[k, 0] = members[:, 0].std()
    return middles, reaches


def is_sparse(X: Any) -> bool:
    return hasattr(X, "toarray")


@dataclass(frozen=True)
class Projection:
    """How points come onto a flat picture."""

    origin: Float64Array
    directions: Float64Array
    """Two, as columns."""
    names: tuple[str, str]
    """Of the picture's axes."""

    def flat(self, points: Any) -> Float64Array:
        if is_sparse(points):
            return np.asarray(points @ self.directions - self.origin @ self.directions)
        return np.asarray((points - self.origin) @ self.directions)

    def shapes(self, covariances: Float64Array) -> Float64Array:
        """Covariances (K, D, D), or variances (K, D), as covariances in the picture (K, 2, 2)."""
        if covariances.ndim == 3:
            return np.asarray(self.directions.T @ covariances @ self.directions)
        return np.asarray(np.einsum("di,kd,dj->kij", self.directions, covariances, self.directions))

    def name(self, axes: Axes) -> None:
        axes.set_xlabel(self.names[0])
        axes.set_ylabel(self.names[1])


def projection(points: Any, names: Sequence[str] = ("feature 1", "feature 2")) -> Projection:
    """Two dimensions as they are, by their names; of more the first two principal components."""
    if points.shape[1] == 2 and not is_sparse(points):
        return Projection(np.zeros(2), np.eye(2), (names[0], names[1]))
    origin, directions, shares = principal_components(points)
    titles = [f"principal component {i + 1} ({shares[i]:.0%} of the variance)" for i in range(2)]
    return Projection(origin, directions, (titles[0], titles[1]))


def principal_components(points: Any) -> tuple[Float64Array, Float64Array, Float64Array]:
    """The mean, the first two directions as columns, and their shares of the variance."""
    if min(points.shape) > WIDE:
        from sklearn.decomposition import PCA

        # The two that are wanted and not all of thousands; sparse rows stay sparse.
        found = PCA(2, svd_solver="arpack", random_state=0).fit(points)
        return found.mean_, found.components_.T, found.explained_variance_ratio_
    points = points.toarray() if is_sparse(points) else points
    origin = points.mean(axis=0)
    if points.shape[1] > WIDE:
        _, lengths, rows = np.linalg.svd(points - origin, full_matrices=False)
        variances, directions = lengths[:2] ** 2, rows[:2].T
        whole = (lengths**2).sum()
    else:
        every, columns = np.linalg.eigh(np.cov(points, rowvar=False))
        variances, directions = every[:-3:-1], columns[:, :-3:-1]
        whole = every.sum()
    return origin, directions, variances / max(whole, np.finfo(float).tiny)


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
        if np.isnan(mean).any():
            continue
        places = [mean + shift * axis for shift in (0.0, 0.45, -0.45, 0.8, -0.8)]
        free = [place for place in places if (np.abs(placed - place) > room).any(axis=1).all()]
        if not free:
            continue
        placed = np.vstack([placed, free[0]])
        halo = withStroke(linewidth=2.5, foreground="white")
        axes.text(*free[0], str(number), ha="center", va="center", fontsize=8, zorder=4, path_effects=[halo])


def _draw_histogram(
    axes: Axes, values: Float64Array, labels: IntArray, means: Float64Array, name: str = "feature 1"
) -> None:
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
    axes.set_xlabel(name)
    axes.set_ylabel("points")
    number_ticks(axes.yaxis, whole=True)


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
        rows[0].axhline(true_clusters, color=INK, linestyle="--", linewidth=1, label=f"truth: {true_clusters}")
        rows[0].legend(loc="upper right")
    cluster_ticks(rows[0], fewest, most)
    for axes in rows[1:]:
        number_ticks(axes.yaxis)
    begin, end = rows[-1].dataLim.intervalx
    if end - begin < 2:
        rows[-1].set_xlim(begin - 0.5, end + 0.5)
    number_ticks(rows[-1].xaxis, whole=True, most=9)
    rows[0].figure.align_ylabels(list(rows))


def cluster_ticks(axes: Axes, fewest: float, most: float) -> None:
    """Whole numbers of clusters; from many to few, what happens among the few should be seen, too."""
    from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter

    if most <= 4 * max(fewest, 1):
        # The same number of clusters all the way would else have ticks at fractions.
        axes.set_ylim(min(axes.get_ylim()[0], fewest - 0.5), max(axes.get_ylim()[1], most + 0.5))
        number_ticks(axes.yaxis, whole=True)
        return
    axes.set_yscale("log")
    # There is no half a cluster.
    axes.set_ylim(bottom=max(0.8, axes.get_ylim()[0]))
    axes.yaxis.set_major_locator(LogLocator(subs=[1, 2, 5]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))


def number_ticks(axis: Any, *, whole: bool = False, most: int = 5) -> None:
    """A few round numbers, with as many digits as tell them apart. To be called when all is drawn."""
    from matplotlib.ticker import MaxNLocator, StrMethodFormatter

    locator = MaxNLocator(nbins=most, integer=whole, min_n_ticks=1, steps=[1, 2, 5, 10])
    axis.set_major_locator(locator)
    steps = np.diff(locator.tick_values(*axis.get_view_interval()))
    step = float(steps.min()) if len(steps) else 1.0
    digits = max(0, -math.floor(round(math.log10(step), 6))) if step > 0 else 0
    axis.set_major_formatter(StrMethodFormatter(f"{{x:,.{digits}f}}"))
