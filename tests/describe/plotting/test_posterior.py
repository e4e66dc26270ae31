"""Pictures of the posterior: what is drawn is what was sampled, and its texts lie apart."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dpmmwrap.describe import plotting
from dpmmwrap.sampler.draws import Draws

pytest.importorskip("matplotlib")

Check = Callable[[Any], None]


def some_draws(n_clusters: Any, *, learned: bool = True, seed: int = 0) -> Draws:
    """Draws with these numbers of clusters (chains, draws)."""
    rng = np.random.default_rng(seed)
    counts = np.asarray(n_clusters)
    weights = rng.random((*counts.shape, int(counts.max()))) * (np.arange(counts.max()) < counts[..., None])
    weights /= weights.sum(axis=2, keepdims=True)
    alpha = rng.gamma(3.0, size=counts.shape) if learned else np.full(counts.shape, 10.0)
    moves = np.zeros(counts.shape, dtype=int)
    return Draws(counts, alpha, -1e5 + rng.normal(size=counts.shape), weights, moves, moves, moves, moves)


def around(number: int, spread: float, chains: int, length: int) -> Draws:
    rng = np.random.default_rng(1)
    return some_draws(np.maximum(1, np.rint(rng.normal(number, spread, (chains, length))).astype(int)))


def legend_of(figure: Any) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


MANY = [
    around(12, 1.5, 4, 100),
    around(12, 1.5, 1, 100),
    around(1, 0.1, 2, 30),
    around(40, 3, 10, 200),
    around(500, 60, 3, 400),
    some_draws([[1]]),
    some_draws([[3], [4]]),
    some_draws([[1, 2, 300]]),
]


@pytest.mark.parametrize("draws", MANY)
def test_texts_of_numbers_of_clusters(
    draws: Draws, assert_tidy: Check, shown_ticks: Callable[[Any], list[str]]
) -> None:
    figure = plotting.n_clusters_figure(draws)
    assert_tidy(figure)
    ticks = [float(text.replace(",", "")) for text in shown_ticks(figure.axes[0].xaxis)]
    assert ticks and all(number.is_integer() and number >= 1 for number in ticks)


@pytest.mark.parametrize("draws", MANY)
def test_texts_of_chains(draws: Draws, assert_tidy: Check) -> None:
    assert_tidy(plotting.chains_figure(draws))


def test_bars_are_probabilities() -> None:
    figure = plotting.n_clusters_figure(some_draws([[3, 3, 4, 6], [4, 4, 4, 4]]))
    axes = figure.axes[0]
    bars = {round(bar.get_x() + bar.get_width() / 2, 6): bar.get_height() for bar in axes.patches}
    assert bars == {3: 0.25, 4: 0.625, 5: 0.0, 6: 0.125}
    assert axes.get_title(loc="left") == "4 clusters most probable (62%); 2 chains of 4 draws"
    # A dot for each chain in each bar.
    dots = [np.asarray(marks.get_offsets()) for marks in axes.collections]
    assert [chain[:, 1].tolist() for chain in dots] == [[0.5, 0.25, 0.0, 0.25], [0.0, 1.0, 0.0, 0.0]]
    for chain in dots:
        assert np.rint(chain[:, 0]).tolist() == [3, 4, 5, 6]
    assert legend_of(figure) == ["all chains", "chain 1", "chain 2"]


def test_one_cluster_in_one_chain() -> None:
    figure = plotting.n_clusters_figure(some_draws([[1]]))
    assert figure.axes[0].get_title(loc="left") == "1 cluster most probable (100%); 1 chain of 1 draw"
    assert not figure.axes[0].collections and not figure.legends


@pytest.mark.parametrize("spread", [3, 200, 5000])
def test_bars_hold_all_draws(spread: int) -> None:
    draws = some_draws(np.random.default_rng(0).integers(1, spread, (3, 50)))
    axes = plotting.n_clusters_figure(draws).axes[0]
    assert len(axes.patches) <= 60
    assert sum(bar.get_height() for bar in axes.patches) == pytest.approx(1.0)
    # Among many bars, chains are lines.
    lines = [line.get_ydata().sum() for line in axes.lines]
    assert lines == ([] if spread == 3 else pytest.approx([1.0] * 3))


def test_a_given_title() -> None:
    figure = plotting.coclustering_figure(np.eye(2), np.arange(2), "mine")
    assert figure.axes[0].get_title(loc="left") == "mine"


def test_chains_have_a_panel_per_thing_sampled() -> None:
    draws = some_draws(np.full((3, 20), 5))
    figure = plotting.chains_figure(draws)
    names = [axes.get_ylabel().replace("\n", " ") for axes in figure.axes]
    assert names == ["clusters", "log posterior", "concentration", "share of the largest cluster"]
    assert legend_of(figure) == ["chain 1", "chain 2", "chain 3"]
    for axes, values in zip(
        figure.axes[1:], (draws.log_posterior, draws.alpha, draws.weights.max(axis=2)), strict=True
    ):
        np.testing.assert_array_equal([line.get_ydata() for line in axes.lines], values)
    # Whole numbers lie beside one another, nearer to their own than to the next.
    lines = np.array([line.get_ydata() for line in figure.axes[0].lines])
    assert len(np.unique(lines)) == 3
    np.testing.assert_array_equal(np.rint(lines), draws.n_clusters)


def test_a_concentration_that_was_given_is_left_out() -> None:
    figure = plotting.chains_figure(some_draws([[4, 5, 4]], learned=False))
    assert "concentration" not in [axes.get_ylabel() for axes in figure.axes]
    assert not figure.legends


def test_each_chain_has_a_look_of_its_own() -> None:
    lines = plotting.chains_figure(around(5, 1, 14, 10)).axes[0].lines
    assert len({(line.get_color(), line.get_linestyle()) for line in lines}) == 14


def a_partition(points: int, clusters: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Labels in no order, and probabilities that agree with them."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, clusters, points) ** 2 // max(clusters, 1)
    probabilities = np.where(labels[:, None] == labels, 0.9, 0.05) + rng.uniform(-0.05, 0.05, (points, points))
    probabilities = (probabilities + probabilities.T) / 2
    np.fill_diagonal(probabilities, 1.0)
    return probabilities, labels


def test_points_are_in_the_order_of_the_partition() -> None:
    probabilities, labels = a_partition(60, 5)
    labels[:4] = -1
    figure = plotting.coclustering_figure(probabilities, labels)
    axes = figure.axes[0]
    shown = np.asarray(axes.images[0].get_array())
    # The same numbers, with blocks of large clusters first and outliers last.
    np.testing.assert_allclose(np.sort(shown, axis=None), np.sort(probabilities, axis=None))
    np.testing.assert_array_equal(shown, shown.T)
    numbers, counts = np.unique(labels[labels >= 0], return_counts=True)
    sizes = [*sorted(counts.tolist(), reverse=True), 4]
    boxes = [(box.get_x(), box.get_y(), box.get_width()) for box in axes.patches]
    begins = np.append(0, np.cumsum(sizes))[:-1]
    assert boxes == [(begin, begin, size) for begin, size in zip(begins, sizes, strict=True)]
    for begin, size in zip(begins[:-1], sizes[:-1], strict=True):
        assert shown[begin : begin + size, begin : begin + size].mean() > 0.8
    names = [text.get_text() for text in axes.get_yticklabels()]
    assert names[0] == str(numbers[counts.argmax()]) and names[-1] == "outliers"
    assert axes.get_title(loc="left") == f"{len(numbers)} clusters, 60 points"


def test_points_that_go_together_lie_side_by_side() -> None:
    # One cluster of two halves, mixed up.
    half = np.arange(40) % 2
    probabilities = np.where(half[:, None] == half, 1.0, 0.5)
    shown = np.asarray(plotting.coclustering_figure(probabilities, np.zeros(40, int)).axes[0].images[0].get_array())
    np.testing.assert_array_equal(shown, np.where((np.arange(40) < 20)[:, None] == (np.arange(40) < 20), 1.0, 0.5))


def test_the_scale_of_probabilities() -> None:
    figure = plotting.coclustering_figure(np.full((5, 5), 0.5), np.zeros(5, int))
    assert figure.axes[0].images[0].get_clim() == (0, 1)
    assert figure.axes[1].get_ylabel() == "probability of sharing a cluster"
    assert figure.axes[0].get_title(loc="left") == "1 cluster, 5 points"


@pytest.mark.parametrize(("points", "clusters"), [(1, 1), (2, 2), (50, 3), (200, 100), (300, 20)])
def test_texts_of_pairs(points: int, clusters: int, assert_tidy: Check, tmp_path: Path) -> None:
    figure = plotting.coclustering_figure(*a_partition(points, clusters))
    assert_tidy(figure)
    plotting.save_figure(tmp_path / "x.png", figure)
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_pairs_of_other_points() -> None:
    with pytest.raises(ValueError, match="probabilities should be 3 by 3, like the labels, not \\(4, 4\\)"):
        plotting.coclustering_figure(np.eye(4), np.zeros(3, int))
