"""Splits as two Gaussians: EM on a context, many candidate splits of many clusters at once.

With phi(z) the upper triangle of (1, z)(1, z)', both halves of an EM step are products of matrices: the statistics of
a side are r' phi(Z), and the log odds of a point are phi(z) . w. The other side is what is left of the whole.

Sums of phi, put back into a matrix, are [[n, s'], [s, Q]] of n points with sum s and sum of squares Q. Its Cholesky
factor holds that of the scatter Q - s s' / n about the mean, and its inverse the precision and its product with the
mean: no statistic is ever computed by itself. A start is many small steps, so what counts is how few they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property, lru_cache

import torch
from torch import Tensor

SCALE_FACTOR = 0.1
"""The expected covariance of a side, as a share of the whitened cluster's."""
PRIOR_STRENGTH = 0.1
"""In EM the prior counts for a tenth of its points: in the whole cluster it would weigh less than in a context."""
SMALLEST_COUNT = 0.01
"""Added to every count in EM: rounding leaves an empty side with a little less than nothing, which has no root."""


def feature_count(dim: int) -> int:
    """F, the number of features phi."""
    return (dim + 1) * (dim + 2) // 2


@dataclass(frozen=True)
class Triangle:
    """Where the upper triangle of (1, z)(1, z)' has its entries, and what they count for."""

    flat: Tensor
    """Row and column of each entry, as one number."""
    place: Tensor
    """(D + 1, D + 1): which entry of the triangle stands there."""
    half: Tensor
    """Half of how often an entry stands in the whole matrix."""
    density: Tensor
    """(D + 1,): what the logarithms of a factor's diagonal count for in log n - 1/2 log |scatter / n|."""
    slopes: Tensor
    offsets: Tensor
    """(D + 1,): the arguments of the gamma functions in Gamma(n) f, as slope * n + offset."""


@lru_cache(maxsize=32)
def triangle(dim: int, device: torch.device) -> Triangle:
    """The upper triangle in D dimensions; made once, as every EM step needs it."""
    # Also used outside of inference, as by tests: an inference tensor could not be.
    with torch.inference_mode(False):
        rows, columns = torch.triu_indices(dim + 1, dim + 1, device=device)
        place = torch.empty(dim + 1, dim + 1, dtype=torch.long, device=device)
        place[rows, columns] = place[columns, rows] = torch.arange(len(rows), device=device)
        half = torch.where(rows == columns, 0.5, 1.0).double()
        density = torch.tensor([dim + 2.0] + [-1.0] * dim, dtype=torch.float64, device=device)
        slopes = torch.tensor([1.0] + [0.5] * dim, dtype=torch.float64, device=device)
        offsets = torch.tensor([0.0] + [0.5 * (dim + 3 - i) for i in range(dim)], dtype=torch.float64, device=device)
        return Triangle(rows * (dim + 1) + columns, place, half, density, slopes, offsets)


@lru_cache(maxsize=64)
def diagonal(dim: int, first: float, others: float, device: torch.device) -> Tensor:
    """The diagonal matrix (first, others, ...) of D + 1 rows: a prior, as it is added to sums of phi."""
    with torch.inference_mode(False):
        return torch.diag(torch.tensor([first] + [others] * dim, dtype=torch.float64)).to(device)


@dataclass(frozen=True)
class Context:
    """Points (B, n, D) of B clusters in their frames, which of them are not padding (B, n), the clusters' sizes (B,),
    and the direction (B, D) in which each was longest before it was whitened.

    Padding stands at zero, and counts for nothing because its features phi are zero.
    """

    Z: Tensor
    present: Tensor
    sizes: Tensor
    longest: Tensor

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
        Z, dim = self.Z, self.dim
        phi = Z.new_empty(*Z.shape[:2], feature_count(dim))
        phi[:, :, 0] = self.present
        phi[:, :, 1 : dim + 1] = Z
        begin = dim + 1
        for i in range(dim):
            torch.mul(Z[:, :, i : i + 1], Z[:, :, i:], out=phi[:, :, begin : begin + dim - i])
            begin += dim - i
        return phi

    @cached_property
    def total(self) -> Tensor:
        """The sum of all points' features (B, 1, F)."""
        return self.phi.sum(dim=1, keepdim=True)

    def take(self, clusters: Tensor) -> Context:
        """Some of the clusters only."""
        if len(clusters) == len(self.Z):
            return self
        return Context(self.Z[clusters], self.present[clusters], self.sizes[clusters], self.longest[clusters])

    def head(self, n: int) -> Context:
        """The first n points only."""
        return Context(self.Z[:, :n], self.present[:, :n], self.sizes, self.longest)


@dataclass(frozen=True)
class Sides:
    """The two sides of C splits of B clusters, as sums of phi (B, C, 2, F); index 0 is the rest, 1 the group."""

    sums: Tensor

    @property
    def dim(self) -> int:
        """F = (D + 1)(D + 2) / 2."""
        return (math.isqrt(8 * self.sums.shape[-1] + 1) - 3) // 2

    @property
    def counts(self) -> Tensor:
        """Points on each side (B, C, 2)."""
        return self.sums[..., 0]

    def matrices(self) -> Tensor:
        """[[n, s'], [s, Q]] of each side (B, C, 2, D + 1, D + 1)."""
        return self.sums[..., triangle(self.dim, self.sums.device).place]

    def of(self, clusters: Tensor) -> Sides:
        """The splits of some of the clusters only."""
        return Sides(self.sums[clusters])

    def times(self, times: Tensor) -> Sides:
        """With every point of each cluster counted so many times (B,)."""
        return Sides(self.sums * times[:, None, None, None])

    def joined(self, others: Sides) -> Sides:
        """These splits and the others of the same clusters."""
        return Sides(torch.cat([self.sums, others.sums], dim=1))

    def replaced(self, clusters: Tensor, others: Sides) -> Sides:
        """With the splits of these clusters taken from others."""
        return Sides(self.sums.index_copy(0, clusters, others.sums))

    def take(self, index: Tensor) -> Sides:
        """The splits with these numbers (B, k) of each cluster."""
        return Sides(self.sums[torch.arange(len(index), device=index.device)[:, None], index])


def maximise(context: Context, group: Tensor) -> Sides:
    """The M-step: statistics of the sides, given the probability (B, C, n) that a point is in the group."""
    inside = torch.bmm(group, context.phi)
    return Sides(torch.stack([context.total - inside, inside], dim=2).double())


@dataclass(frozen=True)
class Odds:
    """log odds of the group at a point z: phi(z) . weights, for (B, C) splits."""

    weights: Tensor

    def __call__(self, context: Context) -> Tensor:
        """The log odds (B, C, n) of the context's points; 0 at padding."""
        return torch.bmm(self.weights.to(context.phi.dtype), context.phi.transpose(1, 2))

    def replaced(self, clusters: Tensor, others: Odds) -> Odds:
        """With the splits of these clusters taken from others."""
        return Odds(self.weights.index_copy(0, clusters, others.weights))

    def matrices(self, dim: int) -> Tensor:
        """The symmetric M (B, C, D + 1, D + 1) with log odds (1, z)' M (1, z)."""
        where = triangle(dim, self.weights.device)
        return (self.weights / (2 * where.half))[..., where.place]


def log_odds(sides: Sides) -> Odds:
    """The E-step's log odds, from slightly regularised covariances of the sides.

    A side's log density is log n - 1/2 log |C| - 1/2 (z - m)' C^-1 (z - m), with C = (scatter + ridge) / n. With G the
    side's matrix, the inverse of G is [[1/n + m'Pm, -m'P], [-Pm, P]], with P = (scatter + ridge)^-1: so the last term
    is (1 - n (1, z)' G^-1 (1, z)) / 2.
    """
    dim, device = sides.dim, sides.sums.device
    where = triangle(dim, device)
    ridge = PRIOR_STRENGTH * (dim + 3) * SCALE_FACTOR
    factors = torch.linalg.cholesky_ex(sides.matrices() + diagonal(dim, SMALLEST_COUNT, ridge, device))[0]
    # The first entry of the factor's diagonal is the root of n, the others are those of the scatter.
    constants = factors.diagonal(dim1=-2, dim2=-1).log() @ where.density
    weights = torch.cholesky_inverse(factors).flatten(-2)[..., where.flat] * sides.sums[..., :1]
    odds = (weights[:, :, 0] - weights[:, :, 1]) * where.half
    odds[..., 0] += constants[..., 1] - constants[..., 0]
    return Odds(odds)


def refine(context: Context, sides: Sides, steps: int) -> Sides:
    """A few EM steps of every candidate."""
    for _ in range(steps):
        sides = maximise(context, log_odds(sides)(context).sigmoid_())
    return sides


def refine_and_weigh(context: Context, sides: Sides, steps: int) -> tuple[Sides, Tensor]:
    """The same, and the entropy (B, C) of the labels that the last step drew from: zero if there was none."""
    if not steps:
        return sides, context.Z.new_zeros(sides.counts.shape[:2])
    odds = log_odds(refine(context, sides, steps - 1))(context)
    group = odds.sigmoid()
    # log(1 + e^t) - p t, which is log 2 at padding.
    entropy = torch.nn.functional.softplus(odds).addcmul_(group, odds, value=-1).sum(dim=2)
    padding = context.Z.shape[1] - context.counts
    return maximise(context, group), entropy - math.log(2.0) * padding[:, None]


def scaled_log_hastings(context: Context, sides: Sides, alpha: float, times: Tensor | None = None) -> Tensor:
    """The log Hastings ratio (B, C) that a split would have in the whole cluster, from its context.

    Counts and scatters of the context's n points are counted N / n times, or as often as is said (B,). The prior is
    like the project's default as seen in the whitened cluster: mean 0, kappa 1, nu = D + 3, scale nu SCALE_FACTOR I.
    """
    # The whole cluster goes along as one more split, with itself on both sides.
    whole = context.total[:, :, None].double().expand(-1, -1, 2, -1)
    times = context.sizes.double() / context.counts if times is None else times
    terms = _log_terms(sides.joined(Sides(whole)).times(times))
    ratio = math.log(alpha) + terms[:, :-1].sum(dim=2) - terms[:, -1:, 0]
    # A side that is all but empty is no split; nor is one whose covariance cannot be factorised.
    proper = (sides.counts >= 2.0).all(dim=2) & ratio.isfinite()
    return torch.where(proper, ratio, -math.inf)


def merit(context: Context, sides: Sides, ratios: Tensor) -> Tensor:
    """The log Hastings ratio per nat that the split costs: ratio / (N h(p)), above -1 if it gains anything.

    By the ratio alone, splitting off a handful of points would look better than any split that does not pay yet.
    """
    shares = (sides.counts / context.counts[:, None, None]).clamp(1e-9, 1.0)
    entropy = -torch.xlogy(shares, shares).sum(dim=2).clamp_max(-1e-4)
    found = ratios / (entropy * context.sizes[:, None])
    return torch.where(ratios.isfinite(), found, -math.inf)


def _log_terms(sides: Sides) -> Tensor:
    """log Gamma(n) + log f of each side (B, C, 2).

    Written out for torch, in float64 and batches; `dpmmwrap.families.gaussian` is what it is tested against. The sides' matrices
    with the prior added are those of the posterior: [[n + kappa, s'], [s, Q + scale]].
    """
    dim, device = sides.dim, sides.sums.device
    where = triangle(dim, device)
    freedom = dim + 3.0
    scale = freedom * SCALE_FACTOR
    factors = torch.linalg.cholesky_ex(sides.matrices() + diagonal(dim, 1.0, scale, device))[0]
    logs = factors.diagonal(dim1=-2, dim2=-1).log()
    counts = sides.counts
    # One more than D of them: log Gamma(n), and the D of the multivariate gamma function.
    gammas = torch.lgamma((counts[..., None] * where.slopes + where.offsets).clamp_min(1e-3)).sum(-1)
    found: Tensor = (
        gammas
        - (freedom + counts) * logs[..., 1:].sum(-1)
        - dim * logs[..., 0]
        - 0.5 * dim * math.log(math.pi) * counts
        - _log_prior(dim)
    )
    return found


@lru_cache(maxsize=32)
def _log_prior(dim: int) -> float:
    """What the prior alone contributes to log f."""
    freedom = dim + 3.0
    gammas = sum(math.lgamma(0.5 * (freedom - i)) for i in range(dim))
    return gammas - 0.5 * freedom * dim * math.log(freedom * SCALE_FACTOR)
