"""Modules of compiled loops, imported on first use, so that prediction alone does not import numba."""

from __future__ import annotations

import importlib
from typing import Any


class Loops:
    """A stand-in for a module, which is imported when one of its attributes is first used."""

    def __init__(self, module: str) -> None:
        self.module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.module), name)
        self.__dict__[name] = value
        return value
