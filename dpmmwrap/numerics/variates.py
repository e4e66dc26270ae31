"""Random numbers, compiled by numba: many at a time, each from a key and an index.

NumPy draws one number after the other, with branches that no vector unit can take: a normal variable takes it 7
nanoseconds and a gamma variable 60, the functions here one and ten. That is a third of what an iteration of the
built-in sampler costs apart from its sweep. A number depends on nothing but its key and its index, so threads may draw
theirs in any order.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.numerics.special import compiled, inner, log_float32, new_array


def derived_key(key: Any, index: int) -> Any:
    """What `key_from` gives, for callers in Python: a compiled function would hand back an int, not a uint64."""
    return np.uint64((int(key) + index * 0x9E3779B97F4A7C15) & 0xFFFFFFFFFFFFFFFF)


@inner
def key_from(key: Any, index: Any) -> Any:
    """The key whose first number is the given key's index-th."""
    return np.uint64(key) + np.uint64(index) * np.uint64(0x9E3779B97F4A7C15)


@inner
def random_bits(key: Any, index: Any) -> Any:
    """64 random bits: the index-th output of splitmix64 seeded with key (Steele et al. 2014)."""
    z = key_from(key, np.uint64(index) + np.uint64(1))
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


@inner
def uniform(bits: Any) -> Any:
    """A float32 strictly between 0 and 1 from the low 24 of the given bits."""
    return (np.float32(np.uint32(bits & np.uint64(0xFFFFFF))) + np.float32(0.5)) * np.float32(2.0**-24)


@compiled
def standard_exponentials(key: Any, count: Any) -> Any:
    """So many standard exponential variables, float64, none above 17.4."""
    drawn = new_array(count, np.float64)
    for index in range(count):
        drawn[index] = -log_float32(uniform(random_bits(key, index)))
    return drawn


@compiled
def standard_normals(key: Any, count: Any) -> Any:
    """So many standard normal variables, float32, by Box and Muller's transform (1958): none beyond 5.9.

    The angle is drawn within an eighth of a turn to either side of the first axis, where sine and cosine are short
    polynomials; two more bits say which of the axes it was, and which end of it.
    """
    half = (count + 1) // 2
    # Two arrays, which the compiler can tell do not overlap; then one.
    first, second = new_array(2 * half, np.float32), new_array(half, np.float32)
    for index in range(half):
        bits = random_bits(key, index)
        radius = np.sqrt(np.float32(-2) * log_float32(uniform(bits >> np.uint64(40))))
        radius = radius if bits & np.uint64(1) else -radius
        angle = (uniform(bits >> np.uint64(16)) - np.float32(0.5)) * np.float32(math.pi / 2)
        a2 = angle * angle
        sine = (np.float32(-1 / 5040) * a2 + np.float32(1 / 120)) * a2 + np.float32(-1 / 6)
        sine = angle + angle * a2 * sine
        cosine = (np.float32(1 / 40320) * a2 + np.float32(-1 / 720)) * a2 + np.float32(1 / 24)
        cosine = np.float32(1) + a2 * (np.float32(-0.5) + a2 * cosine)
        turned = bits & np.uint64(2)
        first[index] = radius * (sine if turned else cosine)
        second[index] = radius * (cosine if turned else sine)
    for index in range(half):
        first[half + index] = second[index]
    return first[:count]


@compiled
def standard_gammas(key: Any, shapes: Any) -> Any:
    """A gamma variable of each shape, float64, by Marsaglia and Tsang's method (2000).

    The first try of all is one loop without a branch; the few that its quick test does not let through are looked at
    again one by one. A variable of a shape below 1 is one of the shape above it times a power of a uniform one.
    """
    count = len(shapes)
    normals, drawn, doubtful = standard_normals(key, count), new_array(count, np.float64), new_array(count, np.bool_)
    key = key_from(key, count)
    for index in range(count):
        d = shapes[index] + (2 / 3 if shapes[index] < 1.0 else -1 / 3)
        x = np.float64(normals[index])
        v = 1.0 + x / np.sqrt(9.0 * d)
        v = v * v * v
        drawn[index] = d * v
        doubtful[index] = (v <= 0.0) | (uniform(random_bits(key, index)) >= 1.0 - 0.0331 * x * x * x * x)
    for index in range(count):
        if doubtful[index]:
            d = shapes[index] + (2 / 3 if shapes[index] < 1.0 else -1 / 3)
            drawn[index] = d * _cube(key, index, count, d, np.float64(normals[index]))
    for index in range(count):
        if shapes[index] < 1.0:
            u = uniform(random_bits(key, index) >> np.uint64(32))
            drawn[index] *= math.exp(math.log(u) / shapes[index])
    return drawn


@inner
def _cube(key: Any, index: Any, step: Any, d: Any, x: Any) -> Any:
    """The first cube (1 + x / sqrt(9 d))^3 that Marsaglia and Tsang's exact test accepts, from the given x on."""
    while True:
        v = 1.0 + x / math.sqrt(9.0 * d)
        v = v * v * v
        if v > 0.0 and math.log(uniform(random_bits(key, index))) < 0.5 * x * x + d * (1.0 - v + math.log(v)):
            return v
        x = np.float64(standard_normals(key_from(key, index + step), np.int64(1))[0])
        index += 2 * step
