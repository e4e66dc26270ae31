"""The declaration of the Gaussian family."""

from __future__ import annotations

from dpmmwrap.families.base import Family

FAMILY = Family(
    name="gaussian",
    input="numbers",
    priors={"full": "full.prior:NIW", "diag": "diagonal.prior:NIG", "spherical": "diagonal.spherical:SphericalNIG"},
    compiled={
        "full": ("search", "sweep", "exact"),
        "diag": ("search", "exact"),
        "gaps": ("search", "exact"),
        "spherical": ("search", "exact"),
    },
    covariance_types=("auto", "full", "diag", "spherical"),
    learned=True,
    reference=True,
    network=True,
    julia=("full",),
    with_tails="student",
)
