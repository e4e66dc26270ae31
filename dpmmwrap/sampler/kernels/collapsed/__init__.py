"""Clusters with their parameters integrated out, compiled by numba: what exact moves ask of a family, point by point.

A bundle of clusters holds, for each, what its posterior predictive needs, and has room for clusters that are not born
yet; an empty one is the prior. The functions here are the same for all families to their callers, and numba chooses by
the bundle's type: a move is written once. `prepare` works out what the predictive of a cluster needs beside the point;
whoever changes a cluster calls it again before `log_predictive`. `counts` are the caller's.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numba import types
from numba.extending import overload

from dpmmwrap.sampler.kernels.collapsed import counts, numeric, whitened
from dpmmwrap.sampler.kernels.collapsed.counts import CodeClusters, CountClusters
from dpmmwrap.sampler.kernels.collapsed.numeric import NumericClusters
from dpmmwrap.sampler.kernels.collapsed.whitened import WhitenedClusters
from dpmmwrap.special import OPTIONS

__all__ = [
    "CodeClusters",
    "CountClusters",
    "MixedClusters",
    "MixedRows",
    "NumericClusters",
    "WhitenedClusters",
    "add_cluster",
    "add_point",
    "add_rows",
    "clear",
    "log_marginal",
    "log_predictive",
    "prepare",
]


class MixedClusters(NamedTuple):
    """Numeric and categorical columns."""

    counts: Any
    numeric: Any
    codes: Any


class MixedRows(NamedTuple):
    numeric: Any
    codes: Any


def prepare(clusters: Any, k: int) -> None:
    """Work out what `log_predictive` needs of cluster k."""
    raise NotImplementedError


def log_predictive(clusters: Any, k: int, X: Any, row: int) -> float:
    """log density of cluster k's posterior predictive at a row, since it was last prepared."""
    raise NotImplementedError


def add_point(clusters: Any, k: int, X: Any, row: int, sign: float) -> None:
    """Add a row to cluster k, or take it out (sign -1)."""
    raise NotImplementedError


def add_rows(clusters: Any, k: int, X: Any, rows: Any, sides: Any, side: int) -> None:
    """Add all rows of a side to cluster k."""
    raise NotImplementedError


def add_cluster(clusters: Any, k: int, others: Any, m: int) -> None:
    """Add all points of cluster m of a bundle to cluster k of the same or another one."""
    raise NotImplementedError


def log_marginal(clusters: Any, k: int) -> float:
    """log marginal likelihood of cluster k's points."""
    raise NotImplementedError


def clear(clusters: Any, k: int) -> None:
    """Make cluster k empty."""
    raise NotImplementedError


def _is(bundle: Any, kind: type) -> bool:
    return isinstance(bundle, types.BaseNamedTuple) and getattr(bundle, "instance_class", None) is kind


JIT: Any = {name: value for name, value in OPTIONS.items() if name in ("nogil", "error_model")} | {
    "fastmath": {"reassoc", "contract"}
}

# By the bundle's type. numba looks at what these functions return for it, not at what they do.


@overload(prepare, jit_options=JIT, strict=False)
def _prepare(clusters: Any, k: Any) -> Any:
    if _is(clusters, WhitenedClusters):
        return lambda clusters, k: whitened.prepare(clusters, k)
    if _is(clusters, NumericClusters):
        return lambda clusters, k: numeric.prepare(clusters, k)
    if _is(clusters, CountClusters):
        return lambda clusters, k: None
    if _is(clusters, MixedClusters):

        def prepare_both(clusters: Any, k: Any) -> None:
            numeric.prepare(clusters.numeric, k)
            counts.prepare_codes(clusters.codes, k)

        return prepare_both
    return None


@overload(log_predictive, jit_options=JIT, strict=False)
def _log_predictive(clusters: Any, k: Any, X: Any, row: Any) -> Any:
    if _is(clusters, WhitenedClusters):
        return lambda clusters, k, X, row: whitened.log_predictive(clusters, k, X, row)
    if _is(clusters, NumericClusters):
        return lambda clusters, k, X, row: numeric.log_predictive(clusters, k, X, row)
    if _is(clusters, CountClusters) and isinstance(X, types.BaseNamedTuple):
        return lambda clusters, k, X, row: counts.sparse_log_predictive(clusters, k, X, row)
    if _is(clusters, CountClusters):
        return lambda clusters, k, X, row: counts.dense_log_predictive(clusters, k, X, row)
    if _is(clusters, MixedClusters):
        return lambda clusters, k, X, row: (
            numeric.log_predictive(clusters.numeric, k, X.numeric, row)
            + counts.codes_log_predictive(clusters.codes, k, X.codes, row)
        )
    return None


@overload(add_point, jit_options=JIT, strict=False)
def _add_point(clusters: Any, k: Any, X: Any, row: Any, sign: Any) -> Any:
    if _is(clusters, WhitenedClusters):
        return lambda clusters, k, X, row, sign: whitened.add_point(clusters, k, X, row, sign)
    if _is(clusters, NumericClusters):
        return lambda clusters, k, X, row, sign: numeric.add_point(clusters, k, X, row, sign)
    if _is(clusters, CountClusters) and isinstance(X, types.BaseNamedTuple):
        return lambda clusters, k, X, row, sign: counts.sparse_add_point(clusters, k, X, row, sign)
    if _is(clusters, CountClusters):
        return lambda clusters, k, X, row, sign: counts.dense_add_point(clusters, k, X, row, sign)
    if _is(clusters, MixedClusters):

        def add_both(clusters: Any, k: Any, X: Any, row: Any, sign: Any) -> None:
            numeric.add_point(clusters.numeric, k, X.numeric, row, sign)
            counts.codes_add_point(clusters.codes, k, X.codes, row, sign)

        return add_both
    return None


@overload(add_rows, jit_options=JIT, strict=False)
def _add_rows(clusters: Any, k: Any, X: Any, rows: Any, sides: Any, side: Any) -> Any:
    if _is(clusters, WhitenedClusters):
        return lambda clusters, k, X, rows, sides, side: whitened.add_rows(clusters, k, X, rows, sides, side)

    def one_by_one(clusters: Any, k: Any, X: Any, rows: Any, sides: Any, side: Any) -> None:
        for place in range(len(rows)):
            if sides[place] == side:
                add_point(clusters, k, X, rows[place], 1.0)

    return one_by_one


@overload(add_cluster, jit_options=JIT, strict=False)
def _add_cluster(clusters: Any, k: Any, others: Any, m: Any) -> Any:
    if _is(clusters, WhitenedClusters):
        return lambda clusters, k, others, m: whitened.add_cluster(clusters, k, others, m)
    if _is(clusters, NumericClusters):
        return lambda clusters, k, others, m: counts.add_sums(clusters, k, others, m)
    if _is(clusters, CountClusters):
        return lambda clusters, k, others, m: counts.add_counts(clusters, k, others, m)
    if _is(clusters, MixedClusters):

        def add_both(clusters: Any, k: Any, others: Any, m: Any) -> None:
            counts.add_sums(clusters.numeric, k, others.numeric, m)
            counts.add_sums(clusters.codes, k, others.codes, m)

        return add_both
    return None


@overload(log_marginal, jit_options=JIT, strict=False)
def _log_marginal(clusters: Any, k: Any) -> Any:
    if _is(clusters, WhitenedClusters):
        return lambda clusters, k: whitened.log_marginal(clusters, k)
    if _is(clusters, NumericClusters):
        return lambda clusters, k: numeric.log_marginal(clusters, k)
    if _is(clusters, CountClusters):
        return lambda clusters, k: counts.log_marginal(clusters, k)
    if _is(clusters, MixedClusters):
        return lambda clusters, k: (
            numeric.log_marginal(clusters.numeric, k) + counts.codes_log_marginal(clusters.codes, k)
        )
    return None


@overload(clear, jit_options=JIT, strict=False)
def _clear(clusters: Any, k: Any) -> Any:
    if _is(clusters, WhitenedClusters):
        return lambda clusters, k: whitened.clear(clusters, k)
    if _is(clusters, NumericClusters):
        return lambda clusters, k: counts.clear_sums(clusters, k)
    if _is(clusters, CountClusters):
        return lambda clusters, k: counts.clear_counts(clusters, k)
    if _is(clusters, MixedClusters):

        def clear_both(clusters: Any, k: Any) -> None:
            counts.clear_sums(clusters.numeric, k)
            counts.clear_sums(clusters.codes, k)

        return clear_both
    return None
