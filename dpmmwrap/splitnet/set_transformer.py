"""The Set Transformer of the paper, one logit per point.

The points of a set interact only through a few vectors (inducing points in the encoder, seeds in the decoder), so the
cost is linear in the number of points. Permuting the points permutes the logits.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from dpmmwrap.splitnet.layers import linear, norm

FREQUENCIES = (2.0, 4.0, 8.0)
MAX_DIM_OF_WAVES = 5
SMALLEST_SQUARE = 1e-4
FEW_KEYS = 16


@dataclass(frozen=True)
class Architecture:
    """The sizes of a Set Transformer. `proposals` is the number of splits that one pass proposes."""

    dim: int
    hidden: int
    heads: int
    encoders: int
    inducing: int
    decoders: int
    seeds: int
    proposals: int = 1


PAPER_SIZES = {
    2: {"hidden": 128, "heads": 4, "encoders": 2, "inducing": 64, "decoders": 2, "seeds": 8},
    10: {"hidden": 128, "heads": 8, "encoders": 2, "inducing": 64, "decoders": 2, "seeds": 16},
    20: {"hidden": 256, "heads": 8, "encoders": 3, "inducing": 128, "decoders": 3, "seeds": 16},
}


def paper_architecture(dim: int) -> Architecture:
    """The paper's sizes for D = 2, 10 and 20; other dimensions use the next larger one."""
    row = min((d for d in PAPER_SIZES if d >= dim), default=max(PAPER_SIZES))
    return Architecture(dim=dim, **PAPER_SIZES[row])


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None) -> Tensor:
    """Attention of queries (B, heads, n, h) to keys and values (B, heads, m, h)."""
    if mask is not None or key.shape[2] >= FEW_KEYS:
        return functional.scaled_dot_product_attention(query, key, value, attn_mask=mask)
    # With fewer keys than the processor handles at once, the softmax is faster if the many queries come last.
    scores = key @ query.transpose(2, 3) / math.sqrt(query.shape[-1])
    return torch.softmax(scores, dim=2).transpose(2, 3) @ value


class MAB(nn.Module):
    """Multihead attention block: MAB(X, Y) = H + rFF(H) with H = X + rFF(MultiheadAtt(X, Y))."""

    def __init__(self, hidden: int, heads: int) -> None:
        super().__init__()
        self.heads, self.size = heads, hidden // heads
        self.query = nn.Linear(hidden, hidden)
        self.key_value = nn.Linear(hidden, 2 * hidden)
        self.output = nn.Linear(hidden, hidden)
        self.feed_forward = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU(), nn.Linear(hidden, hidden))
        self.norm_attention = nn.LayerNorm(hidden)
        self.norm_output = nn.LayerNorm(hidden)

    def forward(self, X: Tensor, Y: Tensor, present: Tensor | None = None) -> Tensor:
        """X (B or 1, n, h) attends to Y (B, m, h); `present` (B, m) marks the rows of Y that are not padding."""
        query = self._heads(linear(X, self.query)).expand(len(Y), -1, -1, -1)
        key, value = self._heads(linear(Y, self.key_value)).chunk(2, dim=1)
        attention = attend(query, key, value, None if present is None else present[:, None, None, :])
        H = norm(X + linear(attention.transpose(1, 2).flatten(2), self.output), self.norm_attention)
        return norm(H + self.feed_forward(H), self.norm_output)

    def _heads(self, X: Tensor) -> Tensor:
        """(B, n, heads * h) -> (B, heads, n, h)."""
        return X.view(*X.shape[:2], -1, self.size).transpose(1, 2)


class ISAB(nn.Module):
    """Induced set attention block: ISAB(X) = MAB(X, MAB(I, X)) with learned inducing points I."""

    def __init__(self, hidden: int, heads: int, inducing: int) -> None:
        super().__init__()
        self.inducing = nn.Parameter(torch.empty(1, inducing, hidden))
        nn.init.xavier_uniform_(self.inducing)
        self.gather = MAB(hidden, heads)
        self.scatter = MAB(hidden, heads)

    def forward(self, X: Tensor, present: Tensor | None = None) -> Tensor:
        summary = self.gather(self.inducing, X, present)
        return self.scatter(X, summary)  # type: ignore[no-any-return]


class PMA(ISAB):
    """Pooling by attention with one output per point: the seeds S attend to the set, and the points attend back.

    PMA(X) = MAB(X, MAB(S, rFF(X))): the two steps of an ISAB, with a row-wise layer applied to the pooled set.
    """

    def __init__(self, hidden: int, heads: int, seeds: int) -> None:
        super().__init__(hidden, heads, seeds)
        self.rows = nn.Sequential(nn.Linear(hidden, hidden), nn.ReLU())

    def forward(self, X: Tensor, present: Tensor | None = None) -> Tensor:
        summary = self.gather(self.inducing, self.rows(X), present)
        return self.scatter(X, summary)  # type: ignore[no-any-return]


def features(X: Tensor) -> Tensor:
    """The input of the network for a point in its cluster's frame.

    The point and its squares, in which the log odds of two Gaussians are linear once the frame has made both
    covariances diagonal; the logarithms of the squares, which distinguish narrow widths; and in few dimensions sines
    and cosines, which resolve tight groups in a crowded cluster.
    """
    X = X.clamp(-12.0, 12.0)
    squares = X.square()
    parts = [X, squares - 1.0, squares.mean(dim=-1, keepdim=True) - 1.0, torch.log(squares + SMALLEST_SQUARE) / 2]
    if X.shape[-1] <= MAX_DIM_OF_WAVES:
        angles = X[..., None, :] * torch.tensor(FREQUENCIES, device=X.device)[:, None]
        parts.append(torch.stack([angles.sin(), angles.cos()], dim=-2).flatten(-3))
    return torch.cat(parts, dim=-1)


def feature_count(dim: int) -> int:
    waves = 2 * len(FREQUENCIES) * dim if dim <= MAX_DIM_OF_WAVES else 0
    return 3 * dim + 1 + waves


class SetTransformer(nn.Module):
    """Encoder: a stack of ISABs. Decoder: a stack of PMA blocks, then one linear layer."""

    def __init__(self, sizes: Architecture) -> None:
        super().__init__()
        if sizes.hidden % sizes.heads:
            raise ValueError(f"hidden size {sizes.hidden} should be a multiple of {sizes.heads} heads")
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
