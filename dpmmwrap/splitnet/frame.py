"""The frame of a cluster: coordinates that do not depend on how its points were stretched or rotated.

Splitting Gaussians is affine-equivariant. Whitening removes the stretch. A second scatter matrix, in which distant
points have more weight, removes the rotation (invariant coordinate selection). For two Gaussians with a common mean,
both covariances are diagonal in this frame, because the whitened ones share their axes.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

SMALLEST_VARIANCE = 1e-10
LARGEST_WEIGHT = 5.0
POWER_STEPS = 3
"""Iterations from random directions to the principal ones."""


@dataclass(frozen=True)
class Frame:
    """x -> (x - mean) @ axes, for B clusters: mean (B, 1, D), axes (B, D, D).

    longest (B, D) is the direction, in the frame, in which the cluster was longest before it was whitened.
    """

    mean: Tensor
    axes: Tensor
    longest: Tensor

    def take(self, clusters: Tensor) -> Frame:
        """The frames of some of the clusters."""
        return Frame(self.mean[clusters], self.axes[clusters], self.longest[clusters])

    def __call__(self, X: Tensor) -> Tensor:
        return torch.bmm(X - self.mean, self.axes)


def whitening(X: Tensor, present: Tensor | None = None, expected: Tensor | None = None) -> Frame:
    """Mean zero and identity covariance; flat directions remain (nearly) zero.

    An expected covariance (D, D) stands in for the points that a cluster lacks to estimate its own.
    """
    if present is None:
        mean = X.mean(dim=1, keepdim=True)
        centred = X - mean
        covariance = torch.bmm(centred.transpose(1, 2), centred) / X.shape[1]
    else:
        weights = _weights(X, present)
        mean = torch.bmm(weights[:, None, :], X)
        centred = X - mean
        covariance = torch.bmm((centred * weights[:, :, None]).transpose(1, 2), centred)
    if expected is not None:
        count = X.new_full((len(X),), X.shape[1]) if present is None else present.sum(dim=1).to(X.dtype)
        share = lacking_share(count, X.shape[2])[:, None, None]
        covariance = (1 - share) * covariance + share * expected
    variances, directions = torch.linalg.eigh(covariance)
    floor = variances[:, -1:].clamp_min(1e-30) * SMALLEST_VARIANCE
    # Variances come in rising order: the last direction is the longest.
    longest = torch.zeros_like(variances)
    longest[:, -1] = 1
    return Frame(mean, directions * variances.clamp_min(floor).rsqrt()[:, None, :], longest)


def lacking_share(counts: Tensor, dim: int) -> Tensor:
    """The weight of the expected covariance (B,): almost zero from five points per dimension on."""
    lacking = (5.0 * dim - counts).clamp_min(1e-6)
    return lacking / (counts + lacking)


def standardising(X: Tensor, present: Tensor, expected: Tensor) -> Frame:
    """Mean zero and unit variances without rotation, for more dimensions than the points can determine.

    Standard deviations are at least a thousandth of the expected ones (variances (D,)).
    """
    weights = _weights(X, present)[:, :, None]
    mean = (X * weights).sum(dim=1, keepdim=True)
    variances = ((X - mean).square() * weights).sum(dim=1)
    longest = torch.nn.functional.one_hot(variances.argmax(dim=1), X.shape[2])
    return Frame(mean, torch.diag_embed(torch.maximum(variances, 1e-6 * expected).rsqrt()), longest.to(X))


def rotate_to_ics(Z: Tensor, present: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Rotate whitened points to their invariant axes; return the points and the axes (B, D, D), heavy-tailed axes
    first.

    Each axis points to its longer tail, so that mirror images have the same frame.
    """
    weights = _weights(Z, present)
    # Bounded, so that a single distant point does not determine the axes.
    radius = Z.square().mean(dim=-1).clamp_max(LARGEST_WEIGHT)
    scatter = torch.bmm((Z * (weights * radius)[:, :, None]).transpose(1, 2), Z)
    _, axes = torch.linalg.eigh(scatter)
    axes = axes.flip(-1)
    Y = torch.bmm(Z, axes)
    skewness = (weights[:, :, None] * Y.clamp(-4.0, 4.0).pow(3)).sum(dim=1)
    sign = torch.where(skewness < 0, -1.0, 1.0).to(Y.dtype)
    return Y * sign[:, None, :], axes * sign[:, None, :]


def frame_of(X: Tensor, present: Tensor | None = None, expected: Tensor | None = None) -> Frame:
    """The frames of B clusters with the points X (B, n, D)."""
    white = whitening(X, present, expected)
    # Only the covariance needs double precision: centred points are no more accurate than float32.
    Z = torch.bmm((X - white.mean).float(), white.axes.float())
    axes = rotate_to_ics(Z, present)[1]
    return Frame(white.mean, white.axes @ axes.to(X), axes[:, -1])


def to_frame(X: Tensor, present: Tensor | None = None) -> Tensor:
    """The points of B clusters (B, n, D), each in the frame of its cluster."""
    return rotate_to_ics(whitening(X, present)(X), present)[0]


def principal(Z: Tensor, directions: Tensor) -> Tensor:
    """Centred points (B, n, D) along their first d principal directions, given random directions (D, d).

    Uses subspace iteration, which computes no other directions.
    """
    basis = directions.to(Z).expand(len(Z), -1, -1)
    for _ in range(POWER_STEPS):
        basis = torch.linalg.qr(torch.bmm(Z.transpose(1, 2), torch.bmm(Z, basis)))[0]
    return torch.bmm(Z, basis)


def _weights(X: Tensor, present: Tensor | None) -> Tensor:
    if present is None:
        return X.new_full(X.shape[:2], 1.0 / X.shape[1])
    weights = present.to(X.dtype)
    return weights / weights.sum(dim=1, keepdim=True).clamp_min(1.0)
