"""Where candidate splits come from: the network, dense groups, shells and axes. Each gives (B, C, n) in 0...1."""

from __future__ import annotations

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from dpmmwrap.splitnet.frame import turned
from dpmmwrap.splitnet.network import SplitNet
from dpmmwrap.splitnet.refine import Context

SMALLEST_PEEL, LARGEST_PEEL = 0.015, 0.25
"""The size of a dense group, as a share of the context."""
SEEDS_PER_PEEL = 3


def fitted(Z: Tensor, present: Tensor, dim: int, rng: Generator) -> Tensor:
    """Whitened points in their frame, padded with noise or cut down to the dimension of a network.

    Cut down to the axes along which the cluster is least Gaussian: those with the most extreme weight in the
    second scatter matrix.
    """
    missing = dim - Z.shape[2]
    if missing > 0:
        noise = rng.standard_normal((*Z.shape[:2], missing), dtype=np.float32)
        Z = torch.cat([Z, torch.from_numpy(noise).to(Z)], dim=2)
    Y, _ = turned(Z, present)
    if missing < 0:
        weights = present.to(Y.dtype) / present.sum(dim=1, keepdim=True)
        radius = Y.square().mean(dim=2).clamp_max(5.0)
        spread = ((weights * radius)[:, :, None] * Y.square()).sum(dim=1)
        extreme = (spread - spread.median(dim=1, keepdim=True).values).abs()
        # Sorted, so that the axes keep the order that the network knows.
        axes = extreme.topk(dim, dim=1).indices.sort(dim=1).values
        Y = Y.gather(2, axes[:, None, :].expand(-1, Y.shape[1], -1))
    return Y


@torch.inference_mode()
def network_proposals(network: SplitNet, context: Context, points: int, rng: Generator) -> Tensor:
    """What the network proposes for the first `points` of the context; the frame is that of all of it."""
    Y = fitted(context.Z, context.present, network.sizes.dim, rng)[:, :points]
    present = context.present[:, :points]
    mask = None if bool(present.all()) else present
    return torch.sigmoid(network(Y.float(), mask)).transpose(1, 2) * present[:, None, :]


def peel_proposals(context: Context, count: int, rng: Generator) -> Tensor:
    """Dense groups: the nearest neighbours of points with a crowded neighbourhood; sizes vary."""
    B, n, dim = context.Z.shape
    counts = context.counts.cpu().numpy()
    tries = count * SEEDS_PER_PEEL
    picks = (rng.random((B, tries)) * counts[:, None]).astype(np.int64)
    seeds = context.Z[torch.arange(B)[:, None], torch.from_numpy(picks)]
    distances = torch.cdist(seeds, context.Z, compute_mode="use_mm_for_euclid_dist")
    distances = distances.masked_fill(~context.present[:, None, :], torch.inf)
    shares = np.exp(rng.uniform(np.log(SMALLEST_PEEL), np.log(LARGEST_PEEL), size=count))
    sizes = np.maximum(shares * counts[:, None], np.minimum(dim + 2, counts[:, None] / 2))
    ordered = distances.sort(dim=2).values
    # Each peel takes, of its few seeds, the one whose neighbourhood of that size is the narrowest.
    rank = torch.from_numpy(np.clip(sizes.astype(np.int64), 1, n - 1))
    rank = rank.repeat_interleave(SEEDS_PER_PEEL, dim=1)[:, :, None].to(ordered.device)
    radius = ordered.gather(2, rank)[:, :, 0].view(B, count, SEEDS_PER_PEEL)
    best = radius.argmin(dim=2)
    chosen = torch.arange(count, device=best.device) * SEEDS_PER_PEEL + best
    near = distances.gather(1, chosen[:, :, None].expand(-1, -1, n))
    return (near <= radius.min(dim=2).values[:, :, None]).to(context.Z.dtype)


def shell_proposals(context: Context, shares: tuple[float, ...]) -> Tensor:
    """The core of the cluster against its shell: two Gaussians of different width around one mean."""
    radius = context.Z.square().sum(dim=2).masked_fill(~context.present, torch.inf)
    ordered = radius.sort(dim=1).values
    inside = []
    for share in shares:
        rank = (context.counts.to(ordered.dtype) * share).long().clamp(1, radius.shape[1] - 1)
        inside.append(radius <= ordered.gather(1, rank[:, None]))
    return torch.stack(inside, dim=1).to(context.Z.dtype)


def axis_proposals(context: Context, count: int, rng: Generator) -> Tensor:
    """Halves along the cluster's two most telling axes and along random directions, cut at a random place."""
    Y, _ = turned(context.Z, context.present)
    directions = rng.standard_normal((Y.shape[0], Y.shape[2], max(0, count - 2))).astype(np.float32)
    along = torch.cat([Y[:, :, [0, -1]], torch.bmm(Y, torch.from_numpy(directions).to(Y))], dim=2)[..., :count]
    spread = along.square().mean(dim=1, keepdim=True).sqrt()
    cuts = torch.from_numpy(rng.uniform(-0.7, 0.7, size=(Y.shape[0], 1, along.shape[2]))).to(Y)
    return ((along > cuts * spread) & context.present[:, :, None]).to(Y.dtype).transpose(1, 2)
