"""Compiled loops of the priors of categorical columns."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.families.multinomial.proportions import draw_log_proportions
from dpmmwrap.numerics.special import compiled_float64 as compiled
from dpmmwrap.numerics.special import log_gamma

__all__ = ["draw_log_proportions", "log_marginals"]


@compiled
def log_marginals(prior: Any, edges: Any, sums: Any) -> Any:
    """Log marginal likelihood of each cluster's levels, column by column. O(K F)."""
    found = np.empty(len(sums))
    for k in range(len(sums)):
        total = 0.0
        for column in range(len(edges) - 1):
            whole, n = 0.0, 0.0
            for f in range(edges[column], edges[column + 1]):
                whole += prior[f]
                if sums[k, f] > 0.0:
                    n += sums[k, f]
                    total += log_gamma(prior[f] + sums[k, f]) - log_gamma(prior[f])
            total += log_gamma(whole) - log_gamma(whole + n)
        found[k] = total
    return found
