"""Subclusters with full covariances and a normal-inverse-Wishart prior: a batched torch version of `families.full`.

Let phi(z) be the upper triangle of (1, z)(1, z)'. Sums of phi over n points with sum s and sum of squares Q form the
matrix [[n, s'], [s, Q]]. The prior is such a matrix, too, [[kappa, kappa m'], [kappa m, scale + kappa m m']], and the
posterior is their sum. Its Cholesky factor contains that of the scatter about the mean, and its inverse contains the
precision and its product with the mean, so no statistic is computed separately.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import torch
from torch import Tensor

from dpmmwrap.families.full.prior import NIW
from dpmmwrap.numerics.rules import Quadratic
from dpmmwrap.splitnet.features import (
    Features,
    OuterFeatures,
    symmetric,
    triangle,
    triangle_count,
    triangle_features,
)
from dpmmwrap.splitnet.frame import Frame, frame_of, standardising
from dpmmwrap.splitnet.subcluster_models import SMALLEST_COUNT, View

LARGEST_WHITENED_DIM = 20
"""In more dimensions a context has too few points for a covariance. Features are then only standardised, and candidates
are sought in some directions only."""
LARGEST_STORED_DIM = 24


@dataclass(frozen=True)
class FullSubclusters:
    """Gaussians with full covariances in the frames of B clusters."""

    frame: Frame
    prior: Tensor
    """The prior's matrix in each frame (B, 1, 1, D + 1, D + 1)."""
    freedom: float
    halves: Tensor
    """(nu - i) / 2 for each dimension i; plus n / 2 they are the arguments of the multivariate gamma function."""

    @classmethod
    def of(cls, prior: NIW, X: Tensor, present: Tensor) -> FullSubclusters:
        mean = torch.as_tensor(prior.mean, device=X.device)
        scale = torch.as_tensor(prior.scale, device=X.device)
        freedom = float(prior.degrees_of_freedom)
        if prior.dim <= LARGEST_WHITENED_DIM:
            frame = frame_of(X, None if present.all() else present, scale / freedom)
        else:
            frame = standardising(X, present, scale.diagonal() / freedom)
        # The change of coordinates x -> (x - m) A maps the mean to (mean - m) A and the scale to A' scale A.
        centres = torch.bmm(mean - frame.mean, frame.axes)
        scales = frame.axes.transpose(1, 2) @ scale @ frame.axes
        extended = torch.cat([torch.ones_like(centres[:, :, :1]), centres], dim=2)
        matrices = float(prior.mean_strength) * extended.transpose(1, 2) @ extended
        matrices[:, 1:, 1:] += scales
        halves = 0.5 * (freedom - torch.arange(prior.dim, dtype=torch.float64, device=X.device))
        return cls(frame, matrices[:, None, None], freedom, halves)

    @property
    def dim(self) -> int:
        return int(self.prior.shape[-1]) - 1

    @property
    def centre(self) -> Tensor:
        return self.frame.mean

    def take(self, clusters: Tensor) -> FullSubclusters:
        return replace(self, frame=self.frame.take(clusters), prior=self.prior[clusters])

    def to_frame(self, centred: Tensor) -> Tensor:
        return torch.bmm(centred.float(), self.frame.axes.float())

    def view(self, Z: Tensor) -> View | None:
        return View(Z, self.frame.longest) if self.dim <= LARGEST_WHITENED_DIM else None

    def features(self, Z: Tensor, present: Tensor, observed: Tensor | None) -> Features:
        if self.dim <= LARGEST_STORED_DIM:
            return triangle_features(Z, present)
        return OuterFeatures(torch.cat([present[:, :, None].to(Z), Z], dim=2))

    def log_odds(self, sums: Tensor, strength: Tensor) -> Tensor:
        """A half's log density is log n - 1/2 log |C| - 1/2 (z - m)' C^-1 (z - m), with C = S / c.

        S is the scatter plus the prior's scale, and c the number of points plus the prior's degrees of freedom. If G is
        the half's matrix, its inverse is [[1/n + m'Pm, -m'P], [-Pm, P]] with P = S^-1, so the last term is c (1/n - (1,
        z)' G^-1 (1, z)) / 2.
        """
        where = triangle(self.dim, sums.device)
        share = strength[:, None, None]
        factors = self._factors(sums, self.prior * share[..., None, None])
        logs = factors.diagonal(dim1=-2, dim2=-1).log()
        counts = sums[..., 0].clamp_min(SMALLEST_COUNT)
        certainty = counts + share * self.freedom
        # The first diagonal entry of the factor is the root of n, the others are those of S.
        constants = counts.log() + 0.5 * self.dim * certainty.log() - logs[..., 1:].sum(-1)
        constants += 0.5 * certainty * (-2 * logs[..., 0]).exp()
        weights = torch.cholesky_inverse(factors).flatten(-2).index_select(-1, where.flat) * certainty[..., None]
        odds = (weights[:, :, 0] - weights[:, :, 1]) * where.half
        odds[..., 0] += constants[..., 1] - constants[..., 0]
        return odds

    def log_terms(self, sums: Tensor) -> Tensor:
        counts = sums[..., 0]
        gain = self._log_normaliser(sums) - self._prior_log_normaliser
        return gain + torch.lgamma(counts.clamp_min(1e-3)) - 0.5 * self.dim * math.log(math.pi) * counts

    def fits_second_moments(self, Z: Tensor, counts: Tensor) -> Tensor:
        """Any covariance is possible, so nothing needs to be tested."""
        return torch.ones(len(Z), dtype=torch.bool, device=Z.device)

    def half(self, directions: Tensor) -> Tensor:
        weights = directions.new_zeros(len(directions), triangle_count(self.dim))
        weights[:, 1 : self.dim + 1] = directions
        return weights

    def labeller(self, weights: Tensor) -> FullLabeller:
        axes, matrices = self.frame.axes, symmetric(weights, self.dim)
        linear = (axes @ matrices[:, 1:, :1])[..., 0]
        quadratic = axes @ matrices[:, 1:, 1:] @ axes.transpose(1, 2)
        return FullLabeller(self.frame.mean[:, 0], matrices[:, 0, 0], 2 * linear, quadratic)

    def _factors(self, sums: Tensor, prior: Tensor) -> Tensor:
        """Cholesky factors of the halves' matrices plus the prior's."""
        index = triangle(self.dim, sums.device).index
        matrices = sums.index_select(-1, index.flatten()).view(*sums.shape[:-1], *index.shape)
        factors: Tensor = torch.linalg.cholesky_ex(matrices.add_(prior))[0]
        return factors

    @cached_property
    def _prior_log_normaliser(self) -> Tensor:
        """The log normaliser of a half without points (B, 1, 1)."""
        return self._log_normaliser(self.prior.new_zeros(len(self.prior), 1, 1, triangle_count(self.dim)))

    def _log_normaliser(self, sums: Tensor) -> Tensor:
        """Log of Gamma_D(nu/2) |scale|^(-nu/2) kappa^(-D/2) of the posteriors, up to a constant."""
        counts = sums[..., 0]
        logs = self._factors(sums, self.prior).diagonal(dim1=-2, dim2=-1).log()
        gammas = torch.lgamma(0.5 * counts[..., None] + self.halves).sum(-1)
        found: Tensor = gammas - (self.freedom + counts) * logs[..., 1:].sum(-1) - self.dim * logs[..., 0]
        return found


class FullLabeller(NamedTuple):
    """Log odds constant + linear . d + d' quadratic d, with d = x - centre, for B clusters."""

    centre: Tensor
    constant: Tensor
    linear: Tensor
    quadratic: Tensor

    def rule(self, cluster: int) -> Quadratic:
        """The rule for one cluster, without torch."""
        centre, constant, *others = (part[cluster].cpu().numpy() for part in self)
        return Quadratic(centre, float(constant), *others)

    def log_odds(self, cluster: int, d: Tensor) -> Tensor:
        odds = d @ self.linear[cluster] + ((d @ self.quadratic[cluster]) * d).sum(dim=1)
        return odds + self.constant[cluster]
