"""Points and priors of Gaussian clusters, for fits that only compile the loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.diagonal.spherical import SphericalNIG
from dpmmwrap.families.example_points import DIM, numbers, numbers_with_gaps
from dpmmwrap.families.full.prior import NIW

EXAMPLES: dict[str, Any] = {
    "full": lambda: (numbers(), NIW(np.zeros(DIM), 0.1, np.eye(DIM), 4.0)),
    "diag": lambda: (numbers(), NIG(np.zeros(DIM), 0.1, np.ones(DIM), 4.0)),
    "gaps": lambda: (numbers_with_gaps(), NIG(np.zeros(DIM), 0.1, np.ones(DIM), 4.0)),
    "spherical": lambda: (numbers(), SphericalNIG(np.zeros(DIM), 0.1, np.ones(1), 4.0)),
}


def kinds_for(kind: str, points: Any, missing: bool) -> tuple[str, ...]:
    """The kinds of loops that a fit with this kind of prior, or with "auto", may need."""
    diagonal = "gaps" if missing else "diag"
    if kind == "auto":
        return ("full", diagonal) if points.shape[1] > 1 else ("full",)
    return (diagonal,) if missing and kind != "full" else (kind,)
