"""Labels of all members of a cluster from the two Gaussians of its context: loops compiled by numba, or on a GPU."""

from __future__ import annotations

from collections.abc import Callable

import numba
import numpy as np
import torch
from torch import Tensor

from dpmmwrap.arrays import Float32Array, Float64Array, IntArray, UInt8Array
from dpmmwrap.kernel_cache import kept


@kept(numba.njit(fastmath=True))
def label_members(
    X: Float32Array,
    rows: IntArray,
    centre: Float64Array,
    constant: float,
    linear: Float64Array,
    quadratic: Float64Array,
) -> UInt8Array:
    """1 where constant + linear . d + d' quadratic d > 0, with d = x - centre. Cost D^2 / 2 per member."""
    dim = len(centre)
    labels = np.empty(len(rows), dtype=np.uint8)
    d = np.empty(dim)
    for i in range(len(rows)):
        for j in range(dim):
            d[j] = X[rows[i], j] - centre[j]
        odds = constant
        for j in range(dim):
            # The quadratic form is symmetric: only its lower half is read.
            inner = linear[j] + quadratic[j, j] * d[j]
            for k in range(j):
                inner += 2.0 * quadratic[j, k] * d[k]
            odds += inner * d[j]
        labels[i] = odds > 0
    return labels


@kept(numba.njit(fastmath={"reassoc", "contract", "nsz", "arcp"}))
def label_members_by_feature(
    X: Float32Array,
    rows: IntArray,
    centre: Float64Array,
    constant: float,
    offsets: Float64Array,
    linear: Float64Array,
    quadratic: Float64Array,
) -> UInt8Array:
    """1 where constant + sum of offset + linear d + quadratic d^2 > 0, with d = x - centre, over what is not missing.

    Cost D per member. The compiler may reorder the sum, but not take it for granted that no value is missing.
    """
    dim = len(centre)
    labels = np.empty(len(rows), dtype=np.uint8)
    for i in range(len(rows)):
        odds = constant
        for j in range(dim):
            d = X[rows[i], j] - centre[j]
            term = offsets[j] + d * (linear[j] + d * quadratic[j])
            odds += 0.0 if np.isnan(d) else term
        labels[i] = odds > 0
    return labels


def label_uploaded(
    X: Tensor, rows: IntArray, centre: Tensor, log_odds: Callable[[Tensor], Tensor], at_once: int
) -> UInt8Array:
    """1 where the log odds of d = x - centre are positive, for data on a GPU; some of the rows at a time."""
    parts = torch.split(torch.as_tensor(np.asarray(rows)).to(X.device), at_once)
    labels = [log_odds(X[part].double() - centre) > 0 for part in parts]
    return torch.cat(labels).to(torch.uint8).cpu().numpy()
