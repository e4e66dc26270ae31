"""Clusters with their parameters integrated out: the compiled functions of a family that exact moves call.

A bundle of clusters is a NamedTuple of arrays that holds what the posterior predictive of each cluster needs. It has
room for clusters to come; an empty cluster equals the prior, and the last one is always empty. The functions here have
one signature for all families, and numba picks the implementation by the type of the bundle, so each move is written
once. A family registers its loops where it defines its bundle. `prepare` computes what the predictive of a cluster
needs besides the point; code that changes a cluster must call it again before `log_predictive`. The caller maintains
`counts`.

Rows may have weights (`WeightedRows`): a row of weight w > 0 acts like w identical rows that stay together, and its
predictive is the ratio of the marginal likelihoods with and without them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba.extending import overload

from dpmmwrap.numerics.special import BORROWING, FLOAT64, INNER, compiled_float64, new_array


class WeightedRows(NamedTuple):
    """Rows and their weights."""

    points: Any
    weights: Any


class ClusterRows(NamedTuple):
    """The clusters of a bundle, each treated as one row whose points stay together. Its weight is their number and its
    predictive is their joint predictive."""

    clusters: Any
    scratch: Any
    """A bundle whose first cluster is overwritten."""


def weight_of(X: Any, row: int) -> float:
    """The weight of a row; 1 if rows have no weights."""
    raise NotImplementedError


def prepare(clusters: Any, k: int) -> None:
    """Compute what `log_predictive` needs of cluster k."""
    raise NotImplementedError


def log_predictive(clusters: Any, k: int, X: Any, row: int) -> float:
    """Log density of a row under cluster k's posterior predictive, as of the last `prepare`."""
    raise NotImplementedError


def log_predictive_by_weight(clusters: Any, k: int, X: Any, row: int, weight: float) -> float:
    """`log_predictive` of a row that stands for `weight` identical ones."""
    raise NotImplementedError


def add_point(clusters: Any, k: int, X: Any, row: int, sign: float) -> None:
    """Add a row to cluster k (sign 1) or remove it (sign -1). Other values multiply by the row's weight."""
    raise NotImplementedError


def add_rows(clusters: Any, k: int, X: Any, rows: Any, sides: Any, side: int) -> None:
    """Add all rows of one side to cluster k."""
    raise NotImplementedError


def add_cluster(clusters: Any, k: int, others: Any, m: int, sign: float) -> None:
    """Add all points of cluster m of `others` to cluster k, or remove them (sign -1). Both may be the same bundle."""
    raise NotImplementedError


def copy_cluster(clusters: Any, k: int, others: Any, m: int) -> None:
    """Copy cluster m of `others` to cluster k. Both may be the same bundle. Callable from Python, too."""
    for own, its in zip(sums_of(clusters), sums_of(others), strict=True):
        own[k] = its[m]


def log_marginal(clusters: Any, k: int) -> float:
    """Log marginal likelihood of cluster k's points."""
    raise NotImplementedError


def clear(clusters: Any, k: int) -> None:
    """Make cluster k empty. Callable from Python, too."""
    for own in sums_of(clusters):
        own[k] = own[-1]


def copy_clusters(clusters: Any, used: int, others: Any) -> None:
    """Copy the first `used` clusters to another bundle."""
    for own, its in zip([others.counts, *sums_of(others)], [clusters.counts, *sums_of(clusters)], strict=True):
        own[:used] = its[:used]


class ClusterLoops(NamedTuple):
    """The loops for one type of bundle, as Python functions; numba compiles them at each call site."""

    log_predictive: Callable[..., Any]
    add_point: Callable[..., Any]
    log_marginal: Callable[..., Any]
    add_cluster: Callable[..., Any]
    copy_cluster: Callable[..., Any]
    clear: Callable[..., Any]
    prepare: Callable[..., Any]
    add_rows: Callable[..., Any]


def _nothing(clusters: Any, k: Any) -> None:
    """`prepare` for a predictive that needs only the sums."""


def _add_rows_one_by_one(clusters: Any, k: Any, X: Any, rows: Any, sides: Any, side: Any) -> None:
    for i in range(len(rows)):
        if sides[i] == side:
            add_point(clusters, k, X, rows[i], 1.0)


# Bundles whose only field, besides the counts, is `sums`.


def _add_sums(clusters: Any, k: int, others: Any, m: int, sign: float) -> None:
    own, its = clusters.sums[k], others.sums[m]
    for v in range(len(own)):
        own[v] += sign * its[v]


def _copy_sums(clusters: Any, k: int, others: Any, m: int) -> None:
    own, its = clusters.sums[k], others.sums[m]
    for v in range(len(own)):
        own[v] = its[v]


def _clear_sums(clusters: Any, k: int) -> None:
    own = clusters.sums[k]
    for v in range(len(own)):
        own[v] = 0.0


LOOPS: dict[Any, ClusterLoops] = {}
GIVEN_BY: dict[type, tuple[str, ...]] = {}


def register(
    kind: type,
    log_predictive: Callable[..., Any],
    add_point: Callable[..., Any],
    log_marginal: Callable[..., Any],
    *,
    fields: tuple[str, ...] = ("sums",),
    add_cluster: Callable[..., Any] = _add_sums,
    copy_cluster: Callable[..., Any] = _copy_sums,
    clear: Callable[..., Any] = _clear_sums,
    prepare: Callable[..., Any] = _nothing,
    add_rows: Callable[..., Any] = _add_rows_one_by_one,
) -> None:
    """Register a type of bundle with its loops. `fields` are the arrays that define a cluster besides `counts`; all
    others are computed from them. By default this is `sums` (C, F). `log_predictive` takes a weight, like
    `log_predictive_by_weight`."""
    GIVEN_BY[kind] = fields
    LOOPS[kind] = ClusterLoops(
        log_predictive, add_point, log_marginal, add_cluster, copy_cluster, clear, prepare, add_rows
    )


class PairClusters(NamedTuple):
    """Two kinds of columns, independent within a cluster, each with a bundle."""

    counts: Any
    one: Any
    two: Any


class PairRows(NamedTuple):
    """The rows of `PairClusters`."""

    one: Any
    two: Any


def joined(counts: Any, bundles: list[Any]) -> Any:
    """Combine the bundles of one or two kinds of columns."""
    return bundles[0] if len(bundles) == 1 else PairClusters(counts, *bundles)


def joined_rows(points: list[Any]) -> Any:
    """Combine the rows of one or two kinds of columns."""
    return points[0] if len(points) == 1 else PairRows(*points)


def bundles_of(clusters: Any) -> list[Any]:
    """The inverse of `joined`."""
    return [clusters.one, clusters.two] if isinstance(clusters, PairClusters) else [clusters]


def sums_of(clusters: Any) -> list[Any]:
    """The arrays that define the clusters besides their counts; `prepare` computes the rest."""
    return [getattr(bundle, name) for bundle in bundles_of(clusters) for name in GIVEN_BY[type(bundle)]]


def _prepare_both(clusters: Any, k: Any) -> None:
    prepare(clusters.one, k)
    prepare(clusters.two, k)


def _log_predictive_of_both(clusters: Any, k: Any, X: Any, row: Any, weight: Any) -> Any:
    one = log_predictive_by_weight(clusters.one, k, X.one, row, weight)
    return one + log_predictive_by_weight(clusters.two, k, X.two, row, weight)


def _add_point_to_both(clusters: Any, k: Any, X: Any, row: Any, sign: Any) -> None:
    add_point(clusters.one, k, X.one, row, sign)
    add_point(clusters.two, k, X.two, row, sign)


def _add_cluster_to_both(clusters: Any, k: Any, others: Any, m: Any, sign: Any) -> None:
    add_cluster(clusters.one, k, others.one, m, sign)
    add_cluster(clusters.two, k, others.two, m, sign)


def _copy_cluster_of_both(clusters: Any, k: Any, others: Any, m: Any) -> None:
    copy_cluster(clusters.one, k, others.one, m)
    copy_cluster(clusters.two, k, others.two, m)


def _log_marginal_of_both(clusters: Any, k: Any) -> Any:
    return log_marginal(clusters.one, k) + log_marginal(clusters.two, k)


def _clear_both(clusters: Any, k: Any) -> None:
    clear(clusters.one, k)
    clear(clusters.two, k)


register(
    PairClusters, _log_predictive_of_both, _add_point_to_both, _log_marginal_of_both, fields=(),
    add_cluster=_add_cluster_to_both, copy_cluster=_copy_cluster_of_both, clear=_clear_both, prepare=_prepare_both,
)  # fmt: skip

# numba compiles the function that each overload returns for the type of its bundle, under the name of the overloaded
# function, so no call layer lies between a move and a family's loop.
JIT: Any = FLOAT64 | INNER
# For functions called for every point: they must not create arrays.
POINTWISE: Any = JIT | BORROWING | {"forceinline": True}


def _choose(bundle: Any, name: str) -> Any:
    """The loop of this name for a type of bundle."""
    return getattr(LOOPS.get(getattr(bundle, "instance_class", None)), name, None)


def _by_kind(rows: Any, plain: Any, weighted: Any, clusters: Any) -> Any:
    """Choose the loop for rows of this type."""
    kind = getattr(rows, "instance_class", None)
    return weighted if kind is WeightedRows else clusters if kind is ClusterRows else plain


def _one(X: Any, row: Any) -> Any:
    return 1.0


def _own_weight(X: Any, row: Any) -> Any:
    return X.weights[row]


def _own_count(X: Any, row: Any) -> Any:
    return X.clusters.counts[row]


@overload(weight_of, jit_options=POINTWISE, strict=False)
def _weight_of(X: Any, row: Any) -> Any:
    return _by_kind(X, _one, _own_weight, _own_count)


def _log_predictive_of_row(clusters: Any, k: Any, X: Any, row: Any) -> Any:
    return log_predictive_by_weight(clusters, k, X, row, 1.0)


def _log_predictive_of_weighted(clusters: Any, k: Any, X: Any, row: Any) -> Any:
    return log_predictive_by_weight(clusters, k, X.points, row, weight_of(X, row))


def _log_predictive_of_cluster(clusters: Any, k: Any, X: Any, row: Any) -> Any:
    copy_cluster(X.scratch, 0, clusters, k)
    add_cluster(X.scratch, 0, X.clusters, row, 1.0)
    return log_marginal(X.scratch, 0) - log_marginal(clusters, k)


def _add_weighted_point(clusters: Any, k: Any, X: Any, row: Any, sign: Any) -> None:
    add_point(clusters, k, X.points, row, sign * weight_of(X, row))


def _add_cluster_row(clusters: Any, k: Any, X: Any, row: Any, sign: Any) -> None:
    add_cluster(clusters, k, X.clusters, row, sign)


@overload(log_predictive, jit_options=POINTWISE, strict=False)
def _log_predictive(clusters: Any, k: Any, X: Any, row: Any) -> Any:
    return _by_kind(X, _log_predictive_of_row, _log_predictive_of_weighted, _log_predictive_of_cluster)


@overload(add_point, jit_options=JIT | BORROWING, strict=False)
def _add_point(clusters: Any, k: Any, X: Any, row: Any, sign: Any) -> Any:
    return _by_kind(X, _choose(clusters, "add_point"), _add_weighted_point, _add_cluster_row)


@overload(add_rows, jit_options=JIT, strict=False)
def _add_rows(clusters: Any, k: Any, X: Any, rows: Any, sides: Any, side: Any) -> Any:
    return _by_kind(X, _choose(clusters, "add_rows"), _add_rows_one_by_one, _add_rows_one_by_one)


def _overload_by_bundle(function: Any, name: str, options: Any) -> None:
    """Let compiled code that calls `function` call the loop of this name for the type of its first argument."""

    @overload(function, jit_options=options, strict=False)
    def _loop(clusters: Any, *others: Any) -> Any:
        return _choose(clusters, name)


_overload_by_bundle(prepare, "prepare", POINTWISE)
_overload_by_bundle(log_predictive_by_weight, "log_predictive", POINTWISE)
for _function in (add_cluster, copy_cluster, log_marginal, clear):
    _overload_by_bundle(_function, _function.__name__, JIT)


@compiled_float64
def log_marginals(clusters: Any, first: Any, last: Any) -> Any:
    """Log marginal likelihoods of the clusters `first` to `last - 1`."""
    found = new_array(last - first, np.float64)
    for k in range(first, last):
        found[k - first] = log_marginal(clusters, k)
    return found
