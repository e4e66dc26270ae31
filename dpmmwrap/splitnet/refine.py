"""EM steps of candidate splits, many splits of many clusters at once, and their Hastings ratios.

The model defines the Gaussians of the two halves. Here a half is a sum of features phi, and the other half is the whole
cluster minus this sum. The steps are small, so their number determines the cost.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmmwrap.splitnet.context import SplitContext

EARLY_STEPS, LEAST_POINTS = 2, 250
"""The number of EM steps that use a quarter of the points, and the least number of points they use."""


@dataclass(frozen=True)
class Halves:
    """The two halves of C splits of B clusters, as sums of phi (B, C, 2, F); index 1 is the group, 0 the rest."""

    sums: Tensor

    @property
    def counts(self) -> Tensor:
        """Points in each half (B, C, 2)."""
        return self.sums[..., 0]

    def times(self, times: Tensor) -> Halves:
        """The halves with every point of each cluster counted this many times (B,)."""
        return Halves(self.sums * times[:, None, None, None])

    def joined(self, others: Halves) -> Halves:
        """These splits and other splits of the same clusters."""
        return Halves(torch.cat([self.sums, others.sums], dim=1))

    def take(self, index: Tensor) -> Halves:
        """The splits with these indices (B, k) in each cluster."""
        return Halves(self.sums[torch.arange(len(index), device=index.device)[:, None], index])


def maximise(context: SplitContext, group: Tensor) -> Halves:
    """The M-step: statistics of the halves, given the probability (B, C, n) that a point is in the group.

    If probabilities are given for the first points only, these are scaled up to stand for the whole context.
    """
    points = group.shape[2]
    inside = context.features_of(points).sums(group)
    halves = Halves(torch.stack([context.total_of(points) - inside, inside], dim=2))
    return halves if points == context.n else halves.times(context.counts / context.present[:, :points].sum(dim=1))


def log_odds(context: SplitContext, halves: Halves, points: int | None = None) -> Tensor:
    """The E-step's log odds (B, C, n) of the group at the context's points, or at the first of them; 0 at padding."""
    features = context.features_of(context.n if points is None else points)
    return features.dot(context.model.log_odds(halves.sums, context.strength))


def refine(context: SplitContext, halves: Halves, steps: int, more: int = 0) -> Halves:
    """Some EM steps of every candidate, with `more` to follow. The first steps use some of the points, the last one
    all."""
    early = min(EARLY_STEPS, steps + more - 1)
    for step in range(steps):
        points = early_points(context.n) if step < early else context.n
        halves = maximise(context, log_odds(context, halves, points).sigmoid_())
    return halves


def early_points(n: int) -> int:
    """The number of points that the first steps use."""
    return min(n, max(LEAST_POINTS, n // 4))


def refine_and_weigh(context: SplitContext, halves: Halves, steps: int) -> tuple[Halves, Tensor]:
    """`refine` that also returns the entropy (B, C) of the labels in the last step; zero without steps."""
    if not steps:
        return halves, context.Z.new_zeros(halves.counts.shape[:2])
    odds = log_odds(context, refine(context, halves, steps - 1, more=1))
    group = odds.sigmoid()
    # log(1 + e^t) - p t, which is log 2 at padding.
    entropy = torch.nn.functional.softplus(odds).addcmul_(group, odds, value=-1).sum(dim=2)
    padding = context.Z.shape[1] - context.counts
    return maximise(context, group), entropy - math.log(2.0) * padding[:, None]


def scaled_log_hastings(
    context: SplitContext, halves: Halves, log_new: float, times: Tensor | None = None, size_shift: float = 0.0
) -> Tensor:
    """The log Hastings ratio (B, C) of each split in the whole cluster, estimated from its context.

    Sums over the context's n points are scaled by N / n, or by `times` (B,). Marginal likelihoods are those of points
    in the cluster's frame: the change of coordinates adds the same term to both halves as to the whole.
    """
    # The whole cluster is included as one more split, with itself as both halves.
    whole = context.total[:, :, None].expand(-1, -1, 2, -1)
    times = context.sizes.double() / context.counts if times is None else times
    every = halves.joined(Halves(whole)).times(times)
    terms = context.model.log_terms(every.sums)
    if size_shift:
        # The model's terms contain log Gamma(n), as in a Dirichlet process.
        counts = every.counts.clamp_min(1.0)
        terms = terms + torch.lgamma(counts + size_shift) - torch.lgamma(counts)
        log_new = log_new - math.lgamma(1.0 + size_shift)
    ratio = log_new + terms[:, :-1].sum(dim=2) - terms[:, -1:, 0]
    # A nearly empty half does not count as a split, nor does one whose covariance cannot be factorised.
    proper = (halves.counts >= 2.0).all(dim=2) & ratio.isfinite()
    return torch.where(proper, ratio, -math.inf)


def normalised_log_ratio(context: SplitContext, halves: Halves, ratios: Tensor) -> Tensor:
    """The log Hastings ratio per nat of the labels' entropy: ratio / (N h(p)), above -1 if the likelihood increases.

    By the ratio alone, splitting off a few points would look better than any split that is not acceptable yet.
    """
    shares = (halves.counts / context.counts[:, None, None]).clamp(1e-9, 1.0)
    entropy = -torch.xlogy(shares, shares).sum(dim=2).clamp_max(-1e-4)
    found = ratios / (entropy * context.sizes[:, None])
    return torch.where(ratios.isfinite(), found, -math.inf)
