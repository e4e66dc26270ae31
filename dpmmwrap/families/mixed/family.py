"""The declaration of the family for tables of numeric and categorical columns."""

from __future__ import annotations

from dpmmwrap.families.base import Family

FAMILY = Family(
    name="mixed",
    input="table",
    priors={"mixed": "mixed.prior:Mixed"},
    compiled=("mixed",),
    reason="mixed tables have diagonal covariances",
    covariance_types=("auto", "diag"),
    learned=True,
    prior_file=False,
    dask=False,
)
