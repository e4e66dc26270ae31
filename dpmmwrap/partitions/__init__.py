"""Priors over partitions: the number and the sizes of clusters before the data are seen."""

from __future__ import annotations

from typing import Any

from dpmmwrap.partitions.base import PartitionPrior
from dpmmwrap.partitions.dirichlet_process import DirichletProcess
from dpmmwrap.partitions.finite_mixture import FiniteMixture
from dpmmwrap.partitions.pitman_yor import PitmanYor

__all__ = ["BY_NAME", "DirichletProcess", "FiniteMixture", "PartitionPrior", "PitmanYor", "partition_prior"]

BY_NAME: dict[str, type[PartitionPrior]] = {kind.name: kind for kind in (DirichletProcess, PitmanYor, FiniteMixture)}

MOST_NUMBERS = {"dirichlet": 1, "pitman-yor": 2, "finite": 2}
"""How many numbers may follow a name."""


def partition_prior(asked: Any, alpha: float | str = "auto") -> PartitionPrior:
    """A prior, given as an object or by name. Numbers may follow a name, as in "pitman-yor:1,0.3".

    `alpha` is the concentration of "dirichlet".
    """
    if isinstance(asked, str) and asked == DirichletProcess.name:
        return DirichletProcess(alpha)
    if alpha != "auto":
        raise ValueError(f"alpha is for partition_prior dirichlet, not {asked!r}")
    if isinstance(asked, PartitionPrior):
        return asked
    name, _, rest = str(asked).partition(":")
    if name not in BY_NAME:
        raise ValueError(
            f"partition_prior should be {', '.join(BY_NAME)} or a prior such as PitmanYor(1.0, 0.3), not {asked!r}"
        )
    numbers = rest.split(",") if rest else []
    try:
        values: list[Any] = [word if word.strip() == "auto" else float(word) for word in numbers]
    except ValueError:
        raise ValueError(f"partition_prior should be a name and numbers, as in finite:1,2, not {asked!r}") from None
    kind: Any = BY_NAME[name]
    if len(values) > MOST_NUMBERS[name]:
        raise ValueError(f"partition_prior {name} takes {MOST_NUMBERS[name]} numbers at most, not {len(values)}")
    return kind(*values)  # type: ignore[no-any-return]
