"""What every family offers, by one set of rules: the chain rule, groups, unions, empty clusters, files, outliers."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy import sparse
from scipy.special import gammaln

from dpmmwrap.families.base import concatenate, put, take
from dpmmwrap.families.categorical.prior import CategoricalDirichlet
from dpmmwrap.families.diagonal.prior import NIG
from dpmmwrap.families.diagonal.spherical import SphericalNIG
from dpmmwrap.families.full.prior import NIW
from dpmmwrap.families.linear.statistics import union, with_unions
from dpmmwrap.families.mixed.prior import Mixed
from dpmmwrap.families.multinomial.prior import Dirichlet
from dpmmwrap.families.poisson.prior import GammaPoisson, with_exposure_last
from dpmmwrap.families.tables import Columns, TablePoints
from dpmmwrap.mixture import Mixture
from dpmmwrap.posterior.mixture_file import load

ROWS, CLUSTERS = 24, 3
LABELS = np.arange(ROWS) % CLUSTERS


class Case(NamedTuple):
    prior: Any
    X: Any


def case(name: str) -> Case:
    rng = np.random.default_rng(0)
    numbers = rng.normal(size=(ROWS, 3)) * [1, 2, 0.5] + 3
    gappy = np.where(rng.random(numbers.shape) < 0.3, np.nan, numbers)
    counts = rng.multinomial(rng.integers(0, 12, ROWS), [0.5, 0.3, 0.2, 0.0]).astype(float)
    # A feature that only some clusters have.
    counts[LABELS == 0, 2] = 0
    codes = np.stack([rng.integers(0, 2, ROWS), rng.integers(2, 5, ROWS)], axis=1).astype(np.int32)
    gappy_codes = np.where(rng.random(codes.shape) < 0.3, -1, codes).astype(np.int32)
    niw, nig = NIW(np.ones(3), 0.3, np.diag([1.0, 2.0, 3.0]), 6.0), NIG(np.ones(3), 0.3, np.arange(1.0, 4.0), 4.0)
    ball = SphericalNIG(np.ones(3), 0.3, np.array([2.0]), 4.0)
    dirichlet = Dirichlet(np.array([0.5, 1.0, 2.0, 0.1]))
    mixed = Mixed(nig, CategoricalDirichlet(np.array([2, 3]), np.array([0.5, 1.0, 1.0, 2.0, 0.3])))
    return {
        "full": Case(niw, numbers),
        "diag": Case(nig, numbers),
        "diag with gaps": Case(nig, gappy),
        "spherical": Case(ball, numbers),
        "spherical with gaps": Case(ball, gappy),
        "counts": Case(dirichlet, counts),
        "sparse counts": Case(dirichlet, sparse.csr_matrix(counts)),
        "events": Case(GammaPoisson(np.array([0.5, 1.0, 2.0, 0.1]), np.array([0.1, 1.0, 0.5, 2.0])), counts),
        "events, exposed": Case(
            GammaPoisson(np.array([0.5, 1.0, 2.0]), np.array([0.1, 1.0, 0.5]), 1),
            np.insert(counts[:, :3], 1, rng.uniform(0.3, 4, ROWS), axis=1),
        ),
        "mixed": Case(mixed, TablePoints(numbers, codes)),
        "mixed with gaps": Case(mixed, TablePoints(gappy, gappy_codes)),
    }[name]


LINEAR = ["diag", "diag with gaps", "spherical", "spherical with gaps", "counts", "sparse counts", "events",
          "events, exposed", "mixed",
          "mixed with gaps"]  # fmt: skip


@pytest.fixture(params=["full", *LINEAR])
def every(request: pytest.FixtureRequest) -> Case:
    return case(request.param)


@pytest.fixture(params=LINEAR)
def linear(request: pytest.FixtureRequest) -> Case:
    return case(request.param)


def coefficient(prior: Any, X: Any, row: int) -> float:
    """Of a row of counts: what its predictive counts and the marginal likelihood does not."""
    if isinstance(prior, GammaPoisson):
        *events, exposure = with_exposure_last(X, prior.exposure)[row]
        return float(np.sum(events) * np.log(exposure) - gammaln(np.array(events) + 1).sum())
    if not sparse.issparse(X) and not (isinstance(X, np.ndarray) and X.shape[1] == 4):
        return 0.0
    values = np.asarray(X.todense() if sparse.issparse(X) else X)[row]
    return float(gammaln(values.sum() + 1) - gammaln(values + 1).sum())


def test_the_marginal_likelihood_is_the_product_of_predictives(every: Case) -> None:
    prior, X = every
    total = prior.log_predictive(X[:1])[0, 0] - coefficient(prior, X, 0)
    for row in range(1, 10):
        posterior = prior.posterior(prior.statistics(X[:row]))
        total += posterior.log_predictive(X[row : row + 1])[0, 0] - coefficient(prior, X, row)
    assert prior.log_marginal_likelihood(prior.statistics(X[:10]))[0] == pytest.approx(total)


def test_groups_are_those_of_their_own_rows(every: Case) -> None:
    prior, X = every
    labels = np.where(LABELS == 1, -1, LABELS)
    got = prior.statistics(X, labels, 4)
    assert got.counts.tolist() == [8, 0, 8, 0]
    for k in (0, 2):
        for group, own in zip(take(got, slice(k, k + 1)), prior.statistics(X[labels == k]), strict=True):
            # A group without gaps does not count what was observed.
            if group.shape == own.shape:
                np.testing.assert_allclose(group, own, rtol=1e-12, atol=1e-12)
    assert prior.statistics(X, LABELS).counts.tolist() == [8, 8, 8]
    assert prior.statistics(X).counts.tolist() == [ROWS]


def test_a_cluster_without_points_is_the_prior(every: Case) -> None:
    prior, X = every
    statistics = prior.statistics(X, LABELS, 4)
    assert prior.log_marginal_likelihood(statistics)[3] == pytest.approx(0, abs=1e-9)
    np.testing.assert_allclose(prior.posterior(statistics).log_predictive(X)[3], prior.log_predictive(X)[0], rtol=1e-9)


def test_a_posterior_at_hand_changes_nothing(every: Case) -> None:
    prior, X = every
    statistics = prior.statistics(X, LABELS)
    with_it = prior.log_marginal_likelihood(statistics, prior.posterior(statistics))
    np.testing.assert_allclose(with_it, prior.log_marginal_likelihood(statistics), rtol=1e-12)


def test_unions_of_pairs(linear: Case) -> None:
    prior, X = linear
    statistics = prior.statistics(X, LABELS, CLUSTERS)
    one, other = np.array([0, 1, 0]), np.array([1, 2, 2])
    got = prior.union_log_marginals(statistics, one, other)
    for value, i, j in zip(got, one, other, strict=True):
        both = X[np.isin(LABELS, (i, j))]
        assert value == pytest.approx(prior.log_marginal_likelihood(prior.statistics(both))[0])
    joined = union(take(statistics, one), take(statistics, other))
    np.testing.assert_allclose(prior.log_marginal_likelihood(joined), got)
    halves = prior.statistics(X, np.arange(ROWS) % 4, 4)
    for total, expected in zip(with_unions(halves), prior.statistics(X, np.arange(ROWS) % 4 // 2, 2), strict=True):
        np.testing.assert_allclose(total[:2], expected)
    np.testing.assert_array_equal(with_unions(halves).sums[2:], halves.sums)


def test_posterior_and_log_marginal_come_together(linear: Case) -> None:
    prior, X = linear
    statistics = prior.statistics(X, LABELS)
    posterior, log_marginal = prior.compute(statistics)
    np.testing.assert_array_equal(log_marginal, prior.log_marginal_likelihood(statistics))
    np.testing.assert_array_equal(posterior.log_predictive(X), prior.posterior(statistics).log_predictive(X))


def test_replaced_rows_are_the_other_batchs(every: Case) -> None:
    prior, X = every
    own, other = (prior.posterior(prior.statistics(X, labels, 3)) for labels in (LABELS, LABELS[::-1]))
    before = own.log_predictive(X)
    rows = np.array([2, 0])
    others = prior.posterior(take(prior.statistics(X, LABELS[::-1], 3), [1, 2]))
    got = own.replaced(rows, others).log_predictive(X)
    expected = before.copy()
    expected[rows] = other.log_predictive(X)[[1, 2]]
    np.testing.assert_allclose(got, expected, rtol=1e-12)
    np.testing.assert_array_equal(own.log_predictive(X), before)
    assert not np.allclose(got, before)


def test_a_shift_of_prior_and_data_changes_nothing(every: Case) -> None:
    prior, X = every
    offset = np.array([10.0, -3.0, 0.5])
    if isinstance(X, TablePoints):
        moved: Any = TablePoints(X.numeric - offset, X.codes)
    else:
        moved = X if prior.input == "counts" else X - offset
    other = prior.shifted(offset)
    got = other.log_marginal_likelihood(other.statistics(moved, LABELS))
    np.testing.assert_allclose(got, prior.log_marginal_likelihood(prior.statistics(X, LABELS)), rtol=1e-9)


def test_the_outlier_component_is_a_prior_of_the_family(every: Case) -> None:
    prior, X = every
    broad = prior.outliers(X)
    assert type(broad) is type(prior) and broad.dim == prior.dim
    assert np.isfinite(broad.log_predictive(X)).all()
    statistics = prior.statistics(X, LABELS)
    assert np.isfinite(broad.log_marginal_likelihood(statistics)).all()
    if prior.family in ("full", "diag", "spherical"):
        deviations = np.sqrt(np.nanvar(X, axis=0))
        covariances = broad.mean_covariance()[0]
        widths = np.sqrt(np.diagonal(covariances) if prior.family == "full" else covariances)
        expected = np.sqrt((deviations**2).mean()) if prior.family == "spherical" else deviations
        np.testing.assert_allclose(widths, 2 * np.broadcast_to(expected, 3), rtol=0.1)


def test_outliers_of_a_constant_column_are_numbers(every: Case) -> None:
    prior, X = every
    if isinstance(X, TablePoints):
        X = TablePoints(np.ones_like(X.numeric), X.codes)
    elif not sparse.issparse(X):
        X = np.ones_like(X)
    assert np.isfinite(prior.outliers(X).log_predictive(X)).all()


@pytest.mark.parametrize("outlier_weight", [0.0, 0.1])
def test_a_mixture_comes_back_from_its_file(every: Case, outlier_weight: float, tmp_path: Path) -> None:
    prior, X = every
    columns = None
    if isinstance(X, TablePoints):
        names, levels = ("a", "b", "c", "d", "e"), (np.array(["x", "y"]), np.array([4, 5, 9]))
        columns = Columns(names, (3, 4), levels)
    labels = np.where(np.arange(ROWS) < 4, -1, LABELS) if outlier_weight else LABELS
    broad = prior.outliers(X) if outlier_weight else None
    mixture = Mixture.from_labels(X, labels, prior, outlier_weight, broad, columns)
    mixture.save(tmp_path / "model.npz")
    loaded = load(tmp_path / "model.npz")
    assert loaded.family == mixture.family == prior.family and loaded.dim == prior.dim
    np.testing.assert_array_equal(loaded.predict(X), mixture.predict(X))
    np.testing.assert_array_equal(loaded.score_samples(X), mixture.score_samples(X))
    probabilities = loaded.predict_proba(X)
    assert probabilities.shape == (ROWS, CLUSTERS + (outlier_weight > 0))
    np.testing.assert_allclose(probabilities.sum(axis=1), 1)
    drawn, of = loaded.sample(50, np.random.default_rng(0))
    again, of_again = mixture.sample(50, np.random.default_rng(0))
    np.testing.assert_array_equal(drawn, again)
    np.testing.assert_array_equal(of, of_again)
    assert np.isfinite(mixture.score_samples(drawn)).all()


def test_embedded_rows_are_points_in_space(every: Case) -> None:
    prior, X = every
    embedded = prior.embedder(X)(X)
    assert embedded.shape[0] == ROWS and embedded.dtype == np.float32
    assert np.isfinite(embedded.data if sparse.issparse(embedded) else embedded).all()


def test_rows_of_statistics_can_be_taken_joined_and_written(every: Case) -> None:
    prior, X = every
    statistics = prior.statistics(X, LABELS)
    parts = [take(statistics, slice(0, 1)), take(statistics, np.array([1, 2]))]
    joined = concatenate(parts)
    assert type(joined) is type(statistics)
    put(joined, np.array([2]), parts[0])
    for array, whole in zip(joined, statistics, strict=True):
        np.testing.assert_array_equal(array, whole[[0, 1, 0]])
