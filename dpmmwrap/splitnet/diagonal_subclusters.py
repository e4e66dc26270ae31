"""Subclusters with one variance per feature, or one for all: diagonal and spherical covariances in batches.

The features phi of a point are (1, z, z^2), or (1, z, |z|^2) if all features share a variance. If values are missing,
an indicator per feature marks the observed ones, and a missing value contributes nothing, as in the family itself.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.numerics.rules import ByFeature
from dpmmwrap.splitnet.features import Features, StoredFeatures
from dpmmwrap.splitnet.subcluster_models import SMALLEST_COUNT, View

STANDARD_ERRORS = 4.5
"""Standard errors by which a covariance may differ from the family's: among hundreds, smaller differences are not
significant."""


class Sums(NamedTuple):
    """Sums of features phi, by kind."""

    counts: Tensor
    values: Tensor
    squares: Tensor
    """One per feature, or their total (a last axis of length one)."""
    observed: Tensor
    """One per feature, or one for all features (a last axis of length one)."""


@dataclass(frozen=True)
class DiagonalSubclusters:
    """Axis-parallel Gaussians in the frames of B clusters, which only shift and scale features."""

    centre: Tensor
    factors: Tensor
    """x -> (x - centre) * factors; both (B, 1, D)."""
    prior_mean: Tensor
    prior_scale: Tensor
    """In each frame (B, 1, 1, D); the scale is (B, 1, 1, 1) if features share it."""
    strength: float
    freedom: float
    tied: bool
    missing: bool

    @classmethod
    def of(cls, prior: NIG, X: Tensor, present: Tensor, observed: Tensor | None) -> DiagonalSubclusters:
        own = prior.fields
        mean, scale = (torch.as_tensor(np.asarray(value), device=X.device) for value in (own.means, own.scales))
        strength, freedom = float(own.strengths[0]), float(own.freedoms[0])
        there = present[:, :, None].expand(X.shape) if observed is None else observed
        counts = there.sum(dim=1, keepdim=True).clamp_min(1)
        values = X.nan_to_num() * there
        centre = values.sum(dim=1, keepdim=True) / counts
        variances = ((values - centre).square() * there).sum(dim=1, keepdim=True) / counts
        if prior.tied:
            variances = variances.mean(dim=2, keepdim=True)
        factors = torch.maximum(variances, 1e-6 * scale / freedom).rsqrt().expand(centre.shape)
        return cls(
            centre,
            factors,
            ((mean - centre) * factors)[:, None],
            (scale * factors.square()[..., : len(scale)])[:, None],
            strength,
            freedom,
            prior.tied,
            observed is not None,
        )

    @property
    def dim(self) -> int:
        return int(self.centre.shape[2])

    def take(self, clusters: Tensor) -> DiagonalSubclusters:
        names = ("centre", "factors", "prior_mean", "prior_scale")
        return replace(self, **{name: getattr(self, name)[clusters] for name in names})

    def to_frame(self, centred: Tensor) -> Tensor:
        return (centred * self.factors).nan_to_num().float()

    def view(self, Z: Tensor) -> View | None:
        """None: these frames are not rotated, so they do not show structure that is oblique to the axes."""
        return None

    def features(self, Z: Tensor, present: Tensor, observed: Tensor | None) -> Features:
        squares = Z.square()
        parts = [present[:, :, None].to(Z), Z, squares.sum(dim=2, keepdim=True) if self.tied else squares]
        if self.missing:
            assert observed is not None
            parts.append(observed.to(Z))
        return StoredFeatures(torch.cat(parts, dim=2).transpose(1, 2).contiguous())

    def log_odds(self, sums: Tensor, strength: Tensor) -> Tensor:
        """A half's log density is log n + sum over observed values of 1/2 log p - 1/2 p (z - m)^2, with precision p =
        (points + the prior's degrees of freedom) / (scatter + the prior's scale)."""
        share = strength[:, None, None, None]
        own = self._split(sums)
        observed = own.observed.clamp_min(SMALLEST_COUNT)
        weight = observed + share * self.strength
        shifted = own.values + share * self.strength * self.prior_mean
        mean = shifted / weight
        scatter = self._scatter(own.squares, share * self.strength, shifted * mean)
        values = self._pooled(observed) if self.tied else observed
        precision = (values + share * self.freedom) / (scatter + share * self.prior_scale)
        constant = own.counts.clamp_min(SMALLEST_COUNT).log()
        terms = 0.5 * (precision.log() - precision * mean.square())
        parts = [constant[..., None], precision * mean, -0.5 * precision]
        if self.missing:
            parts.append(terms)
        else:
            parts[0] = (constant + terms.sum(dim=-1))[..., None]
        density = torch.cat(parts, dim=-1)
        return density[:, :, 1] - density[:, :, 0]

    def log_terms(self, sums: Tensor) -> Tensor:
        own, dim, kappa, nu = self._split(sums), self.dim, self.strength, self.freedom
        # Terms that are the same for all features are computed once and counted D times.
        times = dim / own.observed.shape[-1]
        weight = own.observed + kappa
        shifted = own.values + kappa * self.prior_mean
        scale = self._scatter(own.squares, kappa, shifted.square() / weight) + self.prior_scale
        total = 0.5 * times * (math.log(kappa) - weight.log() - own.observed * math.log(math.pi)).sum(dim=-1)
        values = self._pooled(own.observed) if self.tied else own.observed
        gammas = torch.lgamma(0.5 * (nu + values)) - math.lgamma(0.5 * nu)
        total += gammas.sum(dim=-1) * (1.0 if self.tied else times)
        total += 0.5 * (nu * self.prior_scale.log() - (nu + values) * scale.log()).sum(dim=-1)
        return total + torch.lgamma(own.counts.clamp_min(1e-3))

    def fits_second_moments(self, Z: Tensor, counts: Tensor) -> Tensor:
        """Correlated features need more than one cluster of this family, and so do different variances if they are
        shared."""
        if self.missing:
            return torch.zeros(len(Z), dtype=torch.bool, device=Z.device)
        n = counts.to(Z.dtype)[:, None, None]
        covariance = torch.bmm(Z.transpose(1, 2), Z) / n
        variances = covariance.diagonal(dim1=1, dim2=2)
        usual = variances.mean(dim=1, keepdim=True).expand(variances.shape) if self.tied else variances
        surprise = (covariance - torch.diag_embed(usual)).abs() * n.sqrt()
        surprise.diagonal(dim1=1, dim2=2).div_(math.sqrt(2))
        return (surprise < STANDARD_ERRORS).flatten(1).all(dim=1)

    def half(self, directions: Tensor) -> Tensor:
        size = 1 + self.dim + (1 if self.tied else self.dim) + (self.dim if self.missing else 0)
        weights = directions.new_zeros(len(directions), size)
        weights[:, 1 : self.dim + 1] = directions
        return weights

    def labeller(self, weights: Tensor) -> DiagonalLabeller:
        dim, factors = self.dim, self.factors[:, 0]
        linear, last = weights[:, 1 : dim + 1] * factors, -dim if self.missing else weights.shape[1]
        quadratic = weights[:, dim + 1 : last] * factors.square()
        offsets = weights[:, last:] if self.missing else torch.zeros_like(linear)
        return DiagonalLabeller(self.centre[:, 0], weights[:, 0], offsets, linear, quadratic)

    def _split(self, sums: Tensor) -> Sums:
        dim = self.dim
        last = -dim if self.missing else sums.shape[-1]
        observed = sums[..., last:] if self.missing else sums[..., :1]
        return Sums(sums[..., 0], sums[..., 1 : dim + 1], sums[..., dim + 1 : last], observed)

    def _scatter(self, squares: Tensor, kappa: float | Tensor, taken: Tensor) -> Tensor:
        """The scatter about the mean plus the term for the prior mean; never negative, whatever rounding leaves."""
        beyond = kappa * self.prior_mean.square() - taken
        return (squares + (beyond.sum(dim=-1, keepdim=True) if self.tied else beyond)).clamp_min(0.0)

    def _pooled(self, observed: Tensor) -> Tensor:
        """Number of values from which a shared variance is estimated."""
        return observed.sum(dim=-1, keepdim=True) * (self.dim / observed.shape[-1])


class DiagonalLabeller(NamedTuple):
    """Log odds constant + sum over observed values of offset + linear d + quadratic d^2, with d = x - centre."""

    centre: Tensor
    constant: Tensor
    offsets: Tensor
    linear: Tensor
    quadratic: Tensor

    def rule(self, cluster: int) -> ByFeature:
        """The rule for one cluster, without torch."""
        centre, constant, *others = (part[cluster].cpu().numpy() for part in self)
        return ByFeature(centre, float(constant), *others)

    def log_odds(self, cluster: int, d: Tensor) -> Tensor:
        terms = self.offsets[cluster] + d * (self.linear[cluster] + d * self.quadratic[cluster])
        return self.constant[cluster] + terms.nan_to_num().sum(dim=1)
