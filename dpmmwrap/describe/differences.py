"""How two clusterings of the same rows differ: which clusters only one of them divides."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from dpmmwrap.describe.profiles import in_units, profiles_for
from dpmmwrap.describe.report.words import in_short
from dpmmwrap.describe.wording import counted
from dpmmwrap.numerics.arrays import IntArray
from dpmmwrap.posterior.matching import contingency_table

SMALL = 0.05
"""Parts with a smaller share of a cluster's rows are not mentioned."""
TRAITS = 3


class SplitPart(NamedTuple):
    """The rows of a cluster that the other clustering puts into one cluster."""

    cluster: int
    """Its number in the other clustering."""
    rows: int
    description: str
    """What sets it apart from the other parts."""


class Split(NamedTuple):
    """A cluster of one clustering that the other divides."""

    divided_by: str
    """Which clustering divides it, "first" or "second"."""
    cluster: int
    """Its number in the clustering that does not divide it."""
    rows: int
    parts: tuple[SplitPart, ...]

    def __str__(self) -> str:
        whole = {"first": "second", "second": "first"}[self.divided_by]
        size = counted(self.rows, "row")
        parts = (f"  {part.cluster} ({counted(part.rows, 'row')}): {part.description}" for part in self.parts)
        head = f"cluster {self.cluster} of the {whole} ({size}) is divided by the {self.divided_by}:"
        return "\n".join([head, *parts])


class Difference(NamedTuple):
    """All clusters that only one of two clusterings divides."""

    splits: tuple[Split, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.splits)) or "both have the same clusters, except for a few rows"


def difference_between(
    model: Any, points: Any, first: Any, second: Any, names: Any, preparation: Any = None
) -> Difference:
    """What only one of two clusterings divides, the largest cluster first, in the units before the preparation."""
    one, two = np.asarray(first), np.asarray(second)
    splits = splits_of(model, points, one, two, "second", names, preparation)
    splits += splits_of(model, points, two, one, "first", names, preparation)
    return Difference(tuple(sorted(splits, key=lambda split: -split.rows)))


def splits_of(
    model: Any, points: Any, whole: IntArray, other: IntArray, divided_by: str, names: Any, preparation: Any
) -> list[Split]:
    table, splits = contingency_table(whole, other)[:-1, :-1], []
    for cluster, counts in enumerate(table):
        parts = np.flatnonzero(counts > SMALL * counts.sum())
        if len(parts) < 2:
            continue
        parts = parts[np.argsort(-counts[parts], kind="stable")]
        rows = np.flatnonzero((whole == cluster) & np.isin(other, parts))
        numbers = np.full(int(other.max()) + 1, -1)
        numbers[parts] = np.arange(len(parts))
        profiles = profiles_for(model, points[rows], numbers[other[rows]].astype(np.int32), len(parts), names)
        profiles = in_units(profiles, preparation)
        texts = [in_short(profiles.traits(k, TRAITS)) for k in range(len(parts))]
        pieces = tuple(SplitPart(int(part), int(counts[part]), text) for part, text in zip(parts, texts, strict=True))
        splits.append(Split(divided_by, cluster, int(counts.sum()), pieces))
    return splits
