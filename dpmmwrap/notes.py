"""Sentences about what may be wrong with a result, and what to try. Never silent."""

from __future__ import annotations

from dpmmwrap.families.defaults import parameters
from dpmmwrap.mixture import Mixture
from dpmmwrap.trace import Trace


def doubts_about(mixture: Mixture, trace: Trace) -> list[str]:
    """Why a result may be wrong, one sentence each."""
    doubts = []
    if mixture.n_clusters == 1 and len(trace) >= 20 and not trace.splits.any():
        doubts.append(no_split(mixture.family))
    largest = int(mixture.counts.max())
    per_cluster = parameters("full", mixture.dim)
    if mixture.family == "full" and largest < per_cluster:
        doubts.append(
            f"every cluster has fewer points (the largest {largest:,}) than a full covariance has numbers "
            f"({per_cluster:,}): covariance_type='diag' needs fewer"
        )
    return doubts


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
