"""Types of the arrays that are passed between packages."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.floating[Any]]
Float32Array: TypeAlias = NDArray[np.float32]
Float64Array: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.integer[Any]]
UInt8Array: TypeAlias = NDArray[np.uint8]


def evenly_spaced(count: int, most: int) -> IntArray:
    """At most `most` (and at least two) evenly spaced row numbers from 0 to count - 1; all of them if they are few."""
    most = max(2, most)
    return np.arange(count) if count <= most else np.linspace(0, count - 1, most).astype(np.int64)
