"""The search for the best split of each cluster: candidates of the network and of 2-means, a few EM steps on a context,
and a comparison by the family's marginal likelihood."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import torch
from numpy.random import Generator
from torch import Tensor

from dpmmwrap.splitnet import proposals
from dpmmwrap.splitnet.context import SplitContext
from dpmmwrap.splitnet.network import SplitNet
from dpmmwrap.splitnet.refine import (
    Halves,
    maximise,
    normalised_log_ratio,
    refine,
    refine_and_weigh,
    scaled_log_hastings,
)

TWO_MEANS_POINTS = 250
NETWORK_NUMBERS, NETWORK_POINTS = 1280, (64, 256)
"""Number of coordinates of a context that the network reads, and the least and largest number of points. With more
dimensions a point is more informative and more expensive."""
BALLS = 8
"""Number of dense groups among the candidates if the sampler's ratio omits the probability of the proposal."""
CROWDED_DIM = 5
"""With full covariances in more dimensions, components hardly overlap."""
NEARLY = 0.5
"""Ratios above this share of the best log Hastings ratio count as close to it."""


class Thresholds(NamedTuple):
    """A split below both will never be accepted, however long the sampler improves it."""

    score: float
    ratio: float


BY_LABELS, BY_MIXTURE = Thresholds(-0.1, -15.0), Thresholds(-3.0, -3.0)


@dataclass(frozen=True)
class SearchSettings:
    """Everything that determines a search, apart from the points."""

    network: SplitNet | None
    steps: int
    """EM steps of every candidate."""
    metrics: Tensor
    """Units of the features for 2-means (M, D)."""
    log_new: float
    """Log weight of a second cluster under the prior over partitions."""
    size_shift: float
    """The prior's shift of sizes (`partitions.gibbs_type`)."""
    full_ratio: bool
    """Whether the sampler's ratio includes the probability of the proposal. If so, a split is judged by the likelihood
    of a mixture of its halves, otherwise by that of the hard labels."""
    full_covariance: bool

    @property
    def dim(self) -> int:
        return int(self.metrics.shape[1])

    @property
    def by_mixture(self) -> bool:
        """Whether splits are judged by the likelihood of their mixture. With full covariances in many dimensions hardly
        any label is uncertain, and hard labels are the better criterion if a context has few points."""
        return self.full_ratio and not (self.full_covariance and self.dim > CROWDED_DIM)


class ScoredSplits(NamedTuple):
    """Candidates with the log Hastings ratio (B, C) and the score (B, C) of each."""

    halves: Halves
    ratios: Tensor
    score: Tensor


def find_splits(context: SplitContext, settings: SearchSettings, rng: Generator) -> Halves:
    """The best split (B, 1) of each cluster, or that of 2-means if none is promising."""
    halves = maximise(context, proposals.two_means_candidates(context, settings.metrics, TWO_MEANS_POINTS, rng))
    if settings.network is not None:
        points = network_points(context.seen.points.shape[2])
        halves = halves.joined(maximise(context, proposals.network_candidates(settings.network, context, points)))
    if not settings.full_ratio:
        # The hard labels must be acceptable: in a crowded cluster, only a dense group against all others is.
        halves = halves.joined(maximise(context, proposals.ball_candidates(context, BALLS, rng)))
    scored = refine_and_score(context, halves, settings)
    chosen = choice(scored, settings.full_ratio)
    best = scored.halves.take(chosen)
    thresholds = BY_MIXTURE if settings.by_mixture else BY_LABELS
    ratios, score = scored.ratios.gather(1, chosen), scored.score.gather(1, chosen)
    hopeful = (ratios > thresholds.ratio) | (score > thresholds.score)
    return Halves(torch.where(hopeful[:, :, None, None], best.sums, halves.sums[:, :1]))


def network_points(dim: int) -> int:
    """The number of points of a context that the network reads."""
    least, most = NETWORK_POINTS
    return min(most, max(least, NETWORK_NUMBERS // dim))


def refine_and_score(context: SplitContext, halves: Halves, settings: SearchSettings) -> ScoredSplits:
    """The candidates after some EM steps, with their scores."""
    log_hastings = partial(scaled_log_hastings, size_shift=settings.size_shift)
    if settings.by_mixture:
        halves, entropy = refine_and_weigh(context, halves, settings.steps)
        # Without scaling up the context, so that an accidental fit to it counts only once.
        ratios = log_hastings(context, halves, settings.log_new, torch.ones_like(context.counts)) + entropy
        return ScoredSplits(halves, ratios, ratios)
    halves = refine(context, halves, settings.steps)
    ratios = log_hastings(context, halves, settings.log_new)
    return ScoredSplits(halves, ratios, normalised_log_ratio(context, halves, ratios))


def choice(scored: ScoredSplits, full_ratio: bool) -> Tensor:
    """The best candidate (B, 1) of each cluster.

    Among acceptable splits it is the one with the best Hastings ratio. With the full ratio it is the most even of
    those close to the best: halving a crowded cluster is faster than separating one group at a time.
    """
    score = torch.where(scored.ratios > 0, 1.0 + scored.ratios, scored.score)
    if full_ratio:
        smaller = scored.halves.counts.min(dim=2).values
        near = scored.ratios > NEARLY * score.max(dim=1, keepdim=True).values.clamp_min(1.0)
        score = torch.where(near, score.max().clamp_min(0.0) + smaller, score)
    return score.argmax(dim=1, keepdim=True)
