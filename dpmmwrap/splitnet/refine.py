"""Splits as two Gaussians: EM on a context, many candidate splits of many clusters at once.

With phi(x) = (1, x, x x'), both halves of an EM step are products of matrices: the statistics of a side are
r' phi(X), and the log odds of a point are phi(x) . w. The other side is what is left of the whole.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

SCALE_FACTOR = 0.1
"""The expected covariance of a side, as a share of the whitened cluster's."""
PRIOR_STRENGTH = 0.1
"""In EM the prior counts for a tenth of its points: in the whole cluster it would weigh less than in a context."""


@dataclass(frozen=True)
class Context:
    """Whitened points (B, n, D) of B clusters, which of them are not padding (B, n), and the clusters' sizes (B,).

    Padding stands at zero, and counts for nothing because its features phi are zero.
    """

    Z: Tensor
    present: Tensor
    sizes: Tensor

    @property
    def dim(self) -> int:
        return int(self.Z.shape[2])

    @cached_property
    def counts(self) -> Tensor:
        """Points in the context (B,)."""
        return self.present.sum(dim=1)

    @cached_property
    def phi(self) -> Tensor:
        """The features of each point, (B, n, F): 1, z, and the upper triangle of z z'."""
        Z = self.Z
        squares = [Z[:, :, i, None] * Z[:, :, i:] for i in range(self.dim)]
        return torch.cat([self.present[:, :, None].to(Z.dtype), Z, *squares], dim=2)

    @cached_property
    def total(self) -> Tensor:
        """The sum of all points' features (B, 1, F)."""
        return self.phi.sum(dim=1, keepdim=True)

    def take(self, clusters: Tensor) -> Context:
        """Some of the clusters only."""
        return Context(self.Z[clusters], self.present[clusters], self.sizes[clusters])

    def head(self, n: int) -> Context:
        """The first n points only."""
        return Context(self.Z[:, :n], self.present[:, :n], self.sizes)


@dataclass(frozen=True)
class Sides:
    """Statistics of the two sides of C splits of B clusters; index 0 is the rest, 1 the group.

    counts (B, C, 2), means (B, C, 2, D), scatters about the means (B, C, 2, D, D).
    """

    counts: Tensor
    means: Tensor
    scatters: Tensor

    def of(self, clusters: Tensor) -> Sides:
        """The splits of some of the clusters only."""
        return Sides(self.counts[clusters], self.means[clusters], self.scatters[clusters])

    def replaced(self, clusters: Tensor, others: Sides) -> Sides:
        """With the splits of these clusters taken from others."""
        counts, means, scatters = self.counts.clone(), self.means.clone(), self.scatters.clone()
        counts[clusters], means[clusters], scatters[clusters] = others.counts, others.means, others.scatters
        return Sides(counts, means, scatters)

    def take(self, index: Tensor) -> Sides:
        """The splits with these numbers (B, k) of each cluster."""
        rows = torch.arange(len(index), device=index.device)[:, None]
        return Sides(self.counts[rows, index], self.means[rows, index], self.scatters[rows, index])


def maximise(context: Context, group: Tensor) -> Sides:
    """The M-step: statistics of the sides, given the probability (B, C, n) that a point is in the group."""
    inside = torch.bmm(group, context.phi)
    return _statistics(torch.stack([context.total - inside, inside], dim=2).double(), context.dim)


def _statistics(sums: Tensor, dim: int) -> Sides:
    """Statistics from sums of features (B, C, 2, F)."""
    counts = sums[..., 0].clamp_min(0.0)
    means = sums[..., 1 : dim + 1] / counts.clamp_min(1e-6)[..., None]
    rows, columns = torch.triu_indices(dim, dim, device=sums.device)
    place = torch.empty(dim, dim, dtype=torch.long, device=sums.device)
    place[rows, columns] = place[columns, rows] = torch.arange(len(rows), device=sums.device)
    squares = sums[..., dim + 1 :][..., place]
    scatters = squares - counts[..., None, None] * means[..., :, None] * means[..., None, :]
    return Sides(counts, means, scatters)


@dataclass(frozen=True)
class Odds:
    """log odds of the group at a point z: constant + linear . z + z' quadratic z, for (B, C) splits."""

    constant: Tensor
    linear: Tensor
    quadratic: Tensor

    def replaced(self, clusters: Tensor, others: Odds) -> Odds:
        """With the splits of these clusters taken from others."""
        constant, linear, quadratic = self.constant.clone(), self.linear.clone(), self.quadratic.clone()
        constant[clusters] = others.constant.to(constant)
        linear[clusters] = others.linear.to(linear)
        quadratic[clusters] = others.quadratic.to(quadratic)
        return Odds(constant, linear, quadratic)

    def __call__(self, context: Context) -> Tensor:
        """The log odds (B, C, n) of the context's points; very negative at padding."""
        rows, columns = torch.triu_indices(context.dim, context.dim, device=context.Z.device)
        # Each product of two different coordinates stands for two entries of the quadratic form.
        twice = torch.where(rows == columns, 1.0, 2.0).to(self.quadratic)
        quadratic = self.quadratic[..., rows, columns] * twice
        weights = torch.cat([self.constant[..., None], self.linear, quadratic], dim=2)
        odds = torch.bmm(weights.to(context.phi.dtype), context.phi.transpose(1, 2))
        return odds.masked_fill(~context.present[:, None, :], -1e9)


def log_odds(sides: Sides) -> Odds:
    """The E-step's log odds, from slightly regularised covariances of the sides."""
    dim = sides.means.shape[-1]
    strength = PRIOR_STRENGTH * (dim + 3)
    eye = torch.eye(dim, dtype=sides.means.dtype, device=sides.means.device)
    covariances = (sides.scatters + strength * SCALE_FACTOR * eye) / (sides.counts + strength)[..., None, None]
    factors = torch.linalg.cholesky_ex(covariances)[0]
    half_log_determinants = factors.diagonal(dim1=-2, dim2=-1).clamp_min(1e-12).log().sum(-1)
    precisions = torch.cholesky_inverse(factors)
    pulls = (precisions @ sides.means[..., None])[..., 0]
    log_weights = sides.counts.clamp_min(1e-6).log()
    constants = log_weights - half_log_determinants - 0.5 * (pulls * sides.means).sum(-1)
    return Odds(
        constants[..., 1] - constants[..., 0],
        pulls[..., 1, :] - pulls[..., 0, :],
        -0.5 * (precisions[..., 1, :, :] - precisions[..., 0, :, :]),
    )


def refine(context: Context, sides: Sides, steps: int) -> Sides:
    """A few EM steps of every candidate."""
    for _ in range(steps):
        sides = maximise(context, torch.sigmoid(log_odds(sides)(context)))
    return sides


def scaled_log_hastings(context: Context, sides: Sides, alpha: float) -> Tensor:
    """The log Hastings ratio (B, C) that a split would have in the whole cluster, from its context.

    Counts and scatters of the context's n points are counted N / n times. The prior is the project's default as
    seen in the whitened cluster: mean 0, kappa 1, nu = D + 3, scale nu * SCALE_FACTOR * I.
    """
    sizes = context.sizes.double()[:, None]
    times = (sizes / context.counts.double()[:, None])[..., None]
    whole = _statistics(context.total[:, :, None].double(), context.dim)
    gain = _log_marginal(sides, times).sum(dim=2) - _log_marginal(whole, times).sum(dim=2)
    cost = torch.lgamma((sides.counts * times).clamp_min(1e-3)).sum(dim=2) - torch.lgamma(sizes)
    ratio = math.log(alpha) + cost + gain
    # A side that is all but empty is no split; nor is one whose covariance cannot be factorised.
    proper = (sides.counts >= 2.0).all(dim=2) & ratio.isfinite()
    return torch.where(proper, ratio, -math.inf)


def merit(context: Context, sides: Sides, ratios: Tensor) -> Tensor:
    """The log Hastings ratio per nat that the split costs: ratio / (N h(p)), above -1 if it gains anything.

    By the ratio alone, splitting off a handful of points would look better than any split that does not pay yet.
    """
    shares = sides.counts / sides.counts.sum(dim=2, keepdim=True).clamp_min(1e-9)
    entropy = -torch.xlogy(shares, shares).sum(dim=2).clamp_max(-1e-4)
    return ratios / (entropy * context.sizes.double()[:, None])


def _log_marginal(sides: Sides, times: Tensor) -> Tensor:
    """log f of each side (B, C, sides), with its points counted so many times (B, C, 1).

    Written out for torch, in float64 and batches; `dpmmwrap.prior` is what it is tested against.
    """
    counts, means, scatters = sides.counts * times, sides.means, sides.scatters * times[..., None, None]
    dim = means.shape[-1]
    freedom = dim + 3.0
    eye = torch.eye(dim, dtype=means.dtype, device=means.device)
    shrink = counts / (counts + 1.0)
    scale = (
        freedom * SCALE_FACTOR * eye + scatters + (shrink[..., None, None] * means[..., :, None]) * means[..., None, :]
    )
    factors = torch.linalg.cholesky_ex(scale)[0]
    log_determinant = 2 * factors.diagonal(dim1=-2, dim2=-1).clamp_min(1e-12).log().sum(-1)
    found: Tensor = (
        -0.5 * counts * dim * math.log(math.pi)
        + torch.mvlgamma(0.5 * (freedom + counts), dim)
        - 0.5 * (freedom + counts) * log_determinant
        - 0.5 * dim * torch.log1p(counts)
        - torch.mvlgamma(torch.tensor(0.5 * freedom, dtype=torch.float64), dim)
        + 0.5 * freedom * dim * math.log(freedom * SCALE_FACTOR)
    )
    return found
