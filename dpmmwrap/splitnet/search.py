"""The search for the best split of each cluster: candidates of the network and 2-means, a few EM steps on a context,
and the family's own marginal likelihood as judge."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from numpy.random import Generator
from torch import Tensor

from dpmmwrap.splitnet import proposals
from dpmmwrap.splitnet.context import Context
from dpmmwrap.splitnet.network import SplitNet
from dpmmwrap.splitnet.refine import (
    Sides,
    maximise,
    normalised_log_ratio,
    refine,
    refine_and_weigh,
    scaled_log_hastings,
)

TWO_MEANS_POINTS = 250
NETWORK_NUMBERS, NETWORK_POINTS = 1280, (64, 256)
"""Coordinates that the network reads of a context, and points at least and at most: with more dimensions a point says
more, and costs more."""
BALLS = 8
"""Dense groups that are tried where the sampler's ratio charges for every label that could be another."""
CROWDED_DIM = 5
"""With full covariances in more dimensions, components come apart."""
NEARLY = 0.5
"""The share of the best log Hastings ratio that comes near to it."""


class Thresholds(NamedTuple):
    """A split that is below both is not going to be accepted, however long the sampler works on it."""

    worth: float
    ratio: float


BY_CUT, BY_MIXTURE = Thresholds(-0.1, -15.0), Thresholds(-3.0, -3.0)


@dataclass(frozen=True)
class SearchSettings:
    """Everything that decides a search, apart from the points."""

    network: SplitNet | None
    steps: int
    """EM steps of every candidate."""
    metrics: Tensor
    """Units of the features for 2-means (M, D)."""
    alpha: float
    full_ratio: bool
    """Whether the sampler's ratio counts the probability of proposing a split: then two overlapping halves are worth
    the likelihood of their mixture; if not, only a cut that pays is worth anything."""
    full_covariance: bool

    @property
    def dim(self) -> int:
        return int(self.metrics.shape[1])

    @property
    def by_mixture(self) -> bool:
        """Whether splits are worth the likelihood of their mixture. With full covariances in many dimensions, where
        hardly a label is in doubt, they are worth the cut, which is the better guide where a context is few points
        for two covariances."""
        return self.full_ratio and not (self.full_covariance and self.dim > CROWDED_DIM)


class Judged(NamedTuple):
    """Candidates with the log Hastings ratio (B, C) and the worth (B, C) of each."""

    sides: Sides
    ratios: Tensor
    worth: Tensor


def find_splits(context: Context, settings: SearchSettings, rng: Generator) -> Sides:
    """The best split (B, 1) of each cluster; where none pays nor comes near to it, that of 2-means: halves."""
    sides = maximise(context, proposals.two_means_candidates(context, settings.metrics, TWO_MEANS_POINTS, rng))
    if settings.network is not None:
        points = network_points(context.seen.points.shape[2])
        sides = sides.joined(maximise(context, proposals.network_candidates(settings.network, context, points)))
    if not settings.full_ratio:
        # A cut has to pay by itself: in a crowd, that is a dense group against all others.
        sides = sides.joined(maximise(context, proposals.ball_candidates(context, BALLS, rng)))
    judged = tried(context, sides, settings)
    chosen = choice(judged, settings.full_ratio)
    best = judged.sides.take(chosen)
    thresholds = BY_MIXTURE if settings.by_mixture else BY_CUT
    ratios, worth = judged.ratios.gather(1, chosen), judged.worth.gather(1, chosen)
    hopeful = (ratios > thresholds.ratio) | (worth > thresholds.worth)
    return Sides(torch.where(hopeful[:, :, None, None], best.sums, sides.sums[:, :1]))


def network_points(dim: int) -> int:
    """How many points of a context the network reads."""
    least, most = NETWORK_POINTS
    return min(most, max(least, NETWORK_NUMBERS // dim))


def tried(context: Context, sides: Sides, settings: SearchSettings) -> Judged:
    """These candidates after some EM steps, and what they are worth."""
    if settings.by_mixture:
        sides, entropy = refine_and_weigh(context, sides, settings.steps)
        # As if the context were all of the cluster: what chance has fitted to it should not count more than once.
        ratios = scaled_log_hastings(context, sides, settings.alpha, torch.ones_like(context.counts)) + entropy
        return Judged(sides, ratios, ratios)
    sides = refine(context, sides, settings.steps)
    ratios = scaled_log_hastings(context, sides, settings.alpha)
    return Judged(sides, ratios, normalised_log_ratio(context, sides, ratios))


def choice(judged: Judged, full_ratio: bool) -> Tensor:
    """The candidate (B, 1) of each cluster to go on with.

    Of those that pay, the one with the best Hastings ratio; but where the sampler takes whatever pays, the most
    even one of those that come near to it: a crowd is sooner sorted by halves than by one group at a time.
    """
    worth = torch.where(judged.ratios > 0, 1.0 + judged.ratios, judged.worth)
    if full_ratio:
        smaller = judged.sides.counts.min(dim=2).values
        near = judged.ratios > NEARLY * worth.max(dim=1, keepdim=True).values.clamp_min(1.0)
        worth = torch.where(near, worth.max().clamp_min(0.0) + smaller, worth)
    return worth.argmax(dim=1, keepdim=True)
