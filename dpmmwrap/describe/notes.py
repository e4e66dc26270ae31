"""Notes about what may be wrong with a result, and what to try."""

from __future__ import annotations

from dpmmwrap.mixture import Mixture
from dpmmwrap.numerics.agreement import AGREEMENT
from dpmmwrap.sampler.settings import Result
from dpmmwrap.sampler.stopping import still_rising

MANY = 20
"""More multinomial clusters than this are too many if they have fewer rows than this on average."""


def doubts_about(mixture: Mixture, result: Result, stopped_by: str = "max_iter") -> list[str]:
    """Why a result may be wrong, one sentence each."""
    doubts, trace = [], result.trace
    if still_rising(trace) and stopped_by not in ("flat", "interrupt") and not result.interrupted:
        doubts.append(
            f"the log posterior was still rising after {len(trace)} iterations: a longer search (max_iter) may find "
            "more"
        )
    alike = result.agreement
    if alike and max(alike) < AGREEMENT and result.draws is None:
        doubts.append(
            f"no other of the {len(alike) + 1} chains found this clustering (adjusted Rand index with it: "
            f"{sum(alike) / len(alike):.2f} on average), so another seed may give a different one: try more chains "
            "(n_chains), or draws (n_draws), which show how sure each point is"
        )
    if mixture.n_clusters == 1 and len(trace) >= 20 and not trace.splits.any():
        doubts.append(no_split(mixture.posterior.other))
    largest = int(mixture.counts.max())
    per_cluster = mixture.posterior.n_parameters(mixture.dim)
    if mixture.posterior.correlated and largest < per_cluster:
        doubts.append(
            f"every cluster has fewer points (the largest {largest:,}) than a full covariance has numbers "
            f"({per_cluster:,}): covariance_type='diag' needs fewer"
        )
    if mixture.posterior.profile == "counts" and mixture.n_clusters > MANY > mixture.counts.sum() / mixture.n_clusters:
        doubts.append(
            f"the {mixture.n_clusters} clusters have {mixture.counts.sum() / mixture.n_clusters:.0f} rows on average: "
            "counts that repeat within a row, as words do in long texts, are split into too many clusters; try a few "
            "principal components of their tf-idf, with family='gaussian'"
        )
    return doubts


def no_split(other: str) -> str:
    """What to try when no split was ever accepted."""
    return (
        "no split was ever accepted, so all points are one cluster: if you expect more, try "
        f"{other}, init_clusters='many', or a narrower prior"
    )
