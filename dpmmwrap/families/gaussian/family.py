"""The declaration of the Gaussian family."""

from __future__ import annotations

from dpmmwrap.families.base import Family

FAMILY = Family(
    name="gaussian",
    input="numbers",
    priors={"full": "full.prior:NIW", "diag": "diagonal.prior:NIG", "spherical": "diagonal.spherical:SphericalNIG"},
    compiled=("full", "diag", "gaps", "spherical"),
    covariance_types=("auto", "full", "diag", "spherical"),
    learned=True,
    reference=True,
    network=True,
    julia=("full",),
    with_tails="student",
)
