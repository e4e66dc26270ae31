"""What the points of a cluster follow: one file per likelihood with its conjugate prior."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

HOMES = {
    "full": ("full.prior", "NIW"),
    "diag": ("diagonal.prior", "NIG"),
    "spherical": ("diagonal.spherical", "SphericalNIG"),
    "multinomial": ("multinomial.prior", "Dirichlet"),
    "mixed": ("mixed.prior", "Mixed"),
}
"""Where each family's prior is, by the name that files and summaries call it; what is not used is not imported."""

FAMILIES = ("gaussian", "multinomial", "mixed")
COVARIANCE_TYPES = ("auto", "full", "diag", "spherical")


def prior_named(family: str) -> Any:
    """The class of a family's priors; a KeyError if there is none of that name."""
    module, name = HOMES[family]
    return getattr(importlib.import_module(f"dpmmwrap.families.{module}"), name)


def prior_from_fields(family: str, fields: Sequence[Any]) -> Any:
    """A prior, or a batch of posteriors, from its hyperparameters in the order of FIELDS."""
    made = prior_named(family)
    return made.from_fields(*fields) if hasattr(made, "from_fields") else made(*fields)
