"""Rules by which a start divides a cluster. They are small, so that they can be sent to where the points are.

A start looks at a bounded sample of a cluster and returns a rule, which gives the side of any member independently of
other members. Clusters on several machines are therefore divided as on one.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.random import Generator

from dpmmwrap.numerics.arrays import Float64Array, IntArray, UInt8Array
from dpmmwrap.numerics.cells import Embedder

CHUNK = 1 << 16


class Rows(NamedTuple):
    """Some rows of the data, or of a part of them."""

    X: Any
    rows: IntArray
    first_row: int = 0
    """Row number, in all data, of the first row of X."""
    sublabels: UInt8Array | None = None
    """Current sublabels of all rows of X."""
    before: IntArray | None = None
    """Labels of all rows of X before a move."""


class Rule(Protocol):
    """A function from rows to sides."""

    def __call__(self, at: Rows) -> UInt8Array:
        """0 or 1 for each row."""


class Together(NamedTuple):
    """All points on the left: for clusters of one point."""

    def __call__(self, at: Rows) -> UInt8Array:
        return np.zeros(len(at.rows), np.uint8)


class Coin(NamedTuple):
    """A coin toss per row, determined by its number and a key."""

    key: int

    @classmethod
    def of(cls, rng: Generator) -> Coin:
        return cls(int(rng.bit_generator.random_raw()))

    def __call__(self, at: Rows) -> UInt8Array:
        from dpmmwrap.numerics.row_loops import toss

        sides: UInt8Array = toss(np.uint64(self.key), at.rows, at.first_row)
        return sides


class GivenSides(NamedTuple):
    """The sides that a start has computed for all rows of a cluster."""

    sides: UInt8Array

    def __call__(self, at: Rows) -> UInt8Array:
        return self.sides


class AsBefore(NamedTuple):
    """The current sides."""

    def __call__(self, at: Rows) -> UInt8Array:
        assert at.sublabels is not None
        sides: UInt8Array = at.sublabels[at.rows]
        return sides


class CameFrom(NamedTuple):
    """Left for rows that had this label before a move, right for the others."""

    label: int

    def __call__(self, at: Rows) -> UInt8Array:
        assert at.before is not None
        return np.asarray(at.before[at.rows] != self.label, np.uint8)


class Plane(NamedTuple):
    """The side of the nearer of two centres, in the coordinates of an embedding."""

    embed: Embedder
    centres: Float64Array

    def __call__(self, at: Rows) -> UInt8Array:
        sides = np.empty(len(at.rows), np.uint8)
        for begin in range(0, len(sides), CHUNK):
            some = slice(begin, begin + CHUNK)
            sides[some] = nearer(self.embed(at.X[at.rows[some]]), self.centres)
        return sides


def nearer(points: Any, centres: Float64Array) -> UInt8Array:
    """1 for points (dense or sparse) that are nearer to the second centre than to the first."""
    axis, middle = centres[1] - centres[0], (centres[1] + centres[0]) / 2
    if hasattr(points, "indptr"):
        along = points @ axis
    else:
        from dpmmwrap.numerics.row_loops import project

        # BLAS may change the order of sums with the number of rows.
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
    """The sign of constant + sum of offset + linear d + quadratic d^2 over the observed values of d = x - centre."""

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
    """A rule, with an alternative for the whole cluster if the rule leaves one side empty."""

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
    """The rules that an initializer proposes for some clusters, given their rows (or a stand-in)."""
    if hasattr(initializer, "rules"):
        rules: list[Rule] = initializer.rules(members, rng)
        return rules
    return [GivenSides(np.asarray(sides, np.uint8)) for sides in initializer(members, rng)]
