"""The sentences of a report."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from dpmmwrap.describe import facts
from dpmmwrap.describe.profiles import COUNT, LEVEL, Trait
from dpmmwrap.describe.report.known import Gap
from dpmmwrap.describe.report.subject import Subject
from dpmmwrap.describe.wording import number, share
from dpmmwrap.numerics.arrays import IntArray

SLIGHT = 0.2
"""Smaller differences, in standard deviations or binary orders of magnitude, are not mentioned."""


def half(sizes: IntArray) -> int:
    """How many of the largest clusters hold half of the rows."""
    return int(np.searchsorted(np.cumsum(np.sort(sizes)[::-1]), sizes.sum() / 2)) + 1


def gap(missing: Gap) -> str:
    """A sentence about a column that is often missing."""
    here, elsewhere = share(missing.here), share(missing.elsewhere)
    return f"Often missing: {missing.column} (in {here} of the rows, elsewhere in {elsewhere})."


def here(trait: Trait) -> str:
    text = value_of(trait, trait.here)
    return f"{text} ± {number(trait.spread, 2)}" if trait.spread > 0 else text


def value_of(trait: Trait, value: float) -> str:
    is_share = trait.feature.kind in (LEVEL, COUNT) and math.isfinite(value)
    return share(value) if is_share else number(value)


def difference(trait: Trait) -> str:
    """The difference between a cluster and the other rows."""
    if trait.feature.kind == COUNT:
        ratio = 2.0 ** abs(trait.apart)
        times = f"{ratio:.1f}" if ratio < 10 else f"{ratio:,.0f}"
        return f"{times} times as {'frequent' if trait.apart > 0 else 'rare'}"
    return f"{'+' if trait.apart > 0 else '−'}{abs(trait.apart):.1f} SD"


def in_short(traits: list[Trait]) -> str:
    """What sets a cluster apart, in a sentence."""
    phrases = []
    for trait in traits[:3]:
        if abs(trait.apart) < SLIGHT:
            continue
        kind = trait.feature.kind
        much, little = {COUNT: ("much", "little"), LEVEL: ("often", "seldom")}.get(kind, ("high", "low"))
        here = f"{value_of(trait, trait.here)}{' of its counts' if kind == COUNT else ''}"
        values = f"({here}, elsewhere {value_of(trait, trait.elsewhere)})"
        phrases.append(f"{much if trait.apart > 0 else little} {trait.feature} {values}")
    if not phrases:
        return "No single feature has an unusual mean: the cluster differs in how features vary, or vary together."
    text = "; ".join(phrases)
    return text[0].upper() + text[1:] + "."


SHOWN_ANYWAY = {"family", "alpha", "partition_prior", "random_state", "verbose", "max_iter", "n_draws"}


def settings(subject: Subject) -> list[tuple[str, str]]:
    """The settings of the fit, by name."""
    from dpmmwrap import __version__

    model, known, texts = subject.model, subject.facts, facts.texts(subject.facts)
    table = [
        ("family", texts["family"]),
        ("clusters differ", texts["clusters differ"]),
        ("prior over partitions", facts.partition_prior_text(model)),
        ("prior", texts["prior"]),
        ("length", texts["search"]),
        ("start of new clusters", str(model.init_)),
        ("sampler", known["backend"]),
        ("seed", str(known["seed"])),
        ("log posterior", number(known["log_posterior"])),
        ("missing", texts["missing"]),
        ("time", "" if subject.seconds is None else f"{subject.seconds:,.1f} s"),
        ("version", f"dpmmwrap {__version__}"),
    ]
    table = [(name, words) for name, words in table if words]
    # Others that are not the defaults.
    for name, value in given_settings(model).items():
        if name not in SHOWN_ANYWAY and not (name == "backend" and isinstance(value, str)):
            plain = isinstance(value, (str, int, float, bool)) or value is None
            text = str(value) if plain else " ".join(repr(value).split())
            table.append((name, text if len(text) <= 120 else f"{text[:117]}…"))
    return table


def given_settings(model: Any) -> dict[str, Any]:
    """The parameters that are not the defaults."""
    defaults = type(model)().get_params()

    def same(one: Any, other: Any) -> bool:
        arrays = isinstance(one, np.ndarray) or isinstance(other, np.ndarray)
        return not arrays and type(one) is type(other) and bool(one == other)

    return {name: value for name, value in model.get_params(deep=False).items() if not same(value, defaults[name])}


def in_python(model: Any) -> str:
    return f"DPMM({', '.join(f'{name}={value!r}' for name, value in given_settings(model).items())}).fit(X)"
