"""SplitNet: a network that proposes splits of a cluster, one logit per point."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from dpmmwrap.numerics.arrays import Float64Array, FloatArray
from dpmmwrap.splitnet.axis_network import AxisNetwork, AxisSizes
from dpmmwrap.splitnet.frame import frame_of
from dpmmwrap.splitnet.set_transformer import Architecture, SetTransformer, paper_architecture

Sizes = AxisSizes | Architecture
KINDS: dict[str, type[Sizes]] = {"axes": AxisSizes, "set transformer": Architecture}
PRESETS = ("compact", "paper")
LARGEST_DIM = 20
"""With more dimensions, a network for any dimension reads the longest directions only."""


def architecture(preset: str = "compact", dim: int | None = None) -> Sizes:
    """The sizes of a preset. The compact network works in any dimension, the paper's in a single one."""
    if preset == "compact":
        return AxisSizes()
    if preset != "paper":
        raise ValueError(f"preset should be one of {', '.join(PRESETS)}, not {preset!r}")
    if dim is None:
        raise ValueError("the paper's network works in a single dimension, which should be given")
    return paper_architecture(dim)


def longest(X: Tensor) -> Tensor:
    """Points (1, n, D), with features of unit variance, along their first principal directions."""
    centred = X - X.mean(dim=1, keepdim=True)
    deviations = centred.square().mean(dim=1, keepdim=True).sqrt()
    scaled = centred / torch.where(deviations > 0, deviations, 1.0)
    directions: Tensor = torch.linalg.eigh(scaled.transpose(1, 2) @ scaled)[1]
    return scaled @ directions[:, :, -LARGEST_DIM:]


class SplitNet(nn.Module):
    """A network that proposes splits of a cluster.

    `SplitNet.load` reads trained weights; `split` applies the network to the points of a cluster.

    Parameters
    ----------
    sizes : AxisSizes or Architecture
        The kind and size of the network; `architecture(preset)` returns those of a preset.

    Examples
    --------
    The probability that a point belongs to one of two overlapping groups:

    >>> import numpy as np
    >>> from dpmmwrap import SplitNet
    >>> rng = np.random.default_rng(0)
    >>> X = np.concatenate([rng.normal(size=(300, 2)), rng.normal([4, 0], 0.5, size=(200, 2))])
    >>> p = SplitNet.load(2).split(X)
    >>> p.shape, sorted([round(p[:300].mean()), round(p[300:].mean())])
    ((500,), [0, 1])
    """

    def __init__(self, sizes: Sizes) -> None:
        super().__init__()
        self.sizes = sizes
        self.body: nn.Module = AxisNetwork(sizes) if isinstance(sizes, AxisSizes) else SetTransformer(sizes)

    @classmethod
    def load(cls, weights: int | str | Path) -> SplitNet:
        """The shipped network for this number of features, or the network in a weights file."""
        from dpmmwrap.splitnet.weights_io import load_weights, shipped_path

        if isinstance(weights, int):
            if weights < 1:
                raise ValueError(f"points have at least 1 feature, not {weights}")
            return load_weights(shipped_path())
        return load_weights(weights)

    @property
    def dim(self) -> int | None:
        """The dimension of its input; None for any."""
        return self.sizes.dim if isinstance(self.sizes, Architecture) else None

    def describe(self) -> dict[str, Any]:
        """The kind of the network and its sizes."""
        kind = next(name for name, sizes in KINDS.items() if isinstance(self.sizes, sizes))
        return {"kind": kind, **asdict(self.sizes)}

    def forward(self, X: Tensor, present: Tensor | None = None) -> Tensor:
        """Points (B, n, D) in their cluster's frame -> logits (B, n, proposals); `present` marks real points."""
        return self.body(X, present)  # type: ignore[no-any-return]

    @torch.inference_mode()
    def split(self, X: FloatArray) -> Float64Array:
        """The probability that each point (n, D) of a cluster is in the second of two groups, by the network alone.

        The order of the groups is arbitrary, and no EM steps follow. With more than 20 features, the network reads the
        first 20 principal components of the standardised features.
        """
        points = np.ascontiguousarray(X, dtype=np.float64)
        if points.ndim != 2 or not points.size:
            raise ValueError(f"X should be points by features, at least one of each, not of shape {points.shape}")
        if self.dim not in (None, points.shape[1], min(points.shape[1], LARGEST_DIM)):
            raise ValueError(f"the network is for {self.dim} features, but the points have {points.shape[1]}")
        if not np.isfinite(points).all():
            raise ValueError("X should contain finite numbers only")
        device = next(self.parameters()).device
        whole = torch.from_numpy(points).to(device)[None]
        if whole.shape[2] > LARGEST_DIM:
            whole = longest(whole)
        Z = frame_of(whole)(whole).float()
        return np.asarray(torch.sigmoid(self(Z)[0, :, 0]).double().cpu().numpy())
