"""Where candidate splits come from: the network, dense groups, shells and axes. Each gives (B, C, n) in 0...1."""

from __future__ import annotations

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from dpmmwrap.arrays import FloatArray, UInt8Array
from dpmmwrap.splitnet.frame import turned, whitening
from dpmmwrap.splitnet.network import SplitNet
from dpmmwrap.splitnet.refine import Context

SMALLEST_PEEL, LARGEST_PEEL = 0.015, 0.25
"""The size of a dense group, as a share of the context."""
SEEDS_PER_PEEL = 3
STANDARD_ERRORS = 3.0
"""Moments that differ from a Gaussian's by less do not stand out."""
POINTS_PER_DIM = 40
"""With fewer points than that, a cluster cannot be told from a Gaussian by its moments."""
PURSUIT_STEPS = 6
"""Steps by which directions are turned towards extreme kurtosis."""
SAMPLE = 192
"""Points by which the reach of a neighbourhood is measured."""


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


def looks_gaussian(context: Context) -> Tensor:
    """Whether no skewness, no kurtosis along the cluster's axes nor that of its radius stands out (B,).

    The moments are compared with their standard errors for a Gaussian. The axes were chosen for standing out, so
    more is allowed along them; how much was measured on Gaussians, and differs between heavy tails and two humps.
    With few points per dimension there is no telling. Most clusters that a sampler asks about in its later
    iterations are told by this at a fraction of a search's cost.
    """
    Y, _ = turned(context.Z, context.present)
    n, dim = context.counts.to(Y.dtype)[:, None], context.dim
    squares = Y.square()
    skewness = (squares * Y).sum(dim=1) / n / (6 / n).sqrt()
    kurtosis = (squares.square().sum(dim=1) / n - 3) / (24 / n).sqrt()
    radius = squares.sum(dim=2).square().sum(dim=1) / n[:, 0]
    spread = (radius - dim * (dim + 2)) / (8 * dim * (dim + 2) / n[:, 0]).sqrt()
    root = n.sqrt()
    plain = (spread.abs() < STANDARD_ERRORS) & (context.counts >= POINTS_PER_DIM * dim)
    plain &= (skewness.abs() < STANDARD_ERRORS * (1 + 0.7 * dim / root)).all(dim=1)
    plain &= (kurtosis < STANDARD_ERRORS * (1 + 3 * dim / root)).all(dim=1)
    return plain & (kurtosis > -(1.2 + 0.07 * root)).all(dim=1)


@torch.inference_mode()
def network_proposals(network: SplitNet, context: Context, points: int, rng: Generator) -> Tensor:
    """What the network proposes for the first `points` of the context; the frame is that of all of it."""
    Y = fitted(context.Z, context.present, network.sizes.dim, rng)[:, :points]
    present = context.present[:, :points]
    mask = None if bool(present.all()) else present
    return torch.sigmoid(network(Y.float(), mask)).transpose(1, 2) * present[:, None, :]


@torch.inference_mode()
def first_proposal(network: SplitNet, X: FloatArray, rng: Generator) -> UInt8Array:
    """The network's first proposal for every point of one cluster (n, D): the network alone."""
    points = torch.as_tensor(np.asarray(X, dtype=np.float64))[None]
    present = torch.ones(points.shape[:2], dtype=torch.bool)
    Y = fitted(whitening(points, present)(points).float(), present, network.sizes.dim, rng)
    labels: UInt8Array = (network(Y)[0, :, 0] > 0).numpy().astype(np.uint8)
    return labels


def peel_proposals(context: Context, count: int, rng: Generator) -> Tensor:
    """Dense groups: the neighbours of points with a crowded neighbourhood; their sizes vary.

    How far a neighbourhood of some size reaches is read off the first few points of the context, which are a
    random sample of it: that spares sorting all distances.
    """
    B, _, dim = context.Z.shape
    counts = context.counts.cpu().numpy()
    picks = (rng.random((B, count * SEEDS_PER_PEEL)) * counts[:, None]).astype(np.int64)
    seeds = context.Z[torch.arange(B)[:, None], torch.from_numpy(picks)]
    sample = np.minimum(counts, SAMPLE)
    few = context.head(SAMPLE)
    distances = torch.cdist(seeds, few.Z).masked_fill(~few.present[:, None, :], torch.inf)
    shares = np.exp(rng.uniform(np.log(SMALLEST_PEEL), np.log(LARGEST_PEEL), size=count))
    shares = np.clip(shares, (dim + 2) / counts[:, None], 0.5)
    rank = np.clip(np.round(shares * sample[:, None]).astype(np.int64), 1, sample[:, None] - 1)
    ranks = torch.from_numpy(rank).repeat_interleave(SEEDS_PER_PEEL, dim=1)[:, :, None].to(distances.device)
    radius = distances.sort(dim=2).values.gather(2, ranks)[:, :, 0].view(B, count, SEEDS_PER_PEEL)
    # Each peel takes, of its few seeds, the one whose neighbourhood is the narrowest.
    narrowest = radius.min(dim=2)
    chosen = torch.arange(count, device=radius.device) * SEEDS_PER_PEEL + narrowest.indices
    near = torch.cdist(seeds.gather(1, chosen[:, :, None].expand(-1, -1, dim)), context.Z)
    inside = (near <= narrowest.values[:, :, None]) & context.present[:, None, :]
    return inside.to(context.Z.dtype)


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
    """What lies beyond a cut along telling directions: tails and halves.

    The directions are the first and last axis of the cluster's frame, its longest one before whitening, and random
    ones; every other random one is turned towards extreme kurtosis, where two groups show in many dimensions.
    """
    Z, present = context.Z, context.present
    B, _, dim = Z.shape
    _, axes = turned(Z, present)
    directions = torch.from_numpy(rng.standard_normal((B, dim, count)).astype(np.float32)).to(Z)
    directions[:, :, 3::2] = pursued(context, directions[:, :, 3::2])
    longest = torch.eye(dim, device=Z.device, dtype=Z.dtype)[:, -1].expand(B, dim)
    known = torch.stack([axes[:, :, 0], axes[:, :, -1], longest], dim=2)[:, :, :count]
    directions[:, :, : known.shape[2]] = known
    directions /= directions.norm(dim=1, keepdim=True).clamp_min(1e-12)
    signs = torch.from_numpy(rng.choice([-1.0, 1.0], size=(B, 1, count))).to(Z)
    cuts = torch.from_numpy(rng.uniform(-0.3, 1.6, size=(B, 1, count))).to(Z)
    return ((torch.bmm(Z, directions) * signs > cuts) & present[:, :, None]).to(Z.dtype).transpose(1, 2)


def pursued(context: Context, directions: Tensor) -> Tensor:
    """Directions (B, D, C) after a few steps of the fixed-point iteration of FastICA, by kurtosis."""
    n = context.counts.to(directions.dtype)[:, None, None]
    for _ in range(PURSUIT_STEPS):
        directions = directions / directions.norm(dim=1, keepdim=True).clamp_min(1e-12)
        cubes = torch.bmm(context.Z, directions).pow(3)
        directions = torch.bmm(context.Z.transpose(1, 2), cubes) / n - 3 * directions
    return directions
