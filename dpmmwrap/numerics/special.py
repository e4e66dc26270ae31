"""What compiled loops share: numba's options, and functions that its vectors do not have."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numba import njit, types, version_info
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import make_array, populate_array

from dpmmwrap.numerics.kernel_cache import kept

KNOWN = ((0, 68),)
"""numba's versions that `lowering` is tested with; others compile in their own way."""
ENTRY: dict[str, Any] = {}
"""numba's options for functions that Python calls."""
INNER: dict[str, Any] = {}
"""The same for those that only compiled ones call: they have no machine code of their own, and nothing of them is
kept."""
INLINED: dict[str, Any] = {"inline": "always"}
"""The same for what is called for every block: a call, with views of arrays to pass, costs as much as ten points."""
if tuple(version_info.short) in KNOWN:
    from dpmmwrap.numerics.lowering import InnerCompiler, LeanCompiler

    ENTRY = {"pipeline_class": LeanCompiler}
    INNER = {"pipeline_class": InnerCompiler}
    INLINED = INNER | {"forceinline": True}
# Contracted and reordered sums, but infinities and NaNs keep their meaning.
OPTIONS: Any = {
    "nogil": True, "fastmath": {"reassoc", "contract", "arcp", "nsz"}, "error_model": "numpy",
    "no_cfunc_wrapper": True,
}  # fmt: skip
# Sums in any order, so that they are vectorised; what is not a number stays so.
FLOAT64: Any = OPTIONS | {"fastmath": {"reassoc", "contract"}}
compiled: Any = kept(njit(**OPTIONS | ENTRY))
compiled_float64: Any = kept(njit(**FLOAT64 | ENTRY))
inner: Any = njit(**OPTIONS | INNER)
inner_float64: Any = njit(**FLOAT64 | INNER)
inlined: Any = njit(**OPTIONS | INLINED)
untyped_intrinsic: Any = intrinsic


@untyped_intrinsic
def _float_from_bits(typing_context: Any, bits: Any) -> Any:
    """The float32 with these 32 bits, without leaving the vector registers."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.float32))

    return types.float32(types.int32), generate


@untyped_intrinsic
def _bits_from_float(typing_context: Any, value: Any) -> Any:
    """The 32 bits of a float32."""

    def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
        return builder.bitcast(args[0], context.get_value_type(types.int32))

    return types.int32(types.float32), generate


def allocation(filled: bool) -> Any:
    """numba compiles a function for every type of array that NumPy's functions make; this is written into the loop."""

    @untyped_intrinsic
    def make(typing_context: Any, shape: Any, dtype: Any = None) -> Any:
        """An array of this shape, a number or a tuple, and this type of NumPy's, by default float64."""
        kinds = getattr(shape, "types", (shape,))
        result: Any = types.Array(getattr(dtype, "dtype", types.float64), len(kinds), "C")

        def generate(context: Any, builder: Any, signature: Any, args: Any) -> Any:
            several = isinstance(signature.args[0], types.BaseTuple)
            lengths = cgutils.unpack_tuple(builder, args[0], len(kinds)) if several else [args[0]]
            lengths = [
                context.cast(builder, length, kind, types.intp) for length, kind in zip(lengths, kinds, strict=True)
            ]
            item = context.get_data_type(result.dtype)
            steps = [context.get_constant(types.intp, context.get_abi_sizeof(item))]
            for length in reversed(lengths):
                steps.insert(0, builder.mul(steps[0], length, flags=["nsw"]))
            align = context.get_constant(types.uint32, context.get_preferred_array_alignment(result.dtype))
            meminfo = context.nrt.meminfo_alloc_aligned(builder, size=steps[0], align=align)
            data = builder.bitcast(context.nrt.meminfo_data(builder, meminfo), item.as_pointer())
            if filled:
                cgutils.memset(builder, data, steps[0], 0)
            array = make_array(result)(context, builder)
            populate_array(array, data, lengths, steps[1:], steps[-1], meminfo)
            return array._getvalue()

        return result(shape, types.none if dtype is None else dtype), generate

    return make


new_array = allocation(filled=False)
new_zeros = allocation(filled=True)


@inner
def exp_float32(x: Any) -> Any:
    """exp of a float32 at or below 0, to about 2 units in the last place; what is below e^-86 becomes e^-86."""
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
    return p * _float_from_bits((np.int32(n) + np.int32(127)) << np.int32(23))


@inner
def log_float32(x: Any) -> Any:
    """log of a positive float32, to about 2 units in the last place: of its power of two, and by the series of the
    inverse hyperbolic tangent of the rest, which lies between 2/3 and 4/3."""
    bits = _bits_from_float(x)
    power = (bits - np.int32(0x3F2AAAAB)) >> np.int32(23)
    m = _float_from_bits(bits - (power << np.int32(23)))
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
    """log Gamma(x), by Stirling's series where it is exact to double precision: three times as fast as lgamma."""
    if x < 12.0:
        return math.lgamma(x)
    square = 1.0 / (x * x)
    series = (1 / 12 - square * (1 / 360 - square * (1 / 1260 - square * (1 / 1680 - square / 1188)))) / x
    return (x - 0.5) * math.log(x) - x + 0.9189385332046727 + series
