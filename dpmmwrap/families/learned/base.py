"""The interface of a learned prior."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from numpy.random import Generator

from dpmmwrap.families.base import Points
from dpmmwrap.numerics.arrays import Float64Array


class Summary(NamedTuple):
    """Hyperparameters of a learned prior, for display."""

    kappa: float
    width: float
    """Geometric mean over features, as a share of the data's variance."""
    strength: float


class LearnedPrior(Protocol):
    """The hyperprior: a distribution over priors."""

    def unrestricted(self) -> LearnedPrior:
        """This distribution without the lower limit on cluster widths that k-means cells set."""

    def identity(self) -> list[float | None]:
        """The fixed hyperparameters. All else follows from the data."""

    def summary(self, prior: Any) -> Summary: ...

    def scaled(self, prior: Any, name: str, factor: float) -> Any:
        """The prior with its "kappa" or "width" multiplied by a factor."""

    def log_density(self, prior: Any) -> float: ...

    def draw(self, prior: Any, statistics: Any, rng: Generator) -> Any:
        """Draw a prior from its conditional distribution given clusters with these statistics."""

    def climb(self, prior: Any, statistics: Any, steps: int = ...) -> Any:
        """A prior that is at least as probable given clusters with these statistics."""

    def relearned(self, prior: Any, X: Points) -> Start:
        """The start of a fit to other points of the same kind, with the same hyperparameters fixed."""


class Start(NamedTuple):
    """An initial prior, its distribution, and the number of k-means cells it was computed from, if any."""

    prior: Any
    hyperprior: LearnedPrior
    n_cells: int | None


class Moments(NamedTuple):
    """Sums over K Gaussians, drawn or expected, of functions of their precisions P and of their means mu relative to an
    origin."""

    clusters: int
    precision: Float64Array
    """Sum of P, (D, D), or its diagonal (D,) if P is diagonal."""
    pull: Float64Array
    """Sum of P mu."""
    square: float
    """Sum of mu' P mu."""
    log_variance: float
    """Sum of log |Sigma|."""
