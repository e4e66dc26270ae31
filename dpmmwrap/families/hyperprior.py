"""A prior over priors: the width and the strength of a default prior on a grid, learned with everything else.

The width says how wide clusters are, the strength how sure the prior is of it (its degrees of freedom beyond the least
that a covariance needs). Given the clusters, the grid's posterior is known up to a constant, so that it can be drawn
from exactly, one of the two after the other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from dpmmwrap.arrays import Float64Array
from dpmmwrap.families.base import Prior, Statistics


class Place(NamedTuple):
    """A place on the grid."""

    width: int
    strength: int


FIRST = Place(0, 0)


class Hyperparameters(NamedTuple):
    """The width and the strength of a prior."""

    width: float
    strength: float


@dataclass(frozen=True)
class Hyperprior:
    """Priors of one family at the places of a grid, all of them equally probable at first: the width and the strength
    are uniform on a logarithmic scale."""

    widths: tuple[float, ...]
    strengths: tuple[float, ...]
    make: Callable[[float, float], Prior]
    """The prior of a width and a strength."""
    start: Place
    """Where a chain begins."""
    _made: dict[Place, Prior] = field(init=False, default_factory=dict, compare=False, repr=False)

    @property
    def log_weight(self) -> float:
        """log prior probability of a place."""
        return -float(np.log(len(self.widths) * len(self.strengths)))

    def values(self, place: Place) -> Hyperparameters:
        return Hyperparameters(self.widths[place.width], self.strengths[place.strength])

    def place_of(self, width: float, strength: float) -> Place:
        """The place of these values."""
        return Place(self.widths.index(width), self.strengths.index(strength))

    def prior(self, place: Place) -> Prior:
        """The prior at a place, made once."""
        if place not in self._made:
            self._made[place] = self.make(*self.values(place))
        return self._made[place]

    def log_evidence(self, places: list[Place], statistics: Statistics) -> Float64Array:
        """log marginal likelihood of these clusters under the prior of each place."""
        return np.array([self.prior(place).log_marginal_likelihood(statistics).sum() for place in places])

    def along(self, place: Place, axis: str) -> list[Place]:
        """All places that differ in one of the two at most."""
        count = len(self.widths) if axis == "width" else len(self.strengths)
        return [place._replace(**{axis: number}) for number in range(count)]

    def draw(self, place: Place, statistics: Statistics, rng: np.random.Generator) -> Place:
        """The strength given the width, then the width given the strength: each from its conditional distribution."""
        for axis in Place._fields[::-1]:
            places = self.along(place, axis)
            if len(places) > 1:
                evidence = self.log_evidence(places, statistics)
                place = places[int(rng.choice(len(places), p=np.exp(evidence - logsumexp(evidence))))]
        return place

    def best(self, place: Place, statistics: Statistics) -> Place:
        """The most probable place near this one: strength and width in turn, until neither changes."""
        while True:
            before = place
            for axis in Place._fields[::-1]:
                places = self.along(place, axis)
                place = places[int(self.log_evidence(places, statistics).argmax())]
            if place == before:
                return place
