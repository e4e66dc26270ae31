"""What sets each cluster apart: the features in which its rows differ from all others, and by how much."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from scipy import sparse

from dpmmwrap.families.tables import Columns, TablePoints, as_words
from dpmmwrap.model.rows import names_for
from dpmmwrap.numerics.arrays import Float64Array, IntArray, evenly_spaced

ROUNDING = 1e-6
"""Means and spreads below this share of a column's deviation are zero: squares keep half of the digits of a double."""
CHUNK = 1 << 15
"""Rows processed at once."""
NUMBERS = 100_000_000
"""The largest number of values that profiles use; of more data, evenly spaced rows."""
NUMERIC, LEVEL, COUNT = "numeric", "level", "count"


class Feature(NamedTuple):
    """A numeric column, a level of a categorical one, or a column of counts."""

    name: str
    kind: str
    level: str = ""

    def __str__(self) -> str:
        return f"{self.name} = {self.level}" if self.kind == LEVEL else self.name


class Trait(NamedTuple):
    """A feature of a cluster, compared with all other rows."""

    feature: Feature
    here: float
    """The mean; for a level the share of rows, for a column of counts the share of all counts."""
    elsewhere: float
    spread: float
    """The standard deviation within the cluster; NaN if the feature is a share."""
    apart: float
    """The difference in standard deviations of all rows; for counts the binary logarithm of the ratio."""


class Profiles(NamedTuple):
    """All clusters (K) by all features (F)."""

    features: tuple[Feature, ...]
    here: Float64Array
    elsewhere: Float64Array
    spread: Float64Array
    apart: Float64Array
    weight: Float64Array
    """By how much a feature sets a cluster apart; features are ordered by it."""
    looked_at: int
    """The number of rows that were used."""

    @property
    def n_clusters(self) -> int:
        return len(self.here)

    def traits(self, cluster: int, most: int = 5) -> list[Trait]:
        """What sets a cluster apart most. Only the strongest level of a categorical column is shown."""
        order = np.argsort(-np.nan_to_num(self.weight[cluster], nan=-1.0), kind="stable")
        traits: list[Trait] = []
        named: set[str] = set()
        for index in order:
            feature = self.features[index]
            if len(traits) == most or not self.weight[cluster, index] > 0:
                break
            if feature.kind == LEVEL and feature.name in named:
                continue
            named.add(feature.name)
            values = (self.here, self.elsewhere, self.spread, self.apart)
            traits.append(Trait(feature, *(float(table[cluster, index]) for table in values)))
        return traits

    def most_telling(self, most: int) -> IntArray:
        """The features that set any cluster apart most, in the order of the columns."""
        strongest = np.nan_to_num(self.weight, nan=0.0).max(axis=0, initial=0.0)
        return np.sort(np.argsort(-strongest, kind="stable")[:most])


def profiles_of(
    points: Any,
    labels: IntArray,
    n_clusters: int,
    *,
    names: Sequence[str] | None = None,
    columns: Columns | None = None,
    counts: bool = False,
) -> Profiles:
    """The profiles of clusters 0 to K - 1. Outliers (-1) count among the other rows. O(N D)."""
    rows = evenly_spaced(points.shape[0], NUMBERS // max(1, points.shape[1]))
    if len(rows) < points.shape[0]:
        points, labels = points[rows], np.asarray(labels)[rows]
    labels = np.asarray(labels)
    if isinstance(points, TablePoints):
        return table_profiles(points, labels, n_clusters, columns)
    if counts:
        return count_profiles(points, labels, n_clusters, names)
    features = tuple(Feature(name, NUMERIC) for name in names_for(names, points.shape[1]))
    return numeric_profiles(points, labels, n_clusters, features)


def profiles_for(model: Any, points: Any, labels: IntArray, n_clusters: int, names: Sequence[str] | None) -> Profiles:
    columns, counts = model.mixture_.columns, model.mixture_.posterior.profile == "counts"
    return profiles_of(points, labels, n_clusters, names=names, columns=columns, counts=counts)


def in_units(profiles: Profiles, preparation: Any) -> Profiles:
    """Profiles in the units before the preparation. The mean of a logarithm becomes a geometric mean; principal
    components stay as they are."""
    if preparation is None or preparation.components is not None:
        return profiles
    features, numeric = list(profiles.features), [p for p, one in enumerate(profiles.features) if one.kind == NUMERIC]
    here, elsewhere, spread = profiles.here.copy(), profiles.elsewhere.copy(), profiles.spread.copy()
    # In a mixed table only numeric columns are prepared, and the preparation knows them by name.
    by_name = len(numeric) < len(features) or preparation.width != len(features)
    for index in numeric:
        name = features[index].name
        if by_name and name not in (preparation.names or ()):
            continue
        column = preparation.names.index(name) if by_name else index
        for table in (here, elsewhere):
            table[:, index] = preparation.undone(column, table[:, index])
        logged = preparation.logs is not None and column in preparation.logs
        spread[:, index] = np.nan if logged else spread[:, index] / (preparation.factor[column] or 1.0)
        if preparation.names is not None:
            features[index] = Feature(preparation.names[column], NUMERIC)
    return profiles._replace(features=tuple(features), here=here, elsewhere=elsewhere, spread=spread)


def feature_names(model: Any, given: Sequence[str] | None = None) -> Sequence[str] | None:
    """Column names: those given, those in the model file, or those that the estimator has seen; None without names."""
    for names in (given, getattr(model.mixture_, "feature_names", None), getattr(model, "feature_names_in_", None)):
        if names is not None:
            return [str(name) for name in names]
    return None


def chunks_of(count: int) -> Iterator[slice]:
    return (slice(begin, begin + CHUNK) for begin in range(0, count, CHUNK))


def membership(labels: IntArray, n_clusters: int) -> Any:
    """Which rows each cluster has (K + 1, rows); the last line is for outliers."""
    clusters = np.where(labels < 0, n_clusters, labels)
    return sparse.csr_matrix(
        (np.ones(len(clusters)), (clusters, np.arange(len(clusters)))), shape=(n_clusters + 1, len(clusters))
    )


def numeric_profiles(points: Any, labels: IntArray, n_clusters: int, features: tuple[Feature, ...]) -> Profiles:
    """Compare means, without missing values."""
    shape = (n_clusters + 1, points.shape[1])
    present, sums, squares = np.zeros(shape), np.zeros(shape), np.zeros(shape)
    # Squares of what is far from zero would lose their digits.
    centre = np.nan_to_num(mean_of(np.asarray(points[:CHUNK], dtype=np.float64)))
    for rows in chunks_of(len(labels)):
        values = np.asarray(points[rows], dtype=np.float64) - centre
        known = ~np.isnan(values)
        values[~known] = 0.0
        members = membership(labels[rows], n_clusters)
        present += members @ known.astype(np.float64)
        sums += members @ values
        squares += members @ values**2
    with np.errstate(invalid="ignore", divide="ignore"):
        here = sums / present
        spread = np.sqrt(np.maximum(squares / present - here**2, 0.0))
        elsewhere = (sums.sum(axis=0) - sums) / (present.sum(axis=0) - present)
        whole = sums.sum(axis=0) / present.sum(axis=0)
        deviation = np.sqrt(np.maximum(squares.sum(axis=0) / present.sum(axis=0) - whole**2, 0.0))
        apart = np.where(deviation > 0, (here - elsewhere) / deviation, 0.0)
        # Remove rounding errors around zero.
        spread = np.where(spread < ROUNDING * deviation, 0.0, spread)
        here, elsewhere = (
            np.where(np.abs(means) < ROUNDING * deviation, 0.0, means) for means in (here + centre, elsewhere + centre)
        )
    here, elsewhere, spread, apart = (table[:n_clusters] for table in (here, elsewhere, spread, apart))
    return Profiles(features, here, elsewhere, spread, apart, np.abs(apart), len(labels))


def mean_of(values: Float64Array) -> Float64Array:
    """The mean of each column without missing values; 0 for an empty one."""
    known = ~np.isnan(values)
    return np.asarray(np.where(known, values, 0.0).sum(axis=0) / np.maximum(known.sum(axis=0), 1))


def table_profiles(points: TablePoints, labels: IntArray, n_clusters: int, columns: Columns | None) -> Profiles:
    """Compare the means of numeric columns and the shares of levels, in the order of the columns."""
    if columns is None:
        raise ValueError("a mixed table needs its columns")
    called = [columns.names[index] if columns.named else f"feature {index + 1}" for index in range(len(columns.names))]
    numeric = numeric_profiles(
        points.numeric, labels, n_clusters, tuple(Feature(called[index], NUMERIC) for index in columns.numeric)
    )
    parts: dict[int, tuple[Any, ...]] = {}
    for number, index in enumerate(columns.numeric):
        parts[index] = (numeric.features[number : number + 1], *(t[:, number : number + 1] for t in numeric[1:6]))
    begin = 0
    for number, (index, levels) in enumerate(zip(columns.categorical, columns.categories, strict=True)):
        codes = points.codes[:, number] - begin
        parts[index] = level_tables(codes, labels, n_clusters, called[index], as_words(levels).tolist())
        begin += len(levels)
    ordered = [parts[index] for index in sorted(parts)]
    features = tuple(feature for part in ordered for feature in part[0])
    here, elsewhere, spread, apart, weight = (
        np.concatenate([part[number] for part in ordered], axis=1) for number in range(1, 6)
    )
    return Profiles(features, here, elsewhere, spread, apart, weight, len(labels))


def level_tables(
    codes: IntArray, labels: IntArray, n_clusters: int, name: str, levels: Sequence[str]
) -> tuple[Any, ...]:
    """The shares of the levels of one column, without missing values (below 0)."""
    known = codes >= 0
    clusters = np.where(labels < 0, n_clusters, labels)[known].astype(np.int64)
    width = len(levels)
    table = np.bincount(clusters * width + codes[known], minlength=(n_clusters + 1) * width).astype(np.float64)
    table = table.reshape(n_clusters + 1, width)
    with np.errstate(invalid="ignore", divide="ignore"):
        here, elsewhere = shares_of(table)
        whole = table.sum(axis=0) / table.sum()
        deviation = np.sqrt(whole * (1 - whole))
        apart = np.where(deviation > 0, (here - elsewhere) / deviation, 0.0)
    tables = [one[:n_clusters] for one in (here, elsewhere, np.full(here.shape, np.nan), apart)]
    return (tuple(Feature(name, LEVEL, level) for level in levels), *tables, np.abs(tables[-1]))


def shares_of(table: Float64Array) -> tuple[Float64Array, Float64Array]:
    """From a table (clusters, kinds): the shares of each cluster, and of all others together."""
    others = table.sum(axis=0) - table
    return table / table.sum(axis=1, keepdims=True), others / others.sum(axis=1, keepdims=True)


def count_profiles(points: Any, labels: IntArray, n_clusters: int, names: Sequence[str] | None) -> Profiles:
    """Compare the share of each column in all counts of a cluster.

    Columns are ordered by their part of the relative entropy: a rare word that is ten times as frequent says less than
    a common one that is three times as frequent.
    """
    sums = np.zeros((n_clusters + 1, points.shape[1]))
    for rows in chunks_of(len(labels)):
        counts = membership(labels[rows], n_clusters) @ points[rows]
        sums += counts.toarray() if sparse.issparse(counts) else counts
    features = tuple(Feature(name, COUNT) for name in names_for(names, points.shape[1]))
    with np.errstate(invalid="ignore", divide="ignore"):
        here, elsewhere = shares_of(sums)
        # Half a count is added, so that words that do not occur have a ratio, too.
        smooth_here, smooth_elsewhere = shares_of(sums + 0.5)
        apart = np.log2(smooth_here / smooth_elsewhere)
    weight = np.abs(smooth_here * apart)
    here, elsewhere, apart, weight = (table[:n_clusters] for table in (here, elsewhere, apart, weight))
    return Profiles(features, here, elsewhere, np.full(here.shape, np.nan), apart, weight, len(labels))
