"""The SplitNet start: splits by the network and by 2-means, a few EM steps on a context, and a choice by Hastings
ratio.

Apart from labelling the members once, the cost does not depend on the size of the cluster.
"""

from __future__ import annotations

import hashlib
import warnings
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from dpmmwrap.families.base import expected_deviations
from dpmmwrap.numerics.arrays import Float32Array, IntArray, UInt8Array
from dpmmwrap.numerics.cells import has_missing, is_remote, sample_rows
from dpmmwrap.numerics.rules import Coin, GivenSides, OrElse, Rows, Rule, sides_by
from dpmmwrap.splitnet import proposals
from dpmmwrap.splitnet.context import SplitContext
from dpmmwrap.splitnet.device import choose_device, one_thread
from dpmmwrap.splitnet.features import triangle_count
from dpmmwrap.splitnet.frame import frame_of, principal
from dpmmwrap.splitnet.full_subclusters import LARGEST_STORED_DIM
from dpmmwrap.splitnet.network import LARGEST_DIM, SplitNet
from dpmmwrap.splitnet.search import SearchSettings, find_splits
from dpmmwrap.splitnet.subcluster_models import SubclusterModel, View, label_members, make_subcluster_model
from dpmmwrap.splitnet.weights_io import load_weights, shipped_path
from dpmmwrap.starts import SplitCriterion

FEWEST_POINTS = 4
"""Smaller clusters start with random subclusters."""
SEARCH_ANYWAY = 0.05
"""The share of clusters that look like a single Gaussian but are searched nevertheless."""
BATCH_NUMBERS = 1 << 23
"""Numbers stored for all contexts of a batch. More would not fit the cache, and eventually the memory."""


@lru_cache(maxsize=2)
def shipped_network(device: torch.device) -> SplitNet:
    """The shipped network, read once."""
    return load_weights(shipped_path()).to(device)


class SplitNetStart:
    """The `splitnet` start (an `Initializer`).

    Parameters
    ----------
    weights : a weights file; None for the shipped weights.
    device : "auto" (CUDA if available), "cpu" or "cuda".
    context : number of points of a cluster that are examined.
    network : whether the network proposes splits; without it only 2-means does.
    refine : EM steps of each candidate; 0 leaves candidates as proposed.

    2-means is always among the candidates. All are judged by the family's marginal likelihood and prior.
    """

    name = "splitnet"

    def __init__(
        self,
        weights: str | Path | None = None,
        *,
        device: str = "auto",
        context: int = 1000,
        network: bool = True,
        refine: int = 3,
    ) -> None:
        if context < 16:
            raise ValueError(f"context should be at least 16 points, not {context}")
        if refine < 0:
            raise ValueError(f"refine should not be negative, but is {refine}")
        self.device = choose_device(device)
        self.context, self.refine, self.with_network = context, refine, network
        # The user has named this file, so an error in it is raised at once.
        self.own_network = None if weights is None else load_weights(weights).to(self.device)
        self.network: SplitNet | None = self.own_network if network else None
        self.loading_seconds = 0.0
        """Seconds spent on importing torch and reading the weights."""
        if network and weights is None:
            # Read now, so that the time counts as loading; the next fit reuses the network.
            shipped_network(self.device)

    @property
    def identity(self) -> str:
        """Everything that the result depends on, for checkpoints: the options, and a digest of the weights."""
        weights = "shipped" if self.with_network else "none"
        weights = weights if self.network is None else weights_digest(self.network)
        return f"{self.name} context={self.context} refine={self.refine} weights={weights}"

    def bind(self, X: Float32Array, criterion: SplitCriterion) -> None:
        """Take the data and upload them if the device is a GPU; afterwards only row numbers are sent."""
        if criterion.prior.correlated and not is_remote(X) and has_missing(X):
            # The network needs complete rows.
            X = np.where(np.isnan(X), np.nanmean(X, axis=0), X).astype(np.float32)
        self.X, self.prior = X, criterion.prior
        dim = int(X.shape[1])
        here = self.device.type == "cuda" and not is_remote(X)
        self.uploaded = torch.as_tensor(np.asarray(X), device=self.device) if here else None
        if self.own_network is not None and self.own_network.dim not in (None, dim, min(dim, LARGEST_DIM)):
            raise ValueError(f"the weights are for {self.own_network.dim} dimensions, but the data have {dim}")
        if self.with_network and self.own_network is None:
            self.network = shipped_network(self.device)
        self.missing = not self.prior.correlated and has_missing(X)
        process = criterion.partition_prior
        self.settings = SearchSettings(
            network=self.network,
            steps=self.refine,
            metrics=feature_units(X, criterion.prior).float().to(self.device),
            log_new=float(process.log_new(max(int(X.shape[0]), 1), 2)[1]),
            size_shift=process.shift,
            full_ratio=criterion.full_ratio,
            full_covariance=criterion.prior.correlated,
        )

    def __call__(self, members: list[IntArray], rng: Generator) -> list[UInt8Array]:
        """Sublabels of each cluster."""
        return [
            sides_by(rule, Rows(self.X, rows)) for rule, rows in zip(self.rules(members, rng), members, strict=True)
        ]

    def rules(self, members: list[IntArray], rng: Generator) -> list[Rule]:
        """A rule for each cluster, computed in batches. Tiny clusters start at random."""
        found: list[Rule] = [Coin.of(rng) for _ in members]
        large = [i for i, rows in enumerate(members) if len(rows) >= FEWEST_POINTS]
        # Batches have clusters of similar size, as contexts are padded to the longest of their batch.
        large.sort(key=lambda i: len(members[i]))
        per_batch = max(1, BATCH_NUMBERS // self._numbers())
        for begin in range(0, len(large), per_batch):
            batch = large[begin : begin + per_batch]
            with one_thread():
                split = self._split([members[i] for i in batch], rng)
            for i, rule in zip(batch, split, strict=True):
                found[i] = OrElse(rule, found[i])
        return found

    def _numbers(self) -> int:
        """Numbers stored per context: features for EM, and the probabilities of some candidates."""
        dim, stored = self.settings.dim, self.settings.full_covariance and self.settings.dim <= LARGEST_STORED_DIM
        return self.context * ((triangle_count(dim) if stored else 6 * dim) + 64)

    @torch.inference_mode()
    def _split(self, members: list[IntArray], rng: Generator) -> list[Rule]:
        context = self._context(members, rng)
        searched = self._worth_a_search(context, rng)
        if len(searched) == len(members):
            weights = self._weights(context, rng)
        else:
            weights = halves(context.model, rng)
            if len(searched):
                weights.index_copy_(0, searched, self._weights(context.take(searched), rng))
        labeller, X = context.model.labeller(weights), self.uploaded
        if X is None:
            return [labeller.rule(cluster) for cluster in range(len(members))]
        return [GivenSides(label_members(labeller, X, cluster, rows)) for cluster, rows in enumerate(members)]

    def _weights(self, context: SplitContext, rng: Generator) -> Tensor:
        """Weights (B, F) of the best splits found by a search."""
        sides = find_splits(context, self.settings, rng)
        return context.model.log_odds(sides.sums, context.strength)[:, 0]

    def _worth_a_search(self, context: SplitContext, rng: Generator) -> Tensor:
        """The clusters that do not look like a single Gaussian, and occasionally one that does."""
        plain = proposals.looks_gaussian(context).cpu().numpy()
        return torch.from_numpy(np.flatnonzero(~plain | (rng.random(len(plain)) < SEARCH_ANYWAY))).to(self.device)

    def _context(self, members: list[IntArray], rng: Generator) -> SplitContext:
        """A sample of points of each cluster in its frame, with a view of them for candidates."""
        X, present, sizes = self._gathered(members, self.context, rng)
        observed = ~X.isnan() & present[:, :, None] if self.missing else None
        model = make_subcluster_model(self.prior, X, present, observed)
        away = (X - model.centre).float()
        Z, centred = model.to_frame(away), away.nan_to_num() if self.missing else away
        if not present.all():
            Z, centred = Z * present[:, :, None], centred * present[:, :, None]
        view = model.view(Z)
        if view is None:
            directions = torch.from_numpy(rng.standard_normal((self.settings.dim, LARGEST_DIM)))
            view = projected_view(centred * self.settings.metrics[-1], present, directions)
        return SplitContext(model, Z, present, sizes, observed, view, centred)

    def _gathered(self, members: list[IntArray], most: int, rng: Generator) -> tuple[Tensor, Tensor, Tensor]:
        """At most `most` random points of each cluster (B, n, D), which of them are not padding, and the clusters'
        sizes."""
        n = min(most, max(len(rows) for rows in members))
        picked = np.zeros((len(members), n), dtype=np.int64)
        present = np.zeros((len(members), n), dtype=bool)
        for b, rows in enumerate(members):
            count = min(n, len(rows))
            picked[b, :count] = rows[rng.choice(len(rows), size=count, replace=False)]
            present[b, :count] = True
        # In double precision, so that a cluster far from the origin keeps its shape.
        if self.uploaded is not None:
            X = self.uploaded[torch.from_numpy(picked).to(self.device)].double()
        else:
            X = torch.from_numpy(np.asarray(self.X[picked], dtype=np.float64))
        sizes = torch.tensor([len(rows) for rows in members], device=self.device)
        return X, torch.from_numpy(present).to(self.device), sizes


def projected_view(points: Tensor, present: Tensor, directions: Tensor) -> View:
    """Points in the family's units along as many principal directions as there are random ones, whitened there."""
    if points.shape[2] > directions.shape[1]:
        points = principal(points, directions)
    points = points.double()
    frame = frame_of(points, present)
    return View(frame(points).float() * present[:, :, None], frame.longest)


def feature_units(X: Float32Array, prior: Any) -> Tensor:
    """Factors that make features comparable (2, D): by their standard deviation, and by the prior's expectation for a
    cluster."""
    sample = np.asarray(X[sample_rows(len(X), 0)], dtype=np.float64)
    with warnings.catch_warnings():
        # A column may have no values at all.
        warnings.simplefilter("ignore", RuntimeWarning)
        deviations = np.nan_to_num(np.nanstd(sample, axis=0))
    expected = np.broadcast_to(expected_deviations(prior), deviations.shape)
    return torch.from_numpy(1 / np.stack([np.where(deviations > 0, deviations, 1.0), expected]))


def halves(model: SubclusterModel, rng: Generator) -> Tensor:
    """Weights (B, F) that cut clusters in half along a random direction, for clusters that look like a single Gaussian.

    A small group in such a cluster would die out within a few sweeps and cause another start. Halves persist until the
    sampler requests a fresh start.
    """
    directions = rng.standard_normal(model.centre[:, 0].shape)
    return model.half(torch.from_numpy(directions).to(model.centre.device))


def weights_digest(network: SplitNet) -> str:
    """A digest of all weights of a network."""
    total = hashlib.blake2b(digest_size=16)
    for name, tensor in network.state_dict().items():
        total.update(name.encode())
        total.update(tensor.detach().cpu().contiguous().numpy().tobytes())
    return total.hexdigest()
