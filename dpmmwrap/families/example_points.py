"""A few points of each kind, for fits that only compile the loops (`sampler.tiny_runs`)."""

from __future__ import annotations

from typing import Any

import numpy as np

ROWS, DIM, GROUPS = 60, 2, 3


def numbers() -> Any:
    rng = np.random.default_rng(0)
    return (rng.normal(size=(ROWS, DIM)) + 9.0 * (np.arange(ROWS) % GROUPS)[:, None]).astype(np.float32)


def numbers_with_gaps() -> Any:
    X = numbers()
    X[::7, 0] = np.nan
    return X


def counts() -> Any:
    return np.random.default_rng(0).poisson(1.0 + 9.0 * np.eye(GROUPS)[np.arange(ROWS) % GROUPS]).astype(np.float32)


def codes() -> Any:
    return np.stack([np.arange(ROWS) % GROUPS, GROUPS + np.arange(ROWS) % 2], axis=1).astype(np.int32)
