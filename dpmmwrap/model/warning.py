"""Warnings at the line of whoever called, however deep inside they arise."""

from __future__ import annotations

import sys
import warnings
from types import FrameType

INSIDE = ("dpmmwrap", "sklearn", "joblib", "contextlib")
"""Who passes calls on: a warning at their lines would tell the caller nothing."""


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the first line outside of this package, and of those that call it for others."""
    level, frame = 2, sys._getframe(1)
    while is_inside(frame) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    # In another thread there is no caller outside.
    warnings.warn(message, category, stacklevel=2 if is_inside(frame) else level)


def is_inside(frame: FrameType) -> bool:
    return str(frame.f_globals.get("__name__", "")).partition(".")[0] in INSIDE
