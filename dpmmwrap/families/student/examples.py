"""Points with tails and a prior, for fits that only compile the loops."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.families.example_points import DIM, numbers
from dpmmwrap.families.student.diagonal import StudentNIG, StudentSphericalNIG
from dpmmwrap.families.student.prior import StudentNIW

EXAMPLES: dict[str, Any] = {
    "student": lambda: (numbers(), StudentNIW(np.zeros(DIM), 0.1, np.eye(DIM), 4.0)),
    "student-diag": lambda: (numbers(), StudentNIG(np.zeros(DIM), 0.1, np.ones(DIM), 4.0)),
    "student-spherical": lambda: (numbers(), StudentSphericalNIG(np.zeros(DIM), 0.1, np.ones(1), 4.0)),
}


def kinds_for(kind: str, points: Any, missing: bool) -> tuple[str, ...]:
    """The kinds of loops that a fit with this kind of prior, or with "auto", may need. Diagonal and spherical ones
    share their loops."""
    diagonal = kind in ("diag", "spherical", "student-diag", "student-spherical")
    return ("student-diag",) if diagonal else ("student",) if kind != "auto" else ("student", "student-diag")
