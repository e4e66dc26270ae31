"""Rows with weights, against all partitions of repeated rows that stay together, for every family."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpmmwrap.partitions import FiniteMixture, PitmanYor
from exactness import enumeration
from exactness.running import ALONE, Apart, apart, few_of_each, problem_of, run, uneven_cluster_seeds
from exactness.sets import FAMILIES, families

WHOLE = np.array([1, 3, 2, 1, 2, 1, 4])
PARTS = np.array([0.5, 1.75, 1.0, 0.25, 2.5, 1.5, 0.75])
IN_PARTS = ["full", "spherical", "mixed", "sparse counts"]
LIMIT = 6.0
"""Monte Carlo standard errors, as of `moves/test_exact.py`."""
DRAWS, THIN = 2000, {"points": 8, "pairs": 2}


def distance(
    family: str, weights: np.ndarray, moves: str | None = None, alpha: Any = 1.0, broken: Any = None, **changes: Any
) -> Apart:
    """Of draws by some moves, or by all, from the exact posterior."""
    X, prior = families()[family]
    options = {}
    if "outlier_weight" in changes:
        changes["outlier_prior"] = prior.outliers(X)
        options["outliers"] = (changes["outlier_weight"], changes["outlier_prior"])
    expected = enumeration.posterior(X, prior, alpha, weights=weights, **options)
    problem = problem_of(X, prior, alpha, weights=np.asarray(weights if broken is None else broken, float), **changes)
    with few_of_each():
        chosen, thin = None if moves is None else ALONE[moves], THIN.get(moves or "", 1)
        return apart(run(problem, DRAWS, chosen, cluster_seeds=uneven_cluster_seeds(7), thin=thin), expected)


@pytest.mark.parametrize(
    "family",
    # The others are tested with weights that are not whole.
    [pytest.param(name, marks=pytest.mark.slow if name in IN_PARTS[1:] else ()) for name in FAMILIES],
)
def test_whole_weights_are_repeated_rows(family: str) -> None:
    found = distance(family, WHOLE)
    assert found.z < LIMIT and found.clusters < 0.07 and found.pairs < 0.1


@pytest.mark.parametrize("moves", list(ALONE))
@pytest.mark.parametrize("family", ["full", "diag, missing values", "events"])
def test_each_move_knows_weights(family: str, moves: str) -> None:
    found = distance(family, WHOLE, moves)
    assert found.z < LIMIT and found.clusters < 0.07 and found.pairs < 0.1


@pytest.mark.parametrize("family", IN_PARTS)
def test_weights_need_not_be_whole(family: str) -> None:
    found = distance(family, PARTS)
    assert found.z < LIMIT and found.clusters < 0.07 and found.pairs < 0.1


@pytest.mark.parametrize("alpha", [(2.0, 1.0), PitmanYor(1.0, 0.4), FiniteMixture()])
def test_any_prior_over_partitions(alpha: Any) -> None:
    found = distance("full", WHOLE, None, alpha)
    assert found.z < LIMIT and found.clusters < 0.07 and found.alpha < 0.1


def test_outliers() -> None:
    # A heavy row seldom becomes an outlier, and seldom comes back.
    found = distance("diag", np.array([1, 1, 2, 1, 1, 1, 2]), outlier_weight=0.2)
    assert found.z < LIMIT and found.pairs < 0.1


def test_forgotten_weights_are_found_out() -> None:
    assert distance("full", WHOLE, broken=np.ones(7)).z > 2 * LIMIT
