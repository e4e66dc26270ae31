"""Small matrices, many at a time: compiled loops where NumPy's per-call cost and temporaries would dominate.

Everything here is float64 and batched over the first axis. A cluster count of twenty at two
dimensions means sixty 2x2 factors per iteration: the arithmetic is nothing, the calls are all.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

compiled: Any = njit(cache=True, nogil=True)


@compiled
def cholesky(matrices: Any) -> Any:
    """Lower Cholesky factors; where one does not exist, its first entry is not a number."""
    count, dim = matrices.shape[0], matrices.shape[1]
    factors = np.zeros((count, dim, dim))
    for k in range(count):
        for j in range(dim):
            pivot = matrices[k, j, j]
            for m in range(j):
                pivot -= factors[k, j, m] * factors[k, j, m]
            if not pivot > 0.0:
                factors[k, 0, 0] = np.nan
                break
            root = np.sqrt(pivot)
            factors[k, j, j] = root
            for i in range(j + 1, dim):
                rest = matrices[k, i, j]
                for m in range(j):
                    rest -= factors[k, i, m] * factors[k, j, m]
                factors[k, i, j] = rest / root
    return factors


@compiled
def half_log_determinants(factors: Any) -> Any:
    """log |L| of each triangular factor, which is half of log |L L'|."""
    count, dim = factors.shape[0], factors.shape[1]
    totals = np.zeros(count)
    for k in range(count):
        for j in range(dim):
            totals[k] += np.log(factors[k, j, j])
    return totals


@compiled
def right_divide(numerators: Any, factors: Any) -> Any:
    """W with W L = T for lower triangular T and L; W is lower triangular as well."""
    count, dim = factors.shape[0], factors.shape[1]
    quotients = np.zeros((count, dim, dim))
    for k in range(count):
        for i in range(dim):
            for j in range(i + 1):
                quotients[k, i, j] = numerators[k, i, j]
            # From the last column back, taking each found entry off the ones before it: rows only, no columns.
            for j in range(i, -1, -1):
                found = quotients[k, i, j] / factors[k, j, j]
                quotients[k, i, j] = found
                for m in range(j):
                    quotients[k, i, m] -= found * factors[k, j, m]
    return quotients


@compiled
def solve(factors: Any, vectors: Any) -> Any:
    """L^-1 v for each lower triangular L and its vector v."""
    count, dim = factors.shape[0], factors.shape[1]
    solutions = np.empty((count, dim))
    for k in range(count):
        for i in range(dim):
            rest = vectors[k, i]
            for m in range(i):
                rest -= factors[k, i, m] * solutions[k, m]
            solutions[k, i] = rest / factors[k, i, i]
    return solutions


@compiled
def add_outer(base: Any, matrices: Any, weights: Any, vectors: Any) -> Any:
    """base + matrix + weight * vector vector' for each matrix."""
    count, dim = vectors.shape
    totals = np.empty((count, dim, dim))
    for k in range(count):
        for i in range(dim):
            scaled = weights[k] * vectors[k, i]
            for j in range(dim):
                totals[k, i, j] = base[i, j] + matrices[k, i, j] + scaled * vectors[k, j]
    return totals


@compiled
def log_multigamma(halves: Any, dim: Any) -> Any:
    """log of the multivariate gamma function, less its constant power of pi."""
    totals = np.zeros(len(halves))
    for k in range(len(halves)):
        for j in range(dim):
            totals[k] += math.lgamma(halves[k] - 0.5 * j)
    return totals
