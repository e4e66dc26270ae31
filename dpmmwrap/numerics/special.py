"""numba options for compiled loops, and vectorisable replacements of functions of the C library."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit

from dpmmwrap.numerics.kernel_cache import kept

# Sums may be reordered, so that they can be vectorised. Infinities and NaNs keep their meaning.
FLOAT64: Any = {
    "nogil": True, "fastmath": {"reassoc", "contract"}, "error_model": "numpy", "no_cfunc_wrapper": True,
}  # fmt: skip
# For float32, where the last digit matters less, also allow reciprocal division and ignore the sign of zero.
OPTIONS: Any = FLOAT64 | {"fastmath": {"reassoc", "contract", "arcp", "nsz"}}
INNER: Any = {"no_cpython_wrapper": True}
"""For functions called from compiled code only; Python cannot call them."""
BORROWING: Any = INNER | {"_nrt": False}
"""For inner functions that create no arrays. They count no references to their arguments or views of these, which
belong to the caller; counting takes longer than a short loop."""
compiled: Any = kept(njit(**OPTIONS))
compiled_float64: Any = kept(njit(**FLOAT64))
inner: Any = njit(**OPTIONS, **INNER)
inner_float64: Any = njit(**FLOAT64, **INNER)
# For functions called for every block: a call that passes views of arrays costs as much as ten points.
inlined: Any = njit(**OPTIONS, **BORROWING, forceinline=True)


@inner
def exp_float32(x: Any) -> Any:
    """exp of a float32 at or below 0, to about 2 units in the last place. Results below e^-86 become e^-86."""
    x = max(x, np.float32(-86.0))
    n = np.floor(x * np.float32(1.44269504) + np.float32(0.5))
    r = (x - n * np.float32(0.693359375)) + n * np.float32(2.12194440e-4)
    p = np.float32(1.0 / 720)
    p = p * r + np.float32(1.0 / 120)
    p = p * r + np.float32(1.0 / 24)
    p = p * r + np.float32(1.0 / 6)
    p = p * r + np.float32(0.5)
    p = p * r + np.float32(1.0)
    p = p * r + np.float32(1.0)
    return p * np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)


@inner
def log_float32(x: Any) -> Any:
    """log of a positive float32, to about 2 units in the last place: the log of its power of two, plus the series of
    the inverse hyperbolic tangent for the rest, which lies between 2/3 and 4/3."""
    bits = np.float32(x).view(np.int32)
    power = (bits - np.int32(0x3F2AAAAB)) >> np.int32(23)
    m = np.int32(bits - (power << np.int32(23))).view(np.float32)
    s = (m - np.float32(1)) / (m + np.float32(1))
    s2 = s * s
    p = np.float32(2.0 / 9)
    p = p * s2 + np.float32(2.0 / 7)
    p = p * s2 + np.float32(2.0 / 5)
    p = p * s2 + np.float32(2.0 / 3)
    p = p * s2 + np.float32(2.0)
    return p * s + np.float32(power) * np.float32(0.69314718)


@inner_float64
def log_gamma(x: Any) -> Any:
    """log Gamma(x). Stirling's series, where it is exact to double precision, is three times as fast as lgamma."""
    if x < 12.0:
        return math.lgamma(x)
    square = 1.0 / (x * x)
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / x
    return (x - 0.5) * math.log(x) - x + 0.9189385332046727 + series


@inner
def new_array(shape: Any, dtype: Any) -> Any:
    """`np.empty` for loops. numba would compile it again for each set of options, but compiles this function once."""
    return np.empty(shape, dtype)


@inner
def new_zeros(shape: Any, dtype: Any) -> Any:
    """`np.zeros` for loops; see `new_array`."""
    return np.zeros(shape, dtype)
