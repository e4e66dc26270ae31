"""Event counts as a part of a linear family's points: the columns of counts, then the exposure."""

from __future__ import annotations

from typing import Any

import numpy as np

from dpmmwrap.families.linear.dense import DensePart
from dpmmwrap.families.linear.parts import log_tables
from dpmmwrap.families.poisson.collapsed import EventClusters
from dpmmwrap.families.poisson.prior import with_exposure_last
from dpmmwrap.numerics.arrays import Float32Array, Float64Array


class EventPart(DensePart):
    """Log density = sum of x log rate - exposure times the sum of rates: a product with a table."""

    exact = True

    def __init__(self, X: Float32Array, exposure: int) -> None:
        super().__init__(with_exposure_last(X, exposure))
        # From the width of the original data, so that chunks are the same on one machine and on several.
        self.bytes_per_row = 4 * X.shape[1]

    def bundle(self, prior: Any, counts: Float64Array, sums: Float64Array) -> Any:
        logs = np.empty((len(counts), self.width - 1))
        return EventClusters(counts, sums, prior.shape, prior.rate, logs)

    def draw_tables(self, posterior: Any, key: Any, clusters: int) -> tuple[Any, Float64Array]:
        drawn = posterior.draw_tables(key)
        tables = log_tables(drawn, clusters, by_feature=False)
        return type(tables)(*(table.astype(np.float32) for table in tables)), np.zeros(len(drawn))
