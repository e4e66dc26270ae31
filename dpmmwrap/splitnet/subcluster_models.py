"""Models of the two subclusters of a split, for the search: a family's Gaussians with their prior.

The search is the same for all families. They differ in the frame of the points, in the features phi of a point, and in
what is computed from sums of phi: log odds for EM, marginal likelihoods, and labels of members.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import torch
from torch import Tensor

from dpmmwrap.families.base import Prior
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.numerics.arrays import IntArray, UInt8Array
from dpmmwrap.numerics.rules import Rule
from dpmmwrap.splitnet.features import Features


class View(NamedTuple):
    """The points in which candidates are sought, whitened and rotated (B, n, d) in few dimensions, and the direction
    (B, d) in which each cluster was longest before."""

    points: Tensor
    longest: Tensor


LABELLED_AT_ONCE = 1 << 14
SMALLEST_COUNT = 0.01
"""Least count of a half in EM. Rounding can make the count of an empty half slightly negative."""


class SubclusterModel(Protocol):
    """A family with its prior in the frames of B clusters. Sums of features are (B, C, 2, F) and start with the number
    of points; weights of features are (B, C, F)."""

    @property
    def dim(self) -> int:
        """Number of features D."""

    @property
    def centre(self) -> Tensor:
        """The origins of the frames (B, 1, D)."""

    def take(self, clusters: Tensor) -> Any:
        """The model of some of the clusters."""

    def to_frame(self, centred: Tensor) -> Tensor:
        """Centred points (B, n, D) in their cluster's frame, in single precision. Missing values become zero, the
        mean."""

    def view(self, Z: Tensor) -> View | None:
        """The view of these points for candidates; None if the frames are not suitable."""

    def features(self, Z: Tensor, present: Tensor, observed: Tensor | None) -> Features:
        """phi of points in their frames. `present` (B, n) distinguishes points from padding, `observed` values from
        gaps."""

    def log_odds(self, sums: Tensor, strength: Tensor) -> Tensor:
        """Weights for which phi . weights are the E-step's log odds of the second half, with the prior counted
        `strength` times (B,)."""

    def log_terms(self, sums: Tensor) -> Tensor:
        """log Gamma(n) + log f of each half (B, C, 2), where f is the marginal likelihood in the cluster's frame."""

    def fits_second_moments(self, Z: Tensor, counts: Tensor) -> Tensor:
        """Whether the covariances of the points are consistent with one cluster of this family (B,)."""

    def half(self, directions: Tensor) -> Tensor:
        """Weights (B, F) that cut a cluster in half across these directions of its frame (B, D)."""

    def labeller(self, weights: Tensor) -> Labeller:
        """A labeller of members by the sign of phi . weights (B, F)."""


class Labeller(Protocol):
    """Labels members of clusters, in the coordinates of the data."""

    @property
    def centre(self) -> Tensor:
        """The origins (B, D) of the clusters."""

    def log_odds(self, cluster: int, d: Tensor) -> Tensor:
        """The log odds of points x = d + centre of one cluster of the batch."""

    def rule(self, cluster: int) -> Rule:
        """The rule for one cluster of the batch, without torch."""


def label_members(labeller: Labeller, X: Tensor, cluster: int, rows: IntArray) -> UInt8Array:
    """1 where the log odds are positive, for rows of X that are members of this cluster of the batch; for a GPU."""
    parts = torch.split(torch.from_numpy(rows).to(X.device), LABELLED_AT_ONCE)
    centre = labeller.centre[cluster]
    labels = [labeller.log_odds(cluster, X[part].double() - centre) > 0 for part in parts]
    return torch.cat(labels).to(torch.uint8).cpu().numpy()


def make_subcluster_model(prior: Prior, X: Tensor, present: Tensor, observed: Tensor | None) -> SubclusterModel:
    """The model of the prior's family, in frames made from the clusters' contexts X (B, n, D)."""
    from dpmmwrap.splitnet.diagonal_subclusters import DiagonalSubclusters
    from dpmmwrap.splitnet.full_subclusters import FullSubclusters

    if isinstance(prior, NIW):
        return FullSubclusters.of(prior, X, present)
    if isinstance(prior, NIG):
        return DiagonalSubclusters.of(prior, X, present, observed)
    raise ValueError(f"the splitnet start is for Gaussian clusters, not for the family {prior.family}")
