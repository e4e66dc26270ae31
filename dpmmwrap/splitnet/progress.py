"""Progress reports of a training run: its state, and a comparison with the shipped network."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dpmmwrap.splitnet.weights_io import card_path, shipped_path

COMPARED = "hard"
"""The kind of validation sets on which networks are compared. On the others they soon become equal."""
COMPARED_AFTER = 120.0
"""Seconds of training after which the first validation is compared with the shipped network."""
MOST_FEATURES = 20
"""The shipped network reads at most this many features."""


@dataclass
class TrainingProgress:
    """The state of a training after a step, for a progress display."""

    step: int
    steps: int
    loss: float
    validation: dict[str, float]
    seconds_left: float
    difficulty: float
    """The difficulty of the training sets, up to 1. The validation sets stay the same."""
    remark: str = ""
    """A comparison with the shipped network; empty until it is known."""


def beside_shipped(
    own: Mapping[str, float], shipped: Mapping[str, float], seen: int, minutes: float, card: dict[str, Any]
) -> str:
    """Compare a network with the shipped one on the same sets, and say what more time would bring, by the latter's
    card.

    `seen` is the number of training sets in these minutes.
    """
    name = min((name for name in shipped if name.startswith(COMPARED)), key=lambda name: own[name] - shipped[name])
    here, there = own[name], shipped[name]
    kind, dim = name.split()
    text = f"ARI {here:.2f} on {kind} pairs in {dim} dimensions after {minutes:.0f} min"
    text += f"; the shipped network has {there:.2f}"
    if here >= there:
        return text
    known = [(row["step"], row[f"ari_{name}"]) for row in card["curve"] if f"ari_{name}" in row]
    per_set = minutes / max(1, seen)
    whole = f"which learned from {card['steps_done'] * card['batch']:,} sets of all dimensions"
    text += f", {whole} (here {length(card['steps_done'] * card['batch'] * per_set)})"
    half = next((step for step, value in known if value >= (here + there) / 2), None)
    if half is None:
        return text
    return f"{text}; it was halfway there after {half * card['batch']:,} ({length(half * card['batch'] * per_set)})"


def length(minutes: float) -> str:
    """A time span in words."""
    return f"{minutes:.0f} min" if minutes < 90 else f"{minutes / 60:.1f} h"


def shipped_card() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(card_path(shipped_path()).read_text(encoding="utf-8"))
    return found
