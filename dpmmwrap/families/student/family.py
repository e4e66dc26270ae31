"""What the rest of the program may know of clusters with tails."""

from __future__ import annotations

from dpmmwrap.families.base import Family

FAMILY = Family(
    name="student",
    input="numbers",
    priors={"student": "student.prior:StudentNIW"},
    compiled={"student": ("search", "exact")},
    reason="clusters with tails have full covariances",
    learned=True,
    prior_file=False,
    dask=False,
    weighted=False,
    gaps=False,
)
