"""How sure groups are, with draws and without."""

import numpy as np

from dpmmwrap import DPMM
from dpmmwrap.posterior.model_groups import GroupDraws, restricted
from dpmmwrap.posterior.separation import Half


def some_points() -> np.ndarray:
    """A ring, which comes out as several clusters, and a ball."""
    rng = np.random.default_rng(0)
    angles = rng.uniform(0, 2 * np.pi, 500)
    ring = rng.normal(1.0, 0.08, (500, 1)) * np.column_stack([np.cos(angles), np.sin(angles)])
    return np.concatenate([ring, rng.normal([4.0, 0.0], 0.2, (200, 2))])


def test_numbers_confidence_and_pairs_by_hand() -> None:
    labels = np.array([[0, 0, 1, 1], [0, 0, 1, 1], [0, 0, 0, -1], [0, 1, 2, 2]], np.int32)
    draws = GroupDraws(labels, np.array([0, 0, 1, 1], np.int32))
    assert draws.n_groups == {1: 0.25, 2: 0.5, 3: 0.25}
    np.testing.assert_allclose(draws.coclustering()[0], [1.0, 0.75, 0.25, 0.0])
    np.testing.assert_allclose(draws.confidence, [1.0, 1.0, 0.75, 0.75])
    assert draws.credible_ball(0.5).radius == 0.0


def test_a_half_sample_of_some_rows() -> None:
    half = restricted(Half(np.array([1, 4, 6, 9]), np.array([0, 1, 2, 3])), np.array([0, 4, 9]))
    assert half.rows.tolist() == [1, 2] and half.labels.tolist() == [1, 3]


def test_with_draws_and_without() -> None:
    X = some_points()
    settings = {"n_chains": 1, "random_state": 0, "init": "kmeans", "covariance_type": "full"}
    for model, count in ((DPMM(**settings).fit(X), 30), (DPMM(n_draws=12, **settings).fit(X), 12)):
        assert model.n_clusters_ > 2
        found = model.group_draws()
        assert found.labels.shape == (count, len(X))
        assert sum(found.n_groups.values()) == 1.0 and min(found.n_groups) >= 2
        np.testing.assert_array_equal(found.groups, model.groups_)
        # The ring and the ball are never together.
        assert found.coclustering([0, 600])[0, 1] == 0.0
        assert found.confidence[600] > 0.9


def test_groups_of_a_number() -> None:
    model = DPMM(n_chains=1, random_state=0, init="kmeans", covariance_type="full").fit(some_points())
    groups = model.groups(n_groups=1)
    assert groups.suggested == 1 and groups.reason == "n_groups is 1"
    counts = [count for _, count in groups.path]
    assert counts == list(range(model.n_clusters_, 0, -1))
    assert model.groups().second_opinion is not None


def test_rows_between_two_groups_are_unsure() -> None:
    """Without draws, too: the component of a row is drawn."""
    rng = np.random.default_rng(0)
    X = np.concatenate([rng.normal(size=(150, 2)), rng.normal([5.0, 0.0], 1.0, (150, 2)), [[2.5, 0.0]]])
    model = DPMM(n_chains=1, random_state=0, init="kmeans", covariance_type="full").fit(X)
    found = model.group_draws()
    assert found.n_groups == {2: 1.0}
    assert 0.1 < found.confidence[-1] < 0.95 and found.confidence[:-1].mean() > 0.95
