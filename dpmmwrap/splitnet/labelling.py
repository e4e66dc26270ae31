"""Labels for all members of a cluster, from the two Gaussians fitted to its context."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from dpmmwrap.numerics.arrays import UInt8Array
from dpmmwrap.numerics.rules import Rows


def label_members(labeller: Any, X: Any, cluster: int, rows: Any, at_once: int) -> UInt8Array:
    """1 where a labeller's log odds are positive: in batches for data on a GPU, otherwise by its rule without torch."""
    if not isinstance(X, Tensor):
        return labeller.rule(cluster)(Rows(X, rows))  # type: ignore[no-any-return]
    parts = torch.split(torch.as_tensor(np.asarray(rows)).to(X.device), at_once)
    centre = labeller.centre[cluster]
    labels = [labeller.log_odds(cluster, X[part].double() - centre) > 0 for part in parts]
    return torch.cat(labels).to(torch.uint8).cpu().numpy()
