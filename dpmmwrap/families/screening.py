"""Log densities of many rows under many clusters, screened by upper bounds from one matrix product.

Only a few clusters matter to each row. A product of powers of the row with coefficients of the clusters, in single
precision and increased by the largest possible rounding error, bounds every log density from above. A cluster whose
bound is more than NEGLIGIBLE below the row's best density contributes nothing in double precision. The others are
computed with the family's exact formula, so the bounds affect the time but not the result.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpmmwrap.families.base import Points
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, FloatArray, IntArray

NEGLIGIBLE = 50.0
"""In nats: a million clusters this much less probable do not change a double."""
PAIR_VALUES = 1 << 15
"""Values in a block of (row, cluster) pairs; such a block fits in the cache."""
FEW = 30
"""With fewer rows than this, a separate call for one cluster does not pay."""
ONE_DRAW = np.zeros(1, np.int64)


def log_joint(
    posterior: Any, points: Points, log_weights: Float64Array, starts: IntArray = ONE_DRAW, within: float = NEGLIGIBLE
) -> Float64Array:
    """Log of weight times predictive density (rows, components).

    `starts` are the indices of the first component of each draw. Entries more than `within` nats below the best of
    their draw may be -inf.
    """
    # If a bound overflows to inf or NaN, the exact value is computed.
    with np.errstate(over="ignore", invalid="ignore"):
        bound = getattr(posterior, "upper_bounds", None)
        bounds = None if bound is None else bound(points)
        if bounds is None:
            return np.asarray(posterior.log_predictive(points).T + log_weights)
        bounds += log_weights.astype(np.float32)
    count, width = bounds.shape
    found = np.full(count * width, -np.inf)

    def work_out(places: IntArray) -> None:
        rows, components = np.divmod(places, width)
        found[places] = posterior.log_predictive_at(points, rows, components) + log_weights[components]

    ends = np.append(starts[1:], width)
    likeliest = [begin + bounds[:, begin:end].argmax(axis=1) for begin, end in zip(starts, ends, strict=True)]
    best = np.stack(likeliest, axis=1) + width * np.arange(count)[:, None]
    work_out(best.ravel())
    least = found[best] - within
    matter = ~(bounds < (least if len(starts) == 1 else np.repeat(least, ends - starts, axis=1)))
    matter.reshape(-1)[best] = False
    # One cluster for all rows takes a third of the time of the same number of pairs.
    for k in np.flatnonzero(matter.sum(axis=0) > max(count / 3, FEW)):
        found.reshape(count, width)[:, k] = posterior.log_predictive_of(points, k) + log_weights[k]
        matter[:, k] = False
    work_out(np.flatnonzero(matter))
    return found.reshape(count, width)


def log_sum(logs: Float64Array) -> Float64Array:
    """Log of the sum of each row's exponentials. For a single row it takes a tenth of the time of SciPy's."""
    best = logs.max(axis=1, keepdims=True)
    return np.asarray(best[:, 0] + np.log(np.exp(logs - best).sum(axis=1)))


def in_blocks(answer: Callable[[Any, Any], Float64Array], X: Any, dim: int, rows: Any, components: Any) -> Float64Array:
    """Evaluate `answer` block by block: at pairs of rows and components, or at all rows (None) and one component."""
    count, step = len(X) if rows is None else len(rows), max(1, PAIR_VALUES // max(dim, 1))
    found = np.empty(count)
    for begin in range(0, count, step):
        own = slice(begin, begin + step)
        found[own] = answer(X[own], components) if rows is None else answer(X[rows[own]], components[own])
    return found


def powers(values: FloatArray, degree: int) -> Float32Array:
    """The powers of each row's values up to `degree`, the sums of the powers' absolute values, and 1."""
    rows, dim = values.shape
    found = np.empty((rows, degree * dim + degree + 1), np.float32)
    found[:, :dim] = values
    for power in range(1, degree):
        np.multiply(
            found[:, (power - 1) * dim : power * dim], found[:, :dim], out=found[:, power * dim : (power + 1) * dim]
        )
    for power in range(degree):
        np.abs(found[:, power * dim : (power + 1) * dim]).sum(axis=1, out=found[:, degree * dim + power])
    found[:, -1] = 1.0
    return found


def bounding_table(coefficients: Float64Array, constants: Float64Array) -> Float32Array:
    """The matrix that `powers` are multiplied by to bound polynomials: coefficients (degree, K, D), constants (K,).

    The rounding error of a sum of n products in single precision is at most n units of rounding times the sum of the
    products' absolute values. That sum is at most the largest coefficient times the sum of the powers' absolute values.
    """
    degree, count, dim = coefficients.shape
    rounding = (degree * dim + 16) * float(np.finfo(np.float32).eps)
    largest = np.abs(coefficients).max(axis=2, initial=0.0)
    flat = np.moveaxis(coefficients, 1, 2).reshape(degree * dim, count)
    with np.errstate(over="ignore"):
        return np.concatenate([flat, rounding * largest, (constants + rounding * np.abs(constants))[None]]).astype(
            np.float32
        )
