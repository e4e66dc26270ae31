"""The rows of a fit that are not free: those of known clusters, or those that share a cluster."""

from __future__ import annotations

from typing import Any

from dpmmwrap.model.inputs import FitData
from dpmmwrap.numerics.cells import is_remote
from dpmmwrap.streams.known import KnownBackend, known_labels
from dpmmwrap.streams.together import TogetherBackend, groups_of


def constraint_of(model: Any, y: Any, together: Any, read: FitData) -> KnownBackend | TogetherBackend | None:
    """A search that respects known clusters, or groups of rows; None if there are none."""
    remote = is_remote(read.points)
    known = None if y is None or remote else known_labels(y, read.n_rows)
    groups = None if together is None else groups_of(together, read.n_rows)
    if known is not None and groups is not None:
        raise ValueError("y with known clusters and together cannot both be given")
    if groups is not None and remote:
        raise ValueError("together needs the built-in sampler: backend should be native")
    if groups is not None and model.outlier_weight:
        raise ValueError("together knows no outlier component: outlier_weight should be 0")
    if model.n_draws and (known is not None or groups is not None):
        name = "y with known clusters" if groups is None else "together"
        raise ValueError(f"{name} is for a search: n_draws should be 0")
    if known is not None:
        return KnownBackend(known[read.rows])
    return None if groups is None else TogetherBackend(groups[read.rows])
