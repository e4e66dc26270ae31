"""Functions that only compiled code calls, for tests, which are Python."""

from __future__ import annotations

from typing import Any

from numba import njit


def called(function: Any) -> Any:
    """A function for Python that calls an inner one."""

    @njit
    def call(*arguments: Any) -> Any:
        return function(*arguments)

    return call
