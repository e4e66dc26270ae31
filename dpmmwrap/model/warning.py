"""Warnings at the line of the user's code, however deep in the package they arise."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

INSIDE = ("dpmmwrap", "sklearn", "joblib", "contextlib")
"""Packages that pass calls on: a warning at one of their lines would not help the user."""


def warn_caller(message: str) -> None:
    """Warn at the first line outside of these packages."""
    level, frame = 2, sys._getframe(1)
    while is_inside(frame) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    # In another thread no caller is outside.
    warnings.warn(message, stacklevel=2 if is_inside(frame) else level)


def is_inside(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in INSIDE
