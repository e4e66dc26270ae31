"""The declaration of the family for event counts."""

from __future__ import annotations

from dpmmwrap.families.base import Family

FAMILY = Family(
    name="poisson",
    input="counts",
    priors={"poisson": "poisson.prior:GammaPoisson"},
    compiled=("events",),
    reason="counts are Poisson",
    exposure=True,
)
