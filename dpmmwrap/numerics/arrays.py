"""Names for the arrays that pass between the rooms."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]
Float32Array: TypeAlias = NDArray[np.float32]
Float64Array: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.integer[Any]]
UInt8Array: TypeAlias = NDArray[np.uint8]


def evenly_spaced(count: int, most: int) -> IntArray:
    """Row numbers from 0: all, or `most` of them (two at least) that are evenly spaced."""
    most = max(2, most)
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).astype(np.int64)
