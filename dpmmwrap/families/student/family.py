"""The declaration of the family of heavy-tailed clusters."""

from __future__ import annotations

from dpmmwrap.families.base import Family

FAMILY = Family(
    name="student",
    input="numbers",
    priors={
        "student": "student.prior:StudentNIW",
        "student-diag": "student.diagonal:StudentNIG",
        "student-spherical": "student.diagonal:StudentSphericalNIG",
    },
    compiled=("student", "student-diag", "student-spherical"),
    covariance_types=("auto", "full", "diag", "spherical"),
    learned=True,
    prior_file=False,
    dask=False,
    weighted=False,
    gaps=False,
)
