"""A table and a prior, for fits that only compile the loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.families.categorical.prior import CategoricalDirichlet
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.example_points import DIM, GROUPS, codes, numbers
from dpmmwrap.families.mixed.prior import Mixed
from dpmmwrap.families.tables import TablePoints


def table() -> Any:
    levels = CategoricalDirichlet.from_levels(np.array([GROUPS, 2]))
    return TablePoints(numbers(), codes()), Mixed(NIG(np.zeros(DIM), 0.1, np.ones(DIM), 4.0), levels)


EXAMPLES: dict[str, Any] = {"mixed": table}


def kinds_for(kind: str, points: Any, missing: bool) -> tuple[str, ...]:
    """The kinds of loops that a fit needs."""
    return ("mixed",)
