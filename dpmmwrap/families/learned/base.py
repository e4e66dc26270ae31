"""What the rest of the program may know of a prior that is learned."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from numpy.random import Generator

from dpmmwrap.families.base import Points
from dpmmwrap.numerics.arrays import Float64Array


class Summary(NamedTuple):
    """What to say of a learned prior."""

    kappa: float
    width: float
    """As a share of the data's variance: the geometric mean over features."""
    strength: float


class LearnedPrior(Protocol):
    """The distribution of a prior that is learned."""

    def unrestricted(self) -> LearnedPrior:
        """The same without the restriction to clusters that are not narrower than cells."""

    def identity(self) -> list[float | None]:
        """What is fixed: of two fits of the same data the rest is the same."""

    def summary(self, prior: Any) -> Summary: ...

    def scaled(self, prior: Any, name: str, factor: float) -> Any:
        """The same prior with its "kappa" or "width" multiplied by a factor."""

    def log_density(self, prior: Any) -> float: ...

    def draw(self, prior: Any, statistics: Any, rng: Generator) -> Any:
        """A prior given clusters with these statistics, from its conditional distribution."""

    def climb(self, prior: Any, statistics: Any, steps: int = ...) -> Any:
        """A prior that is at least as probable given clusters with these statistics."""

    def relearned(self, prior: Any, X: Points) -> Start:
        """Where a fit to other points of the same kind begins, with the same hyperparameters fixed."""


class Start(NamedTuple):
    """A prior to begin with, its distribution, and the number of k-means cells that it comes from, if there are any."""

    prior: Any
    hyperprior: LearnedPrior
    n_cells: int | None


class Moments(NamedTuple):
    """Sums over K Gaussians, drawn or expected, of their precisions P and means mu, the latter from some origin."""

    clusters: int
    precision: Float64Array
    """Sum of P, (D, D), or its diagonal (D,) where it has no other entries."""
    pull: Float64Array
    """Sum of P mu."""
    square: float
    """Sum of mu' P mu."""
    log_variance: float
    """Sum of the logarithms of |Sigma|."""
