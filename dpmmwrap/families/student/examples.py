"""Points with tails and a prior, for runs that only compile."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.families.example_points import DIM, numbers
from dpmmwrap.families.student.prior import StudentNIW

EXAMPLES: dict[str, Any] = {"student": lambda: (numbers(), StudentNIW(np.zeros(DIM), 0.1, np.eye(DIM), 4.0))}
EXTRA: dict[str, Any] = {}


def kinds_for(kind: str, points: Any, missing: bool) -> tuple[str, ...]:
    """What a fit needs."""
    return ("student",)
