"""What the two sides of a split follow: the family's own Gaussians and prior, as a search for splits needs them.

The search is the same for all of them. They differ in the coordinates in which points are looked at, in the features
phi of a point, and in what sums of these say: log odds for EM, marginal likelihoods to judge by, labels for members.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from torch import Tensor

from dpmmwrap.families.base import Prior
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.numerics.arrays import UInt8Array
from dpmmwrap.numerics.rules import Rule
from dpmmwrap.splitnet.features import Features


class View(NamedTuple):
    """Where candidates are looked for: whitened and rotated points (B, n, d), in few dimensions, and the direction
    (B, d) in which each cluster was longest before."""

    points: Tensor
    longest: Tensor


SMALLEST_COUNT = 0.01
"""The least that a side counts for in EM: rounding leaves an empty one with a little less than nothing."""


class SideModel(Protocol):
    """A family with its prior, in the frames of B clusters. Sums of features are (B, C, 2, F), the number of points
    first; weights of features (B, C, F)."""

    @property
    def dim(self) -> int:
        """D, the features of a point."""

    @property
    def centre(self) -> Tensor:
        """Where the frames have their origin (B, 1, D)."""

    def take(self, clusters: Tensor) -> Any:
        """For some of the clusters only."""

    def to_frame(self, centred: Tensor) -> Tensor:
        """Points (B, n, D), about the centre, in their cluster's frame, in single precision; what is missing stands at
        its mean, zero."""

    def view(self, Z: Tensor) -> View | None:
        """Where candidates are looked for, if the frames serve for that."""

    def features(self, Z: Tensor, present: Tensor, observed: Tensor | None) -> Features:
        """phi of points in their frames; present (B, n) says which are no padding, observed which values are there."""

    def log_odds(self, sums: Tensor, strength: Tensor) -> Tensor:
        """Weights with which phi . weights are the E-step's log odds of the second side, with the prior counted so
        many times (B,)."""

    def log_terms(self, sums: Tensor) -> Tensor:
        """log Gamma(n) + log f of each side (B, C, 2), with f the marginal likelihood in the cluster's frame."""

    def fits_second_moments(self, Z: Tensor, counts: Tensor) -> Tensor:
        """Whether covariances of the points say nothing against one cluster of this family (B,)."""

    def half(self, directions: Tensor) -> Tensor:
        """Weights (B, F) that cut a cluster across these directions of its frame (B, D)."""

    def labeller(self, weights: Tensor) -> Labeller:
        """Labels any member by the sign of phi . weights (B, F)."""


class Labeller(Protocol):
    """Labels members of clusters, in the data's own coordinates."""

    def __call__(self, X: Any, cluster: int, rows: Any) -> UInt8Array:
        """1 where the log odds of the rows of X, members of that cluster of the batch, are positive."""

    def rule(self, cluster: int) -> Rule:
        """The same for one cluster of the batch, without torch."""


def make_side_model(prior: Prior, X: Tensor, present: Tensor, observed: Tensor | None) -> SideModel:
    """The model of the prior's family, in frames made from the clusters' contexts X (B, n, D)."""
    from dpmmwrap.splitnet.diagonal_sides import DiagonalSides
    from dpmmwrap.splitnet.full_sides import FullSides

    if isinstance(prior, NIW):
        return FullSides.of(prior, X, present)
    if isinstance(prior, NIG):
        return DiagonalSides.of(prior, X, present, observed)
    raise ValueError(f"the splitnet start is for Gaussian clusters, not for the family {prior.family}")
