"""What dpmmwrap runs on, by version, found without importing it."""

from __future__ import annotations

import importlib.metadata
import platform

PACKAGES = ("numba", "numpy", "scipy", "scikit-learn", "torch")


def versions() -> list[tuple[str, str]]:
    return [("Python", platform.python_version()), *((name, package(name)) for name in PACKAGES), ("Julia", julia())]


def package(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "not installed"


def julia() -> str:
    """By the project that was set up, without starting it."""
    from dpmmwrap.backends.julia.setup import find

    try:
        installation = find()
    except ValueError:
        return "not set up"
    if installation.julia is None:
        return "not set up"
    ready = installation.missing is None
    return str(installation.julia) if ready else f"{installation.julia}, not ready (dpmmwrap julia status)"
