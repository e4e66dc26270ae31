"""A network that reads a cluster axis by axis, for any number of dimensions.

In a cluster's frame all axes are equivalent. So the axes share their weights, as the points do in a Set Transformer.
Therefore few training sets are enough, and one network serves all dimensions. A block has three steps:

- gather: the hidden states of the points assign them to soft groups; for each axis, compute the means of a few features
  of its coordinate in each group;
- update: the hidden state of each axis, and a summary that all axes share;
- scatter: each axis sends every point a message, a weighted sum of the features of the point's coordinate.

The log odds of two Gaussians along the axes of the frame are such a sum of messages. After half of the blocks, the
network adds some directions between the axes as further axes: with these, other Gaussians are such sums, too.
The cost is linear in points and dimensions; permuting the points permutes the logits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpmmwrap.splitnet.layers import linear, norm

FREQUENCIES = (2.0, 4.0, 8.0)
FEATURES = 3 + 2 * len(FREQUENCIES)
SMALLEST_SQUARE = 1e-4
LARGEST_COORDINATE, LARGEST_SQUARE = 12.0, 15.0
SHORTEST, SHARPNESS = 1e-3, 4.0
"""The least norm of a direction before it is normalised; how much its main axis dominates its hidden state."""
USUAL_POINTS, USUAL_DIM = 200.0, 5.0
"""The logarithms of a cluster's sizes are relative to these."""


@dataclass(frozen=True)
class AxisSizes:
    """The sizes of an `AxisNetwork`. `proposals` is the number of splits that one pass proposes."""

    hidden: int = 48
    """Size of the hidden state of a point."""
    groups: int = 16
    axis: int = 64
    summary: int = 64
    """Sizes of the hidden state of an axis, and of the summary of the cluster."""
    blocks: int = 4
    directions: int = 4
    """Directions that are added after half of the blocks."""
    proposals: int = 4


def axis_features(X: Tensor) -> Tensor:
    """Features of each coordinate, (B, n, D) -> (B, n, D, FEATURES).

    The coordinate and its square; its logarithm, which distinguishes narrow widths; sines and cosines, which resolve
    tight groups in a crowded cluster.
    """
    X = X.clamp(-LARGEST_COORDINATE, LARGEST_COORDINATE)
    squares = X.square()
    parts = [X, (0.5 * (squares - 1.0)).clamp_max(LARGEST_SQUARE), torch.log(squares + SMALLEST_SQUARE) / 2]
    for frequency in FREQUENCIES:
        parts += [torch.sin(frequency * X), torch.cos(frequency * X)]
    return torch.stack(parts, dim=-1)


class AxisBlock(nn.Module):
    """Gather, update, scatter."""

    def __init__(self, sizes: AxisSizes) -> None:
        super().__init__()
        hidden, axis, summary = sizes.hidden, sizes.axis, sizes.summary
        self.groups = sizes.groups
        self.norm = nn.LayerNorm(hidden)
        self.membership = nn.Linear(hidden, sizes.groups)
        self.summarise = nn.Linear(sizes.groups * hidden, summary)
        self.read = nn.Linear(sizes.groups * FEATURES + axis + summary, axis)
        self.update = nn.Linear(axis, axis)
        self.tell = nn.Linear(axis, summary)
        self.hear = nn.Linear(summary, axis)
        self.axis_norm = nn.LayerNorm(axis)
        self.weights = nn.Linear(axis, FEATURES * hidden)
        self.shift = nn.Linear(summary, hidden)
        self.point_norm = nn.LayerNorm(hidden)
        self.widen, self.narrow = nn.Linear(hidden, 2 * hidden), nn.Linear(2 * hidden, hidden)
        with torch.no_grad():
            self.weights.weight.mul_(0.5)

    def forward(
        self, H: Tensor, features: Tensor, axes: Tensor, summary: Tensor, absent: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor]:
        """New hidden states of points (B, n, h), of axes (B, D, a) and of the cluster (B, s), from the old ones and the
        features (B, n, D * FEATURES); `absent` (B, n, 1) marks padding."""
        # Few calls, and of functions instead of modules: for a few small sets, calls cost as much as the arithmetic.
        (B, dim, _), rows = axes.shape, norm(H, self.norm)
        scores = linear(rows, self.membership)
        if absent is not None:
            scores = scores.masked_fill(absent, -math.inf)
        members = torch.softmax(scores, dim=1).transpose(1, 2)
        moments = (members @ features).view(B, self.groups, dim, FEATURES).transpose(1, 2).flatten(2)
        summary = summary + linear((members @ rows).flatten(1), self.summarise)
        inputs = torch.cat([moments, axes, summary[:, None].expand(-1, dim, -1)], dim=-1)
        hidden = functional.gelu(linear(inputs, self.read))
        summary = summary + linear(hidden.mean(dim=1), self.tell)
        message = linear(functional.gelu(summary), self.hear)[:, None]
        axes = norm(axes + linear(hidden, self.update) + message, self.axis_norm)
        weights = linear(axes, self.weights).view(B, dim * FEATURES, -1)
        shifted = H + linear(summary, self.shift)[:, None]
        H = torch.baddbmm(shifted, features, weights, alpha=1 / math.sqrt(dim))
        inner = functional.gelu(linear(norm(H, self.point_norm), self.widen))
        return H + linear(inner, self.narrow), axes, summary


class Directions(nn.Module):
    """Directions between the axes, computed from their hidden states."""

    def __init__(self, sizes: AxisSizes) -> None:
        super().__init__()
        self.choose = nn.Linear(sizes.axis, sizes.directions)
        self.begin = nn.Linear(sizes.axis, sizes.axis)
        self.places = nn.Parameter(0.3 * torch.randn(sizes.directions, sizes.axis))

    def forward(self, X: Tensor, axes: Tensor) -> tuple[Tensor, Tensor]:
        """Coordinates of the points (B, n, r) along the directions, and hidden states of these (B, r, a)."""
        directions = self.choose(axes)
        directions = directions / directions.norm(dim=1, keepdim=True).clamp_min(SHORTEST)
        shares = torch.softmax(SHARPNESS * directions.square(), dim=1).transpose(1, 2)
        return X @ directions, self.begin(shares @ axes) + self.places


class AxisNetwork(nn.Module):
    """A stack of blocks, then one linear layer."""

    def __init__(self, sizes: AxisSizes) -> None:
        super().__init__()
        self.first = nn.Linear(FEATURES, sizes.hidden)
        self.size = nn.Linear(3, sizes.summary)
        self.place = nn.Linear(2, sizes.axis)
        self.directions = Directions(sizes)
        self.blocks = nn.ModuleList(AxisBlock(sizes) for _ in range(sizes.blocks))
        self.logits = nn.Linear(sizes.hidden, sizes.proposals)

    def forward(self, X: Tensor, present: Tensor | None = None) -> Tensor:
        """Points (B, n, D) in their cluster's frame -> logits (B, n, proposals); `present` marks real points."""
        B, n, dim = X.shape
        each = axis_features(X)
        # The axes are ordered by their tails: the position of an axis is informative.
        log_dim = math.log(dim / USUAL_DIM) / 2
        places = torch.linspace(-1.0, 1.0, dim, device=X.device) if dim > 1 else X.new_zeros(1)
        axes = self.place(torch.stack([places, torch.full_like(places, log_dim)], dim=-1)).expand(B, -1, -1)
        counts = X.new_full((B,), n) if present is None else present.sum(dim=1).to(X.dtype)
        sizes = [(counts / USUAL_POINTS).log() / 2, torch.full_like(counts, log_dim), USUAL_DIM * dim / counts]
        summary = self.size(torch.stack(sizes, dim=-1))
        absent = None if present is None else ~present[:, :, None]
        H, features = self.first(each.mean(dim=2) * math.sqrt(dim)), each.flatten(2)
        for number, block in enumerate(self.blocks):
            if number == len(self.blocks) // 2:
                along, chosen = self.directions(X, axes)
                features = torch.cat([features, axis_features(along).flatten(2)], dim=2)
                axes = torch.cat([axes, chosen], dim=1)
            H, axes, summary = block(H, features, axes, summary, absent)
        return self.logits(H)  # type: ignore[no-any-return]
