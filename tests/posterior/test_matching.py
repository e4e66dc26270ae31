"""Which cluster stands for which."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import numpy as np
import pytest
from sklearn.metrics.cluster import contingency_matrix

from dpmmwrap.posterior.matching import (
    confidence,
    contingency_table,
    count_clusters,
    match,
    match_table,
    numbered,
    without_gaps,
)


def test_table_is_scikit_learns() -> None:
    rng = np.random.default_rng(0)
    labels, reference = rng.integers(0, 5, 300), rng.integers(0, 3, 300)
    table = contingency_table(labels, reference)
    np.testing.assert_array_equal(table[:-1, :-1], contingency_matrix(labels, reference))
    assert not table[-1].any() and not table[:, -1].any()


def test_table_has_outliers_last_and_empty_rows_for_gaps() -> None:
    table = contingency_table(np.array([0, 2, 2, -1, -1]), np.array([1, -1, 1, 0, -1]))
    np.testing.assert_array_equal(table, [[0, 1, 0], [0, 0, 0], [0, 1, 1], [1, 0, 1]])


@pytest.mark.parametrize("seed", range(5))
def test_match_has_the_largest_total_overlap(seed: int) -> None:
    rng = np.random.default_rng(seed)
    table = rng.integers(1, 50, (4, 4))
    best = max(permutations(range(4)), key=lambda order: table[range(4), order].sum())
    np.testing.assert_array_equal(match_table(table), best)


def test_match_undoes_a_renaming() -> None:
    reference = np.random.default_rng(0).integers(0, 6, 200)
    names = np.array([3, 0, 5, 1, 4, 2])
    found = match(names[reference], reference)
    np.testing.assert_array_equal(found[names], np.arange(6))


def test_what_is_left_over_goes_where_it_overlaps_most() -> None:
    # Cluster 1 of the reference in two parts, and a draw's number that nobody has.
    reference = np.array([0] * 5 + [1] * 9)
    labels = np.array([4] * 5 + [0] * 6 + [2] * 3)
    np.testing.assert_array_equal(match(labels, reference), [1, -1, 1, -1, 0])


def test_no_cluster_stands_for_one_without_a_common_point() -> None:
    # The reference's cluster 1 has only points that are outliers in the draw.
    reference = np.array([0, 0, 0, 0, 1, 1])
    labels = np.array([0, 0, 0, 1, -1, -1])
    np.testing.assert_array_equal(match(labels, reference), [0, 0])


@pytest.mark.parametrize(
    ("labels", "reference", "matched"),
    [([0, 0, 1], [-1, -1, 0], [-1, 0]), ([0, 1, 1], [-1, -1, -1], [-1, -1]), ([-1, -1], [0, 1], [])],
)
def test_outliers_are_no_cluster(labels: list[int], reference: list[int], matched: list[int]) -> None:
    np.testing.assert_array_equal(match(np.array(labels), np.array(reference)), matched)


def test_confidence_counts_the_draws_that_agree() -> None:
    reference = np.array([0, 0, 0, 1, 1, 1, -1])
    draws = np.array(
        [
            [5, 5, 5, 2, 2, 2, -1],
            [0, 0, 1, 1, 1, 1, 1],
            [1, 1, 1, 0, 0, 2, -1],
            [0, 0, 0, 0, 0, 0, -1],
        ]
    )
    # The third draw's cluster 2 stands for the reference's 1, as 0 does; the fourth's only cluster for one of the two.
    expected = np.array([4, 4, 3, 3, 3, 3, 3]) / 4
    np.testing.assert_allclose(confidence(draws, reference), expected)


def test_what_stands_for_nothing_agrees_with_nothing() -> None:
    # The draw's cluster 1 lies among the outliers of the reference.
    np.testing.assert_array_equal(confidence(np.array([[0, 0, 1, 1]]), np.array([0, 0, -1, -1])), [1, 1, 0, 0])


def test_confidence_does_not_depend_on_numbers() -> None:
    rng = np.random.default_rng(0)
    reference = rng.integers(0, 4, 100)
    draws = np.where(rng.random((20, 100)) < 0.2, rng.integers(0, 4, (20, 100)), reference).astype(np.int32)
    renamed = np.array([rng.permutation(10**6)[:4][draw] for draw in draws], np.int32)
    sure = confidence(draws, reference)
    np.testing.assert_array_equal(sure, confidence(renamed, reference))
    assert 0.7 < sure.mean() < 0.95


def test_draws_may_be_a_memory_map(tmp_path: Path) -> None:
    draws = np.random.default_rng(0).integers(-1, 3, (10, 50)).astype(np.int32)
    np.save(tmp_path / "draws.npy", draws)
    mapped = np.load(tmp_path / "draws.npy", mmap_mode="r")
    np.testing.assert_array_equal(confidence(mapped, mapped[0]), confidence(draws, draws[0]))


@pytest.mark.parametrize("labels", [[0, 3, 3, 7], [-1, 5, -1, 0], [-1, 10**6, 2, 2], [-1, -1, -1, -1]])
def test_numbers_without_gaps(labels: list[int]) -> None:
    numbers, found = numbered(np.array(labels))
    np.testing.assert_array_equal(found, np.unique(labels))
    np.testing.assert_array_equal(found[numbers], labels)
    assert count_clusters(np.array(labels)) == len(set(labels) - {-1})


@pytest.mark.parametrize(
    ("draws", "message"),
    [
        (np.zeros(5, int), "shape"),
        (np.zeros((2, 5)), "whole numbers"),
        (np.zeros((0, 5), int), "shape"),
        (np.zeros((2, 4), int), "5 points were expected"),
        (np.full((2, 5), -2), "at least -1"),
    ],
)
def test_what_cannot_be_draws_is_refused(draws: np.ndarray, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        confidence(draws, np.zeros(5, int))


def test_labels_of_other_points_are_refused() -> None:
    with pytest.raises(ValueError, match="the same points"):
        match(np.zeros(4, int), np.zeros(5, int))


def test_outliers_stay_outliers_without_gaps() -> None:
    np.testing.assert_array_equal(without_gaps(np.array([4, -1, 4, 9, -1])), [0, -1, 0, 1, -1])
    np.testing.assert_array_equal(without_gaps(np.array([7, 900, 7])), [0, 1, 0])
