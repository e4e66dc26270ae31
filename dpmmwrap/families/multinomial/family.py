"""The declaration of the family for rows of counts."""

from __future__ import annotations

from dpmmwrap.families.base import Family

FAMILY = Family(
    name="multinomial",
    input="counts",
    priors={"multinomial": "multinomial.prior:Dirichlet"},
    compiled=("counts", "sparse"),
    reason="counts are multinomial",
    sparse=True,
    julia=("multinomial",),
)
