"""Checks of parameters: what was expected and what came, in one sentence."""

from __future__ import annotations

import math
import numbers
from typing import Any

import numpy as np

from dpmmwrap.numerics.arrays import IntArray


def check_number(name: str, value: Any, above: float) -> None:
    if not isinstance(value, numbers.Real) or not float(value) > above or not math.isfinite(value):
        raise ValueError(f"{name} should be a finite number above {above:g}, not {value!r}")


def check_whole(name: str, value: Any, least: int) -> None:
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name} should be a whole number of at least {least}, not {value!r}")


def check_among(name: str, value: Any, choices: tuple[str, ...]) -> None:
    if not isinstance(value, str) or value not in choices:
        raise ValueError(f"{name} should be one of {', '.join(choices)}, not {value!r}")


def truth_labels(labels: Any, rows: int, name: str = "truth") -> IntArray:
    """Labels as whole numbers from 0 without gaps."""
    array = np.asarray(labels)
    if array.shape != (rows,):
        raise ValueError(f"{name} should be {rows} labels, one per point, not an array of shape {array.shape}")
    return np.unique(array, return_inverse=True)[1].astype(np.int32)
