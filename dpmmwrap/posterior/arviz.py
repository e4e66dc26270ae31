"""Draws for ArviZ: an InferenceData of ArviZ 0.x, a DataTree of ArviZ 1."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, IntArray
from dpmmwrap.posterior.diagnostics import decreasing_weights
from dpmmwrap.sampler.draws import Draws

DIMS = {"weights": ["cluster"]}


def to_arviz(draws: Draws) -> Any:
    """The draws for ArviZ's plots and summaries: `posterior` has n_clusters, alpha and weights, the largest first;
    `sample_stats` has lp and the acceptance rates of splits and merges."""
    try:
        import arviz
    except ImportError as error:
        raise ImportError("to_arviz needs ArviZ: pip install 'dpmmwrap[posterior]'") from error
    library: Any = arviz
    groups = arviz_groups(draws)
    # ArviZ 1 takes one dictionary instead of keywords.
    if "posterior" in signature(library.from_dict).parameters:
        return library.from_dict(**groups, dims=DIMS)
    return library.from_dict(groups, dims=DIMS)


def arviz_groups(draws: Draws) -> dict[str, dict[str, Any]]:
    """The groups of arrays, the same for every version of ArviZ."""
    return {
        "posterior": {
            "n_clusters": draws.n_clusters,
            "alpha": draws.alpha,
            "weights": decreasing_weights(draws.weights),
        },
        "sample_stats": {
            "lp": draws.log_posterior,
            "split_acceptance_rate": acceptance_rate(draws.splits, draws.splits_proposed),
            "merge_acceptance_rate": acceptance_rate(draws.merges, draws.merges_proposed),
        },
    }


def acceptance_rate(accepted: IntArray, proposed: IntArray) -> Float64Array:
    """The share of proposals that were accepted, 0 without proposals."""
    return np.asarray(accepted / np.maximum(proposed, 1), np.float64)
