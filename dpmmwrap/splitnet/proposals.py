"""Candidate splits from the network, 2-means and dense balls, each as probabilities (B, C, n); and a test for clusters
that need none.

All except 2-means use the view of a cluster: whitened, rotated, and with at most 20 dimensions.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import torch
from numpy.random import Generator
from scipy.special import gammaincinv
from torch import Tensor

from dpmmwrap.splitnet.context import SplitContext
from dpmmwrap.splitnet.network import SplitNet

SMALLEST_BALL, LARGEST_BALL = 0.015, 0.25
"""The size of a dense group, as a share of the context."""
SEEDS_PER_BALL = 3
SAMPLE = 192
"""Number of points that measure the radius of a neighbourhood."""
STANDARD_ERRORS = 3.0
"""Moments that differ from those of a Gaussian by less are not unusual."""
FEWEST_POINTS = (40, 0), (10, 200)
"""With fewer points than the lower of two lines, slope * D + offset, moments cannot rule out one Gaussian.
With as many, one or two in a hundred of the paper's medium and hard pairs pass for one Gaussian."""
CLUMP_SAMPLE = 128
CLOSE_PAIRS, CLOSE_DEVIATIONS = 0.02, 3.0
"""The number of points among which clumps are sought, the expected share of close pairs, and the excess, in standard
deviations, that may be due to chance."""
TWO_MEANS_STEPS = 6


def looks_gaussian(context: SplitContext) -> Tensor:
    """Whether the cluster looks like one of its family (B,): neither skewness nor kurtosis, along its axes or of its
    radius, is unusual, and the covariance is one that the family allows.

    The moments are compared with their standard errors for a Gaussian. The axes were chosen for extreme moments, so
    the bounds along them are wider; they were measured on Gaussians, and differ for heavy tails and for two modes.
    With few points per dimension, or if the view has fewer dimensions, the answer is no. For most clusters in the later
    iterations of a sampler this test replaces a search, at a fraction of the cost.
    """
    Z, longest = context.seen
    dim = Z.shape[2]
    plain = context.counts >= min(slope * dim + offset for slope, offset in FEWEST_POINTS)
    if dim < context.model.dim or not plain.any():
        return torch.zeros_like(plain)
    n = context.counts.to(Z.dtype)[:, None]
    # Two groups side by side in many dimensions show along the longest axis before they show along the frame's.
    Y = torch.cat([Z, torch.bmm(Z, longest[:, :, None])], dim=2)
    squares = Y.square()
    skewness = (squares * Y).sum(dim=1) / n / (6 / n).sqrt()
    kurtosis = (squares.square().sum(dim=1) / n - 3) / (24 / n).sqrt()
    radius = squares[:, :, :dim].sum(dim=2, keepdim=True)
    spread = (radius.square().sum(dim=1) / n - dim * (dim + 2)) / (8 * dim * (dim + 2) / n).sqrt()
    # Skewness in any direction, also oblique to the axes: for a Gaussian this is chi-square with D degrees of freedom
    # (Mori, Rohatgi and Szekely 1993). A quarter of the points beside the rest shows here but not in the kurtosis.
    lean = ((Z * radius).sum(dim=1) / n).square().sum(dim=1) * n[:, 0] / (2 * (dim + 2))
    root = n.sqrt()
    plain &= (spread[:, 0].abs() < STANDARD_ERRORS) & (lean < dim + STANDARD_ERRORS * math.sqrt(2 * dim))
    plain &= (skewness.abs() < STANDARD_ERRORS * (1 + 0.7 * dim / root)).all(dim=1)
    plain &= (kurtosis < STANDARD_ERRORS * (1 + 3 * dim / root)).all(dim=1)
    plain &= (kurtosis > -(1.2 + 0.07 * root)).all(dim=1)
    if plain.any():
        plain &= ~looks_clumped(context) & context.model.fits_second_moments(context.Z, context.counts)
    return plain


def looks_clumped(context: SplitContext) -> Tensor:
    """Whether more points of a sample are close to each other than in a Gaussian (B,).

    Many tight groups together may have the moments of a Gaussian, but not its distances. Differences of points of a
    whitened Gaussian are N(0, 2 I); the variance of the number of close pairs is that of a U-statistic.
    """
    points = context.seen.points[:, :CLUMP_SAMPLE]
    m, dim = context.present[:, :CLUMP_SAMPLE].sum(dim=1).to(points.dtype), points.shape[2]
    # Padding is not close to anything, not even to itself.
    points = points.masked_fill(~context.present[:, :CLUMP_SAMPLE, None], torch.nan)
    close = torch.cdist(points, points) < close_distance(dim)
    pairs, share = m * (m - 1) / 2, CLOSE_PAIRS
    uneven = share**2 * (math.pow(4 / 3, dim / 2) - 1)
    deviation = (m * (m - 1) * (m - 2) * uneven + pairs * share).sqrt()
    return (close.sum(dim=(1, 2)) - m) / 2 > share * pairs + CLOSE_DEVIATIONS * deviation


@lru_cache(maxsize=64)
def close_distance(dim: int) -> float:
    """The distance below which a share CLOSE_PAIRS of the pairs of points of a Gaussian lie."""
    return math.sqrt(4 * float(gammaincinv(dim / 2, CLOSE_PAIRS)))


def network_candidates(network: SplitNet, context: SplitContext, points: int) -> Tensor:
    """The network's proposals for the first `points` of the context, in the frame of the whole context."""
    present = context.present[:, :points]
    logits = network(context.seen.points[:, :points].float(), None if bool(present.all()) else present)
    return torch.sigmoid(logits).transpose(1, 2) * present[:, None, :]


def two_means_candidates(context: SplitContext, metrics: Tensor, count: int, rng: Generator) -> Tensor:
    """2-means of the first points, with features in each of these units (M, D)."""
    assert context.centred is not None
    points = (context.centred[:, None, :count] * metrics[:, None, :]).flatten(0, 1)
    groups = two_means(points, context.present[:, :count].repeat_interleave(len(metrics), dim=0), rng)
    return groups.view(-1, len(metrics), groups.shape[1])


def two_means(points: Tensor, present: Tensor, rng: Generator) -> Tensor:
    """Lloyd's algorithm for two centres of B clusters, started by k-means++: the points that join the second (B, n)."""
    B = torch.arange(len(points), device=points.device)
    there = present.to(points.dtype)
    counts = there.sum(dim=1, keepdim=True)
    total = torch.bmm(there[:, None, :], points)
    first = points[B, (torch.from_numpy(rng.random(len(points))).to(points) * counts[:, 0]).long()][:, None]
    squares = ((points - first).square().sum(dim=2) * there).cumsum(dim=1)
    drawn = torch.from_numpy(rng.random((len(points), 1))).to(points) * squares[:, -1:]
    second = points[B, torch.searchsorted(squares, drawn, right=True)[:, 0].clamp_max(points.shape[1] - 1)][:, None]
    group = there
    for _ in range(TWO_MEANS_STEPS):
        axis = second - first
        middle = ((second + first) * axis).sum(dim=2) / 2
        nearer = (torch.bmm(points, axis.transpose(1, 2))[:, :, 0] > middle).to(points.dtype) * there
        if torch.equal(nearer, group):
            break
        group = nearer
        inside, count = torch.bmm(group[:, None, :], points), group.sum(dim=1, keepdim=True)
        second = inside / count.clamp_min(1)[:, :, None]
        first = (total - inside) / (counts - count).clamp_min(1)[:, :, None]
    return group


def ball_candidates(context: SplitContext, count: int, rng: Generator) -> Tensor:
    """Dense groups of various sizes: the neighbours of points with a crowded neighbourhood.

    The radius of a neighbourhood is estimated from the first few points of the context, which are a random sample, to
    avoid sorting all distances. numpy sorts them ten times as fast as torch.
    """
    Z = context.seen.points
    B, _, dim = Z.shape
    counts = context.counts.cpu().numpy()[:, None]
    picks = (rng.random((B, count * SEEDS_PER_BALL)) * counts).astype(np.int64)
    shares = np.exp(rng.uniform(np.log(SMALLEST_BALL), np.log(LARGEST_BALL), size=count))
    shares = np.clip(shares, np.minimum((dim + 2) / counts, 0.5), 0.5)
    sample = np.minimum(counts, SAMPLE)
    ranks = np.clip(np.round(shares * sample).astype(np.int64), 1, sample - 1)
    seeds = Z[torch.arange(B)[:, None], torch.from_numpy(picks)]
    distances = torch.cdist(seeds, Z[:, :SAMPLE]).masked_fill(~context.present[:, None, :SAMPLE], torch.inf)
    ordered = np.sort(distances.cpu().numpy(), axis=2).reshape(B, count, SEEDS_PER_BALL, -1)
    radius = np.take_along_axis(ordered, ranks[:, :, None, None], axis=3)[..., 0]
    # Each ball uses the one of its few seeds whose neighbourhood is the narrowest.
    chosen = torch.from_numpy(np.arange(count) * SEEDS_PER_BALL + radius.argmin(axis=2))
    narrowest = torch.from_numpy(radius.min(axis=2)).to(seeds)
    near = torch.cdist(seeds[torch.arange(B)[:, None], chosen], Z)
    return ((near <= narrowest[:, :, None]) & context.present[:, None, :]).to(Z.dtype)
