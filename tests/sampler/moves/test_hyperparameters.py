"""The learned prior against all partitions of seven points and numerical integration over its hyperparameters; and that
a wrong update is found out."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any, NamedTuple
from unittest.mock import patch

import numpy as np
import pytest

from dpmmwrap.backends.native import NativeBackend
from dpmmwrap.families import prior_named
from dpmmwrap.families.learned import hyperprior as module
from dpmmwrap.families.learned.hyperprior import STRENGTHS, Hyperparameters, Hyperprior
from dpmmwrap.sampler import chain
from dpmmwrap.sampler.moves import hyperparameters
from exactness import enumeration
from exactness.broken import LEARNING
from exactness.running import Apart, Seen, apart, problem_of, standard_errors

ALPHA = (2.0, 1.0)
X = np.array([[-0.4], [0.0], [0.1], [0.5], [3.0], [3.7], [3.2]], np.float32)
THREE = STRENGTHS[[0, 4, 10]]
CELLS = 0.2
OUTLIERS = 0.2


class Found(NamedTuple):
    """How far the draws of a chain are from what is expected."""

    partitions: Apart
    location: float
    kappa: float
    width: float
    """Of the means (of the latter two's logarithms), in deviations of the posterior."""
    strength: float
    """Total variation distance of the strengths' probabilities."""
    z: float
    """The largest of these four differences, in Monte Carlo standard errors."""


def hyperprior_for(kind: str, cells: float | None) -> Hyperprior:
    values = X.astype(float)
    own = None if cells is None else np.array([cells])
    family: Any = prior_named(kind)
    return Hyperprior(family, values.mean(axis=0), values.var(axis=0), cells=own)


def first_prior(hyperprior: Hyperprior) -> Any:
    values = Hyperparameters(hyperprior.mean, 0.1, hyperprior.variances, float(THREE[1]))
    return hyperprior.make(values)


@cache
def expected_of(cells: float | None, outliers: bool) -> enumeration.ExpectedLearned:
    """The same for all kinds of covariances: of one feature they are the same model."""
    values = X[:, 0].astype(float)
    learning = enumeration.Learning(values.mean(), values.var(), THREE, cells)
    broad = first_prior(hyperprior_for("full", None)).outliers(X)
    outside = np.array([enumeration.log_marginal(X, broad, mask) for mask in range(1 << len(X))])
    return enumeration.posterior_learned(values, learning, ALPHA, (OUTLIERS, outside) if outliers else None)


def distance(kind: str, cells: float | None = None, outliers: bool = False, draws: int = 1500) -> Found:
    """Of draws by a whole chain from the exact posterior."""
    with patch.object(module, "STRENGTHS", THREE), patch.object(chain, "LEARN_EVERY", 1):
        hyperprior = hyperprior_for(kind, cells)
        prior = first_prior(hyperprior)
        broad = prior.outliers(X)
        changes: dict[str, Any] = {"outlier_weight": OUTLIERS, "outlier_prior": broad} if outliers else {}
        settings = problem_of(X, prior, ALPHA, **changes).settings
        settings = replace(settings, hyperprior=hyperprior, max_iter=10, n_draws=draws, thin=2)
        result = NativeBackend().fit(X, settings)
    drawn = result.draws
    assert drawn is not None and drawn.labels is not None
    assert drawn.prior_kappa is not None and drawn.prior_width is not None and drawn.prior_strength is not None
    assert len(result.draw_priors) == draws
    expected = expected_of(cells, outliers)
    locations = np.array([prior.mean[0] for prior in result.draw_priors])
    strengths = np.isclose(drawn.prior_strength[0][:, None], THREE)
    seen = np.column_stack([locations, np.log(drawn.prior_kappa[0]), np.log(drawn.prior_width[0]), strengths])
    gaps = np.abs(seen.mean(axis=0) - np.append(expected.means[:3], expected.means.strength))
    parts = apart(Seen(drawn.labels[0], drawn.alpha[0]), expected.partitions)
    means = gaps[:3] / np.array(expected.deviations[:3])
    return Found(
        parts, *means, 0.5 * float(gaps[3:].sum()), float((gaps / np.maximum(standard_errors(seen), 1e-12)).max())
    )


CLOSE, FAR = 0.2, 0.25
SURE = 4.5
"""Standard errors: a correct chain has no larger difference, and a badly broken one has after 500 draws."""


@pytest.mark.parametrize(
    ("kind", "cells", "outliers"),
    [
        # The same model as with outliers and as the diagonal one; both of these run always.
        pytest.param("full", None, False, marks=pytest.mark.slow),
        ("full", None, True),
        ("diag", None, False),
        ("diag", CELLS, False),
    ],
)
def test_the_learned_prior_and_the_clusters_sample_their_posterior(
    kind: str, cells: float | None, outliers: bool
) -> None:
    found = distance(kind, cells, outliers)
    assert found.partitions.z < 5 and found.partitions.clusters < 0.05 and found.partitions.pairs < 0.06
    assert found.z < SURE and max(found.location, found.kappa, found.width, found.strength) < CLOSE


@pytest.mark.parametrize("wrong", LEARNING)
def test_a_wrong_update_is_found_out(wrong: str) -> None:
    with LEARNING[wrong]():
        found = distance("diag", draws=500)
    assert getattr(found, wrong) > FAR and found.z > SURE


def test_one_cluster_that_speaks_for_all_is_found_out() -> None:
    draw = Hyperprior.draw

    def wrong(own: Hyperprior, prior: Any, statistics: Any, rng: np.random.Generator) -> Any:
        return draw(own, prior, type(statistics)(*(array[:1] for array in statistics)), rng)

    with patch.object(Hyperprior, "draw", wrong):
        found = distance("diag", draws=500)
    assert found.width > FAR and found.z > SURE


def test_clusters_narrower_than_cells_are_found_out() -> None:
    def wrong(shape: Any, rates: Any, floors: Any, rng: Any) -> Any:
        return np.maximum(rng.gamma(shape, 1 / rates), floors)

    with patch.object(module, "truncated_gamma", wrong):
        assert distance("diag", CELLS).width > FAR


def test_outliers_that_are_asked_too_are_found_out() -> None:
    with patch.object(hyperparameters, "inside", lambda problem, clusters: clusters):
        found = distance("full", outliers=True)
    assert found.width > FAR and found.kappa > FAR


def test_finer_nodes_say_the_same() -> None:
    """Numerical integration, against itself where it is easy to have more of it: of one partition of fewer points."""
    x = X[:, 0].astype(float)[[0, 3, 4]]
    learning = enumeration.Learning(float(x.mean()), float(x.var()), THREE[1:2])
    found = enumeration.posterior_learned(x, learning, 1.0)
    leggauss = np.polynomial.legendre.leggauss
    with patch.object(np.polynomial.legendre, "leggauss", lambda count: leggauss(2 * count)):
        finer = enumeration.posterior_learned(x, learning, 1.0)
    np.testing.assert_allclose(found.partitions.clusters, finer.partitions.clusters, atol=2e-3)
    np.testing.assert_allclose(found.means[:3], finer.means[:3], atol=2e-2)
