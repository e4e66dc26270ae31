"""The prior of a fit, by name or from a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from dpmmwrap.families import prior_named
from dpmmwrap.files import InputError, read_arrays, read_json

KINDS = {
    "full": "a normal-inverse-Wishart prior",
    "diag": "a normal-inverse-gamma prior",
    "spherical": "a normal-inverse-gamma prior with one variance",
    "multinomial": "a Dirichlet prior",
}
BY_SHAPE = {2: "full", 1: "diag", 0: "spherical"}
"""The covariances that a prior's scale is of, by the number of its axes."""


def make_prior(prior: str, family: str, covariance: str) -> Any:
    """The prior by name, or from a .json or .npz file."""
    if prior in ("data", "reference"):
        return prior
    path = Path(prior)
    if path.suffix.lower() not in (".json", ".npz"):
        raise InputError(f"--prior should be data, reference, or a .json or .npz file, not {prior!r}")
    kind = "multinomial" if family == "multinomial" else "full"
    names = prior_named(kind).FIELDS
    fields = read_arrays(path, required=names) if path.suffix.lower() == ".npz" else read_json(path)
    if not isinstance(fields, dict) or sorted(fields) != sorted(names):
        came = ", ".join(map(str, fields)) if isinstance(fields, dict) else type(fields).__name__
        raise InputError(f"{path} should hold {', '.join(names)}, but it holds {came or 'nothing'}")
    try:
        values = {name: as_numbers(value) for name, value in fields.items()}
        if family == "gaussian":
            kind = BY_SHAPE.get(np.ndim(values["scale"]), "full") if covariance == "auto" else covariance
        if kind == "spherical":
            values["scale"] = np.atleast_1d(values["scale"])
        return prior_named(kind)(**values)
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} should hold {KINDS[kind]}: {error}") from error


def check_dimensions(prior: Any, name: str, dim: int) -> None:
    """Refuse a prior that was made for other data."""
    if not isinstance(prior, str) and prior.dim != dim:
        raise InputError(f"{name} should be a prior of {dim} dimensions like the data, but it has {prior.dim}")


def as_numbers(value: Any) -> Any:
    """A float, or an array of floats."""
    array = np.asarray(value, dtype=np.float64)
    return float(array) if array.ndim == 0 else array
