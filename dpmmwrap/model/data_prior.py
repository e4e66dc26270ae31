"""The default prior of numeric columns, and what of it is not learned from the data."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

from dpmmwrap.model.parameters import AUTO, POSITIVE, Constraints, Options


@dataclass(frozen=True, kw_only=True, repr=False)
class DataPrior(Options):
    """The default prior of numeric columns, for `DPMM(prior=...)`: tied to how wide the data are locally.

    Parameters
    ----------
    kappa : float or "auto", default="auto"
        How close to each other clusters are: a cluster's variance over the variance of all clusters' means.
    width : float or "auto", default="auto"
        How wide clusters are, as a share of each feature's variance. A narrower prior gives more clusters.
    strength : float or "auto", default="auto"
        How much alike clusters are in their widths, in degrees of freedom above the least that a covariance needs.

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


def learned_names(prior: Any) -> list[str]:
    """Which of a default prior's numbers are learned."""
    given = prior if isinstance(prior, DataPrior) else DataPrior()
    return [name for name, value in given.get_params().items() if value == "auto"]


def is_default(prior: Any) -> bool:
    """Whether the prior of numeric columns comes from the data."""
    return prior is None or isinstance(prior, DataPrior) or (isinstance(prior, str) and prior == "data")


def is_given(prior: Any) -> bool:
    """Whether the user has given a prior, which then holds for all columns."""
    return not (is_default(prior) or isinstance(prior, str))
