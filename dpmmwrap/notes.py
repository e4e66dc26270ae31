"""Sentences about what may be wrong with a result, and what to try. Never silent."""

from __future__ import annotations

from typing import Any

from dpmmwrap.mixture import Mixture
from dpmmwrap.trace import Trace

PARAMETERS = {"full": lambda dim: dim * (dim + 3) // 2, "diag": lambda dim: 2 * dim, "spherical": lambda dim: dim + 1}
"""Numbers that describe one cluster."""


def notes_on(mixture: Mixture, trace: Trace, read: Any) -> list[str]:
    """What a user should know of a fit."""
    notes = []
    if mixture.n_clusters == 1 and len(trace) >= 20 and not trace.splits.any():
        notes.append(no_split(mixture.family))
    per_cluster = PARAMETERS.get(mixture.family, lambda dim: 0)(mixture.dim)
    largest = int(mixture.counts.max())
    if mixture.family == "full" and largest < per_cluster:
        notes.append(
            f"every cluster has fewer points (the largest {largest:,}) than a full covariance has numbers "
            f"({per_cluster:,}): covariance_type='diag' needs fewer"
        )
    return notes


def no_split(family: str) -> str:
    """What to try when no split was ever accepted."""
    others = {
        "full": "covariance_type='diag'",
        "diag": "covariance_type='full'",
        "spherical": "covariance_type='diag'",
    }.get(family, "a smaller concentration of the prior")
    return (
        "no split was ever accepted, so all points are one cluster: if you expect more, try "
        f"{others}, init_clusters='many', or a narrower prior"
    )
