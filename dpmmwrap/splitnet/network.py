"""SplitNet: the Set Transformer of the paper, one logit per point.

A set only speaks through a few vectors (inducing points in the encoder, seeds in the decoder), so the cost
is linear in the number of points, and permuting the points permutes the logits.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

FREQUENCIES = (2.0, 4.0, 8.0)
MAX_DIM_OF_WAVES = 5
SMALLEST_SQUARE = 1e-4


@dataclass(frozen=True)
class Architecture:
    """The sizes of a network. `proposals` is the number of splits that one pass proposes."""

    dim: int
    hidden: int
    heads: int
    encoders: int
    inducing: int
    decoders: int
    seeds: int
    proposals: int = 1

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


PAPER_SIZES = {
    2: {"hidden": 128, "heads": 4, "encoders": 2, "inducing": 64, "decoders": 2, "seeds": 8},
    10: {"hidden": 128, "heads": 8, "encoders": 2, "inducing": 64, "decoders": 2, "seeds": 16},
    20: {"hidden": 256, "heads": 8, "encoders": 3, "inducing": 128, "decoders": 3, "seeds": 16},
}
COMPACT_SIZES = {"hidden": 64, "heads": 4, "encoders": 2, "inducing": 32, "decoders": 2, "seeds": 8}
PRESETS = ("compact", "paper")


def architecture(dim: int, preset: str = "compact") -> Architecture:
    """The sizes of a preset; the paper's are given for D = 2, 10 and 20, others take the next one up."""
    if preset == "compact":
        return Architecture(dim=dim, **COMPACT_SIZES, proposals=4)
    if preset == "paper":
        row = min((d for d in PAPER_SIZES if d >= dim), default=max(PAPER_SIZES))
        return Architecture(dim=dim, **PAPER_SIZES[row])
    raise ValueError(f"preset should be one of {', '.join(PRESETS)}, not {preset!r}")


class MAB(nn.Module):
    """Multihead attention block: MAB(X, Y) = H + rFF(H) with H = X + rFF(MultiheadAtt(X, Y))."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(hidden, hidden)
        self.key_value = nn.Linear(hidden, 2 * hidden)
        self.output = nn.Linear(hidden, hidden)
        self.feed_forward = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
        self.norm_attention = nn.LayerNorm(hidden)
        self.norm_output = nn.LayerNorm(hidden)

    def forward(self, X: Tensor, Y: Tensor, present: Tensor | None = None) -> Tensor:
        """X (B, n, h) attends to Y (B, m, h); `present` (B, m) marks the rows of Y that are not padding."""
        batch, rows, hidden = X.shape
        query = self._split_heads(self.query(X))
        key, value = (self._split_heads(part) for part in self.key_value(Y).chunk(2, dim=-1))
        mask = None if present is None else present[:, None, None, :]
        attention = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
        attention = attention.transpose(1, 2).reshape(batch, rows, hidden)
        H = self.norm_attention(X + self.output(attention))
        return self.norm_output(H + self.feed_forward(H))  # type: ignore[no-any-return]

    def _split_heads(self, X: Tensor) -> Tensor:
        batch, rows, hidden = X.shape
        return X.view(batch, rows, self.heads, hidden // self.heads).transpose(1, 2)


class SAB(nn.Module):
    """Set attention block: every point attends to every point."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.block = MAB(hidden, heads)

    def forward(self, X: Tensor, present: Tensor | None = None) -> Tensor:
        return self.block(X, X, present)  # type: ignore[no-any-return]


class ISAB(nn.Module):
    """Induced set attention block: ISAB(X) = MAB(X, MAB(I, X)) with learned inducing points I."""

    def __init__(self, hidden: int, heads: int, inducing: int) -> None:
        super().__init__()
        self.inducing = nn.Parameter(torch.empty(1, inducing, hidden))
        nn.init.xavier_uniform_(self.inducing)
        self.gather = MAB(hidden, heads)
        self.scatter = MAB(hidden, heads)

    def forward(self, X: Tensor, present: Tensor | None = None) -> Tensor:
        summary = self.gather(self.inducing.expand(len(X), -1, -1), X, present)
        return self.scatter(X, summary)  # type: ignore[no-any-return]


class PMA(ISAB):
    """Pooling by attention with one output per point: the seeds S attend to the set, the points attend back.

    PMA(X) = MAB(X, MAB(S, rFF(X))): the same two steps as an ISAB, after a row-wise layer on what is pooled.
    """

    def __init__(self, hidden: int, heads: int, seeds: int) -> None:
        super().__init__(hidden, heads, seeds)
        self.rows = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU())

    def forward(self, X: Tensor, present: Tensor | None = None) -> Tensor:
        summary = self.gather(self.inducing.expand(len(X), -1, -1), self.rows(X), present)
        return self.scatter(X, summary)  # type: ignore[no-any-return]


def features(X: Tensor) -> Tensor:
    """What the network sees of a point in its cluster's frame.

    The point and its squares: the log odds of two Gaussians are linear in them once the frame has turned both
    covariances to the axes. Their logarithms, which tell a needle's width from another's, however thin. And waves
    in few dimensions, which resolve tight groups in a crowded cluster.
    """
    X = X.clamp(-12.0, 12.0)
    squares = X.square()
    parts = [X, squares - 1.0, squares.mean(dim=-1, keepdim=True) - 1.0, torch.log(squares + SMALLEST_SQUARE) / 2]
    if X.shape[-1] <= MAX_DIM_OF_WAVES:
        for frequency in FREQUENCIES:
            parts += [torch.sin(frequency * X), torch.cos(frequency * X)]
    return torch.cat(parts, dim=-1)


def feature_count(dim: int) -> int:
    waves = 2 * len(FREQUENCIES) * dim if dim <= MAX_DIM_OF_WAVES else 0
    return 3 * dim + 1 + waves


class SplitNet(nn.Module):
    """Encoder: a stack of ISABs. Decoder: a stack of PMA blocks, then one linear layer."""

    def __init__(self, sizes: Architecture) -> None:
        super().__init__()
        if sizes.hidden % sizes.heads:
            raise ValueError(f"hidden size {sizes.hidden} should be a multiple of {sizes.heads} heads")
        self.sizes = sizes
        self.embedding = nn.Linear(feature_count(sizes.dim), sizes.hidden)
        self.encoder = nn.ModuleList(ISAB(sizes.hidden, sizes.heads, sizes.inducing) for _ in range(sizes.encoders))
        self.decoder = nn.ModuleList(PMA(sizes.hidden, sizes.heads, sizes.seeds) for _ in range(sizes.decoders))
        self.logits = nn.Linear(sizes.hidden, sizes.proposals)

    def forward(self, X: Tensor, present: Tensor | None = None) -> Tensor:
        """Points (B, n, D) in their cluster's frame -> logits (B, n, proposals); `present` marks real points."""
        H = self.embedding(features(X))
        for block in [*self.encoder, *self.decoder]:
            H = block(H, present)
        return self.logits(H)  # type: ignore[no-any-return]
