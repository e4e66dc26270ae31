"""What a chain's steps are given beside its state, and never change: the data, the model, the settings."""

from __future__ import annotations

from typing import NamedTuple

from dpmmwrap.backends import Settings
from dpmmwrap.sampler.data import Data
from dpmmwrap.sampler.state import Model


class Context(NamedTuple):
    data: Data
    model: Model
    settings: Settings
