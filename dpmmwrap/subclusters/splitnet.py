"""SplitNet's start: candidate splits from the network and its rivals, refined on a context, judged by Hastings ratio.

The cost of a start does not depend on the size of the cluster, apart from labelling its members once.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from dpmmwrap.arrays import Float32Array, IntArray, UInt8Array
from dpmmwrap.splitnet import proposals, refine
from dpmmwrap.splitnet.frame import Frame, whitening
from dpmmwrap.splitnet.labelling import label_members
from dpmmwrap.splitnet.network import SplitNet
from dpmmwrap.splitnet.training import choose_device
from dpmmwrap.splitnet.weights_io import load_weights, shipped_dims, shipped_path

NETWORK_POINTS = 256
"""Points of the context that the network reads."""
import os
SURVIVORS = int(os.environ.get('SURV','6'))
"""Candidates that are refined to the end."""
FIRST_STEPS = 2
POLISH_POINTS_PER_DIM = 200
POLISH_STEPS = 3
BATCH_POINTS = 1 << 15
"""Points of all contexts that are worked on at once: more would leave the cache."""


@lru_cache(maxsize=8)
def _network(path: Path, device: torch.device) -> SplitNet:
    return load_weights(path).to(device)


def network_dim(dim: int, available: list[int]) -> int:
    """The dimension whose weights serve D: its own, else the next one up (padded), else the largest (projected)."""
    if not available:
        raise ValueError("no SplitNet weights are shipped with this installation; give a weights file")
    return min((d for d in available if d >= dim), default=max(available))


class SplitNetStart:
    """The `splitnet` start. See `dpmmwrap.subclusters.Initializer`."""

    def __init__(
        self,
        weights: str | Path | None = None,
        *,
        device: str = "auto",
        context: int = 1000,
        network: bool = True,
        peels: int = 6,
        shells: tuple[float, ...] = (0.2, 0.5),
        axes: int = 3,
        refine: int = 6,
        polish: bool = True,
        alpha: float = 10.0,
    ) -> None:
        if context < 16:
            raise ValueError(f"context should be at least 16 points, not {context}")
        if min(peels, axes, refine) < 0:
            raise ValueError("peels, axes and refine should not be negative")
        if not network and not (peels or shells or axes):
            raise ValueError("a start needs at least one kind of candidate: network, peels, shells or axes")
        if not alpha > 0:
            raise ValueError(f"alpha should be positive, not {alpha}")
        self.weights = None if weights is None else Path(weights)
        self.device = choose_device(device)
        self.context, self.with_network = context, network
        self.peels, self.shells, self.axes = peels, shells, axes
        self.refine, self.polish, self.alpha = refine, polish, alpha
        # Asked for by name, so refused at once if it is not what it should be.
        self.network = None if self.weights is None else _network(self.weights, self.device)

    def bind(self, X: Float32Array) -> None:
        """Sees the data; uploads it if the device is a GPU."""
        self.X = X
        dim = X.shape[1]
        self._on_device = torch.as_tensor(np.asarray(X), device=self.device) if self.device.type == "cuda" else None
        if self.with_network and self.weights is None:
            self.network = _network(shipped_path(network_dim(dim, shipped_dims())), self.device)

    def __call__(self, members: list[IntArray], rng: Generator) -> list[UInt8Array]:
        """Sublabels of each cluster, all clusters in batches; tiny clusters begin at random."""
        dim = self.X.shape[1]
        labels: list[UInt8Array] = [np.empty(0, dtype=np.uint8)] * len(members)
        large = [i for i, rows in enumerate(members) if len(rows) >= 4 and len(rows) > dim]
        for i in set(range(len(members))) - set(large):
            labels[i] = rng.integers(0, 2, size=len(members[i]), dtype=np.uint8)
        per_batch = max(1, BATCH_POINTS // self.context)
        # Clusters of like size go together: contexts are padded to the longest of their batch.
        large.sort(key=lambda i: len(members[i]))
        for begin in range(0, len(large), per_batch):
            batch = large[begin : begin + per_batch]
            for i, found in zip(batch, self._split([members[i] for i in batch], rng), strict=True):
                labels[i] = found
        return labels

    @torch.inference_mode()
    def _split(self, members: list[IntArray], rng: Generator) -> list[UInt8Array]:
        context, frame = self._contexts(members, self.context, rng)
        sides, ratios = self._best(context, rng)
        odds = refine.log_odds(sides, self._strength(context))
        larger = POLISH_POINTS_PER_DIM * context.dim
        if self.polish and self.refine and larger > self.context and len(members[-1]) > self.context:
            context, frame = self._contexts(members, larger, rng, frame)
            strength = self._strength(context)
            group = torch.sigmoid(odds(context))
            sides = refine.refine(context, refine.maximise(context, group), POLISH_STEPS, strength)
            odds = refine.log_odds(sides, strength)
        odds = self._or_halves(odds, ratios, rng)
        return self._label(members, frame, odds)

    def _or_halves(self, odds, ratios, rng):
        import os
        margin = float(os.environ.get("MARGIN", "0.1"))
        B, _, dim = odds.linear.shape
        hopeless = ((ratios[:, 1] < -margin) & (ratios[:, 0] < -15)).to(odds.linear)
        direction = torch.from_numpy(rng.standard_normal((B, 1, dim))).to(odds.linear)
        keep = 1 - hopeless[:, None]
        return refine.Odds(odds.constant * keep, odds.linear * keep[..., None] + direction * hopeless[:, None, None], odds.quadratic * keep[..., None, None])

    def _contexts(
        self, members: list[IntArray], most: int, rng: Generator, frame: Frame | None = None
    ) -> tuple[refine.Context, Frame]:
        """At most `most` random points of each cluster, whitened; or in the frame given."""
        dim = self.X.shape[1]
        n = min(most, max(len(rows) for rows in members))
        points = np.zeros((len(members), n, dim))
        present = np.zeros((len(members), n), dtype=bool)
        for b, rows in enumerate(members):
            picked = rng.choice(len(rows), size=min(n, len(rows)), replace=False)
            points[b, : len(picked)] = self.X[rows[picked]]
            present[b, : len(picked)] = True
        X, there = torch.from_numpy(points).to(self.device), torch.from_numpy(present).to(self.device)
        if frame is None:
            frame = whitening(X, there)
        sizes = torch.tensor([len(rows) for rows in members], device=self.device)
        return refine.Context.of(frame(X).float(), there, sizes), frame

    def candidates(self, context: refine.Context, rng: Generator) -> refine.Sides:
        """The candidates of all kinds, as two Gaussians each."""
        parts = []
        strength = self._strength(context)
        if self.with_network and self.network is not None:
            head = context.head(NETWORK_POINTS)
            group = proposals.network_proposals(self.network, context, NETWORK_POINTS, rng)
            odds = refine.log_odds(refine.maximise(head, group), strength)
            parts.append(torch.sigmoid(odds(context)))
        if self.peels:
            parts.append(proposals.peel_proposals(context, self.peels, rng))
        if self.shells:
            parts.append(proposals.shell_proposals(context, self.shells))
        if self.axes:
            parts.append(proposals.axis_proposals(context, self.axes, rng))
        return refine.maximise(context, torch.cat(parts, dim=1))

    def _best(self, context: refine.Context, rng: Generator) -> tuple[refine.Sides, Tensor]:
        """The candidate with the best scaled Hastings ratio (B, 1), and that ratio: first all, then survivors."""
        strength = self._strength(context)
        import os
        FINAL = os.environ.get("FINAL", "ratio")
        sides = refine.refine(context, self.candidates(context, rng), min(self.refine, FIRST_STEPS), strength)
        ratios = refine.scaled_log_hastings(context, sides, self.alpha)
        if self.refine > FIRST_STEPS:
            merits = refine.merit(context, sides, ratios)
            survivors = merits.topk(min(SURVIVORS, ratios.shape[1]), dim=1).indices
            sides = refine.refine(context, sides.take(survivors), self.refine - FIRST_STEPS, strength)
            ratios = refine.scaled_log_hastings(context, sides, self.alpha)
        merits = refine.merit(context, sides, ratios)
        if FINAL == "ratio":
            value = torch.where(ratios > 0, 1e3 + ratios, merits)
        else:
            value = torch.where(ratios > 20, 1e3 + merits, merits)
        HARD = int(os.environ.get("HARD", "0"))
        if HARD:
            hard = refine.refine(context, sides, HARD, strength, hard=True)
            hr = refine.scaled_log_hastings(context, hard, self.alpha)
            hm = refine.merit(context, hard, hr)
            hv = torch.where(hr > 0, 10 + hm, hm - 0.0)
            value = torch.cat([value, hv], 1)
            ratios = torch.cat([ratios, hr], 1); merits = torch.cat([merits, hm], 1)
            sides = refine.Sides(torch.cat([sides.counts, hard.counts], 1), torch.cat([sides.means, hard.means], 1), torch.cat([sides.scatters, hard.scatters], 1))
        best = value.argmax(dim=1, keepdim=True)
        return sides.take(best), torch.stack([ratios.gather(1, best)[:,0], merits.gather(1, best)[:,0]],1)

    def _strength(self, context: refine.Context) -> float:
        """Points that the prior's covariance counts for in EM: few, and fewer the larger the cluster is."""
        return 0.1 * (context.dim + 3)

    def _label(self, members: list[IntArray], frame: Frame, odds: refine.Odds) -> list[UInt8Array]:
        """Every member by the sign of its log odds, in the data's own coordinates."""
        axes = frame.axes
        linear = (axes @ odds.linear[:, 0, :, None].to(axes))[..., 0].cpu().numpy()
        quadratic = (axes @ odds.quadratic[:, 0].to(axes) @ axes.transpose(1, 2)).cpu().numpy()
        constant = odds.constant[:, 0].cpu().numpy()
        centre = frame.mean[:, 0].cpu().numpy()
        return [
            label_members(self.X, rows, centre[b], float(constant[b]), linear[b], quadratic[b])
            for b, rows in enumerate(members)
        ]
