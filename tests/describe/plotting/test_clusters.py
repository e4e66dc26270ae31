"""Pictures of clusters: drawn of the right things, for any dimension; how they look is for people to judge."""

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import sparse

from dpmmwrap import DPMM
from dpmmwrap.datasets import Dataset, generate
from dpmmwrap.describe import plotting
from dpmmwrap.describe.plotting import clusters, theme

pytest.importorskip("matplotlib")


def drawn(draw, *arguments, **options):  # type: ignore[no-untyped-def]
    """A figure of what is drawn into its axes, with the legend."""
    with theme.new_figure(7.0, 5.6) as figure:
        draw(figure.add_subplot(), *arguments, **options)
        clusters._draw_legend(figure.axes[0])
    return figure


def a_map(points, labels, embed=lambda rows: rows):  # type: ignore[no-untyped-def]
    return drawn(clusters.draw_map, points, labels, embed).axes[0]


def draw(data: Dataset, labels: np.ndarray | None = None):  # type: ignore[no-untyped-def]
    labels = data.y if labels is None else labels
    return drawn(clusters.draw_clusters, data.X, labels, data.means, data.covariances)


def legend_of(figure) -> list[str]:  # type: ignore[no-untyped-def]
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


def test_one_cluster_is_not_one_clusters() -> None:
    assert draw(generate(2, 1, 60, 50, 0)).axes[0].get_title(loc="left") == "1 cluster in 60 points"


ELLIPSE = "a cluster's mean and two standard deviations (86% of its points)"


def test_a_legend_says_what_an_ellipse_is() -> None:
    points = np.random.default_rng(0).normal(size=(20_000, 2))
    assert f"{(np.linalg.norm(points, axis=1) < 2).mean():.0%}" == "86%"
    assert legend_of(draw(generate(2, 3, 60, 50, 0))) == [ELLIPSE]
    assert legend_of(draw(generate(5, 3, 60, 50, 0))) == [ELLIPSE]
    # Where there is none, nothing is said.
    assert legend_of(draw(generate(1, 3, 60, 50, 0))) == []
    assert legend_of(drawn(clusters.draw_map, np.eye(4), np.arange(4), lambda rows: rows)) == []


def test_two_dimensions_show_the_points_and_an_ellipse_per_cluster() -> None:
    from matplotlib.patches import Ellipse

    data = generate(2, 5, 300, 50, 0)
    axes = draw(data).axes[0]
    ellipses = [patch for patch in axes.patches if isinstance(patch, Ellipse)]
    assert len(ellipses) == 5
    assert axes.get_xlabel() == "feature 1"
    assert axes.get_title(loc="left") == "5 clusters in 300 points"
    shown = np.asarray(axes.collections[0].get_offsets())
    np.testing.assert_allclose(np.sort(shown, axis=0), np.sort(data.X, axis=0), rtol=1e-5)
    turn = np.linspace(0, 2 * np.pi, 20)
    circle = np.column_stack([np.cos(turn), np.sin(turn)])
    for ellipse, mean, covariance in zip(ellipses, data.means, data.covariances, strict=True):
        # The outline lies at two standard deviations all the way round.
        outline = ellipse.get_patch_transform().transform(circle) - mean
        distances = np.sqrt(np.einsum("ni,ij,nj->n", outline, np.linalg.inv(covariance), outline))
        np.testing.assert_allclose(distances, 2.0, rtol=1e-6)


def test_more_dimensions_are_projected_on_principal_components() -> None:
    data = generate(6, 4, 500, 50, 0)
    axes = draw(data).axes[0]
    assert "principal component 1" in axes.get_xlabel()
    assert "standardised" in axes.get_xlabel() and "standardised" in axes.get_ylabel()
    shown = np.asarray(axes.collections[0].get_offsets())
    # Those of the correlations, whatever the features' units.
    variances = np.linalg.eigvalsh(np.corrcoef(data.X, rowvar=False))[::-1]
    np.testing.assert_allclose(shown.var(axis=0), variances[:2], rtol=1e-4)
    assert f"({variances[0] / 6:.0%} of" in axes.get_xlabel()


def test_variances_are_ellipses_along_the_axes() -> None:
    from matplotlib.patches import Ellipse

    data = generate(2, 2, 100, 50, 0)
    variances = np.array([[4.0, 1.0], [0.25, 9.0]])
    axes = drawn(clusters.draw_clusters, data.X, data.y, data.means, variances).axes[0]
    ellipses = [patch for patch in axes.patches if isinstance(patch, Ellipse)]
    turn = np.linspace(0, 2 * np.pi, 20)
    circle = np.column_stack([np.cos(turn), np.sin(turn)])
    for ellipse, mean, variance in zip(ellipses, data.means, variances, strict=True):
        outline = ellipse.get_patch_transform().transform(circle) - mean
        np.testing.assert_allclose((outline**2 / variance).sum(axis=1), 4.0)


def test_a_missing_value_lies_at_the_mean() -> None:
    X = np.array([[1.0, np.nan], [3.0, 5.0], [np.nan, 7.0], [2.0, 6.0]])
    axes = drawn(clusters.draw_clusters, X, np.zeros(4, int), np.zeros((1, 2)), np.ones((1, 2))).axes[0]
    shown = np.asarray(axes.collections[0].get_offsets())
    assert sorted(map(tuple, shown.tolist())) == [(1, 6), (2, 6), (2, 7), (3, 5)]
    # In a histogram a bar at the mean would be a lie.
    X = np.array([[1.0], [np.nan], [3.0]])
    axes = drawn(clusters.draw_clusters, X, np.zeros(3, int), np.zeros((1, 1)), np.ones((1, 1))).axes[0]
    assert sum(patch.get_height() for patch in axes.patches) == 2
    drawn(clusters.draw_clusters, np.full((5, 3), np.nan), np.zeros(5, int), np.zeros((1, 3)), np.ones((1, 3)))


def test_features_go_by_their_names() -> None:
    data = generate(2, 2, 50, 50, 0)
    axes = drawn(clusters.draw_clusters, data.X, data.y, data.means, data.covariances, names=("width", "height")).axes[
        0
    ]
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("width", "height")


def test_a_map_has_numbers_and_no_ellipses() -> None:
    data = generate(6, 4, 300, 500, 0)
    axes = a_map(data.X, data.y)
    assert not axes.patches
    assert sorted(text.get_text() for text in axes.texts) == ["0", "1", "2", "3"]
    assert axes.get_title(loc="left") == "4 clusters in 300 points"
    assert "principal component 1" in axes.get_xlabel()


@pytest.mark.parametrize("width", [2, 40, 1000])
def test_a_map_of_sparse_rows(width: int) -> None:
    X = sparse.random(400, width, density=0.2, format="csr", random_state=0)
    shown = np.asarray(a_map(X, np.zeros(400, int)).collections[0].get_offsets())
    dense = np.asarray(a_map(X.toarray(), np.zeros(400, int)).collections[0].get_offsets())
    np.testing.assert_allclose(shown.std(axis=0), dense.std(axis=0), rtol=1e-5)


def test_a_map_of_wide_rows_shows_fewer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "COORDINATES_SHOWN", 300)
    axes = a_map(np.random.default_rng(0).normal(size=(200, 6)), np.arange(200) % 3)
    assert len(axes.collections[0].get_offsets()) == 50
    assert "(50 shown)" in axes.get_title(loc="left")


def test_a_map_of_one_coordinate_is_a_histogram() -> None:
    assert a_map(np.arange(20.0)[:, None], np.arange(20) // 10).get_ylabel() == "points"


@pytest.mark.parametrize("covariance", ["full", "diag", "spherical"])
def test_a_fit_of_points(covariance: str) -> None:
    X = np.random.default_rng(0).normal(size=(60, 3)).astype(np.float32)
    model = DPMM(init="kmeans", max_iter=3, covariance_type=covariance, backend="native", random_state=0).fit(X)
    axes = plotting.fit_figure(model, X).axes[0]
    assert len(axes.patches) == model.n_clusters_
    assert len(axes.collections[0].get_offsets()) == 60


def test_a_fit_of_counts() -> None:
    X = np.random.default_rng(0).poisson(1.0, size=(60, 12))
    X[3] = 0
    model = DPMM(family="multinomial", max_iter=3, random_state=0).fit(X)
    for rows in (X, sparse.csr_matrix(X)):
        axes = plotting.fit_figure(model, rows).axes[0]
        assert not axes.patches and len(axes.collections[0].get_offsets()) == 60


def test_a_fit_of_a_table() -> None:
    rng = np.random.default_rng(0)
    X = {"a": rng.normal(size=60), "b": np.where(rng.random(60) < 0.5, "x", "")}
    X["a"][:5] = np.nan
    model = DPMM(family="mixed", max_iter=3, random_state=0).fit(X)
    # A row without any value is nowhere.
    there = (~np.isnan(X["a"]) | (X["b"] != "")).sum()
    assert len(plotting.fit_figure(model, X).axes[0].collections[0].get_offsets()) == there


def test_one_dimension_is_a_histogram() -> None:
    data = generate(1, 3, 500, 50, 0)
    axes = draw(data).axes[0]
    assert axes.get_ylabel() == "points"
    assert sum(patch.get_height() for patch in axes.patches) >= 500


def test_many_points_are_thinned_out() -> None:
    data = generate(2, 3, clusters.SHOWN + 5000, 50, 0)
    axes = draw(data).axes[0]
    assert len(axes.collections[0].get_offsets()) == clusters.SHOWN
    assert "(20,000 shown)" in axes.get_title(loc="left")


def test_outliers_are_marked() -> None:
    data = generate(2, 3, 100, 50, 0)
    labels = data.y.copy()
    labels[:7] = -1
    figure = draw(data, labels)
    assert [len(marks.get_offsets()) for marks in figure.axes[0].collections] == [93, 7]
    assert legend_of(figure) == ["outliers", ELLIPSE]


@pytest.mark.parametrize(("dim", "clusters", "points"), [(1, 1, 2), (2, 1, 2), (3, 1, 2), (2, 100, 400), (20, 3, 30)])
def test_small_and_crowded_data_can_be_drawn(dim: int, clusters: int, points: int, tmp_path: Path) -> None:
    plotting.save_figure(tmp_path / "x.png", draw(generate(dim, clusters, points, 50, 0)))
    assert (tmp_path / "x.png").read_bytes().startswith(b"\x89PNG")


def test_neighbours_have_different_colours() -> None:
    places = np.array([[float(i), 0.0] for i in range(40)])
    colours = clusters.spread_colours(places)
    assert set(colours) == set(theme.MORE_COLOURS)
    assert all(one != other for one, other in pairwise(colours))
    many = len(theme.MORE_COLOURS)
    assert len(set(clusters.spread_colours(places[:many]))) == many
    assert set(clusters.spread_colours(places[:7])) == set(theme.COLOURS)
    assert clusters.spread_colours(places[:3], {1: theme.MORE_COLOURS[-1]})[1] == theme.MORE_COLOURS[-1]


@pytest.mark.parametrize("points", [2, 10, 300])
def test_texts_of_a_histogram(points: int, assert_tidy: Callable[[Any], None]) -> None:
    assert_tidy(draw(generate(1, 2, points, 50, 0)))


@pytest.mark.parametrize("dim", [2, 5])
def test_texts_of_a_picture(dim: int, assert_tidy: Callable[[Any], None]) -> None:
    data = generate(dim, 5, 200, 50, 0)
    labels = data.y.copy()
    labels[:3] = -1
    assert_tidy(draw(data, labels))
