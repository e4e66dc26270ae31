"""What the points of a cluster follow: a folder for each likelihood with its conjugate prior.

`base.py` has all that the rest of the program may know of one.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dpmmwrap.families.base import Family

FAMILIES = ("gaussian", "student", "multinomial", "poisson", "mixed")
"""What `DPMM(family=...)` takes: each is a folder here, whose `family.py` says the rest."""
COVARIANCE_TYPES = ("auto", "full", "diag", "spherical")
TAILS = ("gaussian", "student", "auto")
"""What `DPMM(tails=...)` takes."""


def family_named(name: str) -> Family:
    """A family by its name; a KeyError if there is none."""
    if name not in FAMILIES:
        raise KeyError(name)
    family: Family = importlib.import_module(f"dpmmwrap.families.{name}.family").FAMILY
    return family


def families_of(name: str, tails: str) -> tuple[Family, ...]:
    """The families among which a fit chooses: the one that is named, the one with tails in its stead, or both."""
    family = family_named(name)
    if tails == TAILS[0] or name == tails:
        return (family,)
    if not family.with_tails:
        raise ValueError(f"tails={tails!r} is for the family {FAMILIES[0]}, not {name}")
    heavy = family_named(family.with_tails)
    return (family, heavy) if tails == TAILS[2] else (heavy,)


def family_for(**facts: Any) -> Family:
    """The first family that says this of itself."""
    every = (family_named(name) for name in FAMILIES)
    return next(family for family in every if all(getattr(family, name) == fact for name, fact in facts.items()))


def compiled_tasks() -> dict[str, tuple[str, ...]]:
    """The kinds of compiled loops of all families, each with its tasks."""
    return {kind: tasks for name in FAMILIES for kind, tasks in family_named(name).compiled.items()}


def family_of(kind: str) -> Family:
    """The family that has priors of a kind; a KeyError if none has."""
    for name in FAMILIES:
        family = family_named(name)
        if kind in family.priors:
            return family
    raise KeyError(kind)


def prior_named(kind: str) -> Any:
    """The class of the priors that files call by that name; a KeyError if there is none."""
    return family_of(kind).prior_class(kind)


def prior_from_fields(kind: str, fields: Sequence[Any]) -> Any:
    """A prior, or a batch of posteriors, from its hyperparameters in the order of FIELDS."""
    made = prior_named(kind)
    return made.from_fields(*fields) if hasattr(made, "from_fields") else made(*fields)
