"""Missing values under full covariances: formulas against scipy, and what chains make of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sklearn.metrics import adjusted_rand_score

from dpmmwrap import DPMM, NIW
from dpmmwrap.backends import Native
from dpmmwrap.families.full.expected import expected_statistics, gaussians_of, start
from dpmmwrap.families.full.gaps import draw_missing, fill_given_labels, find_gaps, precisions_of
from exactness.sets import PENGUINS

NOTHING = np.zeros((0, 3, 3))


class Two:
    """Two Gaussians in three dimensions."""

    means = np.array([[0.0, 1.0, -1.0], [1.5, 0.0, 1.0]])
    covariances = np.array(
        [[[1.0, 0.7, 0.2], [0.7, 1.5, -0.3], [0.2, -0.3, 0.8]], [[0.5, 0, 0.3], [0, 2, 0.5], [0.3, 0.5, 1]]]
    )
    weights = np.array([0.3, 0.7])

    @classmethod
    def gaussians(cls) -> Any:
        factors = np.linalg.inv(np.linalg.cholesky(cls.covariances))
        halves = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
        return precisions_of(cls.means, factors, np.log(cls.weights) + halves - 1.5 * np.log(2 * np.pi))


def given(k: int, row: np.ndarray) -> Any:
    """The conditional distribution of the missing values, by the covariance."""
    m, o = np.flatnonzero(np.isnan(row)), np.flatnonzero(~np.isnan(row))
    S, mean = Two.covariances[k], Two.means[k]
    slope = S[np.ix_(m, o)] @ np.linalg.inv(S[np.ix_(o, o)])
    return stats.multivariate_normal(mean[m] + slope @ (row[o] - mean[o]), S[np.ix_(m, m)] - slope @ S[np.ix_(o, m)])


@pytest.mark.parametrize("row", [[0.5, np.nan, 0.2], [np.nan, np.nan, 0.4], [np.nan, 0.3, np.nan]])
def test_values_are_drawn_given_what_is_observed(row: list[float]) -> None:
    X = np.repeat(np.array([row]), 20_000, axis=0)
    gaps, o = find_gaps(X), ~np.isnan(row)
    draw_missing(X, gaps, 0, len(gaps.missing), Two.gaussians(), np.uint64(3))
    logs = [
        np.log(Two.weights[k])
        + stats.multivariate_normal(Two.means[k][o], Two.covariances[k][np.ix_(o, o)]).logpdf(np.array(row)[o])
        for k in range(2)
    ]
    shares = np.exp(logs) / np.exp(logs).sum()
    means = np.array([given(k, np.array(row)).mean for k in range(2)])
    covariances = np.array([np.atleast_2d(given(k, np.array(row)).cov) for k in range(2)])
    mean = shares @ means
    covariance = np.einsum("k,kij->ij", shares, covariances + np.einsum("ki,kj->kij", means - mean, means - mean))
    drawn = X[:, ~o]
    assert (X[:, o] == np.array(row)[o]).all()
    np.testing.assert_allclose(drawn.mean(axis=0), mean, atol=0.04)
    np.testing.assert_allclose(np.atleast_2d(np.cov(drawn.T)), covariance, atol=0.06)
    cdf = sum(
        s * stats.norm(m[0], c[0, 0] ** 0.5).cdf(np.sort(drawn[:, 0]))
        for s, m, c in zip(shares, means, covariances, strict=True)
    )
    assert np.abs(cdf - (np.arange(20_000) + 0.5) / 20_000).max() < 0.015


def test_the_density_of_drawn_values() -> None:
    rng = np.random.default_rng(0)
    whole = rng.normal(size=(8, 3))
    X = whole.copy()
    X[[0, 1, 1, 4, 6], [0, 1, 2, 2, 0]] = np.nan
    labels = np.array([0, 1, 0, 0, 1, 1, -1, 0])
    wanted = sum(given(labels[row], X[row]).logpdf(whole[row][np.isnan(X[row])]) for row in (0, 1, 4))
    found = fill_given_labels(whole.copy(), find_gaps(X), labels, Two.gaussians(), -1, np.uint64(0), NOTHING)
    assert found == pytest.approx(wanted)


def test_expected_statistics_are_a_fixed_point_of_em() -> None:
    rng = np.random.default_rng(0)
    labels = np.repeat([0, 1], 150)
    X = np.array([rng.multivariate_normal(Two.means[k] * 4, Two.covariances[k]) for k in labels])
    X[rng.random(X.shape) < 0.2] = np.nan
    kept = ~np.isnan(X).all(axis=1)
    X, labels = X[kept], labels[kept]
    found = expected_statistics(X, labels, 2)
    _, variances = start(X, labels, 2)
    gaussians = gaussians_of(found, variances)
    for k in range(2):
        S = np.linalg.inv(gaussians.matrices[k])
        rows, extra = [], np.zeros((3, 3))
        for row in X[labels == k]:
            m, o = np.flatnonzero(np.isnan(row)), np.flatnonzero(~np.isnan(row))
            slope = S[np.ix_(m, o)] @ np.linalg.inv(S[np.ix_(o, o)])
            filled = row.copy()
            filled[m] = found.means[k][m] + slope @ (row[o] - found.means[k][o])
            extra[np.ix_(m, m)] += S[np.ix_(m, m)] - slope @ S[np.ix_(o, m)]
            rows.append(filled)
        assert found.counts[k] == len(rows)
        np.testing.assert_allclose(found.means[k], np.mean(rows, axis=0), atol=1e-3)
        scatter = np.cov(np.array(rows).T, bias=True) * len(rows) + extra
        np.testing.assert_allclose(found.scatters[k], scatter, rtol=0.005, atol=0.2)
        np.testing.assert_allclose(found.scatters[k] / len(rows), Two.covariances[k], atol=0.5)


def test_the_predictive_of_what_is_observed() -> None:
    rng = np.random.default_rng(0)
    prior = NIW(np.array([1.0, 0, -1]), 0.7, np.array([[3, 1, 0], [1, 2, 0.5], [0, 0.5, 4]]), 6.0)
    X = rng.normal(size=(6, 3))
    X[[0, 1, 1, 4], [0, 1, 2, 2]] = np.nan
    found = prior.log_predictive(X)[0]
    for row, log_density in zip(X, found, strict=True):
        o = ~np.isnan(row)
        shape = prior.scale[np.ix_(o, o)] * 1.7 / (0.7 * 4.0)
        assert log_density == pytest.approx(stats.multivariate_t(prior.mean[o], shape, df=4.0).logpdf(row[o]))


def gappy(rows: int, share: float, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    truth = rng.integers(2, size=rows)
    X = np.array([rng.multivariate_normal(Two.means[k] * 5, Two.covariances[k]) for k in truth])
    X[rng.random(X.shape) < share] = np.nan
    return X, truth


QUICK: dict[str, Any] = {"covariance_type": "full", "init": "kmeans", "n_chains": 1, "max_iter": 15, "random_state": 0}


def test_any_number_of_threads_gives_the_same_bits() -> None:
    X, _ = gappy(20_000, 0.05)
    found = [DPMM(backend=Native(n_jobs=jobs), **QUICK).fit(X.astype(np.float32)) for jobs in (1, 3)]
    np.testing.assert_array_equal(found[0].labels_, found[1].labels_)
    assert found[0].log_posterior_ == found[1].log_posterior_
    np.testing.assert_array_equal(found[0].trace_.log_posterior, found[1].trace_.log_posterior)


def test_a_checkpoint_has_the_values_that_stand_for_gaps(tmp_path: Path) -> None:
    X, _ = gappy(300, 0.1)
    path = tmp_path / "fit.ckpt"
    backend = Native(checkpoint=path, checkpoint_every=5)

    def stop(number: int, happened: Any) -> None:
        if number == 12:
            raise RuntimeError("no power")

    with pytest.raises(RuntimeError, match="no power"):
        DPMM(backend=backend, **(QUICK | {"max_iter": 20})).fit(X, progress=stop)
    assert path.exists()
    resumed = DPMM(backend=backend, **(QUICK | {"max_iter": 20})).fit(X)
    alone = DPMM(backend="native", **(QUICK | {"max_iter": 20})).fit(X)
    np.testing.assert_array_equal(resumed.labels_, alone.labels_)
    np.testing.assert_array_equal(resumed.trace_.log_posterior, alone.trace_.log_posterior)


def test_two_rows_with_gaps_leave_the_clusters_as_they_are() -> None:
    rng = np.random.default_rng(0)
    parts, truth = [], []
    for number, (count, means, deviations, correlations) in enumerate(PENGUINS):
        matrix = np.eye(4)
        matrix[np.triu_indices(4, 1)] = matrix.T[np.triu_indices(4, 1)] = correlations
        matrix = (matrix + matrix.T) / 2 if not np.allclose(matrix, matrix.T) else matrix
        parts.append(rng.multivariate_normal(means, matrix * np.outer(deviations, deviations), size=count))
        truth += [number] * count
    X = np.concatenate(parts)
    whole = DPMM(random_state=0).fit(X)
    X[3], X[200, :2] = np.nan, np.nan
    model = DPMM(random_state=0).fit(X)
    assert model.covariance_type_ == whole.covariance_type_ == "full" and model.n_missing_ == 2
    assert model.n_clusters_ == whole.n_clusters_
    inside = model.labels_ >= 0
    assert adjusted_rand_score(whole.labels_[inside], model.labels_[inside]) > 0.95
    assert adjusted_rand_score(np.array(truth)[inside], model.labels_[inside]) > 0.9
