"""Plots of a fit and of its posterior. Only this folder and `evaluation.figures` import matplotlib, when they draw."""

from dpmmwrap.describe.plotting.clusters import fit_figure
from dpmmwrap.describe.plotting.groups import groups_figure
from dpmmwrap.describe.plotting.posterior import chains_figure, coclustering_figure, n_clusters_figure, trace_figure
from dpmmwrap.describe.plotting.theme import available, save_figure

__all__ = [
    "available",
    "chains_figure",
    "coclustering_figure",
    "fit_figure",
    "groups_figure",
    "n_clusters_figure",
    "save_figure",
    "trace_figure",
]
