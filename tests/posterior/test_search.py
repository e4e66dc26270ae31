"""The greedy search's tables stay true through every move."""

from __future__ import annotations

import numpy as np
import pytest

from dpmmwrap.posterior import search as module
from dpmmwrap.posterior.representative import Loss, expected_loss, tabulated
from dpmmwrap.posterior.search import (
    Candidate,
    SearchData,
    merge_clusters,
    new_candidate,
    read_draws,
    refine,
    sweep,
    total_loss,
)

N_POINTS = 60


def some_data(loss: Loss, seed: int = 0) -> tuple[np.ndarray, SearchData]:
    rng = np.random.default_rng(seed)
    base = rng.integers(0, 4, N_POINTS)
    draws = np.where(rng.random((30, N_POINTS)) < 0.3, rng.integers(-1, 9, (30, N_POINTS)), base).astype(np.int32)
    return draws, read_draws(draws, *tabulated(N_POINTS, loss))


def check_tables(candidate: Candidate, data: SearchData) -> None:
    """As if counted anew, with everybody in a cluster."""
    assert candidate.labels.min() >= 0
    anew = new_candidate(candidate.labels.copy(), data)
    for kept, counted in zip(candidate, anew, strict=True):
        np.testing.assert_array_equal(kept, counted)


STARTS = {
    "nobody": np.full(N_POINTS, -1, np.int32),
    "one cluster": np.zeros(N_POINTS, np.int32),
    "pairs": (np.arange(N_POINTS) % 13).astype(np.int32),
    "nearly alone": np.where(np.arange(N_POINTS) < 12, np.arange(N_POINTS), 12).astype(np.int32),
    "gaps": (2 * (np.arange(N_POINTS) % 6)).astype(np.int32),
}


@pytest.mark.parametrize("loss", ["vi", "binder"])
@pytest.mark.parametrize("start", STARTS)
def test_every_step_lowers_the_loss_and_keeps_the_tables(start: str, loss: Loss) -> None:
    draws, data = some_data(loss)
    candidate = new_candidate(STARTS[start].copy(), data)
    before = expected_loss(candidate.labels, draws, loss) if candidate.labels.min() >= 0 else np.inf
    order = np.random.default_rng(1).permutation(N_POINTS).astype(np.int32)
    for step in range(12):
        if step % 4 == 3:
            changed = merge_clusters(candidate, data)
        else:
            changed = sweep(order, data.classes, data.first, *candidate, data.steps)
        check_tables(candidate, data)
        after = expected_loss(candidate.labels, draws, loss)
        assert after < before if changed else after == pytest.approx(before, abs=1e-12)
        before = after


@pytest.mark.parametrize("loss", ["vi", "binder"])
def test_no_single_move_and_no_merge_is_left(loss: Loss) -> None:
    draws, data = some_data(loss, seed=1)
    labels = refine(new_candidate(STARTS["pairs"].copy(), data), data, np.random.default_rng(0), 100).labels
    reached = expected_loss(labels, draws, loss)
    for i in range(N_POINTS):
        for k in range(labels.max() + 2):
            moved = labels.copy()
            moved[i] = k
            assert expected_loss(moved, draws, loss) > reached - 1e-9
    for one in np.unique(labels):
        for other in np.unique(labels):
            assert expected_loss(np.where(labels == one, other, labels), draws, loss) > reached - 1e-9


@pytest.mark.parametrize("loss", ["vi", "binder"])
def test_parts_of_a_cluster_are_merged(loss: Loss) -> None:
    labels = np.repeat([0, 1, 2], 20).astype(np.int32)
    data = read_draws(np.tile(labels, (4, 1)), *tabulated(N_POINTS, loss))
    candidate = new_candidate((2 * labels + np.arange(N_POINTS) % 2).astype(np.int32), data)
    assert merge_clusters(candidate, data) == 3
    check_tables(candidate, data)
    assert expected_loss(candidate.labels, labels[None], loss) == pytest.approx(0, abs=1e-12)
    assert merge_clusters(candidate, data) == 0


def test_total_loss_differs_from_the_expected_loss_by_a_constant() -> None:
    draws, data = some_data("vi")
    rest = {
        round(total_loss(new_candidate(STARTS[start], data), data) / N_POINTS - expected_loss(STARTS[start], draws), 9)
        for start in ("one cluster", "pairs", "gaps")
    }
    assert len(rest) == 1


def test_emptied_numbers_are_used_again() -> None:
    # Two points that no draw puts together, and room for three clusters: 0 is emptied first, then founded anew.
    draws = np.array([[0, 0, 0, 1, 1, 1, 2, 3]] * 3, np.int32)
    data = read_draws(draws, *tabulated(8, "vi"))._replace(capacity=4)
    candidate = new_candidate(np.array([0, 1, 1, 2, 2, 2, 2, 2], np.int32), data)
    order = np.array([0, 6, 7, 1, 2, 3, 4, 5], np.int32)
    while sweep(order, data.classes, data.first, *candidate, data.steps):
        check_tables(candidate, data)
    assert expected_loss(candidate.labels, draws) == pytest.approx(0, abs=1e-12)
    assert candidate.labels[6] == 0 and sorted(candidate.sizes) == [1, 1, 3, 3]


def test_a_candidate_has_no_more_clusters_than_there_is_room_for() -> None:
    draws = np.array([np.arange(20)] * 3, np.int32)
    data = read_draws(draws, *tabulated(20, "vi"))._replace(capacity=5)
    found = refine(new_candidate(np.full(20, -1, np.int32), data), data, np.random.default_rng(0), 10)
    check_tables(found, data)
    assert (found.sizes > 0).all() and found.sizes.sum() == 20


def test_steps_are_differences_of_values() -> None:
    for loss in ("vi", "binder"):
        values, steps = tabulated(500, loss)
        np.testing.assert_allclose(np.diff(values), steps[:-1], rtol=1e-10, atol=1e-10)


def test_fewer_draws_of_many_clusters(monkeypatch: pytest.MonkeyPatch) -> None:
    draws = np.random.default_rng(0).integers(0, 10, (100, 50)).astype(np.int32)
    monkeypatch.setattr(module, "MAX_WORK", 30 * 50 * 10)
    assert len(read_draws(draws, *tabulated(50, "vi")).draws) == 30
    monkeypatch.setattr(module, "CACHED_CELLS", 20 * 10 * 10)
    assert len(read_draws(draws, *tabulated(50, "vi")).draws) == 20
    monkeypatch.setattr(module, "MAX_CELLS", 20 * 10 * 7)
    assert read_draws(draws, *tabulated(50, "vi")).capacity == 7
