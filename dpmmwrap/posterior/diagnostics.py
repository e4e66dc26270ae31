"""Whether the draws can be trusted: R-hat and effective sample size (Vehtari et al. 2021), computed by arviz-stats."""

from __future__ import annotations

import math
from inspect import signature
from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.numerics.arrays import Float64Array, FloatArray, IntArray
from dpmmwrap.sampler.draws import Draws

LARGEST = 3
"""The number of largest clusters whose weights are diagnosed."""
MAX_R_HAT = 1.1
"""Vehtari et al. recommend 1.01. But R-hat^2 is about 1 + (halves of chains) / (effective sample size), so with four
chains an R-hat above 1.04 comes with a note about too few effective draws anyway. This limit is for chains in different
modes: with 4 x 20 independent draws, the worst of six quantities exceeds 1.05 six times in ten, 1.1 once in twenty."""
MIN_ESS = 100
"""With a smaller effective sample size, the ends of a 95% interval depend on a few draws."""
MIN_DRAWS = 4
"""The least number of draws of each chain for diagnostics."""
WORDS = {
    "n_clusters": "the number of clusters",
    "log_posterior": "the log posterior",
    "alpha": "the concentration",
    "discount": "the discount",
    "weight_1": "the largest cluster's weight",
    "weight_2": "the second largest cluster's weight",
    "weight_3": "the third largest cluster's weight",
}
DIMS = {"weights": ["cluster"]}


class Diagnostic(NamedTuple):
    """One quantity, and how well the chains agree about it."""

    name: str
    mean: float
    sd: float
    r_hat: float
    """1 if all draws are the same, infinite if each chain stays at another value, NaN for too few draws."""
    ess_bulk: float
    """The number of independent draws that would be as informative about the mean, in all chains together."""
    ess_tail: float
    """The same for the 5% and 95% quantiles."""


def diagnose(draws: Draws) -> list[Diagnostic]:
    """Diagnostics of quantities that do not depend on the numbers of the clusters: how many there are, the log
    posterior, the concentration unless it is fixed, the largest weights."""
    quantities: dict[str, Any] = {"n_clusters": draws.n_clusters, "log_posterior": draws.log_posterior}
    if np.ptp(draws.alpha) > 0:
        quantities["alpha"] = draws.alpha
    if draws.discount is not None and np.ptp(draws.discount) > 0:
        quantities["discount"] = draws.discount
    largest = decreasing_weights(draws.weights)[..., :LARGEST]
    for rank in range(largest.shape[2]):
        if largest[..., rank].any():
            quantities[f"weight_{rank + 1}"] = largest[..., rank]
    return [diagnostic(name, np.asarray(values, np.float64)) for name, values in quantities.items()]


def decreasing_weights(weights: Float64Array) -> Float64Array:
    """Each draw's weights from the largest to the smallest."""
    return np.asarray(-np.sort(-weights, axis=-1))


def diagnostic(name: str, values: Float64Array) -> Diagnostic:
    """The diagnostic of one quantity (chains, draws)."""
    sd = float(values.std(ddof=1)) if values.size > 1 else math.nan
    if values.shape[1] < MIN_DRAWS or not np.isfinite(values).all():
        return Diagnostic(name, float(values.mean()), sd, math.nan, math.nan, math.nan)
    from arviz_stats.base.array import array_stats

    stats: Any = array_stats
    bulk, tail = stats.ess(values, method="bulk"), stats.ess(values, method="tail", prob=(0.05, 0.95))
    return Diagnostic(name, float(values.mean()), sd, r_hat(values, stats), float(bulk), float(tail))


def r_hat(values: Float64Array, stats: Any) -> float:
    """The rank-normalised split R-hat of (chains, draws)."""
    half = values.shape[1] // 2
    halves = np.concatenate([values[:, :half], values[:, -half:]])
    if not np.ptp(halves, axis=1).any():
        # Without any variance within chains R-hat is 0 / 0 or infinite.
        return math.inf if np.ptp(halves) > 0 else 1.0
    if len(values) == 1:
        # arviz-stats needs two chains or more, which it halves once more.
        values = halves
    if values.shape[1] < MIN_DRAWS:
        return math.nan
    # Draws that lie at two values, equally far from the median, have no variance once they are folded there.
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(stats.rhat(values))


def disagreement(diagnostics: list[Diagnostic], n_chains: int) -> list[str]:
    """A sentence about a problem with the draws and what to do about it, if there is one."""
    r_hats = {one.name: one.r_hat for one in diagnostics if not math.isnan(one.r_hat)}
    if not r_hats:
        return ["there are too few draws to tell whether the chains agree: draw more"]
    worst, r_hat = max(r_hats.items(), key=lambda item: item[1])
    if r_hat > MAX_R_HAT:
        who = "the chains disagree" if n_chains > 1 else "the chain has not converged"
        value = "infinite" if math.isinf(r_hat) else f"{r_hat:.2f}"
        remedies = "more draws or a longer search before them (max_iter)"
        if n_chains == 1:
            remedies = "more draws, a longer search before them (max_iter), or several chains"
        return [f"{who}: R-hat of {WORDS[worst]} is {value}, and should be below {MAX_R_HAT}: try {remedies}"]
    few = [(size, one.name) for one in diagnostics for size in (one.ess_bulk, one.ess_tail) if size < MIN_ESS]
    if not few:
        return []
    size, name = min(few, key=lambda item: item[0])
    return [
        f"the effective sample size of {WORDS[name]} is only {size:.0f}, and intervals need at least {MIN_ESS}: draw "
        "more"
    ]


def interval(n_clusters: IntArray | FloatArray, level: float = 0.95) -> tuple[int, int]:
    """The equal-tailed interval with at least `level` of the draws."""
    if not 0 < level <= 1:
        raise ValueError(f"level should be above 0 and at most 1, got {level}")
    ordered = np.sort(np.ravel(n_clusters))
    if not len(ordered):
        raise ValueError("an interval needs at least one draw, got none")
    outside = int(len(ordered) * (1 - level) / 2 + 1e-9)
    return int(ordered[outside]), int(ordered[len(ordered) - 1 - outside])


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
