"""Pictures of a fit and of its posterior. matplotlib is imported here and in `evaluation.figures`, and only when a
picture is drawn."""

from dpmmwrap.plotting.clusters import (
    COORDINATES_SHOWN,
    ELLIPSE,
    GAUSSIAN,
    NUMBERED,
    SHOWN,
    STANDARD_DEVIATIONS,
    clusters_figure,
    filled,
    fit_figure,
    heading_of,
    map_figure,
    matched,
    middles_of,
    some_rows,
    spread_colours,
)
from dpmmwrap.plotting.groups import groups_figure
from dpmmwrap.plotting.posterior import chains_figure, coclustering_figure, n_clusters_figure
from dpmmwrap.plotting.projections import WIDE, Projection, is_sparse, principal_components, projection
from dpmmwrap.plotting.theme import (
    COLOURS,
    FAINT,
    INK,
    available,
    cluster_ticks,
    counted,
    new_figure,
    number_ticks,
    save_figure,
    style,
)
from dpmmwrap.plotting.traces import trace_figure

__all__ = [
    "COLOURS",
    "COORDINATES_SHOWN",
    "ELLIPSE",
    "FAINT",
    "GAUSSIAN",
    "INK",
    "NUMBERED",
    "SHOWN",
    "STANDARD_DEVIATIONS",
    "WIDE",
    "Projection",
    "available",
    "chains_figure",
    "cluster_ticks",
    "clusters_figure",
    "coclustering_figure",
    "counted",
    "filled",
    "fit_figure",
    "groups_figure",
    "heading_of",
    "is_sparse",
    "map_figure",
    "matched",
    "middles_of",
    "n_clusters_figure",
    "new_figure",
    "number_ticks",
    "principal_components",
    "projection",
    "save_figure",
    "some_rows",
    "spread_colours",
    "style",
    "trace_figure",
]
