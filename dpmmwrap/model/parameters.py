"""Checks of parameters, with errors of one sentence."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import MISSING, fields, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Literal

import numpy as np
from sklearn.utils._param_validation import Interval, StrOptions, make_constraint

Constraints = dict[str, list[Any] | Literal["no_validation"]]
"""What each parameter may be, in scikit-learn's terms; "no_validation" if it is checked where it is used."""
POSITIVE = Interval(Real, 0, None, closed="neither")
AUTO = StrOptions({"auto"})


def at_least(least: int) -> Interval:
    """Whole numbers from `least` on."""
    return Interval(Integral, least, None, closed="left")


def check_parameters(owner: Any) -> None:
    """Refuse values that the owner's `_parameter_constraints` do not allow."""
    for name, allowed in owner._parameter_constraints.items():
        if allowed != "no_validation":
            check_value(name, getattr(owner, name), allowed)


def check_value(name: str, value: Any, allowed: list[Any]) -> None:
    # In Python True is the number 1, but nobody means that.
    is_flag = isinstance(value, (bool, np.bool_)) and "boolean" not in allowed
    if is_flag or not any(make_constraint(one).is_satisfied_by(value) for one in allowed):
        raise ValueError(f"{name} should be {' or '.join(map(described, allowed))}, not {value!r}")


def described(constraint: Any) -> str:
    """A constraint in words."""
    if isinstance(constraint, StrOptions):
        words = sorted(constraint.options, key=lambda word: (word != "auto", word))
        return words[0] if len(words) == 1 else f"one of {', '.join(words)}"
    if isinstance(constraint, Interval):
        if constraint.type is Integral:
            return f"a whole number of at least {constraint.left}"
        if constraint.right is None:
            return f"a finite number above {constraint.left}"
        return f"a number from {constraint.left} up to, not including, {constraint.right}"
    return {"boolean": "True or False"}.get(constraint, str(constraint))


class Options:
    """Several settings that are one parameter of an estimator. Subclasses are frozen dataclasses.

    scikit-learn's `get_params`, `set_params` and grid searches know the fields, for example as `backend__n_jobs`.
    """

    _parameter_constraints: ClassVar[Constraints] = {}

    def __post_init__(self) -> None:
        check_parameters(self)

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        return {name: getattr(self, name) for name, _ in self._defaults()}

    def _defaults(self) -> Iterator[tuple[str, Any]]:
        options: Any = self
        return ((field.name, None if field.default is MISSING else field.default) for field in fields(options))

    def __repr__(self) -> str:
        """Only the fields that differ from their defaults, as in scikit-learn."""
        given = ((name, getattr(self, name)) for name, default in self._defaults() if getattr(self, name) != default)
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in given)})"

    def __sklearn_clone__(self) -> Options:
        return self

    def __deepcopy__(self, memo: Any) -> Options:
        return self


def with_nested(holders: dict[str, Any], params: dict[str, Any]) -> dict[str, Any]:
    """Parameters for `set_params`, with a new `backend` instead of `backend__n_jobs`, and so on."""
    plain = {name: value for name, value in params.items() if "__" not in name}
    for name, value in params.items():
        holder, nested, field = name.partition("__")
        if nested:
            options = plain.get(holder, holders.get(holder))
            if not isinstance(options, Options) or field not in options.get_params():
                raise ValueError(f"there is no parameter {name!r}: {holder} is {options!r}")
            changed: Any = options
            plain[holder] = replace(changed, **{field: value})
    return plain
