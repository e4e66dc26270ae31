"""Dirichlet process mixtures by split and merge moves: the public names, loaded on first use."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmmwrap.backends import Dask, Julia, Native
    from dpmmwrap.backends.julia.workers import julia_workers
    from dpmmwrap.estimator import DPMM
    from dpmmwrap.families.diagonal.prior import NIG
    from dpmmwrap.families.diagonal.spherical import SphericalNIG
    from dpmmwrap.families.full.prior import NIW
    from dpmmwrap.families.multinomial.prior import Dirichlet
    from dpmmwrap.families.poisson.prior import GammaPoisson
    from dpmmwrap.families.student.prior import StudentNIW
    from dpmmwrap.model.data_prior import DataPrior
    from dpmmwrap.partitions import DirichletProcess, FiniteMixture, PitmanYor
    from dpmmwrap.posterior.mixture_file import load
    from dpmmwrap.splitnet.network import SplitNet
    from dpmmwrap.starts import make_initializer

__version__ = "0.1.0"

__all__ = [
    "DPMM",
    "NIG",
    "NIW",
    "Dask",
    "DataPrior",
    "Dirichlet",
    "DirichletProcess",
    "FiniteMixture",
    "GammaPoisson",
    "Julia",
    "Native",
    "PitmanYor",
    "SphericalNIG",
    "SplitNet",
    "StudentNIW",
    "__version__",
    "julia_workers",
    "load",
    "make_initializer",
]

_HOMES = {
    "DPMM": "dpmmwrap.estimator",
    "Dask": "dpmmwrap.backends",
    "DataPrior": "dpmmwrap.model.data_prior",
    "Julia": "dpmmwrap.backends",
    "Native": "dpmmwrap.backends",
    "Dirichlet": "dpmmwrap.families.multinomial.prior",
    "GammaPoisson": "dpmmwrap.families.poisson.prior",
    "NIG": "dpmmwrap.families.diagonal.prior",
    "NIW": "dpmmwrap.families.full.prior",
    "SphericalNIG": "dpmmwrap.families.diagonal.spherical",
    "StudentNIW": "dpmmwrap.families.student.prior",
    "DirichletProcess": "dpmmwrap.partitions",
    "FiniteMixture": "dpmmwrap.partitions",
    "PitmanYor": "dpmmwrap.partitions",
    "SplitNet": "dpmmwrap.splitnet.network",
    "julia_workers": "dpmmwrap.backends.julia.workers",
    "load": "dpmmwrap.posterior.mixture_file",
    "make_initializer": "dpmmwrap.starts",
}


def __getattr__(name: str) -> Any:
    # numba, scikit-learn and torch take seconds to import; `import dpmmwrap` should not.
    if name not in _HOMES:
        raise AttributeError(f"module 'dpmmwrap' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOMES[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(set(globals()) | set(__all__))
