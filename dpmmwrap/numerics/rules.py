"""Rules by which a start divides a cluster: small, so that they can go to where the points are.

A start looks at a bounded sample of a cluster and returns a rule. The rule says for any member on which side it is,
whatever other rows it is asked with: members on several machines are divided as they would be on one.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from dpmmwrap.numerics.arrays import Float64Array, IntArray, UInt8Array
from dpmmwrap.numerics.cells import Embedder

CHUNK = 1 << 16


class Rows(NamedTuple):
    """Some rows of data, or of a part of them."""

    X: Any
    rows: IntArray
    first_row: int = 0
    """The number that the first row of X has in all data."""
    sublabels: UInt8Array | None = None
    """All rows of X, as they are."""
    before: IntArray | None = None
    """Labels of all rows of X, as they were before a move."""


class Rule(Protocol):
    """On which side rows are."""

    def __call__(self, at: Rows) -> UInt8Array:
        """0 or 1 for each."""


class Together(NamedTuple):
    """All on the left: for clusters of one point."""

    def __call__(self, at: Rows) -> UInt8Array:
        return np.zeros(len(at.rows), np.uint8)


class Coin(NamedTuple):
    """By the toss of a coin, a row's number and a key."""

    key: int

    @classmethod
    def of(cls, rng: Generator) -> Coin:
        return cls(int(rng.bit_generator.random_raw()))

    def __call__(self, at: Rows) -> UInt8Array:
        from dpmmwrap.numerics.row_loops import toss

        sides: UInt8Array = toss(np.uint64(self.key), at.rows, at.first_row)
        return sides


class GivenSides(NamedTuple):
    """As a start has said for each row, where all rows of a cluster are at hand."""

    sides: UInt8Array

    def __call__(self, at: Rows) -> UInt8Array:
        return self.sides


class AsBefore(NamedTuple):
    """Where they are already."""

    def __call__(self, at: Rows) -> UInt8Array:
        assert at.sublabels is not None
        sides: UInt8Array = at.sublabels[at.rows]
        return sides


class CameFrom(NamedTuple):
    """Left what had this label before a move."""

    label: int

    def __call__(self, at: Rows) -> UInt8Array:
        assert at.before is not None
        return np.asarray(at.before[at.rows] != self.label, np.uint8)


class Plane(NamedTuple):
    """Which of two centres is nearer, in the coordinates of an embedding."""

    embed: Embedder
    centres: Float64Array

    def __call__(self, at: Rows) -> UInt8Array:
        sides = np.empty(len(at.rows), np.uint8)
        for begin in range(0, len(sides), CHUNK):
            some = slice(begin, begin + CHUNK)
            sides[some] = nearer(self.embed(at.X[at.rows[some]]), self.centres)
        return sides


def nearer(points: Any, centres: Float64Array) -> UInt8Array:
    """1 for points (dense or sparse) nearer to the second centre than to the first."""
    axis, middle = centres[1] - centres[0], (centres[1] + centres[0]) / 2
    if hasattr(points, "indptr"):
        along = points @ axis
    else:
        from dpmmwrap.numerics.row_loops import project

        # BLAS may sum in another order for other numbers of rows.
        along = project(np.ascontiguousarray(points), axis)
    return np.asarray(along > middle @ axis, dtype=np.uint8)


class Quadratic(NamedTuple):
    """The sign of constant + linear . d + d' quadratic d, with d = x - centre."""

    centre: Float64Array
    constant: float
    linear: Float64Array
    quadratic: Float64Array

    def __call__(self, at: Rows) -> UInt8Array:
        from dpmmwrap.numerics.row_loops import label_members

        sides: UInt8Array = label_members(at.X, at.rows, *self)
        return sides


class ByFeature(NamedTuple):
    """The sign of constant + the sum of offset + linear d + quadratic d^2 over what is observed of d = x - centre."""

    centre: Float64Array
    constant: float
    offsets: Float64Array
    linear: Float64Array
    quadratic: Float64Array

    def __call__(self, at: Rows) -> UInt8Array:
        from dpmmwrap.numerics.row_loops import label_members_by_feature

        sides: UInt8Array = label_members_by_feature(at.X, at.rows, *self)
        return sides


class OrElse(NamedTuple):
    """A rule, and another for the whole cluster if it leaves one side empty."""

    rule: Rule
    otherwise: Rule

    def __call__(self, at: Rows) -> UInt8Array:
        return self.rule(at)


def sides_by(rule: Rule, at: Rows) -> UInt8Array:
    """The sides of all members of a cluster."""
    sides = np.asarray(rule(at), np.uint8)
    if isinstance(rule, OrElse) and (sides.all() or not sides.any()):
        return rule.otherwise(at)
    return sides


def rules_of(initializer: Any, members: list[Any], rng: Generator) -> list[Rule]:
    """What a start proposes for some clusters, whose rows (or a stand-in for these) are given."""
    if hasattr(initializer, "rules"):
        rules: list[Rule] = initializer.rules(members, rng)
        return rules
    return [GivenSides(np.asarray(sides, np.uint8)) for sides in initializer(members, rng)]
