"""The learned prior against all partitions of seven points at every place of its grid; and that a wrong update is found
out."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest

from dpmmwrap.backends.native import NativeBackend
from dpmmwrap.families.diagonal import NIG
from dpmmwrap.families.gaussian import NIW
from dpmmwrap.families.hyperprior import FIRST, Hyperprior, Place
from dpmmwrap.sampler import chain
from exactness import enumeration
from exactness.running import Apart, Seen, apart, context_of
from exactness.sets import families

ALPHA = (2.0, 1.0)
WIDTHS, STRENGTHS = (0.3, 1.0, 3.0), (1.0, 30.0)


def grid_of(family: str) -> Hyperprior:
    """Six priors of a family about the one that the other tests have."""
    _, prior = families()[family]

    def make(width: float, strength: float) -> Any:
        if family == "full":
            dim = prior.dim
            return NIW(prior.mean, prior.mean_strength, width * (strength / 3 + 1) * prior.scale, dim + strength)
        return NIG(prior.mean, prior.mean_strength, width * strength * np.asarray(prior.scale) / 4, strength)

    return Hyperprior(WIDTHS, STRENGTHS, make, FIRST)


class Found(NamedTuple):
    partitions: Apart
    places: float
    """Total variation distance of the places' probabilities."""


@cache
def expected_of(family: str, outliers: bool) -> enumeration.ExpectedOnGrid:
    X, prior = families()[family]
    options = {"outliers": (0.2, prior.outliers(X))} if outliers else {}
    return enumeration.posterior_on_grid(X, grid_of(family), ALPHA, **options)


def distance(family: str, outliers: bool = False, draws: int = 1500) -> Found:
    """Of draws by a whole chain from the exact posterior."""
    X, prior = families()[family]
    grid = grid_of(family)
    changes: dict[str, Any] = {"outlier_weight": 0.2, "outlier_prior": prior.outliers(X)} if outliers else {}
    settings = context_of(X, grid.prior(FIRST), ALPHA, **changes).settings
    settings = replace(settings, hyperprior=grid, max_iter=10, n_draws=draws, thin=2)
    with patch.object(chain, "LEARN_EVERY", 1):
        drawn = NativeBackend().fit(X, settings).draws
    assert drawn is not None and drawn.labels is not None
    assert drawn.prior_width is not None and drawn.prior_strength is not None
    seen = np.array([
        [((drawn.prior_width == width) & (drawn.prior_strength == strength)).mean() for strength in STRENGTHS]
        for width in WIDTHS
    ])  # fmt: skip
    expected = expected_of(family, outliers)
    parts = apart(Seen(drawn.labels[0], drawn.alpha[0]), expected.partitions)
    return Found(parts, 0.5 * float(np.abs(seen - expected.places).sum()))


@pytest.mark.parametrize(("family", "outliers"), [("full", False), ("full", True), ("diag", False)])
def test_the_learned_prior_and_the_clusters_sample_their_posterior(family: str, outliers: bool) -> None:
    found = distance(family, outliers)
    assert found.partitions.z < 6 and found.partitions.clusters < 0.05 and found.partitions.pairs < 0.07
    assert found.places < 0.05


def too_sure(grid: Hyperprior, place: Place, statistics: Any, rng: np.random.Generator) -> Place:
    """The evidence counted twice."""
    with patch.object(Hyperprior, "log_evidence", lambda *arguments: 2 * LOG_EVIDENCE(*arguments)):
        return DRAW(grid, place, statistics, rng)


def of_one_cluster(grid: Hyperprior, place: Place, statistics: Any, rng: np.random.Generator) -> Place:
    """Only the first cluster is asked."""
    return DRAW(grid, place, type(statistics)(*(array[:1] for array in statistics)), rng)


LOG_EVIDENCE, DRAW = Hyperprior.log_evidence, Hyperprior.draw


@pytest.mark.parametrize("wrong", [too_sure, of_one_cluster])
def test_a_wrong_update_is_found_out(wrong: Any) -> None:
    with patch.object(Hyperprior, "draw", wrong):
        found = distance("full")
    assert found.places > 0.1


def test_the_best_place_has_no_better_one_beside_it() -> None:
    X, _ = families()["full"]
    grid = grid_of("full")
    statistics = grid.prior(FIRST).statistics(X, np.array([0, 0, 0, 1, 1, 1, 1]))
    places = [Place(width, strength) for width in range(3) for strength in range(2)]
    evidence = dict(zip(places, grid.log_evidence(places, statistics), strict=True))
    for place in places:
        best = grid.best(place, statistics)
        beside = [*grid.along(best, "width"), *grid.along(best, "strength"), place]
        assert evidence[best] == max(evidence[other] for other in beside)
    assert max(evidence, key=lambda place: evidence[place]) in {grid.best(place, statistics) for place in places}
    assert grid.place_of(*grid.values(places[4])) == places[4]
    assert grid.log_weight == pytest.approx(-np.log(6))
