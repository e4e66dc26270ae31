"""Missing values of rows from a fitted mixture: their means, or draws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.random import Generator

from dpmmwrap.numerics.arrays import Float64Array, FloatArray
from dpmmwrap.numerics.categorical_draws import draw_columns

if TYPE_CHECKING:
    from dpmmwrap.mixture import Mixture

BLOCK = 1 << 12
"""Rows at a time."""
NEGLIGIBLE = 1e-6
"""Components with a smaller probability do not count in means."""


def impute(mixture: Mixture, X: Any, n_draws: int | None, rng: Generator) -> Float64Array:
    """Rows with their missing values filled (n, D), or `n_draws` copies of them with drawn values (n_draws, n, D)."""
    if mixture.posterior.input != "numbers" or not mixture.posterior.covariances:
        raise ValueError(f"impute needs Gaussian clusters, not the family {mixture.family}")
    if mixture.preparation is not None:
        raise ValueError("impute does not support models of scaled or projected features")
    if mixture.subspace is not None:
        raise ValueError("impute does not support clusters in a subspace: fit with subspace=None")
    rows = np.array(mixture._rows(X), np.float64)
    copies = np.repeat(rows[None], 1 if n_draws is None else n_draws, axis=0)
    gaps = np.flatnonzero(np.isnan(rows).any(axis=1))
    for begin in range(0, len(gaps), BLOCK):
        chosen = gaps[begin : begin + BLOCK]
        kept = mixture._useful(rows[chosen])
        # The probabilities of components given the observed values of each row (rows, components).
        if mixture.averaged is not None:
            posterior, shares = mixture.averaged.posterior, mixture.averaged._shares(kept)[0]
            shares /= len(mixture.averaged.starts)
        else:
            posterior, densities = mixture.posterior, mixture._log_densities(kept)
            shares = np.exp(densities - densities.max(axis=1, keepdims=True))
            shares /= shares.sum(axis=1, keepdims=True)
        for copy in copies:
            if n_draws is None:
                filled = expected_rows(posterior, shares, kept)
            else:
                filled = posterior.impute(kept, draw_columns(shares, rng), rng)
            whole = filled if mixture.restored is None else mixture.restored.features(filled)
            copy[chosen] = np.where(np.isnan(rows[chosen]), whole, rows[chosen])
    return copies[0] if n_draws is None else copies


def expected_rows(posterior: Any, shares: Float64Array, rows: FloatArray) -> Float64Array:
    """The conditional means of the components, weighted by their probabilities."""
    means, weights = np.zeros(rows.shape), np.where(shares < NEGLIGIBLE, 0.0, shares)
    weights /= weights.sum(axis=1, keepdims=True)
    for k in np.flatnonzero(weights.any(axis=0)):
        likely = np.flatnonzero(weights[:, k])
        means[likely] += weights[likely, k][:, None] * posterior.impute(rows[likely], np.full(len(likely), k), None)
    return means
