"""The reference package's start: each point goes left or right by the toss of a coin."""

from __future__ import annotations

from numpy.random import Generator

from dpmmwrap.families.base import Points
from dpmmwrap.numerics.arrays import IntArray, UInt8Array
from dpmmwrap.numerics.rules import Coin, Rows, Rule
from dpmmwrap.starts import SplitCriterion


class RandomStart:
    name = "random"

    def bind(self, X: Points, criterion: SplitCriterion) -> None:
        """Does nothing, as coin tosses do not depend on the data."""

    def __call__(self, members: list[IntArray], rng: Generator) -> list[UInt8Array]:
        return [rule(Rows(None, rows)) for rule, rows in zip(self.rules(members, rng), members, strict=True)]

    def rules(self, members: list[IntArray], rng: Generator) -> list[Rule]:
        """A coin for each cluster."""
        return [Coin.of(rng) for _ in members]
