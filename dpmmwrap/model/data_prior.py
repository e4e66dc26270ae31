"""The default prior of numeric columns, which is learned from the data, all or in part."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dpmmwrap.model.parameters import AUTO, POSITIVE, Constraints, Options


@dataclass(frozen=True, kw_only=True, repr=False)
class DataPrior(Options):
    """The default prior of numeric columns, for `DPMM(prior=...)`, which depends on how wide the data are locally.

    Parameters
    ----------
    kappa : float or "auto", default="auto"
        How close clusters are to each other: the variance of a cluster divided by that of the clusters' means.
    width : float or "auto", default="auto"
        How wide clusters are, as a share of each feature's variance. A narrower prior gives more clusters.
    strength : float or "auto", default="auto"
        How similar the widths of clusters are, in degrees of freedom above the minimum of a covariance.

    Notes
    -----
    "auto" learns a value from the data.

    Examples
    --------
    >>> from dpmmwrap import DPMM, DataPrior
    >>> DPMM(prior=DataPrior(width=0.1)).prior
    DataPrior(width=0.1)
    """

    kappa: float | str = "auto"
    width: float | str = "auto"
    strength: float | str = "auto"

    _parameter_constraints: ClassVar[Constraints] = {
        "kappa": [AUTO, POSITIVE], "width": [AUTO, POSITIVE], "strength": [AUTO, POSITIVE],
    }  # fmt: skip

    @property
    def fixed(self) -> tuple[float | None, ...]:
        """The values that are not learned; None for the others."""
        return tuple(None if isinstance(value, str) else float(value) for value in self.get_params().values())


def learned_names(prior: Any) -> list[str]:
    """The hyperparameters of a default prior that are learned."""
    given = prior if isinstance(prior, DataPrior) else DataPrior()
    return [name for name, value in given.get_params().items() if value == "auto"]


def is_default(prior: Any) -> bool:
    """Whether a prior of numeric columns is made from the data."""
    return prior is None or isinstance(prior, DataPrior) or (isinstance(prior, str) and prior == "data")


def is_given(prior: Any) -> bool:
    """Whether it is a prior object, which is for all columns."""
    return not (is_default(prior) or isinstance(prior, str))
