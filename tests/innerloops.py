"""Functions that only compiled code calls, for tests, which are Python."""

from __future__ import annotations

from functools import cache
from typing import Any

from numba import njit


@cache
def called(function: Any) -> Any:
    """A function for Python that calls an inner one, compiled once."""

    @njit
    def call(*arguments: Any) -> Any:
        return function(*arguments)

    return call
