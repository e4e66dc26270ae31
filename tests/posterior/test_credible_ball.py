"""The credible ball against its definition."""

from __future__ import annotations

import numpy as np
import pytest

from dpmmwrap.posterior.answers import credible_ball
from dpmmwrap.posterior.representative import distances


def some_draws(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    centre = rng.integers(0, 4, 80)
    noise = rng.random((200, 80)) < rng.random((200, 1)) * 0.4
    return np.where(noise, rng.integers(-1, 8, (200, 80)), centre).astype(np.int32), centre


@pytest.mark.parametrize("loss", ["vi", "binder"])
@pytest.mark.parametrize("level", [0.5, 0.95, 1.0])
def test_ball_is_the_smallest_and_bounds_are_the_farthest(loss: str, level: float) -> None:
    draws, centre = some_draws()
    away = distances(centre, draws, loss)
    n_clusters = np.array([len(set(draw.tolist()) - {-1}) for draw in draws])
    ball = credible_ball(draws, centre, level, loss)
    inside = away <= ball.radius + 1e-9
    assert inside.mean() >= level and (away < ball.radius - 1e-9).mean() < level
    assert ball.n_inside == inside.sum() and ball.n_draws == 200 and ball.n_clusters == 4
    fewest, most = n_clusters[inside].min(), n_clusters[inside].max()
    for bound, among in (
        (ball.horizontal, inside),
        (ball.upper, inside & (n_clusters == fewest)),
        (ball.lower, inside & (n_clusters == most)),
    ):
        assert among[bound.draw]
        assert bound.distance == away[bound.draw] == away[among].max()
        assert bound.n_clusters == n_clusters[bound.draw]
        np.testing.assert_array_equal(bound.labels, draws[bound.draw])


def test_equal_draws_under_other_names_are_all_inside() -> None:
    labels = np.random.default_rng(0).integers(0, 5, 40)
    rng = np.random.default_rng(1)
    other = rng.integers(0, 5, 40)
    draws = np.array([rng.permutation(9)[other] for _ in range(50)])
    ball = credible_ball(draws, labels, 0.5)
    assert ball.n_inside == 50


def test_a_level_is_not_missed_by_rounding() -> None:
    # 0.95 x 100 draws is 95, whatever floating point makes of it; 0.07 x 100 is 7.000000000000001 there.
    centre = np.zeros(300, int)
    draws = np.array([np.arange(300) < size for size in range(100)]).astype(int)
    for level, expected in ((0.95, 95), (0.07, 7), (0.01, 1)):
        assert credible_ball(draws, centre, level).n_inside == expected


def test_sentence() -> None:
    draws = np.array([[0, 0, 0, 0], [0, 0, 1, 1], [0, 0, 0, 0], [-1, 0, 0, 0]])
    assert str(credible_ball(draws, np.zeros(4, int), 1.0)) == (
        "100% of the draws lie within 0.693 nats of variation of information of the partition into 1 cluster; "
        "they have 1 to 2 clusters"
    )
    assert str(credible_ball(draws, np.array([0, 0, 1, 1]), 0.25, "binder")) == (
        "25% of the draws lie within a Binder loss of 0 of the partition into 2 clusters; they have 2 clusters"
    )


@pytest.mark.parametrize("level", [0.0, 1.1, -1.0])
def test_a_level_that_is_no_share_is_refused(level: float) -> None:
    with pytest.raises(ValueError, match="level should be above 0 and at most 1"):
        credible_ball(np.zeros((2, 3), int), np.zeros(3, int), level)
