"""SplitNet's start: candidate splits from the network and others, refined on a context, judged by Hastings ratio.

The cost of a start does not depend on the size of the cluster, apart from labelling its members once.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from dpmmwrap.arrays import Float32Array, IntArray, UInt8Array
from dpmmwrap.splitnet import proposals, refine
from dpmmwrap.splitnet.device import choose_device, one_thread
from dpmmwrap.splitnet.frame import Frame, frame_of
from dpmmwrap.splitnet.labelling import label_members
from dpmmwrap.splitnet.network import SplitNet
from dpmmwrap.splitnet.weights_io import load_weights, network_dim, shipped_dims, shipped_path
from dpmmwrap.starts import SplitCriterion

NETWORK_POINTS = 96
"""Points of the context that the network reads."""
SHELLS = (0.2, 0.5)
"""Shares of the points in the core of a shell split."""
FIRST_STEPS = 2
SURVIVORS = 3
"""EM steps of all candidates, and how many of them are refined to the end."""
SEARCH_ANYWAY = 0.05
"""The share of clusters that look like one Gaussian, but are searched for a split all the same."""
CROWDED_DIM = 5
"""In more dimensions components come apart, and a search costs more: half as many candidates."""
POLISH_POINTS_PER_DIM, POLISH_POINTS = 120, 4096
POLISH_STEPS, LONGER_POLISH_STEPS = 3, 5
"""The chosen split is refined further: in many dimensions, where a context is few points for two covariances, by some
steps on a larger one; in few dimensions, where sides overlap and EM is slow, by more steps on the same context."""
SMALL_CLUSTER = 2
"""Contexts up to which a cluster is taken for a pair. In a crowd more EM steps let the group that is peeled off grow
into its neighbours: at D = 2, K = 40, spread 50 the mean NMI of three seeds was 0.83 with them and 0.85 without."""
BATCH_NUMBERS = 1 << 23
"""Numbers that are kept of all contexts worked on at once: more would leave the cache, and then the memory."""
LABELLED_AT_ONCE = 1 << 16


NEARLY = 0.5
"""The share of the best log Hastings ratio that comes near to it."""


@dataclass(frozen=True)
class Limits:
    """When a search is given up, by merit and by log Hastings ratio."""

    discouraging: float
    """Where none of the other candidates has this merit, those of the network hardly ever pay, and it is not asked."""
    unlikely: float
    """Where no candidate has this merit after the first steps, none comes to pay: the cluster is given up."""
    hopeless: float
    hopeless_ratio: float
    """A split below both is not going to be accepted, however long the sampler works on it."""


BY_CUT, BY_MIXTURE = Limits(-0.4, -0.25, -0.1, -15.0), Limits(-6.0, -4.0, -3.0, -3.0)
"""The merit of a cut is the log Hastings ratio per nat that it costs; that of a mixture is the ratio itself."""


@lru_cache(maxsize=8)
def shipped_network(dim: int, device: torch.device) -> SplitNet:
    """The shipped network of that dimension; read once."""
    return load_weights(shipped_path(dim), dim).to(device)


@dataclass(frozen=True)
class Search:
    """Clusters in which a split is searched for: their numbers (B,), contexts, and candidates so far, with the log
    Hastings ratio (B, C) and the merit (B, C) of each."""

    clusters: Tensor
    context: refine.Context
    sides: refine.Sides
    ratios: Tensor
    merits: Tensor

    def only(self, candidates: Tensor) -> Search:
        """With these candidates (B, k) alone."""
        ratios, merits = self.ratios.gather(1, candidates), self.merits.gather(1, candidates)
        return replace(self, sides=self.sides.take(candidates), ratios=ratios, merits=merits)

    def only_clusters(self, chosen: Tensor) -> Search:
        """With the clusters alone that are marked (B,)."""
        if chosen.all():
            return self
        kept = torch.nonzero(chosen)[:, 0]
        return Search(
            self.clusters[kept], self.context.take(kept), self.sides.of(kept), self.ratios[kept], self.merits[kept]
        )

    def promising(self, merit: float) -> Search:
        """Without the clusters that have no candidate above this merit."""
        return self.only_clusters((self.merits > merit).any(dim=1))


class SplitNetStart:
    """The `splitnet` start (an `Initializer`).

    Parameters
    ----------
    weights : a weights file of one's own; None for the shipped ones.
    device : "auto" (CUDA if there is one), "cpu" or "cuda".
    context : points of a cluster that are looked at.
    network : whether the network proposes splits; peels, axes : how many dense groups and tails do;
    shells : whether the core against the shell is proposed, too.
    refine : EM steps of a candidate; 0 leaves it as proposed.
    polish : whether the chosen split is refined some more.

    Where the sampler's ratio counts the probability of proposing a split, two overlapping halves are worth the
    likelihood of their mixture; if not, only a cut that pays is worth anything.
    """

    name = "splitnet"

    def __init__(
        self,
        weights: str | Path | None = None,
        *,
        device: str = "auto",
        context: int = 1000,
        network: bool = True,
        peels: int = 8,
        axes: int = 8,
        shells: bool = True,
        refine: int = 6,
        polish: bool = True,
    ) -> None:
        if context < 16:
            raise ValueError(f"context should be at least 16 points, not {context}")
        if min(peels, axes, refine) < 0:
            raise ValueError("peels, axes and refine should not be negative")
        if not (network or peels or axes or shells):
            raise ValueError("a start needs at least one kind of candidate: network, peels, axes or shells")
        self.device = choose_device(device)
        self.context, self.peels, self.axes, self.shells = context, peels, axes, shells
        self.refine, self.polish = refine, polish
        self.with_network = network
        # Asked for by name, so refused at once if it is not what it should be.
        self.own_network = None if weights is None else load_weights(weights).to(self.device)
        self.network: SplitNet | None = None

    def bind(self, X: Float32Array, criterion: SplitCriterion) -> None:
        """Sees the data, and uploads it if the device is a GPU; then only row numbers travel."""
        self.X = X
        self.alpha, self.full_ratio = criterion.alpha, criterion.full_ratio
        self.uploaded = torch.as_tensor(np.asarray(X), device=self.device) if self.device.type == "cuda" else None
        self.network = self.own_network
        if self.network is not None and self.network.sizes.dim != X.shape[1]:
            raise ValueError(f"the weights are for {self.network.sizes.dim} dimensions, but the data have {X.shape[1]}")
        if self.with_network and self.network is None:
            self.network = shipped_network(network_dim(X.shape[1], shipped_dims()), self.device)

    def __call__(self, members: list[IntArray], rng: Generator) -> list[UInt8Array]:
        """Sublabels of each cluster, all clusters in batches; tiny clusters begin at random."""
        dim = self.X.shape[1]
        labels: list[UInt8Array] = [np.empty(0, dtype=np.uint8)] * len(members)
        large = []
        for i, rows in enumerate(members):
            if len(rows) < 4 or len(rows) <= dim:
                labels[i] = rng.integers(0, 2, size=len(rows), dtype=np.uint8)
            else:
                large.append(i)
        # Clusters of like size go together: contexts are padded to the longest of their batch.
        large.sort(key=lambda i: len(members[i]))
        # Per point there are the features of EM and the probabilities of some twenty candidates.
        numbers = max(self.context, self._polish_points()) * (dim * (dim + 3) // 2 + 20)
        per_batch = max(1, BATCH_NUMBERS // numbers)
        for begin in range(0, len(large), per_batch):
            batch = large[begin : begin + per_batch]
            with one_thread():
                split = self._split([members[i] for i in batch], rng)
            for i, found in zip(batch, split, strict=True):
                labels[i] = found
        return labels

    @torch.inference_mode()
    def _split(self, members: list[IntArray], rng: Generator) -> list[UInt8Array]:
        context, frame = self._contexts(members, self.context, rng)
        odds = _halves(context, rng)
        searched = self._worth_a_search(context, rng)
        if len(searched):
            found = self._best(searched, context.take(searched), rng)
            if len(found.clusters):
                sides = self._polished(members, found, frame, rng)
                odds = odds.replaced(found.clusters, refine.log_odds(sides))
        return [
            sides if sides.any() and not sides.all() else rng.integers(0, 2, size=len(sides), dtype=np.uint8)
            for sides in self._label(members, frame, odds)
        ]

    def _worth_a_search(self, context: refine.Context, rng: Generator) -> Tensor:
        """The clusters that do not look like one Gaussian, and now and then one that does."""
        plain = proposals.looks_gaussian(context).cpu().numpy()
        return torch.from_numpy(np.flatnonzero(~plain | (rng.random(len(plain)) < SEARCH_ANYWAY))).to(self.device)

    def _polish_points(self) -> int:
        """Points of the larger context on which a chosen split is refined; 0 for none."""
        if not (self.polish and self.refine):
            return 0
        return min(POLISH_POINTS_PER_DIM * int(self.X.shape[1]), POLISH_POINTS)

    def _polished(self, members: list[IntArray], found: Search, frame: Frame, rng: Generator) -> refine.Sides:
        """The splits that were found, with those that pay refined some more."""
        larger, sides = self._polish_points(), found.sides
        limit = len(self.X) if larger > self.context else SMALL_CLUSTER * self.context
        chosen = torch.nonzero((found.ratios[:, 0] > 0) & (found.context.sizes <= limit))[:, 0]
        if not larger or not len(chosen):
            return sides
        part, better, steps = found.context.take(chosen), sides.of(chosen), LONGER_POLISH_STEPS
        if larger > self.context:
            clusters = found.clusters[chosen]
            part, _ = self._contexts([members[i] for i in clusters.tolist()], larger, rng, frame.take(clusters))
            better, steps = refine.maximise(part, refine.log_odds(better)(part).sigmoid_()), POLISH_STEPS
        return sides.replaced(chosen, refine.refine(part, better, steps))

    def _contexts(
        self, members: list[IntArray], most: int, rng: Generator, frame: Frame | None = None
    ) -> tuple[refine.Context, Frame]:
        """At most `most` random points of each cluster, in its frame, or in the one given."""
        n = min(most, max(len(rows) for rows in members))
        picked = np.zeros((len(members), n), dtype=np.int64)
        present = np.zeros((len(members), n), dtype=bool)
        for b, rows in enumerate(members):
            count = min(n, len(rows))
            picked[b, :count] = rows[rng.choice(len(rows), size=count, replace=False)]
            present[b, :count] = True
        there = torch.from_numpy(present).to(self.device)
        # Gathered in double precision, so that a cluster far from the origin keeps its shape.
        if self.uploaded is not None:
            X = self.uploaded[torch.from_numpy(picked).to(self.device)].double()
        else:
            X = torch.from_numpy(np.asarray(self.X[picked], dtype=np.float64))
        if frame is None:
            frame = frame_of(X, there)
        sizes = torch.tensor([len(rows) for rows in members], device=self.device)
        return refine.Context(frame(X).float() * there[:, :, None], there, sizes, frame.longest), frame

    def _candidates(self, context: refine.Context, rng: Generator) -> refine.Sides:
        """The candidates other than the network's, as two Gaussians each."""
        parts = [context.Z.new_zeros(len(context.Z), 0, context.Z.shape[1])]
        share = 1 if context.dim <= CROWDED_DIM else 2
        if self.peels:
            parts.append(proposals.peel_proposals(context, max(1, self.peels // share), rng))
        if self.axes:
            parts.append(proposals.axis_proposals(context, max(1, self.axes // share), rng))
        if self.shells:
            parts.append(proposals.shell_proposals(context, SHELLS))
        return refine.maximise(context, torch.cat(parts, dim=1))

    def _with_network(self, context: refine.Context, sides: refine.Sides, rng: Generator) -> refine.Sides:
        """These candidates and the network's: the points that it reads count as often as makes all of the context."""
        if not self.with_network or self.network is None:
            return sides
        group = proposals.network_proposals(self.network, context, NETWORK_POINTS, rng)
        head = context.head(NETWORK_POINTS)
        return sides.joined(refine.maximise(head, group).times(context.counts / head.counts))

    def _by_mixture(self) -> bool:
        """Whether splits are worth the likelihood of their mixture. In many dimensions, where hardly a label is in
        doubt, they are worth the cut, which is the better guide where a context is few points for two covariances."""
        return self.full_ratio and int(self.X.shape[1]) <= CROWDED_DIM

    def _tried(self, clusters: Tensor, context: refine.Context, sides: refine.Sides, steps: int) -> Search:
        """These candidates after some EM steps, and what they are worth."""
        if self._by_mixture():
            sides, entropy = refine.refine_and_weigh(context, sides, steps)
            # As if the context were all of the cluster: what chance has fitted to it should not count more than once.
            ratios = refine.scaled_log_hastings(context, sides, self.alpha, torch.ones_like(context.counts)) + entropy
            return Search(clusters, context, sides, ratios, ratios)
        sides = refine.refine(context, sides, steps)
        ratios = refine.scaled_log_hastings(context, sides, self.alpha)
        return Search(clusters, context, sides, ratios, refine.merit(context, sides, ratios))

    def _best(self, clusters: Tensor, context: refine.Context, rng: Generator) -> Search:
        """The best candidate of each cluster that has one which is not hopeless."""
        steps, limits = min(self.refine, FIRST_STEPS), BY_MIXTURE if self._by_mixture() else BY_CUT
        sides = self._candidates(context, rng)
        if steps and (self.peels or self.axes or self.shells):
            search = self._tried(clusters, context, sides, steps).promising(limits.discouraging)
            if not len(search.clusters):
                return search
            clusters, context, sides = search.clusters, search.context, search.sides
        search = self._tried(clusters, context, self._with_network(context, sides, rng), steps)
        if self.refine > FIRST_STEPS:
            search = search.promising(limits.unlikely)
            if not len(search.clusters):
                return search
            worth = search.ratios if self.full_ratio else search.merits
            survivors = worth.topk(min(SURVIVORS, worth.shape[1]), dim=1).indices
            sides = search.sides.take(survivors)
            search = self._tried(search.clusters, search.context, sides, self.refine - FIRST_STEPS)
        search = search.only(self._choice(search))
        hopeful = (search.ratios > limits.hopeless_ratio) | (search.merits > limits.hopeless)
        return search.only_clusters(hopeful[:, 0])

    def _choice(self, search: Search) -> Tensor:
        """The candidate (B, 1) of each cluster to go on with.

        Of those that pay, the one with the best Hastings ratio; but where the sampler takes whatever pays, the most
        even one of those that come near to it: a crowd is sooner sorted by halves than by one group at a time.
        """
        worth = torch.where(search.ratios > 0, 1.0 + search.ratios, search.merits)
        if self.full_ratio:
            smaller = search.sides.counts.min(dim=2).values
            near = search.ratios > NEARLY * worth.max(dim=1, keepdim=True).values.clamp_min(1.0)
            worth = torch.where(near, worth.max() + smaller, worth)
        return worth.argmax(dim=1, keepdim=True)

    def _label(self, members: list[IntArray], frame: Frame, odds: refine.Odds) -> list[UInt8Array]:
        """Every member by the sign of its log odds, in the data's own coordinates."""
        axes, matrices = frame.axes, odds.matrices(self.X.shape[1])[:, 0]
        linear = (axes @ matrices[:, 1:, :1])[..., 0]
        quadratic = axes @ matrices[:, 1:, 1:] @ axes.transpose(1, 2)
        parts = (frame.mean[:, 0], matrices[:, 0, 0], 2 * linear, quadratic)
        if self.uploaded is not None:
            rows_on_device = [torch.from_numpy(np.asarray(rows)).to(self.device) for rows in members]
            return [
                label_uploaded(self.uploaded, rows, *(part[b] for part in parts)).cpu().numpy()
                for b, rows in enumerate(rows_on_device)
            ]
        arrays = [part.numpy() for part in parts]
        return [label_members(self.X, rows, *(part[b] for part in arrays)) for b, rows in enumerate(members)]


def label_uploaded(
    X: Tensor, rows: Tensor, centre: Tensor, constant: Tensor, linear: Tensor, quadratic: Tensor
) -> Tensor:
    """What `label_members` does, where the data are on a GPU; some of the rows at a time."""
    labels = []
    for part in torch.split(rows, LABELLED_AT_ONCE):
        d = X[part].double() - centre
        labels.append(constant + d @ linear + ((d @ quadratic) * d).sum(dim=1) > 0)
    return torch.cat(labels).to(torch.uint8)


def _halves(context: refine.Context, rng: Generator) -> refine.Odds:
    """Halves along a random direction: for clusters without a split that pays.

    Those are most often one Gaussian. A small group in it would die out within a few sweeps and ask for another
    start; halves stay until the sampler asks for a fresh start of its own accord.
    """
    weights = np.zeros((len(context.Z), 1, refine.feature_count(context.dim)))
    weights[:, :, 1 : context.dim + 1] = rng.standard_normal((len(context.Z), 1, context.dim))
    return refine.Odds(torch.from_numpy(weights).to(context.Z.device))
