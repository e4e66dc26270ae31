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

from dpmmwrap.families.diagonal import collapsed as numeric
from dpmmwrap.families.diagonal.collapsed import NumericClusters
from dpmmwrap.families.full import collapsed as whitened
from dpmmwrap.families.full.collapsed import WhitenedClusters
from dpmmwrap.families.multinomial import collapsed as counts
from dpmmwrap.families.multinomial.collapsed import CodeClusters, CountClusters
from dpmmwrap.numerics.special import FLOAT64, INNER

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
    "copy_cluster",
    "copy_clusters",
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


SUMS: dict[type, tuple[str, ...]] = {
    WhitenedClusters: ("means", "strengths", "freedoms", "factors"),
    NumericClusters: ("sums",),
    CountClusters: ("sums", "totals"),
    CodeClusters: ("sums",),
}


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


def copy_cluster(clusters: Any, k: int, others: Any, m: int) -> None:
    """Make cluster k what cluster m of a bundle is, of the same or another one. Python may call it, too."""
    for own, its in zip(sums_of(clusters), sums_of(others), strict=True):
        own[k] = its[m]


def log_marginal(clusters: Any, k: int) -> float:
    """log marginal likelihood of cluster k's points."""
    raise NotImplementedError


def clear(clusters: Any, k: int) -> None:
    """Make cluster k empty. Python may call it, too."""
    for own in sums_of(clusters):
        own[k] = own[-1] if isinstance(clusters, WhitenedClusters) else 0.0


def copy_clusters(clusters: Any, used: int, others: Any) -> None:
    """Write the first clusters of a bundle into another one."""
    for own, its in zip([others.counts, *sums_of(others)], [clusters.counts, *sums_of(clusters)], strict=True):
        own[:used] = its[:used]


def sums_of(clusters: Any) -> list[Any]:
    """What a cluster is given by, beside the number of its points; all else is worked out from it (`prepare`)."""
    if isinstance(clusters, MixedClusters):
        return [*sums_of(clusters.numeric), *sums_of(clusters.codes)]
    return [getattr(clusters, name) for name in SUMS[type(clusters)]]


def _is(bundle: Any, kind: type) -> bool:
    return isinstance(bundle, types.BaseNamedTuple) and getattr(bundle, "instance_class", None) is kind


JIT: Any = {name: value for name, value in FLOAT64.items() if name in ("nogil", "error_model", "fastmath")} | INNER


def _nothing(clusters: Any, k: Any) -> None:
    """A predictive that needs nothing beside the sums."""


def _add_rows_one_by_one(clusters: Any, k: Any, X: Any, rows: Any, sides: Any, side: Any) -> None:
    for place in range(len(rows)):
        if sides[place] == side:
            add_point(clusters, k, X, rows[place], 1.0)


def _prepare_both(clusters: Any, k: Any) -> None:
    prepare(clusters.numeric, k)
    prepare(clusters.codes, k)


def _log_predictive_of_both(clusters: Any, k: Any, X: Any, row: Any) -> Any:
    return log_predictive(clusters.numeric, k, X.numeric, row) + log_predictive(clusters.codes, k, X.codes, row)


def _add_point_to_both(clusters: Any, k: Any, X: Any, row: Any, sign: Any) -> None:
    add_point(clusters.numeric, k, X.numeric, row, sign)
    add_point(clusters.codes, k, X.codes, row, sign)


def _add_cluster_to_both(clusters: Any, k: Any, others: Any, m: Any) -> None:
    add_cluster(clusters.numeric, k, others.numeric, m)
    add_cluster(clusters.codes, k, others.codes, m)


def _copy_cluster_of_both(clusters: Any, k: Any, others: Any, m: Any) -> None:
    copy_cluster(clusters.numeric, k, others.numeric, m)
    copy_cluster(clusters.codes, k, others.codes, m)


def _log_marginal_of_both(clusters: Any, k: Any) -> Any:
    return log_marginal(clusters.numeric, k) + log_marginal(clusters.codes, k)


def _clear_both(clusters: Any, k: Any) -> None:
    clear(clusters.numeric, k)
    clear(clusters.codes, k)


# By the bundle's type. numba compiles what these functions return for it, under the name of the function that is
# overloaded: nothing lies between a move and a family's loop.


def _choose(bundle: Any, by_kind: dict[type, Any]) -> Any:
    return next((function for kind, function in by_kind.items() if _is(bundle, kind)), None)


@overload(prepare, jit_options=JIT, strict=False)
def _prepare(clusters: Any, k: Any) -> Any:
    by_kind = {
        WhitenedClusters: whitened.prepare,
        NumericClusters: numeric.prepare,
        CountClusters: _nothing,
        CodeClusters: counts.prepare_codes,
        MixedClusters: _prepare_both,
    }
    return _choose(clusters, by_kind)


@overload(log_predictive, jit_options=JIT, strict=False)
def _log_predictive(clusters: Any, k: Any, X: Any, row: Any) -> Any:
    sparse = isinstance(X, types.BaseNamedTuple)
    by_kind = {
        WhitenedClusters: whitened.log_predictive,
        NumericClusters: numeric.log_predictive,
        CountClusters: counts.sparse_log_predictive if sparse else counts.dense_log_predictive,
        CodeClusters: counts.codes_log_predictive,
        MixedClusters: _log_predictive_of_both,
    }
    return _choose(clusters, by_kind)


@overload(add_point, jit_options=JIT, strict=False)
def _add_point(clusters: Any, k: Any, X: Any, row: Any, sign: Any) -> Any:
    sparse = isinstance(X, types.BaseNamedTuple)
    by_kind = {
        WhitenedClusters: whitened.add_point,
        NumericClusters: numeric.add_point,
        CountClusters: counts.sparse_add_point if sparse else counts.dense_add_point,
        CodeClusters: counts.codes_add_point,
        MixedClusters: _add_point_to_both,
    }
    return _choose(clusters, by_kind)


@overload(add_rows, jit_options=JIT, strict=False)
def _add_rows(clusters: Any, k: Any, X: Any, rows: Any, sides: Any, side: Any) -> Any:
    return _choose(clusters, {WhitenedClusters: whitened.add_rows}) or _add_rows_one_by_one


@overload(add_cluster, jit_options=JIT, strict=False)
def _add_cluster(clusters: Any, k: Any, others: Any, m: Any) -> Any:
    by_kind = {
        WhitenedClusters: whitened.add_cluster,
        NumericClusters: counts.add_sums,
        CountClusters: counts.add_counts,
        CodeClusters: counts.add_sums,
        MixedClusters: _add_cluster_to_both,
    }
    return _choose(clusters, by_kind)


@overload(copy_cluster, jit_options=JIT, strict=False)
def _copy_cluster(clusters: Any, k: Any, others: Any, m: Any) -> Any:
    by_kind = {
        WhitenedClusters: whitened.copy_cluster,
        NumericClusters: counts.copy_sums,
        CountClusters: counts.copy_counts,
        CodeClusters: counts.copy_sums,
        MixedClusters: _copy_cluster_of_both,
    }
    return _choose(clusters, by_kind)


@overload(log_marginal, jit_options=JIT, strict=False)
def _log_marginal(clusters: Any, k: Any) -> Any:
    by_kind = {
        WhitenedClusters: whitened.log_marginal,
        NumericClusters: numeric.log_marginal,
        CountClusters: counts.log_marginal,
        CodeClusters: counts.codes_log_marginal,
        MixedClusters: _log_marginal_of_both,
    }
    return _choose(clusters, by_kind)


@overload(clear, jit_options=JIT, strict=False)
def _clear(clusters: Any, k: Any) -> Any:
    by_kind = {
        WhitenedClusters: whitened.clear,
        NumericClusters: counts.clear_sums,
        CountClusters: counts.clear_counts,
        CodeClusters: counts.clear_sums,
        MixedClusters: _clear_both,
    }
    return _choose(clusters, by_kind)
