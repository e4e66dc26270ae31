"""The prior of a fit, by name or from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.families import family_named
from dpmmwrap.files import InputError, read_arrays, read_json


def make_prior(prior: str, family: str, covariance: str) -> Any:
    """The prior by name, or from a .json or .npz file."""
    if prior in ("data", "reference"):
        return prior
    path = Path(prior)
    if path.suffix.lower() not in (".json", ".npz"):
        raise InputError(f"--prior should be data, reference, or a .json or .npz file, not {prior!r}")
    named = family_named(family)
    made = named.prior_class()
    names = made.FIELDS
    fields = read_arrays(path, required=names) if path.suffix.lower() == ".npz" else read_json(path)
    if not isinstance(fields, dict) or sorted(fields) != sorted(names):
        came = ", ".join(map(str, fields)) if isinstance(fields, dict) else type(fields).__name__
        raise InputError(f"{path} should hold {', '.join(names)}, but it holds {came or 'nothing'}")
    try:
        values = {name: as_numbers(value) for name, value in fields.items()}
        if covariance != "auto":
            made = named.prior_class(covariance)
        elif len(named.kinds) > 1:
            # The scale has two axes for full covariances, one for diagonal ones, none for spherical ones.
            made = named.prior_class(named.kinds[max(2 - np.ndim(values["scale"]), 0)])
        return made(**made.fitting(values))
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} should hold {made.called}: {error}") from error


def check_dimensions(prior: Any, name: str, dim: int) -> None:
    """Refuse a prior for data with another number of columns."""
    if not isinstance(prior, str) and prior.dim != dim:
        raise InputError(f"{name} should be a prior of {dim} dimensions like the data, but it has {prior.dim}")


def as_numbers(value: Any) -> Any:
    """A float, or an array of floats."""
    array = np.asarray(value, dtype=np.float64)
    return float(array) if array.ndim == 0 else array
