"""Labels of all members of a cluster from the two Gaussians of its context, on a GPU; elsewhere: `row_loops`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from dpmmwrap.numerics.arrays import IntArray, UInt8Array


def label_uploaded(
    X: Tensor, rows: IntArray, centre: Tensor, log_odds: Callable[[Tensor], Tensor], at_once: int
) -> UInt8Array:
    """1 where the log odds of d = x - centre are positive, for data on a GPU; some of the rows at a time."""
    parts = torch.split(torch.as_tensor(np.asarray(rows)).to(X.device), at_once)
    labels = [log_odds(X[part].double() - centre) > 0 for part in parts]
    return torch.cat(labels).to(torch.uint8).cpu().numpy()
