"""Log densities of many rows under many clusters: bounds from one matrix product, the exact formula for what is left.

Of two hundred clusters one or two matter to a row. A product of powers of the row with coefficients of the clusters, in
single precision and with all that rounding can do to it added, is an upper bound of every log density. A cluster whose
bound is NEGLIGIBLE below the row's best one adds nothing in double precision; the others are worked out by the family's
own formula, so that the product decides how long it takes and never what comes out.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from dpmmwrap.families.base import Points
from dpmmwrap.numerics.arrays import Float32Array, Float64Array, FloatArray, IntArray

NEGLIGIBLE = 50.0
"""In nats: a million clusters that are so much less probable change no digit of a double."""
PAIR_VALUES = 1 << 15
"""Values of pairs of rows and clusters that are worked on at a time: they stay in the cache."""
FEW = 30
"""Fewer rows than this are not worth another call."""
ONE_DRAW = np.zeros(1, np.int64)


def log_joint(
    posterior: Any, points: Points, log_weights: Float64Array, starts: IntArray = ONE_DRAW, within: float = NEGLIGIBLE
) -> Float64Array:
    """log of weight times predictive density (rows, components).

    `starts` are the first components of draws. What is not within so many nats of the best of its draw may be -inf.
    """
    # What overflows is no number, and no bound: it is worked out.
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
    # One cluster for all rows takes a third of the time of as many pairs.
    for k in np.flatnonzero(matter.sum(axis=0) > max(count / 3, FEW)):
        found.reshape(count, width)[:, k] = posterior.log_predictive_of(points, k) + log_weights[k]
        matter[:, k] = False
    work_out(np.flatnonzero(matter))
    return found.reshape(count, width)


def log_sum(logs: Float64Array) -> Float64Array:
    """log of the sum of each row's exponentials; a tenth of the time of SciPy's for a single row."""
    best = logs.max(axis=1, keepdims=True)
    return np.asarray(best[:, 0] + np.log(np.exp(logs - best).sum(axis=1)))


def in_blocks(answer: Callable[[Any, Any], Float64Array], X: Any, dim: int, rows: Any, components: Any) -> Float64Array:
    """What `answer` says of rows and components, pair by pair, or of all rows (None) and one component."""
    count, step = len(X) if rows is None else len(rows), max(1, PAIR_VALUES // max(dim, 1))
    found = np.empty(count)
    for begin in range(0, count, step):
        own = slice(begin, begin + step)
        found[own] = answer(X[own], components) if rows is None else answer(X[rows[own]], components[own])
    return found


def powers(values: FloatArray, degree: int) -> Float32Array:
    """Powers of each row's values up to a degree, the sums of their absolute values, and 1."""
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
    """What `powers` are multiplied with for upper bounds of polynomials: coefficients (degree, K, D), constants (K,).

    A sum of n products in single precision is wrong by at most n units of rounding times the sum of the products'
    absolute values, and that is at most the largest coefficient times the sum of the powers' absolute values.
    """
    degree, count, dim = coefficients.shape
    rounding = (degree * dim + 16) * float(np.finfo(np.float32).eps)
    largest = np.abs(coefficients).max(axis=2, initial=0.0)
    flat = np.moveaxis(coefficients, 1, 2).reshape(degree * dim, count)
    with np.errstate(over="ignore"):
        return np.concatenate([flat, rounding * largest, (constants + rounding * np.abs(constants))[None]]).astype(
            np.float32
        )
