"""Missing values with full covariances, against all partitions, with marginal likelihoods by numerical integration.

The marginal likelihood of rows with gaps has no closed form. Here a missing value is integrated out on a grid: the
closed form of the whole rows, summed over the values that the gaps may have. Nothing of `families.full.gaps` is used.
"""

from __future__ import annotations

import itertools
from functools import lru_cache
from typing import Any

import numpy as np
import pytest
from scipy.special import logsumexp

from dpmmwrap.families.full import points as full_points
from dpmmwrap.families.full.prior import NIW
from exactness import enumeration
from exactness.enumeration import Expected, expected_of, labellings
from exactness.running import ALONE, Apart, apart, few_of_each, problem_of, run

LIMIT = 6.0
"""Monte Carlo standard errors, as of `moves/test_exact.py`."""
NODES = 161


@lru_cache(maxsize=1)
def few() -> tuple[np.ndarray, NIW]:
    """Six points of perhaps two clusters along a diagonal, with gaps in three."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(6, 1)) + 0.5 * rng.normal(size=(6, 2))
    X[3:] += [2.5, -1.0]
    X[1, 0] = X[2, 1] = X[4, 1] = np.nan
    return X.astype(np.float32), NIW(np.zeros(2), 1.0, 2 * np.eye(2), 4.0)


def log_marginal(X: np.ndarray, prior: NIW, mask: int) -> float:
    """log marginal likelihood of what is observed of the rows whose bits are set: gaps are summed over a grid."""
    rows = np.flatnonzero([mask >> row & 1 for row in range(len(X))])
    if not len(rows):
        return 0.0
    own = X[rows].astype(float)
    gaps = list(zip(*np.nonzero(np.isnan(own)), strict=True))
    # x = 3 sinh(t) reaches far out with few nodes: dx = 3 cosh(t) dt.
    t, step = np.linspace(-4.5, 4.5, NODES if len(gaps) < 3 else 41, retstep=True)
    values, log_steps = 3 * np.sinh(t), np.log(3 * np.cosh(t) * step)
    filled = np.repeat(own[None], len(t) ** len(gaps), axis=0)
    log_weights = np.zeros(len(filled))
    for number, places in enumerate(itertools.product(range(len(t)), repeat=len(gaps))):
        for (row, column), place in zip(gaps, places, strict=True):
            filled[number, row, column] = values[place]
            log_weights[number] += log_steps[place]
    labels = np.repeat(np.arange(len(filled)), len(own))
    statistics = many_statistics(filled)
    assert len(statistics.counts) == labels.max() + 1
    return float(logsumexp(prior.log_marginal_likelihood(statistics) + log_weights))


def many_statistics(filled: np.ndarray) -> Any:
    """Of many small tables (T, n, D) at once."""
    from dpmmwrap.families.full.statistics import Statistics

    means = filled.mean(axis=1)
    away = filled - means[:, None]
    return Statistics(np.full(len(filled), float(filled.shape[1])), means, np.einsum("tni,tnj->tij", away, away))


@lru_cache(maxsize=1)
def expected() -> Expected:
    X, prior = few()
    every = labellings(len(X), False)
    masks = 1 << np.arange(len(X))
    inside = np.array([log_marginal(X, prior, mask) for mask in range(1 << len(X))])
    logs = sum(inside[((every == cluster) * masks).sum(axis=1)] for cluster in range(len(X)))
    return expected_of(every, np.asarray(logs), 1.0)


def distance(moves: tuple[str, ...] | None, draws: int = 3000, thin: int = 1) -> Apart:
    with few_of_each():
        return apart(run(problem_of(*few()), draws, moves, thin=thin), expected())


def test_the_grid_is_fine_enough() -> None:
    """A row with one gap alone is Student's t of the other column; two complete rows need no grid."""
    X, prior = few()
    assert log_marginal(X, prior, 1 << 1) == pytest.approx(float(prior.log_predictive(X[1:2])[0, 0]), abs=1e-4)
    assert log_marginal(X, prior, 1 | 8) == pytest.approx(enumeration.log_marginal(X, prior, 1 | 8), abs=1e-9)


def test_draws_with_gaps_are_those_of_what_is_observed() -> None:
    found = distance(None)
    assert found.z < LIMIT and found.clusters < 0.05 and found.pairs < 0.07


def test_each_move_goes_with_the_sweep_that_draws_the_gaps() -> None:
    found = distance(ALONE["sweep and points"], thin=2)
    assert found.z < LIMIT and found.clusters < 0.05 and found.pairs < 0.07


def test_values_that_are_expected_instead_of_drawn_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(full_points, "draw_missing", lambda *arguments: None)
    found = distance(None)
    assert found.z > LIMIT or found.pairs > 0.07
