"""Predictions by bounds and exact densities, against the formulas written down cluster by cluster."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest
from scipy.sparse import csr_matrix
from scipy.special import gammaln, logsumexp

from dpmmwrap.families import screening
from dpmmwrap.families.categorical.prior import CategoricalDirichlet
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.diagonal.spherical import SphericalNIG
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.mixed.prior import Mixed
from dpmmwrap.families.multinomial.prior import STEPS, Dirichlet
from dpmmwrap.families.tables import TablePoints
from dpmmwrap.mixture import Mixture
from dpmmwrap.posterior import predictor
from dpmmwrap.posterior.averaging import AveragedMixture


def diagonal(posterior: NIG, X: np.ndarray) -> np.ndarray:
    means, strengths, scales, freedoms = (np.broadcast_to(v, posterior.batch.means.shape) for v in posterior.batch)
    spread = scales * (strengths + 1) / strengths
    constants = gammaln((freedoms + 1) / 2) - gammaln(freedoms / 2) - 0.5 * np.log(np.pi * spread)
    found = np.empty((len(means), len(X)))
    for k in range(len(means)):
        squares = (X.astype(float) - means[k]) ** 2 / spread[k]
        found[k] = np.nansum(constants[k] - 0.5 * (freedoms[k] + 1) * np.log1p(squares), axis=1)
    return found


def spherical(posterior: SphericalNIG, X: np.ndarray) -> np.ndarray:
    means, strengths, scales, freedoms = posterior.batch
    strengths, seen = np.broadcast_to(strengths, means.shape), ~np.isnan(X)
    values = seen.sum(axis=1)
    found = np.empty((len(means), len(X)))
    for k in range(len(means)):
        spread, freedom = (strengths[k] + 1) / strengths[k], freedoms[k, 0]
        squares = np.nansum((X.astype(float) - means[k]) ** 2 / spread, axis=1) / scales[k, 0]
        constants = gammaln((freedom + values) / 2) - gammaln(freedom / 2)
        constants -= 0.5 * (values * np.log(np.pi * scales[k, 0]) + seen @ np.log(spread))
        found[k] = constants - 0.5 * (freedom + values) * np.log1p(squares)
    return found


def full(posterior: NIW, X: np.ndarray) -> np.ndarray:
    dim = X.shape[1]
    found = np.empty((len(posterior.mean), len(X)))
    for k, mean in enumerate(posterior.mean):
        freedom = posterior.degrees_of_freedom[k] - dim + 1
        shape = posterior.scale[k] * (posterior.mean_strength[k] + 1) / (posterior.mean_strength[k] * freedom)
        steps = X.astype(float) - mean
        squares = (steps * np.linalg.solve(shape, steps.T).T).sum(axis=1) / freedom
        constant = gammaln((freedom + dim) / 2) - gammaln(freedom / 2) - 0.5 * dim * np.log(freedom * np.pi)
        found[k] = constant - 0.5 * np.linalg.slogdet(shape)[1] - 0.5 * (freedom + dim) * np.log1p(squares)
    return found


def counts(posterior: Dirichlet, X: Any) -> np.ndarray:
    X = X.toarray() if hasattr(X, "toarray") else X
    found = []
    for own in posterior.concentration:
        rising = (gammaln(own + X) - gammaln(own) - gammaln(X + 1)).sum(axis=1)
        total, lengths = own.sum(), X.sum(axis=1)
        found.append(rising + gammaln(lengths + 1) + gammaln(total) - gammaln(total + lengths))
    return np.array(found)


DIRECT = {"diag": diagonal, "spherical": spherical, "full": full}


def prior_of(family: str, dim: int, centre: float = 0.0, width: float = 1.0) -> Any:
    mean = np.full(dim, centre)
    if family == "full":
        return NIW(mean, 0.1, (dim + 3) * width**2 * np.eye(dim), dim + 3.0)
    if family == "spherical":
        return SphericalNIG(mean, 0.1, np.array([4 * width**2]), 4.0)
    return NIG(mean, 0.1, np.full(dim, 4 * width**2), 4.0)


def some_data(
    dim: int, clusters: int = 12, rows: int = 300, centre: float = 0.0, width: float = 1.0
) -> tuple[np.ndarray, np.ndarray]:
    """Clusters of one point and of many, of many widths, and rows far from all of them."""
    rng = np.random.default_rng(dim)
    labels = np.concatenate(
        [np.arange(clusters), rng.choice(clusters, rows - clusters, p=rng.dirichlet(np.ones(clusters)))]
    )
    means, widths = 2 * rng.normal(size=(clusters, dim)), np.exp(rng.normal(size=(clusters, dim)))
    X = means[labels] + widths[labels] * rng.standard_t(3, size=(rows, dim))
    X[::50] *= 30
    return centre + width * X, labels.astype(np.int32)


def check(found: Mixture, X: Any, densities: np.ndarray, rtol: float = 1e-9) -> None:
    """Everything that is asked of rows, against the log densities of all clusters (K, N)."""
    joint = densities + np.log(found.weights)[:, None]
    whole = logsumexp(joint, axis=0)
    np.testing.assert_allclose(found.score_samples(X), whole, rtol=rtol, atol=1e-9)
    probabilities = np.exp(joint - whole).T
    np.testing.assert_allclose(found.predict_proba(X), probabilities, atol=max(1e-9, 100 * rtol))
    given = found.assign(X)
    np.testing.assert_array_equal(given.labels, found.predict(X))
    chosen = probabilities[np.arange(len(probabilities)), given.labels]
    np.testing.assert_allclose(chosen, probabilities.max(axis=1), atol=max(1e-9, 100 * rtol))
    np.testing.assert_allclose(given.probabilities, chosen, atol=max(1e-9, 100 * rtol))
    np.testing.assert_allclose(found.probability_of(X, given.labels), chosen, atol=max(1e-9, 100 * rtol))


@pytest.mark.parametrize("family", DIRECT)
@pytest.mark.parametrize("dim", [1, 3, 40])
@pytest.mark.parametrize(("centre", "width"), [(0, 1), (1e6, 1), (-3, 1e-6), (1e4, 1e-5), (0, 1e9), (0, 1e-30)])
def test_as_the_formulas_say(family: str, dim: int, centre: float, width: float, monkeypatch: Any) -> None:
    # Several blocks of rows, and of pairs.
    monkeypatch.setattr(predictor, "BLOCK", 2000)
    monkeypatch.setattr(screening, "PAIR_VALUES", 500)
    X, labels = some_data(dim, centre=centre, width=width)
    found = Mixture.from_labels(X, labels, prior_of(family, dim, centre, width))
    check(found, X, DIRECT[family](found.posterior, X), rtol=1e-9 if abs(centre) < 1e9 * width else 1e-6)


@pytest.mark.parametrize("family", ["diag", "spherical"])
def test_missing_values(family: str) -> None:
    X, labels = some_data(5)
    X[np.random.default_rng(0).random(X.shape) < 0.2] = np.nan
    X[0] = np.nan
    found = Mixture.from_labels(X, labels, prior_of(family, 5))
    there = ~np.isnan(X).all(axis=1)
    check(found, X[there], DIRECT[family](found.posterior, X[there]))
    # Without any value all is as probable as its weight, and no cluster is the row's own.
    np.testing.assert_allclose(found._log_densities(X[~there]), np.tile(found._log_weights, ((~there).sum(), 1)))
    np.testing.assert_array_equal(found.predict(X) == -1, ~there)


@pytest.mark.parametrize(
    ("family", "dim", "centre"),
    [("diag", 2, 0.0), ("spherical", 2, 0.0)]
    + [(family, 40, centre) for family in ("diag", "spherical", "full") for centre in (0.0, 1e5)],
)
def test_bounds_are_above(family: str, dim: int, centre: float) -> None:
    X, labels = some_data(dim, centre=centre)
    posterior = Mixture.from_labels(X, labels, prior_of(family, dim, centre)).posterior
    assert (DIRECT[family](posterior, X) <= posterior.upper_bounds(X).T).all()


@pytest.mark.parametrize("family", ["diag", "spherical"])
@pytest.mark.parametrize("seed", range(20))
def test_bounds_are_above_for_distributions_of_all_widths_and_strengths(family: str, seed: int) -> None:
    rng, clusters = np.random.default_rng(seed), 10
    dim, width = int(rng.choice([1, 2, 7, 50])), 10 ** rng.uniform(-6, 6)
    freedoms, strengths = 10 ** rng.uniform(-0.3, 9, size=(clusters, 1)), 10 ** rng.uniform(-2, 8, size=(clusters, 1))
    means = width * (rng.normal(size=(clusters, dim)) * 10 ** rng.uniform(-1, 3) + rng.choice([0, 1e3, 1e8]))
    scales = width**2 * freedoms * 10 ** rng.uniform(-2, 2, size=(clusters, dim if family == "diag" else 1))
    posterior = (NIG if family == "diag" else SphericalNIG)(means, strengths, scales, freedoms)
    reach = width * 10 ** rng.uniform(-1, 3)
    X = means[rng.integers(clusters, size=200)] + reach * rng.standard_t(1.5, size=(200, dim))
    exact = DIRECT[family](posterior, X).T
    with np.errstate(over="ignore", invalid="ignore"):
        # What overflows is no bound.
        for bounds in (
            (posterior.close_bounds, posterior.quick_bounds) if family == "diag" else (posterior.upper_bounds,)
        ):
            assert not (bounds(X) < exact - 1e-6 * np.abs(exact)).any()
    weights = np.log(rng.dirichlet(np.ones(clusters)))
    found = screening.log_sum(screening.log_joint(posterior, X, weights))
    np.testing.assert_allclose(found, logsumexp(exact + weights, axis=1), rtol=1e-11)


@pytest.mark.parametrize(("each", "quickly"), [(4, False), (4000, True)])
def test_quick_bounds_where_they_are_of_use(each: int, quickly: bool) -> None:
    rng, labels = np.random.default_rng(0), np.arange(20 * each, dtype=np.int32) % 20
    X = 8 * rng.normal(size=(20, 50))[labels] + rng.normal(size=(len(labels), 50))
    found = Mixture.from_labels(X, labels, prior_of("diag", 50))
    asked = np.concatenate([X[:20], (X[:20] + X[20:40]) / 2, 30 * X[:5]])
    exact = DIRECT["diag"](found.posterior, asked)
    assert (exact <= found.posterior.quick_bounds(asked).T).all(), "near clusters, between them, and far from all"
    assert found.posterior.quick_are_close == quickly  # type: ignore[attr-defined]
    check(found, asked, exact)


@pytest.mark.parametrize("family", ["diag", "spherical"])
def test_most_clusters_need_no_second_look(family: str) -> None:
    rng, labels = np.random.default_rng(0), np.arange(2000, dtype=np.int32) % 40
    X = 1e3 + 2 * rng.normal(size=(40, 60))[labels] + rng.normal(size=(2000, 60))
    found = Mixture.from_labels(X, labels, prior_of(family, 60, 1e3))
    assert np.isfinite(found._log_densities(X)).mean() < 0.1


def test_one_row_is_labelled_as_among_others() -> None:
    X, labels = some_data(7)
    found = Mixture.from_labels(X, labels, prior_of("diag", 7))
    alone = np.concatenate([found.predict_proba(X[i : i + 1]) for i in range(40)])
    np.testing.assert_allclose(alone, found.predict_proba(X)[:40], atol=1e-12)
    assert found.predict(X[:0]).shape == (0,) and found.predict_proba(X[:0]).shape == (0, 12)


@pytest.mark.parametrize("kind", [np.asarray, csr_matrix])
def test_counts(kind: Any) -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat(np.arange(5), 20).astype(np.int32)
    X = rng.poisson(rng.gamma(0.3, 3, size=(5, 30))[labels]).astype(float)
    # More than is counted step by step, and what is not a whole number.
    X[3, 4], X[5, 6], X[7] = 5 * STEPS, 2.5, 0
    found = Mixture.from_labels(kind(X), labels, Dirichlet(np.full(30, 0.1)))
    check(found, kind(X), counts(found.posterior, X))


def test_a_table_of_numbers_and_levels() -> None:
    rng, (numbers, labels) = np.random.default_rng(0), some_data(3)
    numbers[rng.random(numbers.shape) < 0.1] = np.nan
    codes = np.stack([rng.integers(-1, 4, len(labels)), labels % 3 + 4], axis=1)
    X = TablePoints(numbers, codes)
    prior = Mixed(prior_of("diag", 3), CategoricalDirichlet.from_levels(np.array([4, 3])))
    posterior = prior.posterior(prior.statistics(X, labels, 12))
    concentration, expected = posterior.categorical.concentration, diagonal(posterior.numeric, numbers)
    for k, own in enumerate(concentration):
        for begin, end, column in ((0, 4, codes[:, 0]), (4, 7, codes[:, 1])):
            shares = np.log(own[begin:end] / own[begin:end].sum())
            expected[k] += np.where(column < 0, 0.0, shares[column - begin])
    weights = np.log(np.bincount(labels) / len(labels))
    found = screening.log_joint(posterior, X, weights)
    joint = expected.T + weights
    np.testing.assert_allclose(screening.log_sum(found), logsumexp(joint, axis=1))
    np.testing.assert_allclose(posterior.log_predictive(X), expected)
    seen = np.isfinite(found)
    np.testing.assert_allclose(found[seen], joint[seen])
    assert ((logsumexp(joint, axis=1)[:, None] - joint)[~seen] > 40).all()


@pytest.mark.parametrize("family", ["diag", "spherical"])
def test_what_is_nothing_in_one_draw_may_matter_in_another(family: str) -> None:
    X, labels = some_data(20)
    prior = prior_of(family, 20)
    # A draw in which everything is one broad cluster has densities far below the others'.
    draws = np.stack([labels, np.zeros_like(labels), labels // 2])
    averaged = AveragedMixture.of(X, draws, labels, [prior] * 3, 0.0, None)
    densities = DIRECT[family](averaged.posterior, X) + np.log(averaged.weights)[:, None]
    totals = [logsumexp(densities[begin:end], axis=0) for begin, end in ((0, 12), (12, 13), (13, 19))]
    np.testing.assert_allclose(averaged.score_samples(X), logsumexp(totals, axis=0) - np.log(3), rtol=1e-9)
    np.testing.assert_allclose(averaged.predict_proba(X, 12).sum(axis=1), 1.0)


@pytest.mark.parametrize("family", ["diag", "full"])
def test_memory_is_bounded(family: str) -> None:
    X, labels = some_data(30, clusters=100, rows=20_000)
    found = Mixture.from_labels(X, labels, prior_of(family, 30))
    found.predict(X[:10])
    tracemalloc.start()
    found.predict(X)
    found.score_samples(X)
    found.assign(X)
    assert tracemalloc.get_traced_memory()[1] < 64e6
    tracemalloc.stop()
