"""Compiled loops of Gamma priors on Poisson rates. `prior.py` has the mathematics."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.numerics.special import compiled_float64 as compiled
from dpmmwrap.numerics.special import log_gamma
from dpmmwrap.numerics.variates import standard_gammas


@compiled
def log_marginals(shapes: Any, rates: Any, sums: Any) -> Any:
    """Log marginal likelihood of each cluster's events, from sums (K, D + 1) with the exposure last. O(K D)."""
    dim = len(shapes)
    found = np.empty(len(sums))
    for k in range(len(sums)):
        total, exposure = 0.0, sums[k, dim]
        for j in range(dim):
            events = sums[k, j]
            total += shapes[j] * math.log(rates[j]) - (shapes[j] + events) * math.log(rates[j] + exposure)
            if events > 0.0:
                total += log_gamma(shapes[j] + events) - log_gamma(shapes[j])
        found[k] = total
    return found


@compiled
def draw_tables(key: Any, shapes: Any, rates: Any) -> Any:
    """Draw rates from each distribution (K, D); return a table (K, D + 1) of their logs and minus their sum."""
    count, dim = shapes.shape
    found, gammas = np.empty((count, dim + 1)), standard_gammas(key, shapes.ravel())
    for k in range(count):
        total = 0.0
        for j in range(dim):
            rate = max(gammas[k * dim + j], 1e-300) / rates[k, j]
            found[k, j] = math.log(rate)
            total += rate
        found[k, dim] = -total
    return found
