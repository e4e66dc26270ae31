"""Draws for ArviZ: an InferenceData of ArviZ 0.x, a DataTree of ArviZ 1."""

from __future__ import annotations

from inspect import signature
from typing import Any

import numpy as np

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
    weights = decreasing_weights(draws.weights)
    return {
        "posterior": {"n_clusters": draws.n_clusters, "alpha": draws.alpha, "weights": weights},
        "sample_stats": {
            "lp": draws.log_posterior,
            "split_acceptance_rate": draws.splits / np.maximum(draws.splits_proposed, 1),
            "merge_acceptance_rate": draws.merges / np.maximum(draws.merges_proposed, 1),
        },
    }
