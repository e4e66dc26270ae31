"""The versions of what dpmmwrap runs on, found without importing it."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import platform
import sys
from pathlib import Path
from typing import Any

PACKAGES = ("numba", "numpy", "scipy", "scikit-learn", "torch")


def versions() -> list[tuple[str, str]]:
    return [("Python", platform.python_version()), *((name, package(name)) for name in PACKAGES), ("Julia", julia())]


def package(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def julia_setup() -> Any:
    """`dpmmwrap.backends.julia.setup` without its package, whose import takes a second."""
    name = "dpmmwrap_julia_setup"
    spec = importlib.util.spec_from_file_location(name, Path(__file__).parents[1] / "backends" / "julia" / "setup.py")
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def julia() -> str:
    """The version of Julia in the project that was set up."""
    try:
        installation = julia_setup().find()
    except ValueError:
        return "not set up"
    if installation.julia is None:
        return "not set up"
    return f"{installation.julia}{'' if installation.missing is None else ', not ready (dpmmwrap julia status)'}"
