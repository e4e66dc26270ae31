"""Groups by distances between components: closed forms, all pairs of rows, and scipy's average linkage."""

import numpy as np
from scipy.cluster.hierarchy import fcluster
from scipy.cluster.hierarchy import linkage as scipy_linkage
from scipy.spatial.distance import squareform
from scipy.stats import norm

from dpmmwrap import DPMM
from dpmmwrap.posterior.groups import expected_distances, fold, hellinger


def test_the_distance_of_two_gaussians() -> None:
    """From a sample of the mixture, against the closed form."""
    rng = np.random.default_rng(0)
    weights, means, deviations = np.array([0.3, 0.7]), np.array([0.0, 1.5]), np.array([1.0, 0.6])
    own = rng.choice(2, 200_000, p=weights)
    joint = weights * norm.pdf(rng.normal(means[own], deviations[own])[:, None], means, deviations)
    found = hellinger(joint / joint.sum(axis=1, keepdims=True))
    both = (deviations**2).sum()
    overlap = np.sqrt(2 * deviations.prod() / both) * np.exp(-((means[1] - means[0]) ** 2) / (4 * both))
    np.testing.assert_allclose(found[0, 1], np.sqrt(1 - overlap), atol=2e-3)
    np.testing.assert_array_equal(np.diag(found), 0.0)


def test_expected_distances_are_means_over_pairs_of_rows() -> None:
    rng = np.random.default_rng(1)
    labels = rng.integers(3, size=40)
    draws = []
    for count in (2, 4):
        distances = rng.random((count, count))
        distances = distances + distances.T
        np.fill_diagonal(distances, 0.0)
        draws.append((rng.integers(count, size=40), distances))
    found = expected_distances(labels, 3, draws)
    for a in range(3):
        for b in range(3):
            each = [
                d[c[i], c[j]]
                for c, d in draws
                for i in np.flatnonzero(labels == a)
                for j in np.flatnonzero(labels == b)
            ]
            np.testing.assert_allclose(found[a, b], np.mean(each))


def test_steps_are_those_of_average_linkage() -> None:
    rng = np.random.default_rng(2)
    points = rng.normal(size=(9, 2))
    away = np.linalg.norm(points[:, None] - points, axis=2)
    away /= away.max()
    groups, expected = fold(away, np.ones(9, int)), scipy_linkage(squareform(away), "average")
    np.testing.assert_allclose(groups.merges[:, 2:], expected[:, 2:])
    cut = away.mean()
    assert groups.suggested == fcluster(expected, cut, "distance").max()
    # A coarser cut joins more.
    assert fold(away, np.ones(9, int), cut=1.0).suggested == 1 and fold(away, np.ones(9, int), cut=0.0).suggested == 9


def test_sizes_count() -> None:
    """Clusters of several rows are as many single rows at the same place."""
    away = np.array([[0.0, 0.2, 0.9], [0.2, 0.0, 0.5], [0.9, 0.5, 0.0]])
    sizes = np.array([1, 3, 2])
    rows = np.repeat(np.arange(3), sizes)
    expected = scipy_linkage(squareform(away[np.ix_(rows, rows)]), "average")
    np.testing.assert_allclose(fold(away, sizes).merges[:, 2], expected[-2:, 2])


def test_a_model_with_draws() -> None:
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.uniform(-1, 1, (300, 2)), rng.normal([5.0, 0.0], 0.4, (200, 2))])
    model = DPMM(n_draws=10, n_chains=1, random_state=0, init="kmeans", covariance_type="full").fit(X)
    groups = model.groups(method="fold")
    assert groups.method == "fold" and 1 <= groups.suggested <= model.n_clusters_
    assert model.groups(method="fold", cut=0.95).suggested == 2
