"""Where candidate splits come from: the network, dense groups, shells and axes. Each gives (B, C, n) in 0...1."""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

from dpmmwrap.arrays import FloatArray, UInt8Array
from dpmmwrap.splitnet.frame import framed, turned
from dpmmwrap.splitnet.network import SplitNet
from dpmmwrap.splitnet.refine import Context

SMALLEST_PEEL, LARGEST_PEEL = 0.015, 0.25
"""The size of a dense group, as a share of the context."""
SEEDS_PER_PEEL = 3
STANDARD_ERRORS = 3.0
"""Moments that differ from a Gaussian's by less do not stand out."""
FEWEST_POINTS = (40, 0), (10, 200)
"""With fewer points than either line says, slope * D + offset, a cluster cannot be told from a Gaussian by its moments.
At these, one or two in a hundred of the paper's medium and hard pairs pass for one."""
PURSUIT_STEPS = 4
"""Steps by which directions are turned towards extreme kurtosis."""
SAMPLE = 192
"""Points by which the reach of a neighbourhood is measured."""


def fitted(Z: Tensor, present: Tensor, dim: int, rng: Generator) -> Tensor:
    """Points in their cluster's frame, padded with noise or cut down to the dimension of a network.

    Cut down to the axes along which the cluster is least Gaussian: those with the most extreme weight in the
    second scatter matrix.
    """
    missing = dim - Z.shape[2]
    Y = Z
    if missing > 0:
        noise = rng.standard_normal((*Z.shape[:2], missing), dtype=np.float32)
        Y, _ = turned(torch.cat([Z, torch.from_numpy(noise).to(Z)], dim=2), present)
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
    """Whether no skewness, no kurtosis along the cluster's axes nor of its radius stands out (B,).

    The moments are compared with their standard errors for a Gaussian. The axes were chosen for standing out, so
    more is allowed along them; how much was measured on Gaussians, and differs between heavy tails and two humps.
    With few points per dimension there is no telling. Most clusters that a sampler asks about in its later
    iterations are told by this at a fraction of a search's cost.
    """
    dim = context.dim
    n = context.counts.to(context.Z.dtype)[:, None]
    # Two groups side by side in many dimensions show along the longest axis before they show along the frame's.
    Y = torch.cat([context.Z, torch.bmm(context.Z, context.longest[:, :, None])], dim=2)
    squares = Y.square()
    skewness = (squares * Y).sum(dim=1) / n / (6 / n).sqrt()
    kurtosis = (squares.square().sum(dim=1) / n - 3) / (24 / n).sqrt()
    radius = squares[:, :, :dim].sum(dim=2, keepdim=True)
    spread = (radius.square().sum(dim=1) / n - dim * (dim + 2)) / (8 * dim * (dim + 2) / n).sqrt()
    # Skewness in any direction, be it none of the axes: for a Gaussian this is chi-square with D degrees of freedom
    # (Mori, Rohatgi and Szekely 1993). A quarter of the points beside the rest shows here, and not in the kurtosis.
    lean = ((context.Z * radius).sum(dim=1) / n).square().sum(dim=1) * n[:, 0] / (2 * (dim + 2))
    root = n.sqrt()
    plain = context.counts >= min(slope * dim + offset for slope, offset in FEWEST_POINTS)
    plain &= (spread[:, 0].abs() < STANDARD_ERRORS) & (lean < dim + STANDARD_ERRORS * math.sqrt(2 * dim))
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
    Y = fitted(framed(points, present).float(), present, network.sizes.dim, rng)
    labels: UInt8Array = (network(Y)[0, :, 0] > 0).numpy().astype(np.uint8)
    return labels


def peel_proposals(context: Context, count: int, rng: Generator) -> Tensor:
    """Dense groups: the neighbours of points with a crowded neighbourhood; their sizes vary.

    How far a neighbourhood of some size reaches is read off the first few points of the context, which are a
    random sample of it: that spares sorting all distances. What is sorted, numpy sorts ten times as fast as torch.
    """
    B, _, dim = context.Z.shape
    counts = context.counts.cpu().numpy()[:, None]
    picks = (rng.random((B, count * SEEDS_PER_PEEL)) * counts).astype(np.int64)
    shares = np.exp(rng.uniform(np.log(SMALLEST_PEEL), np.log(LARGEST_PEEL), size=count))
    shares = np.clip(shares, (dim + 2) / counts, 0.5)
    sample = np.minimum(counts, SAMPLE)
    ranks = np.clip(np.round(shares * sample).astype(np.int64), 1, sample - 1)
    seeds = context.Z[torch.arange(B)[:, None], torch.from_numpy(picks)]
    few = context.head(SAMPLE)
    distances = torch.cdist(seeds, few.Z).masked_fill(~few.present[:, None, :], torch.inf)
    ordered = np.sort(distances.cpu().numpy(), axis=2).reshape(B, count, SEEDS_PER_PEEL, -1)
    radius = np.take_along_axis(ordered, ranks[:, :, None, None], axis=3)[..., 0]
    # Each peel takes, of its few seeds, the one whose neighbourhood is the narrowest.
    chosen = torch.from_numpy(np.arange(count) * SEEDS_PER_PEEL + radius.argmin(axis=2))
    narrowest = torch.from_numpy(radius.min(axis=2)).to(seeds)
    near = torch.cdist(seeds[torch.arange(B)[:, None], chosen], context.Z)
    return ((near <= narrowest[:, :, None]) & context.present[:, None, :]).to(context.Z.dtype)


def shell_proposals(context: Context, shares: tuple[float, ...]) -> Tensor:
    """The core of the cluster against its shell: two Gaussians of different width around one mean."""
    radius = context.Z.square().sum(dim=2).masked_fill(~context.present, torch.inf)
    ranks = (context.counts.cpu().numpy()[:, None] * np.array(shares)).astype(np.int64).clip(1, radius.shape[1] - 1)
    reach = np.take_along_axis(np.sort(radius.cpu().numpy(), axis=1), ranks, axis=1)
    return (radius[:, None, :] <= torch.from_numpy(reach).to(radius)[:, :, None]).to(context.Z.dtype)


def axis_proposals(context: Context, count: int, rng: Generator) -> Tensor:
    """What lies beyond a cut along telling directions: tails and halves.

    The directions are the first and last axis of the cluster's frame, its longest one before whitening, and random
    ones; every other random one is turned towards extreme kurtosis, where two groups show in many dimensions.
    """
    Z, present = context.Z, context.present
    B, _, dim = Z.shape
    directions = torch.from_numpy(rng.standard_normal((B, dim, count)).astype(np.float32)).to(Z)
    directions[:, :, 3::2] = pursued(context, directions[:, :, 3::2])
    directions[:, :, :2] = 0
    directions[:, 0, 0] = 1
    directions[:, -1, 1:2] = 1
    directions[:, :, 2:3] = context.longest[:, :, None]
    directions /= directions.norm(dim=1, keepdim=True).clamp_min(1e-12)
    signs = torch.from_numpy(rng.choice([-1.0, 1.0], size=(B, 1, count))).to(Z)
    cuts = torch.from_numpy(rng.uniform(-0.3, 1.6, size=(B, 1, count))).to(Z)
    return ((torch.bmm(Z, directions) * signs > cuts) & present[:, :, None]).to(Z.dtype).transpose(1, 2)


def pursued(context: Context, directions: Tensor) -> Tensor:
    """Directions (B, D, C) after a few steps of the fixed-point iteration of FastICA, by kurtosis."""
    Z = context.Z.transpose(1, 2)
    n = context.counts.to(directions.dtype)[:, None, None]
    for _ in range(PURSUIT_STEPS):
        directions = directions / directions.norm(dim=1, keepdim=True).clamp_min(1e-12)
        cubes = torch.bmm(context.Z, directions).pow(3)
        directions = torch.baddbmm(n * directions, Z, cubes, beta=-3)
    return directions
