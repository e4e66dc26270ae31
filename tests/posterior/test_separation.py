"""What tells two clusters: the dip test's level, boundaries by hand, and drawn clusters of known shapes."""

import numpy as np
import pytest

from dpmmwrap import DPMM
from dpmmwrap.posterior.separation import Half, Shape, along_line, boundary_in, count_rows, has_gap


@pytest.mark.parametrize("size", [7, 30, 300])
@pytest.mark.parametrize("level", [0.25, 0.05, 0.007])
def test_so_many_uniform_samples_have_a_gap(size: int, level: float) -> None:
    rng = np.random.default_rng(size)
    share = np.mean([has_gap(rng.random(size), level) for _ in range(2000)])
    assert abs(share - level) < 4 * np.sqrt(level * (1 - level) / 2000)


def test_two_far_clusters_have_a_gap() -> None:
    rng = np.random.default_rng(0)
    assert has_gap(rng.normal(np.repeat([0.0, 4.0], 100)), 0.001)
    assert not has_gap(np.zeros(1), 0.05)


def test_boundaries_by_hand() -> None:
    components = np.array([0, 0, 0, 0, 1, 1, 1, 1])
    every = np.arange(8)
    same = count_rows(Half(every, components), components, 2)
    assert boundary_in([same], 0, 1) == 1.0
    # One row of the first is on the other side: 3 of 4 there, and 4 of 5 here.
    moved = count_rows(Half(every, np.array([0, 0, 0, 1, 1, 1, 1, 1])), components, 2)
    assert boundary_in([moved], 0, 1) == 0.75
    assert boundary_in([same, moved], 0, 1) == 0.875
    # More clusters than two do no harm, one cluster for both does.
    finer = count_rows(Half(every, np.array([0, 0, 2, 2, 1, 1, 3, -1])), components, 2)
    assert boundary_in([finer], 0, 1) == 1.0
    assert boundary_in([count_rows(Half(every, np.zeros(8, int)), components, 2)], 0, 1) == 0.0
    assert np.isnan(boundary_in([], 0, 1))
    assert np.isnan(boundary_in([count_rows(Half(every[:4], components[:4]), components, 2)], 0, 1))


@pytest.mark.parametrize("full", [True, False])
def test_places_along_the_line(full: bool) -> None:
    """In the metric of both covariances, and without rows far from the line."""
    rng = np.random.default_rng(1)
    variances = np.array([4.0, 1.0, 0.25])
    points = np.vstack([rng.normal(size=(200, 3)) * np.sqrt(variances), [[1.0, 50.0, 0.0]]])
    means = np.array([[0.0, 0.0, 0.0], [2.0, 0.0, 0.0]])
    covariances = np.array([np.diag(variances) if full else variances] * 2)
    own = np.append(np.ones(200, bool), False)
    values = along_line(Shape(points, means, covariances), np.arange(201), own, 0, 1)
    away = np.abs(values[:, None] - points[:, 0] / np.sqrt(8.0))
    rows = away.argmin(axis=1)
    np.testing.assert_allclose(away.min(axis=1), 0.0, atol=1e-12)
    assert 200 not in rows and len(set(rows)) == len(rows) == 190


def ari_of_groups(X: np.ndarray, y: np.ndarray) -> tuple[int, float]:
    from sklearn.metrics import adjusted_rand_score

    model = DPMM(n_chains=1, random_state=0, init="kmeans", covariance_type="full").fit(X)
    return int(model.n_clusters_), float(adjusted_rand_score(y, model.groups_))


def test_pieces_of_a_ring_are_joined() -> None:
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, 800)
    ring = rng.normal(1.0, 0.06, (800, 1)) * np.column_stack([np.cos(angles), np.sin(angles)])
    X, y = np.concatenate([ring, rng.normal([3.0, 0.0], 0.2, (200, 2))]), np.repeat([0, 1], [800, 200])
    clusters, ari = ari_of_groups(X, y)
    assert clusters > 3 and ari > 0.99


def test_clusters_that_overlap_stay_apart() -> None:
    """2.4 deviations apart, with a single mode: only half samples show that there are two."""
    rng = np.random.default_rng(3)
    y = np.repeat([0, 1], 1000)
    X = rng.normal(size=(2000, 3)) + np.array([2.4, 0.0, 0.0]) * y[:, None]
    model = DPMM(n_chains=1, random_state=0, init="kmeans", covariance_type="full").fit(X)
    assert model.n_clusters_ == 2
    assert model.groups(method="separation").suggested == 1
    assert model.groups().suggested == 2
