"""Methods of others: scaled where that matters, and each with the number of clusters that its criterion likes best."""

import numpy as np
import pytest
from sklearn.cluster import HDBSCAN, KMeans
from sklearn.metrics import adjusted_rand_score, silhouette_score
from sklearn.mixture import BayesianGaussianMixture, GaussianMixture
from sklearn.preprocessing import StandardScaler

from dpmmwrap.datasets import generate, generate_counts
from dpmmwrap.evaluation import rivals
from dpmmwrap.evaluation.fits import FitSettings

OWN = FitSettings(scale=True, own_rules=True, upper_bound=6)


@pytest.fixture(scope="module")
def stretched() -> tuple[np.ndarray, np.ndarray]:
    """Three clear clusters along a feature whose unit is a thousand times that of another, which is noise."""
    rng = np.random.default_rng(0)
    y = np.arange(240) % 3
    return np.column_stack([10 * y + rng.normal(size=240), 1000 * rng.normal(size=240)]), y


def same(found: np.ndarray, expected: np.ndarray) -> bool:
    return adjusted_rand_score(found, expected) == 1.0


def test_units_do_not_matter_where_columns_are_scaled(stretched: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = stretched
    for method in (rivals.kmeans, rivals.kmeans_silhouette, rivals.density_tree, rivals.bayesian_information):
        found, other = (method(points, y, OWN, 0).labels for points in (X, X * [1000, 1]))
        assert same(found, other)
    found, other = (rivals.kmeans(points, y, FitSettings(own_rules=True), 0).labels for points in (X, X * [1000, 1]))
    assert adjusted_rand_score(y, found) < 0.1 and same(other, y)


def test_own_rules_are_scikit_learns(stretched: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = stretched
    points = StandardScaler().fit_transform(X)
    assert same(rivals.expectation_maximisation(X, y, OWN, 3).labels, GaussianMixture(3, random_state=3).fit_predict(X))
    model = BayesianGaussianMixture(n_components=6, max_iter=1000, random_state=3)
    found = rivals.own_prior(X, y, OWN, 3)
    assert same(found.labels, model.fit_predict(points)) and found.iterations == model.n_iter_
    labels = HDBSCAN(min_cluster_size=10, copy=True).fit_predict(points)
    found = rivals.density_tree(X, y, OWN, 0)
    np.testing.assert_array_equal(found.labels < 0, labels < 0)
    assert same(found.labels, labels)
    assert np.isnan(found.log_posterior)


def test_few_points_have_few_components(stretched: tuple[np.ndarray, np.ndarray]) -> None:
    X, y = stretched
    found = rivals.own_prior(X[:60], y[:60], FitSettings(own_rules=True, upper_bound=100), 0)
    assert len(np.unique(found.labels)) <= 3


def test_the_best_silhouette(stretched: tuple[np.ndarray, np.ndarray]) -> None:
    X = stretched[0][:, :1]
    found = rivals.kmeans_silhouette(X, stretched[1], OWN, 0)
    points = StandardScaler().fit_transform(X)
    best = max(
        (KMeans(count, n_init=3, random_state=0).fit_predict(points) for count in range(2, 9)),
        key=lambda labels: silhouette_score(points, labels),
    )
    assert len(np.unique(found.labels)) == 3 and same(found.labels, best)


def test_the_grid_of_numbers_of_clusters() -> None:
    assert list(rivals.cluster_grid(6)) == [2, 3, 4, 5, 6]
    grid = list(rivals.cluster_grid(100))
    assert grid[:19] == list(range(2, 21)) and grid[19:23] == [22, 24, 27, 30] and grid[-1] <= 100
    assert list(rivals.cluster_grid(1)) == []


def test_the_best_bic() -> None:
    data = generate(2, 4, 500, 100.0, 1)
    found = rivals.bayesian_information(data.X, data.y, OWN, 0)
    points = StandardScaler().fit_transform(data.X.astype(np.float64))
    models = [
        GaussianMixture(k, covariance_type=kind, random_state=0) for kind in ("full", "diag") for k in range(1, 9)
    ]
    best = min((model.fit(points) for model in models), key=lambda model: model.bic(points))
    assert same(found.labels, best.predict(points))
    assert len(np.unique(found.labels)) == 4


def test_too_few_points_for_any_number_are_said() -> None:
    with pytest.raises(ValueError, match="every number of clusters failed"):
        rivals.kmeans_silhouette(np.zeros((2, 1)), np.arange(2), OWN, 0)


def test_counts_become_tf_idf() -> None:
    data = generate_counts(60, 3, 150, 0)
    assert adjusted_rand_score(data.y, rivals.kmeans(data.X, data.y, OWN, 0).labels) > 0.9
    assert adjusted_rand_score(data.y, rivals.kmeans_silhouette(data.X, data.y, OWN, 0).labels) > 0.5
