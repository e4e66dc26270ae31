"""Points and priors of Gaussian clusters, for fits that only compile the loops."""

from __future__ import annotations

from functools import partial
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


def sweep() -> None:
    """Compile the longest loop by itself, with a call over zero points."""
    from dpmmwrap.families.full import kernels, pairs
    from dpmmwrap.families.full.kernels import ClusterTables, Neighbours, SubclusterTables, Sums, Tables
    from dpmmwrap.numerics.labels import LabelOrder

    X, dim, key = numbers(), DIM, np.uint64(7)
    X.setflags(write=False)
    f4, f8, i8 = partial(np.zeros, dtype=np.float32), np.zeros, partial(np.zeros, dtype=np.int64)
    tables = Tables(
        ClusterTables(f4((1, dim, dim)), f4(1), f4(0), f4(0), f4((0, 0))),
        Neighbours(f4((1, dim)), f4((1, dim)), i8((1, 1)), f4((1, 1))),
        SubclusterTables(f4((2, dim, dim)), f4((2, dim)), f4(2)),
    )
    by_label = LabelOrder(np.zeros(0, np.int32), i8((0, 2)))
    sums = Sums(f8((0, 1, 2)), f8((0, 1, 2, dim)), f8((0, 1, 2, dim, dim)), f8((0, 1)))
    labels, sublabels = np.zeros(0, np.int32), np.zeros(0, np.uint8)
    kernels.sweep(X, f8(0), labels, sublabels, i8(1), i8(1), by_label, tables, key, False, sums)
    pairs.reverse_proposal_log_prob(X, f8(0), i8(1), i8(1), by_label, tables, i8(0), i8(0), f8(0), f8((0, 0)), False)


EXTRA = {"full sweep": sweep}
