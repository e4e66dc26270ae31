"""Rows of event counts and a prior, for fits that only compile the loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.families.example_points import GROUPS, counts
from dpmmwrap.families.poisson.prior import GammaPoisson

EXAMPLES: dict[str, Any] = {"events": lambda: (counts(), GammaPoisson(np.ones(GROUPS), np.full(GROUPS, 0.3)))}


def kinds_for(kind: str, points: Any, missing: bool) -> tuple[str, ...]:
    """The kinds of loops that a fit needs."""
    return ("events",)
