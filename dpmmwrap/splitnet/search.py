"""The search for the best split of each cluster: candidates, refined by EM on a context, judged by Hastings ratio."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

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

NETWORK_POINTS = 96
"""Points of the context that the network reads."""
RADIAL_SHARES = (0.2, 0.5)
"""Shares of the points in the core of a radial split."""
FIRST_STEPS = 2
SURVIVORS = 3
"""EM steps of all candidates, and how many of them are refined to the end."""
CROWDED_DIM = 5
"""In more dimensions components come apart, and a search costs more: half as many candidates."""
LARGEST_SKIPPING_DIM = 20
"""In more dimensions a context is too few points to tell early that no split will pay: a search goes to its end."""
NEARLY = 0.5
"""The share of the best log Hastings ratio that comes near to it."""


@dataclass(frozen=True)
class Thresholds:
    """What a search skips, by the best candidate's worth: the normalised log ratio of a cut, or the log ratio of a
    mixture."""

    skip_network: float
    """Where none of the other candidates is worth this, those of the network hardly ever pay: it is not asked."""
    skip_refinement: float
    """Where no candidate is worth this after the first steps, none comes to pay: the cluster is given up."""
    skip_split: float
    skip_split_ratio: float
    """A split below both is not going to be accepted, however long the sampler works on it."""


BY_CUT, BY_MIXTURE = Thresholds(-0.4, -0.25, -0.1, -15.0), Thresholds(-6.0, -4.0, -3.0, -3.0)


@dataclass(frozen=True)
class SearchSettings:
    """Everything that decides a search, apart from the points."""

    network: SplitNet | None
    balls: int
    projections: int
    radial: bool
    steps: int
    """EM steps of a candidate that gets to the end."""
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

    @property
    def thresholds(self) -> Thresholds:
        found = BY_MIXTURE if self.by_mixture else BY_CUT
        if self.dim > LARGEST_SKIPPING_DIM:
            return replace(found, skip_network=-math.inf, skip_refinement=-math.inf)
        return found


@dataclass(frozen=True)
class Search:
    """Clusters in which a split is searched for: their numbers (B,), contexts, and candidates so far, with the log
    Hastings ratio (B, C) and the worth (B, C) of each."""

    clusters: Tensor
    context: Context
    sides: Sides
    ratios: Tensor
    worth: Tensor

    def only(self, candidates: Tensor) -> Search:
        """With these candidates (B, k) alone."""
        ratios, worth = self.ratios.gather(1, candidates), self.worth.gather(1, candidates)
        return replace(self, sides=self.sides.take(candidates), ratios=ratios, worth=worth)

    def only_clusters(self, chosen: Tensor) -> Search:
        """With the clusters alone that are marked (B,)."""
        if chosen.all():
            return self
        kept = torch.nonzero(chosen)[:, 0]
        return Search(
            self.clusters[kept], self.context.take(kept), self.sides.of(kept), self.ratios[kept], self.worth[kept]
        )

    def above(self, worth: float) -> Search:
        """Without the clusters that have no candidate worth more than this."""
        return self.only_clusters((self.worth > worth).any(dim=1))


def find_splits(context: Context, settings: SearchSettings, rng: Generator) -> tuple[Sides, Tensor]:
    """The best split (B, 1) of each cluster, and its log Hastings ratio (B,); where none pays nor comes near to it,
    that of 2-means, and minus infinity."""
    two_means = maximise(context, proposals.two_means_candidates(context, settings.metrics, rng))
    clusters = torch.arange(len(context.Z), device=context.Z.device)
    found = best(clusters, context, two_means, settings, rng)
    first = Sides(two_means.sums[:, :1])
    ratios = torch.full((len(clusters),), -math.inf, dtype=torch.float64, device=clusters.device)
    if not len(found.clusters):
        return first, ratios
    return first.replaced(found.clusters, found.sides), ratios.index_copy(0, found.clusters, found.ratios[:, 0])


def best(clusters: Tensor, context: Context, sides: Sides, settings: SearchSettings, rng: Generator) -> Search:
    """The best candidate of each cluster that has one which may come to pay: of these, and of all the others."""
    steps, thresholds = min(settings.steps, FIRST_STEPS), settings.thresholds
    sides = other_candidates(context, sides, settings, rng)
    if steps and thresholds.skip_network > -math.inf:
        search = tried(clusters, context, sides, steps, settings).above(thresholds.skip_network)
        if not len(search.clusters):
            return search
        clusters, context, sides = search.clusters, search.context, search.sides
    search = tried(clusters, context, with_network(context, sides, settings.network, rng), steps, settings)
    if settings.steps > FIRST_STEPS:
        search = search.above(thresholds.skip_refinement)
        if not len(search.clusters):
            return search
        leading = search.ratios if settings.full_ratio else search.worth
        survivors = leading.topk(min(SURVIVORS, leading.shape[1]), dim=1).indices
        # The first candidates are those of 2-means. The better one goes on in any case.
        simple = leading[:, : len(settings.metrics)].argmax(dim=1, keepdim=True)
        survivors = torch.cat([simple, survivors], dim=1)
        more = settings.steps - FIRST_STEPS
        search = tried(search.clusters, search.context, search.sides.take(survivors), more, settings)
    search = search.only(choice(search, settings.full_ratio))
    hopeful = (search.ratios > thresholds.skip_split_ratio) | (search.worth > thresholds.skip_split)
    return search.only_clusters(hopeful[:, 0])


def other_candidates(context: Context, sides: Sides, settings: SearchSettings, rng: Generator) -> Sides:
    """These candidates, and all others but the network's, as two Gaussians each."""
    parts = []
    share = 1 if settings.dim <= CROWDED_DIM else 2
    if settings.balls:
        parts.append(proposals.ball_candidates(context, max(1, settings.balls // share), rng))
    if settings.projections:
        parts.append(proposals.projection_candidates(context, max(1, settings.projections // share), rng))
    if settings.radial:
        parts.append(proposals.radial_candidates(context, RADIAL_SHARES))
    return sides.joined(maximise(context, torch.cat(parts, dim=1))) if parts else sides


def with_network(context: Context, sides: Sides, network: SplitNet | None, rng: Generator) -> Sides:
    """These candidates and the network's: the points that it reads count as often as makes all of the context."""
    if network is None:
        return sides
    group = proposals.network_candidates(network, context, NETWORK_POINTS, rng)
    head = context.head(NETWORK_POINTS)
    return sides.joined(maximise(head, group).times(context.counts / head.counts))


def tried(clusters: Tensor, context: Context, sides: Sides, steps: int, settings: SearchSettings) -> Search:
    """These candidates after some EM steps, and what they are worth."""
    if settings.by_mixture:
        sides, entropy = refine_and_weigh(context, sides, steps)
        # As if the context were all of the cluster: what chance has fitted to it should not count more than once.
        ratios = scaled_log_hastings(context, sides, settings.alpha, torch.ones_like(context.counts)) + entropy
        return Search(clusters, context, sides, ratios, ratios)
    sides = refine(context, sides, steps)
    ratios = scaled_log_hastings(context, sides, settings.alpha)
    return Search(clusters, context, sides, ratios, normalised_log_ratio(context, sides, ratios))


def choice(search: Search, full_ratio: bool) -> Tensor:
    """The candidate (B, 1) of each cluster to go on with.

    Of those that pay, the one with the best Hastings ratio; but where the sampler takes whatever pays, the most
    even one of those that come near to it: a crowd is sooner sorted by halves than by one group at a time.
    """
    worth = torch.where(search.ratios > 0, 1.0 + search.ratios, search.worth)
    if full_ratio:
        smaller = search.sides.counts.min(dim=2).values
        near = search.ratios > NEARLY * worth.max(dim=1, keepdim=True).values.clamp_min(1.0)
        worth = torch.where(near, worth.max() + smaller, worth)
    return worth.argmax(dim=1, keepdim=True)
