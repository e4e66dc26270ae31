"""Likelihoods of the points of a cluster, each with its conjugate prior, one folder per family.

`base.py` defines the interface through which the rest of the program sees a family.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmmwrap.families.base import Family

FAMILIES = ("gaussian", "student", "multinomial", "poisson", "mixed")
"""The values of `DPMM(family=...)`. Each is a folder here with a `family.py`."""
COVARIANCE_TYPES = ("auto", "full", "diag", "spherical")
TAILS = ("gaussian", "student", "auto")
"""The values of `DPMM(tails=...)`."""


def family_named(name: str) -> Family:
    """Return a family by its name; raise KeyError if there is none."""
    if name not in FAMILIES:
        raise KeyError(name)
    family: Family = importlib.import_module(f"dpmmwrap.families.{name}.family").FAMILY
    return family


def families_of(name: str, tails: str) -> tuple[Family, ...]:
    """The families that a fit compares: the named one, its heavy-tailed counterpart, or both."""
    family = family_named(name)
    if tails == TAILS[0] or name == tails:
        return (family,)
    if not family.with_tails:
        raise ValueError(f"tails={tails!r} is for the family {FAMILIES[0]}, not {name}")
    heavy = family_named(family.with_tails)
    return (family, heavy) if tails == TAILS[2] else (heavy,)


def family_for(**facts: Any) -> Family:
    """The first family whose attributes have these values."""
    every = (family_named(name) for name in FAMILIES)
    return next(family for family in every if all(getattr(family, name) == fact for name, fact in facts.items()))


def compiled_kinds() -> tuple[str, ...]:
    """The kinds of compiled loops of all families."""
    return tuple(kind for name in FAMILIES for kind in family_named(name).compiled)


def family_of(kind: str) -> Family:
    """The family that has a prior of this kind; raise KeyError if none has."""
    for name in FAMILIES:
        family = family_named(name)
        if kind in family.priors:
            return family
    raise KeyError(kind)


def prior_named(kind: str) -> Any:
    """The prior class that files call by this name; raise KeyError if there is none."""
    return family_of(kind).prior_class(kind)


def prior_from_fields(kind: str, fields: Sequence[Any]) -> Any:
    """Build a prior, or a batch of posteriors, from its hyperparameters in the order of FIELDS."""
    made = prior_named(kind)
    return made.from_fields(*fields) if hasattr(made, "from_fields") else made(*fields)
