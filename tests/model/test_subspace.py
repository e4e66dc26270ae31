"""A subspace that clusters share: a density of all columns, and everything in the original features."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from dpmmwrap import DPMM, NIW, load
from dpmmwrap.families.learned.defaults import FixedHyperparameters
from dpmmwrap.families.learned.hyperprior import Hyperprior
from dpmmwrap.families.learned.one_gaussian import OneGaussian, one_gaussian
from dpmmwrap.model.choice import kind_in_subspace
from dpmmwrap.model.directions import (
    SubspaceRun,
    find_subspace,
    halves_of,
    judged_by_halves,
    principal,
    separating,
)
from dpmmwrap.model.short_chains import ShortRun
from dpmmwrap.model.subspace import Subspace
from dpmmwrap.partitions import DirichletProcess

D, N = 40, 900
QUICK: dict[str, Any] = {"init": "kmeans", "n_chains": 1, "backend": "native", "random_state": 0}


def clusters_in_a_subspace(rows: int = N, columns: int = D) -> tuple[Any, Any]:
    """Four clusters that differ in three directions; in the others all have the same correlated noise."""
    rng = np.random.default_rng(3)
    y = rng.integers(4, size=rows)
    inside = np.array([[0, 0, 0], [8, 0, 0], [0, 8, 0], [0, 0, 8.0]])[y] + rng.normal(size=(rows, 3))
    noise = rng.normal(size=(rows, columns - 3)) @ rng.normal(size=(columns - 3, columns)) / np.sqrt(columns)
    return inside @ np.linalg.qr(rng.normal(size=(columns, 3)))[0].T + noise + 50.0, y


@pytest.fixture(scope="module", params=["full", "diag"])
def fitted(request: Any) -> Any:
    X, y = clusters_in_a_subspace()
    return X, y, DPMM(subspace=4, covariance_type=request.param, **QUICK).fit(X)


def same(one: Any, other: Any, at_least: float = 0.98) -> bool:
    from sklearn.metrics import adjusted_rand_score

    return bool(adjusted_rand_score(one, other) > at_least)


def a_subspace(dim: int = 5, inside: int = 2) -> Subspace:
    rng = np.random.default_rng(0)
    return Subspace(rng.normal(size=dim), rng.normal(size=(dim, dim)), inside)


def test_a_gaussian_in_the_subspace_is_a_gaussian_of_all_features() -> None:
    subspace, rng = a_subspace(), np.random.default_rng(1)
    mean, root = rng.normal(size=2), rng.normal(size=(2, 2))
    covariance = root @ root.T + np.eye(2)
    X = rng.normal(size=(7, 5))
    inside = multivariate_normal(mean, covariance).logpdf(subspace.points(X))
    whole = multivariate_normal(subspace.features(mean), subspace.covariances(covariance[None])[0])
    np.testing.assert_allclose(inside + subspace.log_noise(X), whole.logpdf(X), rtol=1e-4)


def test_samples_have_the_covariance_of_all_features() -> None:
    subspace, rng = a_subspace(), np.random.default_rng(2)
    X = subspace.sample(rng.normal(size=(200_000, 2)), rng)
    expected = subspace.covariances(np.eye(2)[None])[0]
    np.testing.assert_allclose(np.cov(X.T), expected, atol=0.03 * np.abs(expected).max())


def test_the_first_directions_separate_best() -> None:
    """Fisher's discriminants, as scikit-learn computes them."""
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis

    X, y = clusters_in_a_subspace()
    found = separating(X, y, OneGaussian(X.mean(axis=0), np.cov(X.T, bias=True), 1 / N, 0.0), 3)[:, :3]
    theirs = LinearDiscriminantAnalysis(solver="eigen").fit(X, y).scalings_[:, :3]
    angles = np.linalg.svd(np.linalg.qr(found)[0].T @ np.linalg.qr(theirs)[0])[1]
    assert angles.min() > 0.999


FULL = kind_in_subspace("full", FixedHyperparameters(), DirichletProcess())


def test_evidence_chooses_the_dimensions_of_known_clusters() -> None:
    """With the true labels as what chains find: few directions, not all."""
    X, y = clusters_in_a_subspace()
    kind = FULL._replace(run=lambda points: ShortRun("full", y, FULL.log_evidence(points, y)))
    assert 2 <= find_subspace(X, [kind]).subspace.dim <= 8


def test_directions_are_judged_by_rows_that_they_do_not_come_from() -> None:
    X, y = clusters_in_a_subspace(400, 80)
    given, judged, halves = [], [], halves_of(X)

    def basis_of(rows: Any, labels: Any, one: OneGaussian, size: int) -> Any:
        given.append(rows)
        return separating(rows, labels, one, size)

    def log_evidence(points: Any, labels: Any) -> float:
        judged.append(len(points))
        return FULL.log_evidence(points, labels)

    def gain(labels: Any) -> float:
        run = ShortRun("full", labels.astype(np.int32), 0.0)
        found = SubspaceRun(a_subspace(80, 3), FULL._replace(log_evidence=log_evidence), run)
        components = judged_by_halves(X, found, 3, halves, lambda rows, labels, one, size: principal(one))
        return judged_by_halves(X, found, 3, halves, basis_of) - components

    assert gain(y) > 100
    assert gain(np.random.default_rng(0).permutation(y)) < 10
    assert len(np.unique(np.concatenate(given[:2]), axis=0)) == 400 == judged[0] + len(given[0])


@pytest.mark.parametrize("rows", [2, 3, 4])
@pytest.mark.parametrize("subspace", ["auto", 2])
def test_a_few_rows_of_many_features(rows: int, subspace: Any) -> None:
    """A half of them has no two rows."""
    X = np.random.default_rng(0).normal(size=(rows, 40))
    assert halves_of(X) == [] != halves_of(np.tile(X, (9, 1)))
    assert DPMM(subspace=subspace, **QUICK).fit(X).n_clusters_ <= rows


def test_constant_columns_have_no_subspace() -> None:
    assert DPMM(**QUICK).fit(np.ones((9, 40))).n_clusters_ == 1
    with pytest.raises(ValueError, match="a subspace needs rows that differ: every column is constant"):
        DPMM(subspace=1, **QUICK).fit(np.ones((9, 40)))


def test_few_rows_have_diagonal_covariances_in_a_subspace() -> None:
    """Full ones would need more rows for each cluster."""
    rng = np.random.default_rng(0)
    y = np.arange(150) % 15
    inside = 4.0 * rng.normal(size=(15, 12))[y] + rng.normal(size=(150, 12))
    X = np.column_stack([inside, rng.normal(size=(150, 28)) / 3]) @ np.linalg.qr(rng.normal(size=(D, D)))[0]
    model = DPMM(subspace=12, **QUICK).fit(X)
    assert model.covariance_type_ == "diag" and same(model.labels_, y, 0.9)


def test_the_gaussian_of_all_rows_has_the_evidence_of_its_prior() -> None:
    X = np.random.default_rng(0).normal(size=(30, 4)) @ np.diag([1.0, 2, 3, 4]) + 5
    found, mean, variances = one_gaussian(X), X.mean(axis=0), X.var(axis=0)
    hyperprior = Hyperprior(NIW, mean, variances)
    priors = [NIW(mean, 1.0, np.diag(variances * (s - 2)), 3 + s) for s in hyperprior.strengths]
    logs = [hyperprior.log_density(p) + p.log_marginal_likelihood(NIW.statistics(X))[0] for p in priors]
    assert found.log_evidence == pytest.approx(max(logs))
    best = priors[int(np.argmax(logs))].posterior(NIW.statistics(X))
    np.testing.assert_allclose(found.covariance, best.mean_covariance()[0])


def test_auto_finds_clusters_and_says_where_they_differ() -> None:
    X, y = clusters_in_a_subspace()
    model = DPMM(**QUICK).fit(X)
    assert same(model.labels_, y) and model.subspace_ is not None and model.subspace_ < D
    assert "in a subspace" in model.covariance_reason_ and model.covariance_type_ == "full"


def test_auto_leaves_balls_alone() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(2, size=400)
    model = DPMM(**QUICK).fit(rng.normal(size=(400, D)) + 4.0 * y[:, None])
    assert model.subspace_ is None and same(model.labels_, y)


def test_one_gaussian_is_one_cluster() -> None:
    X = np.random.default_rng(5).normal(size=(500, D)) @ np.random.default_rng(6).normal(size=(D, D))
    assert DPMM(**QUICK).fit(X).n_clusters_ == 1


def test_means_covariances_and_samples_are_of_all_features(fitted: Any) -> None:
    X, _, model = fitted
    assert model.subspace_ == 4 and model.means_.shape == (4, D) and model.covariances_.shape == (4, D, D)
    for k in range(4):
        np.testing.assert_allclose(model.means_[k], X[model.labels_ == k].mean(axis=0), atol=0.8)
    drawn, labels = model.sample(4000)
    assert drawn.shape == (4000, D) and same(model.predict(drawn), labels)
    np.testing.assert_allclose(drawn.mean(axis=0), X.mean(axis=0), atol=0.5)


def test_the_score_is_a_density_of_all_columns(fitted: Any) -> None:
    """Near that of the mixture of Gaussians with the means and covariances that the model tells."""
    X, _, model = fitted
    parts = [multivariate_normal(m, c).logpdf(X) for m, c in zip(model.means_, model.covariances_, strict=True)]
    expected = np.logaddexp.reduce(np.array(parts) + np.log(model.weights_)[:, None], axis=0)
    np.testing.assert_allclose(model.score_samples(X), expected, atol=1.0)
    assert abs(model.log_evidence_ - model.score_samples(X).sum()) < 0.02 * abs(model.log_evidence_)


def test_a_file_keeps_the_subspace(fitted: Any, tmp_path: Path) -> None:
    X, _, model = fitted
    model.save(tmp_path / "model.npz")
    mixture = load(tmp_path / "model.npz")
    assert mixture.n_features == D and mixture.subspace.dim == 4
    np.testing.assert_array_equal(mixture.predict(X), model.predict(X))
    np.testing.assert_allclose(mixture.score_samples(X), model.score_samples(X))


def test_a_damaged_subspace_is_refused(fitted: Any, tmp_path: Path) -> None:
    *_, model = fitted
    model.save(tmp_path / "model.npz")
    with np.load(tmp_path / "model.npz") as arrays:
        changed = dict(arrays) | {"subspace_basis": np.eye(3)}
    np.savez(tmp_path / "model.npz", **changed)
    with pytest.raises(ValueError, match="its subspace is not one of its features"):
        load(tmp_path / "model.npz")


def test_constant_columns_and_units_change_nothing(fitted: Any) -> None:
    X, y, _ = fitted
    wider = np.column_stack([X, np.zeros(N), np.full(N, 3.0)])
    model = DPMM(subspace=4, **QUICK).fit(wider)
    assert same(model.labels_, y) and model.means_.shape == (4, D + 2)
    np.testing.assert_allclose(model.means_[:, -1], 3.0)
    assert model.sample(5)[0].shape == (5, D + 2) and len(model.predict(wider)) == N


def test_draws_and_groups_work_in_a_subspace() -> None:
    X, y = clusters_in_a_subspace(300)
    model = DPMM(subspace=3, n_draws=5, **QUICK).fit(X)
    assert same(model.labels_, y, 0.9) and model.groups().suggested <= model.n_clusters_
    assert model.predict_proba(X).shape == (300, model.n_clusters_) and np.isfinite(model.score(X))


def test_a_density_of_one_column_knows_the_subspace(fitted: Any) -> None:
    X, _, model = fitted
    along = np.linspace(X[:, 0].min() - 5, X[:, 0].max() + 5, 400)
    density = model.density(along[:, None], columns=[0]).mean
    assert np.trapezoid(density, along) == pytest.approx(1.0, abs=0.02)


def with_gaps(X: Any) -> Any:
    """No gap, one, two patterns of several, and a row of which one value is left."""
    broken = X[:6].copy()
    broken[1, 2] = broken[2, 2] = np.nan
    broken[3, ::2] = broken[4, 5:30] = np.nan
    broken[5, 1:] = np.nan
    return broken


def test_what_is_observed_has_the_density_of_the_restricted_gaussian() -> None:
    subspace, rng = a_subspace(), np.random.default_rng(4)
    means, roots = rng.normal(size=(3, 2)), rng.normal(size=(3, 2, 2))
    covariances = roots @ np.swapaxes(roots, 1, 2) + np.eye(2)
    X = rng.normal(size=(6, 5))
    X[1, 3] = X[2, 3] = X[3, [0, 1, 4]] = X[4, 1:] = np.nan
    found = subspace.log_observed(X, means, covariances)
    for k, whole in enumerate(subspace.covariances(covariances)):
        for i, row in enumerate(X):
            seen = ~np.isnan(row)
            expected = multivariate_normal(subspace.features(means[k])[seen], whole[np.ix_(seen, seen)])
            assert found[i, k] == pytest.approx(expected.logpdf(row[seen]), abs=1e-8)


def test_rows_with_gaps_are_predicted_by_what_they_have(fitted: Any) -> None:
    """By the means and covariances of all columns that the model tells, restricted to what is observed."""
    X, _, model = fitted
    broken = with_gaps(X)
    found, scores = model.predict_proba(broken), model.score_samples(broken)
    # Without gaps as before: a predictive is not quite Gaussian.
    np.testing.assert_allclose(found[0], model.predict_proba(X[:1])[0], rtol=1e-3)
    assert scores[0] == pytest.approx(model.score_samples(X[:1])[0])
    for row, probabilities, score in zip(broken[1:], found[1:], scores[1:], strict=True):
        seen = ~np.isnan(row)
        logs = [
            multivariate_normal(mean[seen], covariance[np.ix_(seen, seen)]).logpdf(row[seen]) + np.log(weight)
            for mean, covariance, weight in zip(model.means_, model.covariances_, model.weights_, strict=True)
        ]
        np.testing.assert_allclose(probabilities, np.exp(logs - np.logaddexp.reduce(logs)), atol=1e-6)
        assert score == pytest.approx(np.logaddexp.reduce(logs), abs=1e-6)
    np.testing.assert_array_equal(model.predict(broken), found.argmax(axis=1))
    broken[1] = np.nan
    assert model.predict(broken)[1] == -1
    with pytest.raises(ValueError, match="impute does not support clusters in a subspace"):
        model.impute(broken)


def test_novelty_needs_all_values(fitted: Any) -> None:
    X, _, model = fitted
    broken = X[:3].copy()
    broken[1, 2] = np.nan
    assert model.novelty(X[:3]).max() < 0.5
    with pytest.raises(ValueError, match="novelty needs all values of a row"):
        model.novelty(broken)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"covariance_type": "spherical"}, "full or diagonal covariances and the default prior"),
        ({"prior": NIW.reference(D)}, "full or diagonal covariances and the default prior"),
        ({"subspace": D + 1}, "needs as many features"),
        ({"subspace": 0}, "subspace should be"),
    ],
)
def test_what_makes_no_sense_is_refused(changes: dict[str, Any], words: str) -> None:
    X, _ = clusters_in_a_subspace(100)
    with pytest.raises(ValueError, match=words):
        DPMM(**QUICK | {"subspace": 3} | changes).fit(X)


def test_missing_values_and_a_subspace_are_refused() -> None:
    X, _ = clusters_in_a_subspace(100)
    X[3, 3] = np.nan
    with pytest.raises(ValueError, match="a subspace needs every value"):
        DPMM(subspace=3, **QUICK).fit(X)


def test_weights_and_a_subspace_are_refused() -> None:
    """In many dimensions equal rows are clusters of their own, which would hide all others."""
    X, _ = clusters_in_a_subspace(100)
    with pytest.raises(ValueError, match="a subspace takes no weights"):
        DPMM(subspace=3, **QUICK).fit(X, sample_weight=np.ones(100))
