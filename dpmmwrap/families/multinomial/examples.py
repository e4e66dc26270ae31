"""Rows of counts and a prior, for fits that only compile the loops."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.sparse import csr_array, issparse

from dpmmwrap.families.example_points import GROUPS, counts
from dpmmwrap.families.multinomial.prior import Dirichlet

EXAMPLES: dict[str, Any] = {
    "counts": lambda: (counts(), Dirichlet(np.full(GROUPS, 0.1))),
    "sparse": lambda: (csr_array(counts()), Dirichlet(np.full(GROUPS, 0.1))),
}


def kinds_for(kind: str, points: Any, missing: bool) -> tuple[str, ...]:
    """The kinds of loops that a fit needs."""
    return ("sparse",) if issparse(points) or getattr(points, "is_sparse", False) else ("counts",)
