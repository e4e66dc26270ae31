"""Modules of compiled loops, imported when the first of them is called: who only predicts does without numba."""

from __future__ import annotations

import importlib
from typing import Any


class Loops:
    """Stands for a module until something in it is used."""

    def __init__(self, module: str) -> None:
        self.module = module

    def __getattr__(self, name: str) -> Any:
        value = getattr(importlib.import_module(self.module), name)
        self.__dict__[name] = value
        return value
