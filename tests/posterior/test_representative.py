"""Losses against scikit-learn, the representative partition against all partitions."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import mutual_info_score
from sklearn.metrics.cluster import pair_confusion_matrix

from dpmmwrap.posterior import representative as partitions
from dpmmwrap.posterior import search
from dpmmwrap.posterior.representative import Loss, coclustering, distances, expected_loss, representative


def entropy(labels: np.ndarray) -> float:
    return float(mutual_info_score(labels, labels))


def independent_loss(one: np.ndarray, other: np.ndarray, loss: Loss) -> float:
    if loss == "vi":
        return entropy(one) + entropy(other) - 2 * float(mutual_info_score(one, other))
    confusion = pair_confusion_matrix(one, other)
    return float((confusion[0, 1] + confusion[1, 0]) / confusion.sum())


def all_partitions(points: int) -> np.ndarray:
    """Restricted growth strings: every partition once."""
    found = [[0]]
    for _ in range(points - 1):
        found = [[*labels, k] for labels in found for k in range(max(labels) + 2)]
    return np.array(found, np.int32)


def pairwise(labels: np.ndarray) -> np.ndarray:
    """(partitions, N, N): who is with whom."""
    return (labels[:, :, None] == labels[:, None, :]).astype(float)


def least_expected_loss(draws: np.ndarray, loss: Loss) -> float:
    """Over all partitions with no more clusters than a draw has, by who is with whom (Wade and Ghahramani's equations 2
    and 3), not by tables."""
    every, most = all_partitions(draws.shape[1]), max(len(np.unique(draw)) for draw in draws)
    together, drawn = pairwise(every[every.max(axis=1) < most]), pairwise(draws)
    points = draws.shape[1]
    if loss == "binder":
        apart = [np.abs(together - draw).sum(axis=(1, 2)) for draw in drawn]
        return float(np.min(np.mean(apart, axis=0))) / (points * (points - 1))
    losses = [
        (np.log(together.sum(2)) + np.log(draw.sum(1)) - 2 * np.log((together * draw).sum(2))).mean(axis=1)
        for draw in drawn
    ]
    return float(np.min(np.mean(losses, axis=0)))


def some_draws(points: int, seed: int) -> np.ndarray:
    """Of one kind of three: anything; around one partition; around one and around its clusters joined."""
    rng = np.random.default_rng(seed)
    base, n_draws = rng.integers(0, 3, points), int(rng.integers(3, 40))
    anything = rng.integers(0, points, (n_draws, points))
    centres = [anything, np.tile(base, (n_draws, 1)), np.where(np.arange(n_draws)[:, None] % 2, base, base // 2)]
    return np.where(rng.random((n_draws, points)) < 0.25, anything, centres[seed % 3]).astype(np.int32)


def blurred(points: int, n_draws: int, clusters: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """A partition, and draws that differ from it at a few points each, under any names."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, clusters, points)
    moved = np.where(rng.random((n_draws, points)) < 0.1, rng.integers(0, clusters, (n_draws, points)), truth)
    return truth, np.array([rng.permutation(2 * clusters)[draw] for draw in moved], np.int32)


LOSSES: list[Loss] = ["vi", "binder"]


@pytest.mark.parametrize("loss", LOSSES)
def test_losses_are_scikit_learns(loss: Loss) -> None:
    rng = np.random.default_rng(1)
    labels, draws = rng.integers(0, 7, 200), rng.integers(-1, 5, (6, 200))
    expected = [independent_loss(labels, draw, loss) for draw in draws]
    np.testing.assert_allclose(distances(labels, draws, loss), expected, rtol=1e-12)
    assert expected_loss(labels, draws, loss) == pytest.approx(np.mean(expected), rel=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_names_do_not_matter(loss: Loss) -> None:
    rng = np.random.default_rng(2)
    labels = rng.integers(0, 7, 100)
    names = np.array([9, 10**7, 0, 3, 2, 500, 50])
    np.testing.assert_allclose(distances(labels, names[labels][None], loss), 0.0, atol=1e-12)
    other = rng.integers(0, 7, (1, 100))
    np.testing.assert_allclose(distances(names[labels], other, loss), distances(labels, other, loss), rtol=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_many_clusters_need_no_table(loss: Loss, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(3)
    labels, draws = rng.integers(-1, 40, 200), rng.integers(-1, 30, (3, 200))
    expected = [independent_loss(labels, draw, loss) for draw in draws]
    monkeypatch.setattr(partitions, "SMALL_TABLE", 0)
    monkeypatch.setattr(partitions, "unchecked_table", None)
    np.testing.assert_allclose(distances(labels, draws, loss), expected, rtol=1e-12)


def test_all_alone_in_many_points() -> None:
    # A table would have 10 billion cells.
    alone = np.arange(100_000)
    assert distances(alone, np.array([alone[::-1], 0 * alone]), "vi") == pytest.approx([0, np.log(100_000)])


def test_units() -> None:
    one, halves = np.zeros(8, int), np.repeat([0, 1], 4)
    assert distances(one, halves[None], "vi")[0] == pytest.approx(np.log(2))
    # 16 of the 28 pairs are apart in one and together in the other.
    assert distances(one, halves[None], "binder")[0] == pytest.approx(16 / 28)
    # Outliers are a class of their own.
    assert distances(one - 1, halves[None], "vi")[0] == pytest.approx(np.log(2))


@pytest.mark.parametrize("loss", LOSSES)
@pytest.mark.parametrize("points", [6, 7])
@pytest.mark.parametrize("seed", range(9))
def test_representative_is_the_best_of_all_partitions(points: int, seed: int, loss: Loss) -> None:
    draws = some_draws(points, seed)
    found = representative(draws, loss)
    assert found.expected_loss == pytest.approx(expected_loss(found.labels, draws, loss), abs=1e-12)
    assert found.expected_loss == pytest.approx(least_expected_loss(draws, loss), abs=1e-12)


@pytest.mark.parametrize("loss", LOSSES)
def test_representative_beats_every_draw_and_is_the_same_again(loss: Loss) -> None:
    truth, draws = blurred(300, 60, 6, 0)
    found = representative(draws, loss, seed=3)
    assert found.expected_loss < min(expected_loss(draw, draws, loss) for draw in draws)
    again = representative(draws, loss, seed=3)
    np.testing.assert_array_equal(found.labels, again.labels)
    assert found.labels.dtype == np.int32 and found.loss == loss and found.n_draws == 60
    assert distances(found.labels, truth[None], "binder")[0] < 0.01


def test_labels_go_by_size() -> None:
    labels = representative(blurred(300, 40, 5, 1)[1]).labels
    sizes = np.bincount(labels)
    assert (np.diff(sizes) <= 0).all() and sizes.min() > 0


@pytest.mark.parametrize("clusters", [1, 50])
def test_equal_draws_represent_themselves(clusters: int) -> None:
    labels = np.arange(50) % clusters
    found = representative(np.tile(labels, (5, 1)).astype(np.int32))
    assert found.expected_loss == 0 and found.n_clusters == clusters
    assert distances(found.labels, labels[None])[0] == 0


def test_draws_of_more_clusters_than_the_search_has_room_for(monkeypatch: pytest.MonkeyPatch) -> None:
    alone = np.array([np.random.default_rng(seed).permutation(50) for seed in range(5)])
    monkeypatch.setattr(search, "MAX_CELLS", 5 * 50 * 10)
    found = representative(alone)
    assert found.n_clusters == 50 and found.expected_loss == 0


def test_one_draw_of_one_point() -> None:
    found = representative(np.array([[4]]))
    assert found.labels.tolist() == [0] and found.expected_loss == 0
    assert representative(np.array([[4]]), "binder").expected_loss == 0


def test_outliers_keep_their_name() -> None:
    draws = blurred(200, 50, 4, 2)[1]
    rng = np.random.default_rng(0)
    # The first 20 points are outliers in most draws, the next 20 in a few.
    draws[:, :20] = np.where(rng.random((50, 20)) < 0.9, -1, draws[:, :20])
    draws[:, 20:40] = np.where(rng.random((50, 20)) < 0.1, -1, draws[:, 20:40])
    found = representative(draws)
    np.testing.assert_array_equal(np.flatnonzero(found.labels == -1), np.arange(20))
    assert found.n_clusters == 4 == found.labels.max() + 1
    assert found.expected_loss == pytest.approx(expected_loss(found.labels, draws), abs=1e-12)


def test_a_cluster_that_is_seldom_outlying_is_a_cluster() -> None:
    labels = np.repeat([0, 1, 2], 10)
    draws = np.tile(labels, (20, 1))
    draws[:8, :10] = -1
    found = representative(draws)
    assert found.n_clusters == 3 and found.labels.min() == 0
    draws[:12, :10] = -1
    found = representative(draws)
    np.testing.assert_array_equal(found.labels == -1, labels == 0)


def test_everything_is_an_outlier() -> None:
    found = representative(np.full((3, 10), -1))
    assert (found.labels == -1).all() and found.n_clusters == 0 and found.expected_loss == 0


def test_coclustering_counts_pairs() -> None:
    draws = np.random.default_rng(0).integers(-1, 4, (40, 600))
    expected = np.zeros((600, 600))
    for draw in draws:
        expected += (draw[:, None] == draw) & (draw >= 0)
    expected /= 40
    np.fill_diagonal(expected, 1.0)
    found = coclustering(draws)
    np.testing.assert_allclose(found, expected, rtol=1e-12)
    rows = np.array([599, 3, 3, -1, 300])
    np.testing.assert_array_equal(coclustering(draws, rows), found[np.ix_(rows, rows)])


def test_coclustering_of_more_draws_than_are_read_at_once() -> None:
    draws = np.random.default_rng(0).integers(0, 3, (600, 7))
    np.testing.assert_allclose(coclustering(draws), pairwise(draws).mean(axis=0), rtol=1e-12)


def test_an_unknown_loss_is_refused() -> None:
    for function in (lambda: representative(np.zeros((2, 3), int), "ari"), lambda: distances([0], [[0]], "ari")):
        with pytest.raises(ValueError, match="'vi' or 'binder', got 'ari'"):
            function()
