"""Splits as two Gaussians: EM on a context, many candidate splits of many clusters at once, and what they are worth.

What kind of Gaussians they are is the model's business: here a side is a sum of features phi, and the other side is
what is left of the whole. A start is many small steps, so what counts is how few they are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from dpmmwrap.splitnet.context import Context

EARLY_STEPS, LEAST_POINTS = 2, 250
"""EM steps that look at a quarter of the points, and at so many, if there are, at least."""


@dataclass(frozen=True)
class Sides:
    """The two sides of C splits of B clusters, as sums of phi (B, C, 2, F); index 0 is the rest, 1 the group."""

    sums: Tensor

    @property
    def counts(self) -> Tensor:
        """Points on each side (B, C, 2)."""
        return self.sums[..., 0]

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
    """The M-step: statistics of the sides, given the probability (B, C, n) that a point is in the group.

    If it is known of the first points only, these count as often as makes all of the context.
    """
    points = group.shape[2]
    inside = context.features_of(points).sums(group)
    sides = Sides(torch.stack([context.total_of(points) - inside, inside], dim=2))
    return sides if points == context.n else sides.times(context.counts / context.present[:, :points].sum(dim=1))


def log_odds(context: Context, sides: Sides, points: int | None = None) -> Tensor:
    """The E-step's log odds (B, C, n) of the group at the context's points, or at the first of them; 0 at padding."""
    features = context.features_of(context.n if points is None else points)
    return features.dot(context.model.log_odds(sides.sums, context.strength))


def refine(context: Context, sides: Sides, steps: int, more: int = 0) -> Sides:
    """A few EM steps of every candidate, with so many more to come. The first ones look at some of the points only, the
    last of all at all of them."""
    early = min(EARLY_STEPS, steps + more - 1)
    for step in range(steps):
        points = early_points(context.n) if step < early else context.n
        sides = maximise(context, log_odds(context, sides, points).sigmoid_())
    return sides


def early_points(n: int) -> int:
    """How many of n points the first steps look at."""
    return min(n, max(LEAST_POINTS, n // 4))


def refine_and_weigh(context: Context, sides: Sides, steps: int) -> tuple[Sides, Tensor]:
    """The same, and the entropy (B, C) of the labels that the last step drew from: zero if there was none."""
    if not steps:
        return sides, context.Z.new_zeros(sides.counts.shape[:2])
    odds = log_odds(context, refine(context, sides, steps - 1, more=1))
    group = odds.sigmoid()
    # log(1 + e^t) - p t, which is log 2 at padding.
    entropy = torch.nn.functional.softplus(odds).addcmul_(group, odds, value=-1).sum(dim=2)
    padding = context.Z.shape[1] - context.counts
    return maximise(context, group), entropy - math.log(2.0) * padding[:, None]


def scaled_log_hastings(context: Context, sides: Sides, alpha: float, times: Tensor | None = None) -> Tensor:
    """The log Hastings ratio (B, C) that a split would have in the whole cluster, from its context.

    Sums over the context's n points are counted N / n times, or as often as is said (B,). Marginal likelihoods are the
    family's own, under its own prior. They are those of points in the cluster's frame; what a change of coordinates
    adds to the sides it takes from the whole.
    """
    # The whole cluster goes along as one more split, with itself on both sides.
    whole = context.total[:, :, None].expand(-1, -1, 2, -1)
    times = context.sizes.double() / context.counts if times is None else times
    terms = context.model.log_terms(sides.joined(Sides(whole)).times(times).sums)
    ratio = math.log(alpha) + terms[:, :-1].sum(dim=2) - terms[:, -1:, 0]
    # A side that is all but empty is no split; nor is one whose covariance cannot be factorised.
    proper = (sides.counts >= 2.0).all(dim=2) & ratio.isfinite()
    return torch.where(proper, ratio, -math.inf)


def normalised_log_ratio(context: Context, sides: Sides, ratios: Tensor) -> Tensor:
    """The log Hastings ratio per nat that the split costs: ratio / (N h(p)), above -1 if it gains anything.

    By the ratio alone, splitting off a handful of points would look better than any split that does not pay yet.
    """
    shares = (sides.counts / context.counts[:, None, None]).clamp(1e-9, 1.0)
    entropy = -torch.xlogy(shares, shares).sum(dim=2).clamp_max(-1e-4)
    found = ratios / (entropy * context.sizes[:, None])
    return torch.where(ratios.isfinite(), found, -math.inf)
